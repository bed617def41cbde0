//! The decision, row by row with its reason, and then over the whole grid.

use super::next;
use crate::Action::{Apply, DeleteSubstrate, DeregisterNode, Noop};
use crate::NodeObservation::{NotExpected, Registered, Unregistered};
use crate::Phase::{
    Deleted, Deprovisioning, Deregistering, Enrolling, Failed, Pending, Provisioning, Ready,
};
use crate::{Action, NodeObservation, ObservedXr, Phase};

/// The facts of a row, said in the few words that matter to it.
fn nothing_there() -> ObservedXr {
    ObservedXr {
        xr_exists: false,
        crossplane_ready: false,
        terminal_failure: false,
        node: Unregistered,
        residue: false,
    }
}

fn standing() -> ObservedXr {
    ObservedXr { xr_exists: true, ..nothing_there() }
}

fn up() -> ObservedXr {
    ObservedXr { crossplane_ready: true, ..standing() }
}

impl ObservedXr {
    fn with(self, node: NodeObservation) -> Self {
        Self { node, ..self }
    }

    fn failed(self) -> Self {
        Self { terminal_failure: true, ..self }
    }

    fn with_residue(self) -> Self {
        Self { residue: true, ..self }
    }
}

/// Why, in which phase, what was seen, and what follows.
type Row = (&'static str, Phase, ObservedXr, Action, Phase);

#[rustfmt::skip]
#[test]
fn each_decision_on_the_way_up_has_its_reason() {
    let unknown = Phase::from_wire("Hibernating");
    let rows: &[Row] = &[
        ("a fresh declaration is applied", Pending, nothing_there(), Apply, Pending),
        ("it stays Pending until the object is seen to stand", Pending, nothing_there().with_residue(), Apply, Pending),
        ("a standing object is Provisioning until Crossplane says Ready", Pending, standing(), Apply, Provisioning),
        ("manifests are kept applied while the substrate comes up", Provisioning, standing(), Apply, Provisioning),
        ("substrate that is up is not the end: the Node must enrol", Provisioning, up(), Apply, Enrolling),
        ("it waits for the token to be consumed", Enrolling, up(), Apply, Enrolling),
        ("the Node enrolled", Enrolling, up().with(Registered), Noop, Ready),
        ("phases in between are not waited for", Pending, up().with(Registered), Noop, Ready),
        ("a standalone resource is Ready when Crossplane says so", Provisioning, up().with(NotExpected), Noop, Ready),
        ("a standalone resource never enrols", Enrolling, up().with(NotExpected), Noop, Ready),
        ("a standalone resource is applied like any other", Pending, nothing_there().with(NotExpected), Apply, Pending),
        ("Ready stays Ready", Ready, up().with(Registered), Noop, Ready),
        ("a Node that was lost is waited for again", Ready, up(), Apply, Enrolling),
        ("substrate that flaps goes back to Provisioning", Ready, standing().with(Registered), Apply, Provisioning),
        ("a composite resource deleted out of band is applied again, from Ready", Ready, nothing_there().with(Registered), Apply, Pending),
        ("… from Enrolling", Enrolling, nothing_there(), Apply, Pending),
        ("… from Provisioning", Provisioning, nothing_there(), Apply, Pending),
        ("… also when composed objects of the old one still live", Ready, nothing_there().with_residue(), Apply, Pending),
        ("the terminal mark fails a resource that is coming up", Provisioning, standing().failed(), Noop, Failed),
        ("the terminal mark comes before readiness", Enrolling, up().with(Registered).failed(), Noop, Failed),
        ("the terminal mark fails a resource that was Ready", Ready, up().with(Registered).failed(), Noop, Failed),
        ("the terminal mark fails a resource that was never seen", Pending, standing().failed(), Noop, Failed),
        ("Failed stays, even if everything looks healthy later", Failed, up().with(Registered), Noop, Failed),
        ("Failed stays when nothing is there", Failed, nothing_there(), Noop, Failed),
        ("an unknown phase on the wire is Pending: start over", unknown, nothing_there(), Apply, Pending),
        ("an unknown phase derives from facts like any other", unknown, up().with(Registered), Noop, Ready),
    ];
    check(rows);
}

#[rustfmt::skip]
#[test]
fn each_decision_on_the_way_down_has_its_reason() {
    let rows: &[Row] = &[
        ("teardown drains the Node first", Deregistering, up().with(Registered), DeregisterNode, Deregistering),
        ("the Node is drained even if the substrate is already gone", Deregistering, nothing_there().with(Registered), DeregisterNode, Deregistering),
        ("a Node that came back is drained again before anything else", Deprovisioning, up().with(Registered), DeregisterNode, Deregistering),
        ("without a Node the substrate goes", Deregistering, up(), DeleteSubstrate, Deprovisioning),
        ("a standalone resource has no Node to drain", Deregistering, up().with(NotExpected), DeleteSubstrate, Deprovisioning),
        ("deletion is asked for until the object is gone", Deprovisioning, standing(), DeleteSubstrate, Deprovisioning),
        ("what the object composed is waited for, too", Deprovisioning, nothing_there().with_residue(), DeleteSubstrate, Deprovisioning),
        ("residue alone holds a teardown that just began", Deregistering, nothing_there().with_residue(), DeleteSubstrate, Deprovisioning),
        ("everything is gone", Deprovisioning, nothing_there(), Noop, Deleted),
        ("an object deleted out of band needs no second deletion", Deregistering, nothing_there(), Noop, Deleted),
        ("there was nothing standalone to begin with", Deregistering, nothing_there().with(NotExpected), Noop, Deleted),
        ("teardown never turns back, healthy as it may look", Deprovisioning, up(), DeleteSubstrate, Deprovisioning),
        ("a terminal mark does not stop a teardown", Deregistering, standing().failed(), DeleteSubstrate, Deprovisioning),
        ("a rollback drains first, like every teardown", Deregistering, standing().failed().with(Registered), DeregisterNode, Deregistering),
        ("Deleted stays when nothing is there", Deleted, nothing_there(), Noop, Deleted),
        ("Deleted stays whatever is seen", Deleted, up().with(Registered).with_residue(), Noop, Deleted),
    ];
    check(rows);
}

fn check(rows: &[Row]) {
    for (why, current, facts, action, phase) in rows {
        assert_eq!(next(facts, *current), (*action, *phase), "{why}: {current} with {facts:?}");
    }
}

/// Runs a check on every cell of the grid: 8 phases by 48 observations.
fn on_the_whole_grid(check: impl Fn(ObservedXr, Phase, Action, Phase)) {
    for current in Phase::ALL {
        for facts in ObservedXr::every() {
            let (action, phase) = next(&facts, current);
            check(facts, current, action, phase);
        }
    }
}

/// The table, written a second time and in another form: first match wins.
#[test]
fn every_cell_is_as_the_table_says() {
    type Rule = (fn(&ObservedXr) -> bool, Action, Phase);
    let up: &[Rule] = &[
        (|seen| seen.terminal_failure, Noop, Failed),
        (|seen| !seen.xr_exists, Apply, Pending),
        (|seen| !seen.crossplane_ready, Apply, Provisioning),
        (|seen| seen.node == Unregistered, Apply, Enrolling),
        (|_| true, Noop, Ready),
    ];
    let down: &[Rule] = &[
        (|seen| seen.node == Registered, DeregisterNode, Deregistering),
        (|seen| seen.xr_exists || seen.residue, DeleteSubstrate, Deprovisioning),
        (|_| true, Noop, Deleted),
    ];
    on_the_whole_grid(|facts, current, action, phase| {
        let rules: &[Rule] = match current {
            Pending | Provisioning | Enrolling | Ready => up,
            Failed => &[(|_| true, Noop, Failed)],
            Deregistering | Deprovisioning => down,
            Deleted => &[(|_| true, Noop, Deleted)],
        };
        let (_, due, to) = rules.iter().find(|(matches, ..)| matches(&facts)).unwrap();
        assert_eq!((action, phase), (*due, *to), "{current} with {facts:?}");
    });
}

/// Invariant: legal edges only (S1), and the function is total: every cell has an answer.
#[test]
fn every_answer_is_a_legal_edge() {
    on_the_whole_grid(|facts, current, _, phase| {
        assert!(current.can_become(phase), "{current} to {phase} with {facts:?}");
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

/// Invariant: teardown never leads back into convergence, and convergence never into teardown: nothing is
/// deleted or deregistered but on request (S8).
#[test]
fn the_way_up_and_the_way_down_are_apart() {
    on_the_whole_grid(|facts, current, action, phase| {
        assert_eq!(current.is_teardown(), phase.is_teardown(), "{current} with {facts:?}");
        if current.is_teardown() {
            assert_ne!(action, Apply, "{current} with {facts:?}");
        } else {
            assert!(
                !matches!(action, DeregisterNode | DeleteSubstrate),
                "{current} with {facts:?}"
            );
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

/// Invariant: a crossing into Ready implies a standing object that Crossplane calls ready, and a Node if
/// one is expected (S11).
#[test]
fn ready_is_earned() {
    on_the_whole_grid(|facts, _, _, phase| {
        if phase == Ready {
            assert!(facts.xr_exists && facts.crossplane_ready && !facts.terminal_failure);
            assert_ne!(facts.node, Unregistered);
        }
    });
}

/// Invariant: the same facts twice change nothing more.
#[test]
fn deciding_again_on_the_same_facts_changes_nothing() {
    on_the_whole_grid(|facts, _, action, phase| {
        if phase == Failed || phase == Deleted {
            assert_eq!(next(&facts, phase), (Noop, phase));
        } else {
            assert_eq!(next(&facts, phase), (action, phase), "{facts:?}");
        }
    });
}
