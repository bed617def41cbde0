//! Compares two lifetimes of a blueprint.

use std::collections::BTreeMap;

use super::Lifetime;
use super::state::{State, UNREADY};

impl Lifetime {
    /// The first difference between two lifetimes of one blueprint that no race explains.
    ///
    /// These must be equal and in the same order: requests, deletions, references, finalizers, marks and
    /// conditions. These may differ: the order in which a deletion removes finalizers, which part is ready
    /// first, and conditions that `other` lacks because a watch may miss them.
    #[must_use]
    pub fn contradiction(&self, other: &Self) -> Option<String> {
        let expected = (&self.requests, &self.deleted);
        if expected != (&other.requests, &other.deleted) {
            return Some(format!("{:?}, {:?}: not {expected:?}", other.requests, other.deleted));
        }
        if !self.composed.keys().eq(other.composed.keys()) {
            return Some(format!("composed objects: {:?}", other.composed.keys()));
        }
        let composed = self.composed.iter().zip(other.composed.values());
        let composed = composed.map(|((name, expected), found)| (name.as_str(), expected, found));
        let mut all =
            [("composite resource", &self.composite, &other.composite)].into_iter().chain(composed);
        all.find_map(|(name, expected, found)| {
            let bare = [expected, found].map(|states| without_conditions(states));
            if bare[0] != bare[1] {
                return Some(format!("{name}: {:?}, not {:?}", bare[1], bare[0]));
            }
            let (expected, found) = (without_part_order(expected), without_part_order(found));
            let mut following = expected.iter();
            let unexpected = found.iter().find(|state| !following.any(|known| known == *state));
            if let Some(unexpected) = unexpected {
                return Some(format!(
                    "{name}: unexpected state {unexpected:?} in {found:#?}, not {expected:#?}"
                ));
            }
            let (expected, found) = (certain_states(&expected), certain_states(&found));
            (expected != found)
                .then(|| format!("{name}: states are missing: {found:#?}, not {expected:#?}"))
        })
    }
}

/// The states without conditions: equal in all lifetimes.
fn without_conditions(states: &[State]) -> Vec<State> {
    let bare =
        |state: &State| State { conditions: BTreeMap::new(), current: None, ..state.clone() };
    let mut states: Vec<_> = states.iter().map(bare).collect();
    keep_first_finalizers(&mut states);
    states.dedup();
    states
}

/// The states that no watch can miss.
fn certain_states(states: &[State]) -> Vec<State> {
    let mut certain: Vec<_> = states.iter().filter(|state| !state.is_missable()).cloned().collect();
    certain.dedup();
    certain
}

impl State {
    /// Whether a lifetime may lack this state. The provider counts an object's age in whole seconds, so it
    /// reports ready at the first or the second reconcile. A composite resource may be deleted before
    /// Crossplane reports the deletion.
    fn is_missable(&self) -> bool {
        let condition =
            |kind: &str| self.conditions.get(kind).map(String::as_str).unwrap_or_default();
        let before_ready = condition("Ready").is_empty() && condition("Synced").starts_with("True");
        before_ready || condition("Ready") == "False Deleting"
    }
}

/// Gives all states of a deletion the finalizers of the first: Crossplane and the garbage collector race to
/// remove theirs.
fn keep_first_finalizers(states: &mut [State]) {
    let is_deleting = |state: &&mut State| state.marks.iter().any(|mark| mark == "deleting");
    let mut first: Option<Vec<String>> = None;
    for state in states.iter_mut().filter(is_deleting) {
        let first = first.get_or_insert_with(|| state.finalizers.clone());
        if state.finalizers.iter().all(|finalizer| first.contains(finalizer)) {
            state.finalizers.clone_from(first);
        }
    }
}

/// The states without the names of unready parts and the order of removed finalizers.
fn without_part_order(states: &[State]) -> Vec<State> {
    let mut states = states.to_vec();
    for ready in states.iter_mut().filter_map(|state| state.conditions.get_mut("Ready")) {
        if ready.starts_with(UNREADY) {
            ready.truncate(UNREADY.len());
        }
    }
    keep_first_finalizers(&mut states);
    states.dedup();
    states
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(ready: &str, finalizers: &[&str]) -> State {
        let conditions = BTreeMap::from([("Ready".to_owned(), ready.to_owned())]);
        let finalizers = finalizers.iter().map(|&finalizer| finalizer.to_owned()).collect();
        State { conditions, finalizers, ..State::default() }
    }

    fn lifetime(composite: &[State]) -> Lifetime {
        Lifetime { composite: composite.to_vec(), ..Lifetime::default() }
    }

    #[test]
    fn lifetimes_may_differ_in_missable_states_only() {
        // One letter per state: new, unready, ready, without finalizer, deletion reported.
        let states = |letters: &str| {
            let state = |letter| match letter {
                'n' => state("", &["f"]),
                'u' => state("False", &["f"]),
                'r' => state("True", &["f"]),
                'w' => state("True", &[]),
                _ => state("False Deleting", &[]),
            };
            lifetime(&letters.chars().map(state).collect::<Vec<_>>())
        };
        let known = states("nurwd");
        for (why, letters, agrees) in [
            ("equal states", "nurwd", true),
            ("deleted before the deletion was reported", "nurw", true),
            ("a certain state is missing", "nrwd", false),
            ("another order", "nruwd", false),
            ("a finalizer that is never removed", "nur", false),
            ("an unknown finalizer", "wd", false),
            ("a repeated state", "nunrwd", false),
            ("a missable state in the wrong place", "nurdw", false),
        ] {
            let found = known.contradiction(&states(letters));
            assert_eq!(found.is_none(), agrees, "{why}: {found:?}");
        }
        let ready = state("True", &["f"]);
        let deleting = |finalizers: &[&str]| State {
            marks: vec!["deleting".to_owned()],
            ..state("True", finalizers)
        };
        let removal =
            |then: &[&str]| lifetime(&[ready.clone(), deleting(&["f", "g"]), deleting(then)]);
        let old = lifetime(&[State { current: Some(false), ..ready.clone() }]);
        let deleted = Lifetime { deleted: vec!["composite resource".to_owned()], ..known.clone() };
        for (why, one, other, agrees) in [
            ("another order of finalizers", &removal(&["f"]), removal(&["g"]), true),
            ("an additional finalizer", &removal(&["f"]), removal(&["f", "h"]), false),
            (
                "a condition of an old generation",
                &lifetime(std::slice::from_ref(&ready)),
                old,
                false,
            ),
            ("another deletion", &known, deleted, false),
        ] {
            let found = one.contradiction(&other);
            assert_eq!(found.is_none(), agrees, "{why}: {found:?}");
        }
    }
}
