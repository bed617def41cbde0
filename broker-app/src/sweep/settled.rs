//! Selects the rows of a page that are Ready and need no pass; `explain_all` skips their inspection.

use std::collections::BTreeSet;

use broker_domain::{Phase, ProvisionedResourceId};
use broker_ports::{CachedXr, ConditionStatus, ConfigPresence, SpecState, SweepPage};
use broker_render::ProviderProfiles;

use super::orphan_scan::{Kinds, Swept};
use super::snapshot::{SnapshotReader, SnapshotRow};
use super::triage::{Triage, triage};
use crate::deadline::TimedPorts;
use crate::error::Error;

/// The rows that are Ready and in sync by the watch cache, with nothing for a sweep to do. Costs the same requests as
/// one page of a sweep.
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
    let (mut kinds, mut swept) = (Kinds::default(), Swept::default());
    page.rows.iter().for_each(|row| swept.visit(row));
    kinds.learn(profiles, &swept, &mut snapshots).await;
    let mut settled = BTreeSet::new();
    for SnapshotRow { row, snapshot } in snapshots.of_page(&page.rows, &kinds).await? {
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
