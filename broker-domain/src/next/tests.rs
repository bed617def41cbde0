//! The decision over the whole grid: rule by rule with its reason, and the promises that rest on it.

use super::next;
use crate::Action::{Apply, DeleteSubstrate, DeregisterNode, Noop};
use crate::NodeObservation::{Registered, Unregistered};
use crate::Phase::{
    Deleted, Deprovisioning, Deregistering, Enrolling, Failed, Pending, Provisioning, Ready,
};
use crate::{Action, ObservedXr, Phase};

/// Why, what was seen, and what follows. The first rule that matches decides.
type Rule = (&'static str, fn(&ObservedXr) -> bool, Action, Phase);

#[rustfmt::skip]
const UP: &[Rule] = &[
    ("the terminal mark comes before anything else", |seen| seen.terminal_failure, Noop, Failed),
    ("what does not stand is applied, also when what it composed still lives", |seen| !seen.xr_exists, Apply, Pending),
    ("manifests are kept applied until Crossplane says Ready", |seen| !seen.crossplane_ready, Apply, Provisioning),
    ("a Node that is expected has to enrol, also one that was lost", |seen| seen.node == Unregistered, Apply, Enrolling),
    ("it is up, and phases in between are not waited for", |_| true, Noop, Ready),
];
#[rustfmt::skip]
const DOWN: &[Rule] = &[
    ("the Node goes first, also when the substrate is already gone", |seen| seen.node == Registered, DeregisterNode, Deregistering),
    ("deletion is asked for until everything is gone, healthy as it may look", |seen| seen.xr_exists || seen.residue, DeleteSubstrate, Deprovisioning),
    ("nothing is left", |_| true, Noop, Deleted),
];

/// Runs a check on every cell of the grid: 8 phases by 48 observations.
fn on_the_whole_grid(check: impl Fn(ObservedXr, Phase, Action, Phase)) {
    for current in Phase::ALL {
        for facts in ObservedXr::every() {
            let (action, phase) = next(&facts, current);
            check(facts, current, action, phase);
        }
    }
}

#[test]
fn every_cell_is_as_the_table_says() {
    on_the_whole_grid(|facts, current, action, phase| {
        let rules: &[Rule] = match current {
            Pending | Provisioning | Enrolling | Ready => UP,
            Failed => &[("a failure stays, whatever is seen later", |_| true, Noop, Failed)],
            Deregistering | Deprovisioning => DOWN,
            Deleted => &[("the end stays, whatever is seen later", |_| true, Noop, Deleted)],
        };
        let (why, _, due, to) = rules.iter().find(|(_, matches, ..)| matches(&facts)).unwrap();
        assert_eq!((action, phase), (*due, *to), "{why}: {current} with {facts:?}");
    });
}

/// Invariant: sinks stay (S1).
#[test]
fn sinks_stay() {
    on_the_whole_grid(|_, current, action, phase| {
        if matches!(current, Failed | Deleted) {
            assert_eq!((action, phase), (Noop, current));
        }
    });
}

/// Invariant: the Node is never live when substrate is deleted (S5).
#[test]
fn substrate_is_never_deleted_under_a_registered_node() {
    on_the_whole_grid(|facts, current, action, phase| {
        if facts.node == Registered && current.is_teardown() && current != Deleted {
            assert_eq!((action, phase), (DeregisterNode, Deregistering), "{facts:?}");
        }
        if action == DeleteSubstrate {
            assert_ne!(facts.node, Registered);
            assert!(facts.xr_exists || facts.residue, "nothing is left to delete: {facts:?}");
        }
    });
}

/// Invariant: Deleted is new only when nothing of ours is left (S7).
#[test]
fn the_end_takes_proof() {
    on_the_whole_grid(|facts, current, _, phase| {
        if phase == Deleted && current != Deleted {
            assert!(!facts.xr_exists && !facts.residue && facts.node != Registered, "{facts:?}");
        }
    });
}
