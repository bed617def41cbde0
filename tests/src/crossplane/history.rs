//! The requests of one composite resource's lifetime and their effects. Real and simulated Crossplane differ
//! only in times, uids, names and versions.

mod comparison;
mod state;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use broker_ports::{Applied, Cluster, Deleted, ObjectVersion};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::blueprint::Blueprint;
use super::requests::Requests;
use crate::failure::OrFail;
use state::{StaleReadyFilter, State, conditions};

/// A version of an object, and whether it is the last one.
pub type Version = (Value, bool);

/// The annotation that holds a composed object's name in the Composition.
const SLOT_ANNOTATION: &str = "/metadata/annotations/crossplane.io~1composition-resource-name";

/// The parameters of a machine that fails.
const FAULT_PARAMETERS: &str = r#"{"fault":"no such machine type"}"#;

/// The requests and their effects, without values that differ from run to run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lifetime {
    /// The requests, in order.
    pub requests: Vec<String>,
    /// Every state of the composite resource.
    pub composite: Vec<State>,
    /// Every state of each composed object, by its name in the Composition.
    pub composed: BTreeMap<String, Vec<State>>,
    /// Deleted objects, in order.
    #[serde(rename = "gone")]
    pub deleted: Vec<String>,
}

/// The state to wait for between two requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Milestone {
    /// Crossplane has reported the shell as paused.
    Paused,
    /// The composite resource has become ready this many times.
    Ready(usize),
    /// The composite resource and its composed objects are deleted.
    XrDeleted,
    /// The ProviderConfig is deleted.
    ConfigDeleted,
}

impl Lifetime {
    /// The blueprints with a history, and their parameters: the samples, and a machine with a declared failure.
    /// A history records conditions, so samples that compose an object without conditions, such as a Secret,
    /// have no history.
    #[must_use]
    pub fn recorded() -> Vec<(Blueprint, &'static str)> {
        let samples =
            Blueprint::samples().into_iter().filter(|sample| !sample.composes_plain_data());
        let mut recorded: Vec<_> =
            samples.map(|sample| (sample.minimal_parameters(), sample)).collect();
        recorded.push((FAULT_PARAMETERS, Blueprint::named("failing-machine")));
        recorded.into_iter().map(|(parameters, blueprint)| (blueprint, parameters)).collect()
    }

    /// The path of a blueprint's committed history.
    #[must_use]
    pub fn path(slug: &str) -> PathBuf {
        let directory =
            PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/crossplane/histories");
        directory.join(format!("{slug}.json"))
    }

    /// Runs one lifetime, with a deletion after the composite resource became ready `ready_times` times. `poll` advances
    /// the cluster and returns all versions so far.
    pub async fn run(
        cluster: &dyn Cluster,
        requests: &Requests,
        ready_times: usize,
        poll: impl AsyncFn() -> Vec<Version>,
    ) -> Self {
        let mut sent = Vec::new();
        let mut record = |request: &str| sent.push(request.to_owned());
        let wait_for = async |milestone: Milestone| {
            loop {
                let versions = poll().await;
                if is_reached(milestone, requests, &versions) {
                    return versions;
                }
            }
        };
        record("apply ProviderConfig");
        let config = requests.apply_provider_config(cluster).await;
        record("apply shell");
        requests.apply_shell(cluster, 1).await;
        let versions = wait_for(Milestone::Paused).await;
        record("arm");
        let shell = ObjectVersion::of(latest(requests, &versions).expect("the shell exists"));
        let shell = shell.or_fail("the shell has no version");
        assert!(matches!(requests.arm(cluster, &shell).await, Applied::Done(_)), "not armed");
        for times in 1..=ready_times {
            wait_for(Milestone::Ready(times)).await;
        }
        record("delete composite resource");
        assert_eq!(requests.delete_xr(cluster, &shell.uid).await, Deleted::Accepted);
        wait_for(Milestone::XrDeleted).await;
        record("delete ProviderConfig");
        let deleted = requests.delete_provider_config(cluster, &config.uid).await;
        assert_eq!(deleted, Deleted::Accepted);
        let versions = wait_for(Milestone::ConfigDeleted).await;
        Self::from_versions(requests, sent, &versions)
    }

    fn from_versions(requests: &Requests, sent: Vec<String>, versions: &[Version]) -> Self {
        let mut lifetime = Self { requests: sent, ..Self::default() };
        let mut filter = StaleReadyFilter::default();
        let mut first_uids = BTreeMap::new();
        let parts = versions.iter().filter(|(object, _)| object.pointer(SLOT_ANNOTATION).is_some());
        let parts = parts.filter_map(|(object, _)| object["metadata"]["name"].as_str());
        let parts = parts.map(str::to_owned).collect();
        for (object, deleted) in versions {
            let name = role(requests, object);
            // The collector may delete a part before Crossplane sees that the XR is being deleted. Crossplane
            // then creates the part again, and deletes it later. This is a race, so the second part is ignored.
            let uid = &object["metadata"]["uid"];
            if *first_uids.entry(name.clone()).or_insert(uid) != uid {
                continue;
            }
            if *deleted {
                lifetime.deleted.push(name);
                continue;
            }
            let mut state = State::of(object, requests, &parts);
            let states = match object.pointer(SLOT_ANNOTATION).and_then(Value::as_str) {
                Some(slot) => {
                    filter.record_part(slot, &state);
                    lifetime.composed.entry(slot.to_owned()).or_default()
                }
                None if name == "composite resource" => {
                    filter.correct(&mut state);
                    &mut lifetime.composite
                }
                None => continue,
            };
            if states.last() != Some(&state) && !state.is_stale() {
                states.push(state);
            }
        }
        lifetime.composite.dedup();
        // Parts are deleted in any order, but before the other objects.
        let parts = lifetime.deleted.iter().take_while(|name| name.starts_with("composed "));
        let count = parts.count();
        lifetime.deleted[..count].sort();
        lifetime
    }
}

/// The role of an object: composite resource, ProviderConfig or a composed object.
fn role(requests: &Requests, object: &Value) -> String {
    let slot = object.pointer(SLOT_ANNOTATION).and_then(Value::as_str);
    match slot {
        Some(slot) => format!("composed {slot}"),
        None if object["kind"] == requests.xr().kind() => "composite resource".to_owned(),
        None => "ProviderConfig".to_owned(),
    }
}

/// The last version of the composite resource, unless it is deleted.
fn latest<'a>(requests: &Requests, versions: &'a [Version]) -> Option<&'a Value> {
    let is_xr = |(object, _): &&Version| role(requests, object) == "composite resource";
    versions.iter().rev().find(is_xr).filter(|(_, deleted)| !deleted).map(|(object, _)| object)
}

fn is_reached(milestone: Milestone, requests: &Requests, versions: &[Version]) -> bool {
    let condition =
        |object: &Value, kind: &str| conditions(object, requests).remove(kind).unwrap_or_default();
    let xr = latest(requests, versions);
    match milestone {
        Milestone::Paused => {
            xr.is_some_and(|xr| condition(xr, "Synced").contains("ReconcilePaused"))
        }
        Milestone::Ready(times) => {
            let of_xr = versions
                .iter()
                .filter(|(object, _)| role(requests, object) == "composite resource");
            let ready = of_xr.map(|(object, _)| condition(object, "Ready").starts_with("True"));
            let mut was_ready = false;
            let changes_to_ready = ready.filter(|is_ready| {
                let became_ready = *is_ready && !was_ready;
                was_ready = *is_ready;
                became_ready
            });
            changes_to_ready.count() >= times
        }
        Milestone::XrDeleted => {
            let mut existing = BTreeSet::new();
            for (object, deleted) in versions {
                let name = role(requests, object);
                if *deleted {
                    existing.remove(&name);
                } else {
                    existing.insert(name);
                }
            }
            existing.iter().all(|name| name == "ProviderConfig")
        }
        Milestone::ConfigDeleted => {
            let deleted = versions.iter().filter(|(_, deleted)| *deleted);
            deleted.map(|(object, _)| role(requests, object)).any(|name| name == "ProviderConfig")
        }
    }
}
