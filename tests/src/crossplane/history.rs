//! One life on a cluster, request by request, and what the cluster made of it: the same on real Crossplane and on
//! the simulated one, up to times, uids, names and versions.

use std::collections::BTreeMap;
use std::path::PathBuf;

use broker_ports::{Applied, Cluster, Deleted, ObjectVersion};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::requests::Requests;
use crate::failure::OrFail;

/// A version of an object, and whether it was its last.
pub type Version = (Value, bool);

/// The annotation by which Crossplane remembers what the Composition calls a composed object.
const SLOT: &str = "/metadata/annotations/crossplane.io~1composition-resource-name";
/// How Crossplane begins to say which parts are not ready.
const UNREADY: &str = "False Creating Unready resources: ";
const PAUSED: &str = "/metadata/annotations/crossplane.io~1paused";

/// What happened, without what differs from run to run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lifetime {
    /// What was asked for, in order.
    pub requests: Vec<String>,
    /// Every state of the composite resource.
    pub composite: Vec<State>,
    /// Every state of each composed object, by the Composition's name for it.
    pub composed: BTreeMap<String, Vec<State>>,
    /// What went, in order.
    pub gone: Vec<String>,
}

/// A state of an object, as far as it says something.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// Each condition: status, reason and message.
    pub conditions: BTreeMap<String, String>,
    /// The kinds that it refers to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub references: Vec<String>,
    /// What holds it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub finalizers: Vec<String>,
    /// What else is said of it: `paused`, `deleting`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub marks: Vec<String>,
}

/// What is waited for between two requests.
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
    /// Where the committed one of a blueprint is.
    #[must_use]
    pub fn path(slug: &str) -> PathBuf {
        let directory =
            PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/crossplane/histories");
        directory.join(format!("{slug}.json"))
    }

    /// Lives a life: `look` gives the world a moment, and answers everything that was seen so far.
    ///
    /// # Panics
    ///
    /// When a request is refused, or what should come of it does not.
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

    /// What of another life of the same blueprint does not agree with this one; nothing if all does.
    ///
    /// Requests, order of deletion, references, finalizers and marks are the same, in the same order, but for which
    /// finalizer goes first of those that something had when its deletion began. Conditions come
    /// in the same order, and none is new; but one that passes quickly may not have been seen: a provider counts the
    /// age of its object in whole seconds, so that it finds it ready at its first look or at its second, and a
    /// composite resource may be gone before Crossplane says that it is deleting it. Which of several parts is ready
    /// first is the provider's affair, and on a busy machine not even a matter of the seconds between them.
    #[must_use]
    pub fn contradiction(&self, other: &Self) -> Option<String> {
        let asked = (&self.requests, &self.gone);
        if asked != (&other.requests, &other.gone) {
            return Some(format!("{:?}, {:?}: not {asked:?}", other.requests, other.gone));
        }
        if !self.composed.keys().eq(other.composed.keys()) {
            return Some(format!("composed are {:?}", other.composed.keys()));
        }
        let composed = self.composed.iter().zip(other.composed.values());
        let composed = composed.map(|((name, here), there)| (name.as_str(), here, there));
        let mut all =
            [("composite resource", &self.composite, &other.composite)].into_iter().chain(composed);
        all.find_map(|(name, here, there)| {
            if held(here) != held(there) {
                return Some(format!("{name}: {:?}, not {:?}", held(there), held(here)));
            }
            let (here, there) = (in_any_order(here), in_any_order(there));
            let mut path = here.iter();
            let strange = there.iter().find(|state| !path.any(|known| known == *state))?;
            Some(format!("{name}: {strange:?} has no place: {there:#?} against {here:#?}"))
        })
    }

    fn condensed(requests: &Requests, asked: Vec<String>, seen: &[Version]) -> Self {
        let mut life = Self { requests: asked, ..Self::default() };
        let mut news = News::default();
        let mut first = BTreeMap::new();
        for (object, gone) in seen {
            let name = role(requests, object);
            // The collector may delete a part before Crossplane has heard that the whole is to go, which then makes
            // it once more, for a moment: a race, and the second one goes too.
            let uid = &object["metadata"]["uid"];
            if *first.entry(name.clone()).or_insert(uid) != uid {
                continue;
            }
            if *gone {
                life.gone.push(name);
                continue;
            }
            let mut state = State::of(object, requests);
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
        // In which order siblings go is anybody's guess; that they go before the rest is not.
        let siblings = life.gone.iter().take_while(|name| name.starts_with("composed ")).count();
        life.gone[..siblings].sort();
        life
    }
}

/// What was known of parts when a composite resource said something about them.
///
/// Crossplane may look at a part as it has it in its cache, says of a resource that was ready that it is not, and takes
/// it back: a race, and nobody's promise.
#[derive(Default)]
struct News {
    ready_parts: BTreeMap<String, bool>,
    /// What the composite resource said last of its own readiness, and was right about.
    ready: Option<String>,
}

impl News {
    fn of_part(&mut self, slot: &str, state: &State) {
        let ready = state.conditions.get("Ready").is_some_and(|ready| ready.starts_with("True"));
        self.ready_parts.insert(slot.to_owned(), ready);
    }

    fn correct(&mut self, state: &mut State) {
        let said = state.conditions.get("Ready").cloned();
        match (&self.ready, said) {
            (Some(known), Some(said)) if known.starts_with("True") && self.is_old(&said) => {
                state.conditions.insert("Ready".to_owned(), known.clone());
            }
            (_, said) => self.ready = said,
        }
    }

    /// Whether it is about parts that were ready before it was said.
    fn is_old(&self, said: &str) -> bool {
        let Some(parts) = said.strip_prefix(UNREADY) else { return false };
        let parts = parts.split([',', ' ']).filter(|part| !part.is_empty() && *part != "and");
        parts.into_iter().all(|part| self.ready_parts.get(part).is_some_and(|ready| *ready))
    }
}

impl State {
    /// Crossplane may still look at the shell that it has in its cache when the armed one was reconciled already,
    /// says once more that it is paused, and takes it back: a race, and nobody's promise.
    fn is_stale(&self) -> bool {
        let said = |kind: &str| self.conditions.get(kind).map(String::as_str).unwrap_or_default();
        said("Synced").contains("ReconcilePaused")
            && !said("Ready").is_empty()
            && !self.marks.contains(&"paused".to_owned())
    }

    fn of(object: &Value, requests: &Requests) -> Self {
        let list = |path: &str| object.pointer(path).and_then(Value::as_array);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let conditions = list("/status/conditions").into_iter().flatten().map(|condition| {
            let said = ["status", "reason", "message"].map(|key| text(&condition[key]));
            let said = said.join(" ").trim().replace(requests.xr().name(), "NAME");
            (text(&condition["type"]), said)
        });
        let references = list("/spec/crossplane/resourceRefs").into_iter().flatten();
        let mut marks = Vec::new();
        if object.pointer(PAUSED).is_some() {
            marks.push("paused".to_owned());
        }
        if object.pointer("/metadata/deletionTimestamp").is_some() {
            marks.push("deleting".to_owned());
        }
        Self {
            conditions: conditions.collect(),
            references: references.map(|reference| text(&reference["kind"])).collect(),
            finalizers: list("/metadata/finalizers").into_iter().flatten().map(text).collect(),
            marks,
        }
    }
}

/// What of an object's states is the same in every life: all but the conditions.
fn held(states: &[State]) -> Vec<State> {
    let bare = |state: &State| State { conditions: BTreeMap::new(), ..state.clone() };
    let mut held: Vec<_> = states.iter().map(bare).collect();
    let_go_at_once(&mut held);
    held.dedup();
    held
}

/// Shows whatever is being deleted with the finalizers that it had when that began: whether Crossplane or the garbage
/// collector lets go of it first is a race between the two.
fn let_go_at_once(states: &mut [State]) {
    let mut held: Option<Vec<String>> = None;
    for state in states.iter_mut().filter(|state| state.marks.iter().any(|it| it == "deleting")) {
        let held = held.get_or_insert_with(|| state.finalizers.clone());
        if state.finalizers.iter().all(|finalizer| held.contains(finalizer)) {
            state.finalizers.clone_from(held);
        }
    }
}

/// States that do not say which parts are not ready, only that some are not.
fn in_any_order(states: &[State]) -> Vec<State> {
    let mut states = states.to_vec();
    for ready in states.iter_mut().filter_map(|state| state.conditions.get_mut("Ready")) {
        if ready.starts_with(UNREADY) {
            ready.truncate(UNREADY.len());
        }
    }
    let_go_at_once(&mut states);
    states.dedup();
    states
}

/// What an object is in the life of a resource.
fn role(requests: &Requests, object: &Value) -> String {
    let slot = object.pointer(SLOT).and_then(Value::as_str);
    match slot {
        Some(slot) => format!("composed {slot}"),
        None if object["kind"] == requests.xr().kind() => "composite resource".to_owned(),
        None => "ProviderConfig".to_owned(),
    }
}

/// The composite resource as it was seen last.
fn latest<'a>(requests: &Requests, seen: &'a [Version]) -> Option<&'a Value> {
    let of_xr = |(object, _): &&Version| role(requests, object) == "composite resource";
    seen.iter().rev().find(of_xr).filter(|(_, gone)| !gone).map(|(object, _)| object)
}

fn reached(moment: Moment, requests: &Requests, seen: &[Version]) -> bool {
    let said = |object: &Value, kind: &str| {
        let state = State::of(object, requests);
        state.conditions.get(kind).cloned().unwrap_or_default()
    };
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

#[cfg(test)]
mod tests {
    use super::*;

    fn state(ready: &str, finalizers: &[&str]) -> State {
        let conditions = BTreeMap::from([("Ready".to_owned(), ready.to_owned())]);
        let finalizers = finalizers.iter().map(|&held| held.to_owned()).collect();
        State { conditions, finalizers, ..State::default() }
    }

    fn life(composite: &[State]) -> Lifetime {
        Lifetime { composite: composite.to_vec(), ..Lifetime::default() }
    }

    #[test]
    fn what_is_said_of_a_part_that_was_ready_before_is_old_news() {
        let unready = "False Creating Unready resources: disk, and machine";
        let rows = [
            ("it was never ready", [true, true], None, unready),
            ("both were ready", [true, true], Some("True Available"), "True Available"),
            ("one was not", [true, false], Some("True Available"), unready),
        ];
        for (why, parts, before, expected) in rows {
            let mut news = News { ready: before.map(str::to_owned), ..News::default() };
            for (slot, ready) in ["disk", "machine"].into_iter().zip(parts) {
                news.of_part(slot, &state(if ready { "True" } else { "False" }, &[]));
            }
            let mut said = state(unready, &[]);
            news.correct(&mut said);
            assert_eq!(said.conditions["Ready"], expected, "{why}");
        }
    }

    #[test]
    fn a_condition_may_be_missed_and_nothing_else_may_differ() {
        let (new, unready, ready) =
            (state("", &["f"]), state("False", &["f"]), state("True", &["f"]));
        let free = state("True", &[]);
        let known = life(&[new.clone(), unready.clone(), ready.clone(), free.clone()]);
        let rows = [
            ("the same", vec![&new, &unready, &ready, &free], true),
            ("one condition was too quick", vec![&new, &ready, &free], true),
            ("another order", vec![&new, &ready, &unready, &free], false),
            ("a finalizer that stayed", vec![&new, &unready, &ready], false),
            ("a finalizer that was never there", vec![&free], false),
            ("twice", vec![&new, &unready, &new, &ready, &free], false),
        ];
        for (why, states, agrees) in rows {
            let states: Vec<_> = states.into_iter().cloned().collect();
            let found = known.contradiction(&life(&states));
            assert_eq!(found.is_none(), agrees, "{why}: {found:?}");
        }
        let unready = |part: &str| state(&format!("{UNREADY}{part}"), &["f"]);
        let found = life(&[unready("a, b"), unready("a"), ready.clone()]);
        let other = life(&[unready("a, b"), unready("b"), ready.clone()]);
        assert_eq!(found.contradiction(&other), None, "another part was ready first");
        let deleting = |finalizers: &[&str]| State {
            marks: vec!["deleting".to_owned()],
            ..state("True", finalizers)
        };
        let found = life(&[ready.clone(), deleting(&["f", "g"]), deleting(&["f"])]);
        let other = life(&[ready.clone(), deleting(&["f", "g"]), deleting(&["g"])]);
        assert_eq!(found.contradiction(&other), None, "another one let go first");
        let bare = life(&[ready.clone(), deleting(&["f"])]);
        assert!(found.contradiction(&bare).is_some(), "it was held by less");
        let more = life(&[ready.clone(), deleting(&["f", "g"]), deleting(&["f", "h"])]);
        assert!(found.contradiction(&more).is_some(), "somebody took hold of it meanwhile");
        let gone = Lifetime { gone: vec!["composite resource".to_owned()], ..known.clone() };
        assert!(known.contradiction(&gone).is_some(), "another end");
        let more =
            Lifetime { composed: BTreeMap::from([("disk".to_owned(), vec![])]), ..known.clone() };
        assert!(known.contradiction(&more).is_some(), "more is composed");
    }
}
