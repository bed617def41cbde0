//! One lifetime on a cluster, request by request, with its effects. It is identical on real and simulated
//! Crossplane, except for times, uids, names and versions.

mod agreement;
mod state;

use std::collections::BTreeMap;
use std::path::PathBuf;

use broker_ports::{Applied, Cluster, Deleted, ObjectVersion};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::blueprint::Blueprint;
use super::requests::Requests;
use crate::failure::OrFail;
use state::{News, State, conditions};

/// A version of an object, and whether it was the last.
pub type Version = (Value, bool);

/// The annotation with the Composition's name of a composed object.
const SLOT: &str = "/metadata/annotations/crossplane.io~1composition-resource-name";

/// The parameters of a machine that fails.
const FAULT: &str = r#"{"fault":"no such machine type"}"#;

/// What happened, without what differs from run to run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lifetime {
    /// The requests, in order.
    pub requests: Vec<String>,
    /// Every state of the composite resource.
    pub composite: Vec<State>,
    /// Every state of each composed object, by its name in the Composition.
    pub composed: BTreeMap<String, Vec<State>>,
    /// Deleted objects, in order.
    pub gone: Vec<String>,
}

/// The condition to wait for between two requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Moment {
    /// Crossplane has seen the shell.
    Paused,
    /// Everything is ready, for the first or second time.
    Ready(usize),
    /// The composite resource and all that it composed are gone.
    Gone,
    /// The ProviderConfig is gone.
    Unconfigured,
}

impl Lifetime {
    /// The recorded blueprints: every sample with its parameters, and a machine with a declared failure.
    /// Histories record conditions, so a sample that composes an object without any, such as a Secret, has
    /// none.
    #[must_use]
    pub fn recorded() -> Vec<(Blueprint, &'static str)> {
        let samples = Blueprint::samples().into_iter().filter(|one| !one.composes_plain_data());
        let mut recorded: Vec<_> =
            samples.map(|sample| (sample.least_parameters(), sample)).collect();
        recorded.push((FAULT, Blueprint::named("failing-machine")));
        recorded.into_iter().map(|(parameters, blueprint)| (blueprint, parameters)).collect()
    }

    /// The path of a blueprint's committed history.
    #[must_use]
    pub fn path(slug: &str) -> PathBuf {
        let directory =
            PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/crossplane/histories");
        directory.join(format!("{slug}.json"))
    }

    /// Runs one lifetime. `look` advances the world and returns all versions seen so far.
    pub async fn live(
        cluster: &dyn Cluster,
        requests: &Requests,
        crossings: usize,
        look: impl AsyncFn() -> Vec<Version>,
    ) -> Self {
        let mut asked = Vec::new();
        let mut ask = |what: &str| asked.push(what.to_owned());
        let wait = async |moment: Moment| {
            loop {
                let seen = look().await;
                if reached(moment, requests, &seen) {
                    return seen;
                }
            }
        };
        ask("apply ProviderConfig");
        let config = requests.configure(cluster).await;
        ask("apply shell");
        requests.shell(cluster, 1).await;
        let seen = wait(Moment::Paused).await;
        ask("arm");
        let shell = ObjectVersion::of(latest(requests, &seen).expect("it stands"));
        let shell = shell.or_fail("a version");
        assert!(matches!(requests.arm(cluster, &shell).await, Applied::Done(_)), "an arm");
        for crossing in 1..=crossings {
            wait(Moment::Ready(crossing)).await;
        }
        ask("delete composite resource");
        assert_eq!(requests.delete(cluster, &shell.uid).await, Deleted::Accepted);
        wait(Moment::Gone).await;
        ask("delete ProviderConfig");
        assert_eq!(requests.unconfigure(cluster, &config.uid).await, Deleted::Accepted);
        let seen = wait(Moment::Unconfigured).await;
        Self::condensed(requests, asked, &seen)
    }

    fn condensed(requests: &Requests, asked: Vec<String>, seen: &[Version]) -> Self {
        let mut life = Self { requests: asked, ..Self::default() };
        let mut news = News::default();
        let mut first = BTreeMap::new();
        let parts = seen.iter().filter(|(object, _)| object.pointer(SLOT).is_some());
        let parts = parts.filter_map(|(object, _)| object["metadata"]["name"].as_str());
        let parts = parts.map(str::to_owned).collect();
        for (object, gone) in seen {
            let name = role(requests, object);
            // The collector may delete a part before Crossplane has seen that the whole is being deleted.
            // Crossplane then creates the part once more: a race, and the second part is deleted too.
            let uid = &object["metadata"]["uid"];
            if *first.entry(name.clone()).or_insert(uid) != uid {
                continue;
            }
            if *gone {
                life.gone.push(name);
                continue;
            }
            let mut state = State::of(object, requests, &parts);
            let states = match object.pointer(SLOT).and_then(Value::as_str) {
                Some(slot) => {
                    news.of_part(slot, &state);
                    life.composed.entry(slot.to_owned()).or_default()
                }
                None if name == "composite resource" => {
                    news.correct(&mut state);
                    &mut life.composite
                }
                None => continue,
            };
            if states.last() != Some(&state) && !state.is_stale() {
                states.push(state);
            }
        }
        life.composite.dedup();
        // The order among siblings is undefined; that they go before the rest is defined.
        let siblings = life.gone.iter().take_while(|name| name.starts_with("composed ")).count();
        life.gone[..siblings].sort();
        life
    }
}

/// The role of an object in the lifetime of a resource.
fn role(requests: &Requests, object: &Value) -> String {
    let slot = object.pointer(SLOT).and_then(Value::as_str);
    match slot {
        Some(slot) => format!("composed {slot}"),
        None if object["kind"] == requests.xr().kind() => "composite resource".to_owned(),
        None => "ProviderConfig".to_owned(),
    }
}

/// The last version of the composite resource.
fn latest<'a>(requests: &Requests, seen: &'a [Version]) -> Option<&'a Value> {
    let of_xr = |(object, _): &&Version| role(requests, object) == "composite resource";
    seen.iter().rev().find(of_xr).filter(|(_, gone)| !gone).map(|(object, _)| object)
}

fn reached(moment: Moment, requests: &Requests, seen: &[Version]) -> bool {
    let said =
        |object: &Value, kind: &str| conditions(object, requests).remove(kind).unwrap_or_default();
    let xr = latest(requests, seen);
    match moment {
        Moment::Paused => xr.is_some_and(|xr| said(xr, "Synced").contains("ReconcilePaused")),
        Moment::Ready(times) => {
            let of_xr =
                seen.iter().filter(|(object, _)| role(requests, object) == "composite resource");
            let ready = of_xr.map(|(object, _)| said(object, "Ready").starts_with("True"));
            let mut before = false;
            let crossings = ready.filter(|now| {
                let crossed = *now && !before;
                before = *now;
                crossed
            });
            crossings.count() >= times
        }
        Moment::Gone => {
            let mut standing = Map::new();
            for (object, gone) in seen {
                let name = role(requests, object);
                if *gone {
                    drop(standing.remove(&name));
                } else {
                    drop(standing.insert(name, Value::Null));
                }
            }
            standing.keys().all(|name| name == "ProviderConfig")
        }
        Moment::Unconfigured => {
            let gone = seen.iter().filter(|(_, gone)| *gone);
            gone.map(|(object, _)| role(requests, object)).any(|name| name == "ProviderConfig")
        }
    }
}
