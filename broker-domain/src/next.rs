//! Decide stage: one pure function from facts and phase to action and phase.

use crate::action::Action;
use crate::observed::{NodeObservation, ObservedXr};
use crate::phase::Phase;

/// Decides the action of a pass and the resulting phase, from live facts and the current phase alone.
///
/// Total and pure: no clock, no I/O, no logging, no error. Time and policy enter as data.
/// `docs/state-machine.md` lists every cell.
///
/// - While converging, the facts alone determine the phase, so a vanished composite resource is applied
///   again. A terminal failure takes precedence: it may coexist with `Ready`.
/// - [`Phase::Failed`] and [`Phase::Deleted`] are sinks: no observation changes them.
/// - In teardown, the Node takes precedence over the substrate: the substrate of a live Node is never deleted.
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
/// // The same facts in teardown: first the Node is deregistered …
/// assert_eq!(next(&facts, Phase::Deregistering), (Action::DeregisterNode, Phase::Deregistering));
/// // … then the substrate is deleted.
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
