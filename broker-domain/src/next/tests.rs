//! Tests of `next` over the whole grid: one table of rules with reasons, and the invariants that depend on
//! them.

use super::next;
use crate::Action::{Apply, DeleteSubstrate, DeregisterNode, Noop};
use crate::NodeObservation::{Registered, Unregistered};
use crate::Phase::{
    Deleted, Deprovisioning, Deregistering, Enrolling, Failed, Pending, Provisioning, Ready,
};
use crate::{Action, ObservedXr, Phase};

/// Reason, condition, action and phase. The first matching rule decides.
type Rule = (&'static str, fn(&ObservedXr) -> bool, Action, Phase);

#[rustfmt::skip]
const CONVERGE_RULES: &[Rule] = &[
    ("a terminal failure takes precedence", |facts| facts.terminal_failure, Noop, Failed),
    ("a missing composite resource is applied, even if composed objects remain", |facts| !facts.xr_exists, Apply, Pending),
    ("manifests stay applied until Crossplane reports Ready", |facts| !facts.crossplane_ready, Apply, Provisioning),
    ("an expected Node must enrol, also after it was lost", |facts| facts.node == Unregistered, Apply, Enrolling),
    ("everything is up; intermediate phases are skipped", |_| true, Noop, Ready),
];
#[rustfmt::skip]
const TEARDOWN_RULES: &[Rule] = &[
    ("the Node is deregistered first, even if the substrate is gone", |facts| facts.node == Registered, DeregisterNode, Deregistering),
    ("deletion is requested until everything is gone, even if all is healthy", |facts| facts.xr_exists || facts.residue, DeleteSubstrate, Deprovisioning),
    ("nothing is left", |_| true, Noop, Deleted),
];

/// Runs a check on every cell of the grid: 8 phases by 48 observations.
fn for_every_cell(check: impl Fn(ObservedXr, Phase, Action, Phase)) {
    for current in Phase::ALL {
        for facts in ObservedXr::every() {
            let (action, phase) = next(&facts, current);
            check(facts, current, action, phase);
        }
    }
}

#[test]
fn every_cell_matches_the_rule_table() {
    for_every_cell(|facts, current, action, phase| {
        let rules: &[Rule] = match current {
            Pending | Provisioning | Enrolling | Ready => CONVERGE_RULES,
            Failed => &[("Failed is a sink", |_| true, Noop, Failed)],
            Deregistering | Deprovisioning => TEARDOWN_RULES,
            Deleted => &[("Deleted is a sink", |_| true, Noop, Deleted)],
        };
        let (reason, _, expected_action, expected_phase) =
            rules.iter().find(|(_, matches, ..)| matches(&facts)).unwrap();
        assert_eq!(
            (action, phase),
            (*expected_action, *expected_phase),
            "{reason}: {current} with {facts:?}"
        );
    });
}

/// Invariant: a sink never changes (S1).
#[test]
fn failed_and_deleted_never_change() {
    for_every_cell(|_, current, action, phase| {
        if matches!(current, Failed | Deleted) {
            assert_eq!((action, phase), (Noop, current));
        }
    });
}

/// Invariant: no substrate is deleted while its Node is live (S5).
#[test]
fn substrate_is_never_deleted_under_a_registered_node() {
    for_every_cell(|facts, current, action, phase| {
        if facts.node == Registered && current.is_teardown() && current != Deleted {
            assert_eq!((action, phase), (DeregisterNode, Deregistering), "{facts:?}");
        }
        if action == DeleteSubstrate {
            assert_ne!(facts.node, Registered);
            assert!(facts.xr_exists || facts.residue, "nothing is left to delete: {facts:?}");
        }
    });
}

/// Invariant: a resource becomes Deleted only when nothing of it is left (S7).
#[test]
fn deleted_requires_proof_of_absence() {
    for_every_cell(|facts, current, _, phase| {
        if phase == Deleted && current != Deleted {
            assert!(!facts.xr_exists && !facts.residue && facts.node != Registered, "{facts:?}");
        }
    });
}
