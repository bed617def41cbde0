//! Finds the rows of a page that are Ready and need no pass: `explain_all` does not inspect these.

use std::collections::BTreeSet;

use broker_domain::{Phase, ProvisionedResourceId};
use broker_ports::{CachedXr, ConditionStatus, ConfigPresence, SpecState, SweepPage};
use broker_render::ProviderProfiles;

use super::orphan_scan::{Kinds, VisitedRows};
use super::snapshot::{SnapshotReader, SweptRow};
use super::triage::{Triage, triage};
use crate::deadline::TimedPorts;
use crate::error::Error;

/// The rows that are Ready, in sync according to the watch cache, and without work for a sweep. Sends the same requests
/// as one page of a sweep.
///
/// # Errors
///
/// When the cluster does not answer.
pub(crate) async fn settled(
    ports: &TimedPorts,
    profiles: &ProviderProfiles,
    page: &SweepPage,
) -> Result<BTreeSet<ProvisionedResourceId>, Error> {
    let mut snapshots = SnapshotReader::new(ports);
    let (mut kinds, mut visited) = (Kinds::default(), VisitedRows::default());
    page.rows.iter().for_each(|row| visited.visit(row));
    kinds.learn(profiles, &visited, &mut snapshots).await;
    let mut settled = BTreeSet::new();
    for SweptRow { row, snapshot } in snapshots.of_page(&page.rows, &kinds).await? {
        let Ok(snapshot) = snapshot else { continue };
        let healthy = match &snapshot.cached {
            CachedXr::Present { status, spec, config, .. } => {
                status.synced != Some(ConditionStatus::False)
                    && *spec == SpecState::AsApplied
                    && *config != ConfigPresence::Missing
            }
            CachedXr::Absent => false,
        };
        let triage = triage(&snapshot.triage_input(row, true, page.now));
        if row.phase == Phase::Ready && healthy && triage == Triage::None {
            settled.insert(row.id);
        }
    }
    Ok(settled)
}
