//! Triage: decides whether one row needs a pass. Pure.
//!
//! The watch cache can show that a row needs no pass, but no effect depends on it: a pass reads everything directly.

use broker_domain::{Action, NodeObservation, OnFailure, Phase, next};
use broker_ports::{Arming, CachedXr, CompactRow, ConfigPresence, Lane};
use broker_render::{Armed, Digest};
use time::OffsetDateTime;

use crate::observe::{Gate, facts, needs_config};

pub(super) struct TriageInput<'a> {
    pub(super) row: &'a CompactRow,
    pub(super) cached: &'a CachedXr,
    pub(super) node: NodeObservation,
    /// The digest of what a pass would apply now; `None` if not needed or not renderable.
    pub(super) desired: Option<Digest>,
    pub(super) gate: Gate,
    /// The fingerprint equals that of the last sweep.
    pub(super) unchanged: bool,
    /// The time by the store's clock.
    pub(super) now: OffsetDateTime,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Triage {
    None,
    /// Paused, leased by another worker, or waiting for its next attempt.
    Waiting,
    Pass(Lane),
}

pub(super) fn triage(input: &TriageInput<'_>) -> Triage {
    let TriageInput { row, now, .. } = input;
    let leased = row.lease_until.is_some_and(|until| until > *now);
    if row.paused || leased {
        return Triage::Waiting;
    }
    if !needs_a_pass(input) {
        return Triage::None;
    }
    let backing_off = row.due_at.is_some_and(|due| due > *now);
    if backing_off && input.unchanged {
        return Triage::Waiting;
    }
    Triage::Pass(if row.phase.is_teardown() { Lane::Teardown } else { Lane::Converge })
}

fn needs_a_pass(input: &TriageInput<'_>) -> bool {
    let TriageInput { row, cached, .. } = input;
    if misses_config(input) {
        return true;
    }
    match row.phase {
        Phase::Pending | Phase::Provisioning | Phase::Enrolling | Phase::Ready => {
            converging_needs_a_pass(input)
        }
        Phase::Failed => row.on_failure == OnFailure::Rollback,
        // While the composite resource is being deleted, a pass could only wait.
        Phase::Deprovisioning => {
            let leaving = matches!(cached, CachedXr::Present { status, .. } if status.deleting);
            !(leaving && row.token_closed && input.node != NodeObservation::Registered)
        }
        Phase::Deregistering => true,
        Phase::Deleted => false,
    }
}

/// The ProviderConfig is missing although a provider needs it. A pass has the same rule.
fn misses_config(input: &TriageInput<'_>) -> bool {
    let TriageInput { row, cached, gate, .. } = input;
    let CachedXr::Present { status, config: ConfigPresence::Missing, .. } = cached else {
        return false;
    };
    let composed_left = false;
    needs_config(row.phase, Some(status), composed_left) && gate.is_open()
}

fn converging_needs_a_pass(input: &TriageInput<'_>) -> bool {
    let TriageInput { row, cached, node, desired, gate, .. } = input;
    let CachedXr::Present { version, status, armed, owned, references, .. } = cached else {
        // The composite resource may be absent. A Pending row waits until the gate opens.
        return row.phase != Phase::Pending || gate.is_open();
    };
    // Unknown: the cache does not show composed objects. `next` uses residue in a teardown only.
    let residue = true;
    let (action, phase) = next(&facts(Some(status), row.phase, *node, residue), row.phase);
    let references_recorded = row.references_digest == Some(*references);
    let uid_recorded = *armed == Arming::Shell
        || row.applied.as_ref().is_some_and(|applied| applied.as_str() == version.uid);
    if phase != row.phase || !references_recorded || !uid_recorded {
        return true;
    }
    match action {
        Action::Noop => false,
        Action::Apply => {
            // A pass does not apply to an object that is being deleted.
            let own = Armed::of(row.mesh_role, row.bootstrap_token_id).map(Arming::Armed);
            let held = *armed == Arming::Shell && !gate.is_open();
            !status.deleting && !held && (own != Some(*armed) || *desired != Some(*owned))
        }
        Action::DeregisterNode | Action::DeleteSubstrate => true,
    }
}
