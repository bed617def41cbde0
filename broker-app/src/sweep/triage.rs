//! The sweep's decision about one row, pure: is there anything to do?
//!
//! What a cache shows is a hint. It is enough to see that nothing has to be done; it is never acted on. A row
//! that needs attention gets a pass, which reads everything again.

use broker_domain::{Action, NodeObservation, OnFailure, Phase, next};
use broker_ports::{Arming, CachedXr, CompactRow, ConfigPresence, Lane};
use broker_render::{Armed, Digest};
use time::OffsetDateTime;

use crate::observe::{facts, needs_config};

/// What a sweep knows about one row.
pub(super) struct TriageInput<'a> {
    pub(super) row: &'a CompactRow,
    pub(super) cached: &'a CachedXr,
    pub(super) node: NodeObservation,
    /// The digest of what would be applied now, where the row has to be compared with it; `None` when it
    /// could not be rendered.
    pub(super) desired: Option<Digest>,
    /// The Project's namespace takes objects.
    pub(super) namespace_ready: bool,
    /// The facts are those of the last sweep.
    pub(super) unchanged: bool,
    /// The store's clock.
    pub(super) now: OffsetDateTime,
}

/// What to do about a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Triage {
    /// Nothing.
    None,
    /// Nothing now: somebody else is at it, it is paused, or it waits for its next attempt.
    Waiting,
    /// A pass.
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
            on_the_way_up(input)
        }
        Phase::Failed => row.on_failure == OnFailure::Rollback,
        // Whatever else is left shows only in a direct read; while the composite resource is on its way out
        // there is nothing to do but wait.
        Phase::Deprovisioning => {
            let leaving = matches!(cached, CachedXr::Present { status, .. } if status.deleting);
            !(leaving && row.token_closed && input.node != NodeObservation::Registered)
        }
        Phase::Deregistering => true,
        Phase::Deleted => false,
    }
}

/// The ProviderConfig is missing while a provider needs it, by the rule of a pass.
fn misses_config(input: &TriageInput<'_>) -> bool {
    let TriageInput { row, cached, namespace_ready, .. } = input;
    let CachedXr::Present { status, config: ConfigPresence::Missing, .. } = cached else {
        return false;
    };
    let composed_left = false;
    needs_config(row.phase, Some(status), composed_left) && *namespace_ready
}

fn on_the_way_up(input: &TriageInput<'_>) -> bool {
    let TriageInput { row, cached, node, desired, namespace_ready, .. } = input;
    let CachedXr::Present { version, status, armed, owned, references, .. } = cached else {
        // Absent, perhaps. A fresh declaration whose namespace is not ready has nothing to wait for here.
        return row.phase != Phase::Pending || *namespace_ready;
    };
    // The cache does not show what it composed, and only a teardown asks for that.
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
            // What is being deleted is left alone until it is gone.
            let own = Armed::of(row.mesh_role, row.bootstrap_token_id).map(Arming::Armed);
            !status.deleting && (own != Some(*armed) || *desired != Some(*owned))
        }
        Action::DeregisterNode | Action::DeleteSubstrate => true,
    }
}
