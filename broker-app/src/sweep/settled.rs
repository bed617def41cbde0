//! Which rows of a page are Ready and leave nothing to do, for whoever only wants to know that.

use std::collections::BTreeSet;

use broker_domain::{Phase, ProvisionedResourceId};
use broker_ports::{CachedXr, ConditionStatus, ConfigPresence, SpecState, SweepPage};
use broker_render::ProviderProfiles;

use super::orphan_scan::{Kinds, Swept};
use super::snapshot::{SnapshotReader, SnapshotRow};
use super::triage::{Triage, triage};
use crate::deadline::TimedPorts;
use crate::error::Error;

/// Those that are Ready, as the cache shows it, and well: a sweep would do nothing about them, and Crossplane
/// keeps them up to date. The same questions as a sweep asks for a page, and no other.
///
/// # Errors
///
/// When the cluster could not be asked at all.
pub(crate) async fn settled(
    ports: &TimedPorts,
    profiles: &ProviderProfiles,
    page: &SweepPage,
) -> Result<BTreeSet<ProvisionedResourceId>, Error> {
    let mut observations = SnapshotReader::new(ports);
    let (mut kinds, mut swept) = (Kinds::default(), Swept::default());
    page.rows.iter().for_each(|row| swept.saw(row));
    kinds.learn(profiles, &swept, &mut observations).await;
    let mut settled = BTreeSet::new();
    for SnapshotRow { row, input } in observations.of_page(&page.rows, &kinds).await? {
        let Ok(facts) = input else { continue };
        let well = match &facts.cached {
            CachedXr::Present { status, spec, config, .. } => {
                status.synced != Some(ConditionStatus::False)
                    && *spec == SpecState::AsApplied
                    && *config != ConfigPresence::Missing
            }
            CachedXr::Absent => false,
        };
        let triage = triage(&facts.as_seen_by(row, true, page.now));
        if row.phase == Phase::Ready && well && triage == Triage::None {
            settled.insert(row.id);
        }
    }
    Ok(settled)
}
