//! Decide. One pure function says what to do and where the resource then stands.

use crate::action::Action;
use crate::observed::{NodeObservation, ObservedXr};
use crate::phase::Phase;

/// Decides, from live facts and the current phase alone, what to do and which phase that leads to.
///
/// Total and pure: no clock, no I/O, no logging, no error. What time or policy has to say comes in as
/// data, elsewhere. The whole function is printed, cell by cell, in `docs/state-machine.md`.
///
/// - On the way up the phase is derived anew each time, so a composite resource that vanished is simply
///   applied again. A terminal failure is looked at first: it may come with `Ready` still standing.
/// - [`Phase::Failed`] and [`Phase::Deleted`] stay, whatever is observed.
/// - On the way down the Node is looked at before the substrate, so nothing is deleted under a live Node.
///
/// ```
/// use broker_domain::{Action, NodeObservation, ObservedXr, Phase, next};
///
/// let mut facts = ObservedXr {
///     xr_exists: true,
///     crossplane_ready: true,
///     terminal_failure: false,
///     node: NodeObservation::Registered,
///     residue: true,
/// };
/// assert_eq!(next(&facts, Phase::Enrolling), (Action::Noop, Phase::Ready));
///
/// // The same facts on the way down: the Node goes first …
/// assert_eq!(next(&facts, Phase::Deregistering), (Action::DeregisterNode, Phase::Deregistering));
/// // … and only then the substrate.
/// facts.node = NodeObservation::Unregistered;
/// assert_eq!(next(&facts, Phase::Deregistering), (Action::DeleteSubstrate, Phase::Deprovisioning));
/// ```
pub const fn next(observed: &ObservedXr, current: Phase) -> (Action, Phase) {
    match current {
        Phase::Pending | Phase::Provisioning | Phase::Enrolling | Phase::Ready => {
            converge(*observed)
        }
        Phase::Failed => (Action::Noop, Phase::Failed),
        Phase::Deregistering | Phase::Deprovisioning => tear_down(*observed),
        Phase::Deleted => (Action::Noop, Phase::Deleted),
    }
}

const fn converge(observed: ObservedXr) -> (Action, Phase) {
    if observed.terminal_failure {
        (Action::Noop, Phase::Failed)
    } else if !observed.xr_exists {
        (Action::Apply, Phase::Pending)
    } else if !observed.crossplane_ready {
        (Action::Apply, Phase::Provisioning)
    } else {
        match observed.node {
            NodeObservation::Unregistered => (Action::Apply, Phase::Enrolling),
            NodeObservation::NotExpected | NodeObservation::Registered => {
                (Action::Noop, Phase::Ready)
            }
        }
    }
}

const fn tear_down(observed: ObservedXr) -> (Action, Phase) {
    match observed.node {
        NodeObservation::Registered => (Action::DeregisterNode, Phase::Deregistering),
        NodeObservation::NotExpected | NodeObservation::Unregistered => {
            if observed.xr_exists || observed.residue {
                (Action::DeleteSubstrate, Phase::Deprovisioning)
            } else {
                (Action::Noop, Phase::Deleted)
            }
        }
    }
}

#[cfg(test)]
mod tests;
