//! Which rows of a page are Ready and leave nothing to do, for whoever only wants to know that.

use std::collections::BTreeSet;

use broker_domain::{Phase, ProvisionedResourceId};
use broker_ports::{CachedXr, ConditionStatus, Deadlines, ReconcilerPorts, SweepPage};

use super::attention::{Attention, attention};
use super::glance::{Looked, Observations};
use crate::error::Error;

/// Those that are Ready, as the cache shows it, and well: a sweep would do nothing about them, and Crossplane
/// keeps them up to date. The same questions as a sweep asks for a page, and no other.
///
/// # Errors
///
/// When the cluster could not be asked at all.
pub(crate) async fn settled(
    ports: &ReconcilerPorts,
    deadlines: Deadlines,
    page: &SweepPage,
) -> Result<BTreeSet<ProvisionedResourceId>, Error> {
    let mut observations = Observations::new(ports, deadlines);
    let mut settled = BTreeSet::new();
    for Looked { row, glance } in observations.of_page(&page.rows).await? {
        let Ok(facts) = glance else { continue };
        let synced = match &facts.cached {
            CachedXr::Seen { status, .. } => status.synced != Some(ConditionStatus::False),
            CachedXr::Absent => false,
        };
        let attention = attention(&facts.as_seen_by(row, true, page.now));
        if row.phase == Phase::Ready && synced && attention == Attention::None {
            settled.insert(row.id);
        }
    }
    Ok(settled)
}
