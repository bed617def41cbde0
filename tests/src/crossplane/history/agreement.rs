//! Whether two lives of a blueprint are the same life.

use std::collections::BTreeMap;

use super::Lifetime;
use super::state::{State, UNREADY};

impl Lifetime {
    /// What of another life of the same blueprint does not agree with this one; nothing if all does.
    ///
    /// Requests, order of deletion, references, finalizers and marks are the same, in the same order, but for which
    /// finalizer goes first of those that something had when its deletion began. Conditions come
    /// in the same order, none is new, and none is missing but those of which nobody promises that they are ever seen.
    /// Which of several parts is ready first is the provider's affair, and on a busy machine not even a matter of the
    /// seconds between them.
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

/// What of an object's states is the same in every life: all but the conditions.
fn held(states: &[State]) -> Vec<State> {
    let bare =
        |state: &State| State { conditions: BTreeMap::new(), current: None, ..state.clone() };
    let mut held: Vec<_> = states.iter().map(bare).collect();
    let_go_at_once(&mut held);
    held.dedup();
    held
}

/// States that every life has.
fn lasting(states: &[State]) -> Vec<State> {
    let mut lasting: Vec<_> = states.iter().filter(|state| !state.is_fleeting()).cloned().collect();
    lasting.dedup();
    lasting
}

impl State {
    /// Whether nobody promises that this is ever seen: a provider counts the age of its object in whole seconds, so
    /// that it finds it ready at its first look or at its second; and a composite resource may be gone before Crossplane
    /// says that it is deleting it.
    fn is_fleeting(&self) -> bool {
        let said = |kind: &str| self.conditions.get(kind).map(String::as_str).unwrap_or_default();
        let unseen = said("Ready").is_empty() && said("Synced").starts_with("True");
        unseen || said("Ready") == "False Deleting"
    }
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
    fn what_is_fleeting_may_be_missed_and_nothing_else_may_differ() {
        let (new, unready, ready) =
            (state("", &["f"]), state("False", &["f"]), state("True", &["f"]));
        let (free, going) = (state("True", &[]), state("False Deleting", &[]));
        let known = [&new, &unready, &ready, &free, &going];
        let known = life(&known.map(State::clone));
        let rows = [
            ("the same", vec![&new, &unready, &ready, &free, &going], true),
            ("it was gone too quickly", vec![&new, &unready, &ready, &free], true),
            ("a condition that lasts", vec![&new, &ready, &free, &going], false),
            ("another order", vec![&new, &ready, &unready, &free, &going], false),
            ("a finalizer that stayed", vec![&new, &unready, &ready], false),
            ("a finalizer that was never there", vec![&free, &going], false),
            ("twice", vec![&new, &unready, &new, &ready, &free, &going], false),
            ("a fleeting one out of place", vec![&new, &unready, &ready, &going, &free], false),
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
