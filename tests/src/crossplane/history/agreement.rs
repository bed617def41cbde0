//! Compares two lifetimes of a blueprint.

use std::collections::BTreeMap;

use super::Lifetime;
use super::state::{State, UNREADY};

impl Lifetime {
    /// The first contradiction between two lifetimes of one blueprint; `None` if they agree.
    ///
    /// Requests, order of deletion, references, finalizers and marks must be the same, in the same order.
    /// The order in which finalizers are removed during a deletion may differ. Conditions must come in the
    /// same order. None may be new, and only those that are not guaranteed to be observed may be missing.
    /// Which of several parts is ready first depends on the provider, and may differ too.
    #[must_use]
    pub fn contradiction(&self, other: &Self) -> Option<String> {
        let asked = (&self.requests, &self.gone);
        if asked != (&other.requests, &other.gone) {
            return Some(format!("{:?}, {:?}: not {asked:?}", other.requests, other.gone));
        }
        if !self.composed.keys().eq(other.composed.keys()) {
            return Some(format!("composed objects: {:?}", other.composed.keys()));
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
            let strange = there.iter().find(|state| !path.any(|known| known == *state));
            if let Some(strange) = strange {
                return Some(format!(
                    "{name}: {strange:?} has no place: {there:#?}, not {here:#?}"
                ));
            }
            let (here, there) = (lasting(&here), lasting(&there));
            (here != there).then(|| format!("{name}: more is missing: {there:#?}, not {here:#?}"))
        })
    }
}

/// The states without conditions: identical in every lifetime.
fn held(states: &[State]) -> Vec<State> {
    let bare =
        |state: &State| State { conditions: BTreeMap::new(), current: None, ..state.clone() };
    let mut held: Vec<_> = states.iter().map(bare).collect();
    let_go_at_once(&mut held);
    held.dedup();
    held
}

/// The states that every lifetime has.
fn lasting(states: &[State]) -> Vec<State> {
    let mut lasting: Vec<_> = states.iter().filter(|state| !state.is_fleeting()).cloned().collect();
    lasting.dedup();
    lasting
}

impl State {
    /// Whether this state may be missed. A provider counts an object's age in whole seconds, so it reports
    /// ready at the first or the second reconcile. A composite resource may be gone before Crossplane
    /// reports that it is deleting it.
    fn is_fleeting(&self) -> bool {
        let said = |kind: &str| self.conditions.get(kind).map(String::as_str).unwrap_or_default();
        let unseen = said("Ready").is_empty() && said("Synced").starts_with("True");
        unseen || said("Ready") == "False Deleting"
    }
}

/// Shows a deleting object with the finalizers that it had when the deletion began: Crossplane and the
/// garbage collector race to remove theirs.
fn let_go_at_once(states: &mut [State]) {
    let mut held: Option<Vec<String>> = None;
    for state in states.iter_mut().filter(|state| state.marks.iter().any(|it| it == "deleting")) {
        let held = held.get_or_insert_with(|| state.finalizers.clone());
        if state.finalizers.iter().all(|finalizer| held.contains(finalizer)) {
            state.finalizers.clone_from(held);
        }
    }
}

/// The states without the names of unready parts.
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
    fn lives_differ_only_in_states_that_may_be_missed() {
        let (new, unready, ready) =
            (state("", &["f"]), state("False", &["f"]), state("True", &["f"]));
        let (free, going) = (state("True", &[]), state("False Deleting", &[]));
        let known = [&new, &unready, &ready, &free, &going];
        let known = life(&known.map(State::clone));
        let rows = [
            ("the same", vec![&new, &unready, &ready, &free, &going], true),
            ("it was deleted early", vec![&new, &unready, &ready, &free], true),
            ("a lasting condition", vec![&new, &ready, &free, &going], false),
            ("another order", vec![&new, &ready, &unready, &free, &going], false),
            ("a finalizer that is never removed", vec![&new, &unready, &ready], false),
            ("an unknown finalizer", vec![&free, &going], false),
            ("twice", vec![&new, &unready, &new, &ready, &free, &going], false),
            (
                "a fleeting condition in the wrong place",
                vec![&new, &unready, &ready, &going, &free],
                false,
            ),
        ];
        for (why, states, agrees) in rows {
            let states: Vec<_> = states.into_iter().cloned().collect();
            let found = known.contradiction(&life(&states));
            assert_eq!(found.is_none(), agrees, "{why}: {found:?}");
        }
        let old = State { current: Some(false), ..ready.clone() };
        assert!(
            life(std::slice::from_ref(&ready)).contradiction(&life(&[old])).is_some(),
            "old news"
        );
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
        assert_eq!(found.contradiction(&other), None, "another order of finalizers");
        let bare = life(&[ready.clone(), deleting(&["f"])]);
        assert!(found.contradiction(&bare).is_some(), "fewer finalizers");
        let more = life(&[ready.clone(), deleting(&["f", "g"]), deleting(&["f", "h"])]);
        assert!(found.contradiction(&more).is_some(), "an additional finalizer");
        let gone = Lifetime { gone: vec!["composite resource".to_owned()], ..known.clone() };
        assert!(known.contradiction(&gone).is_some(), "another end");
        let more =
            Lifetime { composed: BTreeMap::from([("disk".to_owned(), vec![])]), ..known.clone() };
        assert!(known.contradiction(&more).is_some(), "an additional composed object");
    }
}
