//! Persist: writes the row, its event and its audit line in one transaction.

use broker_domain::{Change, Stamp};
use broker_ports::{Brake, LostObject, Permit, PermitRequest, Write, WriteKind, Written};

use crate::act::EffectExecutor;
use crate::decide::EffectResult;
use crate::error::Error;
use crate::reconcile::Pass;
use crate::telemetry;

/// Writes of the row: one transaction each, guarded by version and epoch.
impl EffectExecutor<'_> {
    pub(crate) fn stamp(&self) -> Stamp {
        let ports = self.pass.ports;
        Stamp::new(ports.ids.event_id(), ports.clock.now())
    }

    /// Commits a change; `None` counts as committed.
    pub(crate) async fn write(
        &self,
        kind: WriteKind,
        change: Option<Change>,
    ) -> Result<EffectResult, Error> {
        let Some(change) = change else {
            return Ok(EffectResult::Committed(Box::new(self.resource.clone())));
        };
        let write = Write::by_worker(&change, self.pass.lease.epoch, &self.pass.by);
        let repository = self.pass.ports.repository.within(self.pass.time_left()?);
        let written = repository.write(|it| it.write(kind, &write)).await?;
        Ok(match written {
            Written::Committed => {
                self.pass.committed(self.resource, &change);
                EffectResult::Committed(Box::new(change.into_resource()))
            }
            Written::Stale | Written::LeaseLost => EffectResult::LostRace,
        })
    }

    /// Checks whether a brake holds the resource. None holds a resource that is not bound to a cluster.
    pub(crate) async fn check_brake(&self) -> Result<EffectResult, Error> {
        let Some(cluster) = self.resource.substrate().cluster() else {
            return Ok(EffectResult::Permitted);
        };
        let schedule = self.pass.ports.schedule.within(self.pass.time_left()?);
        let brakes = schedule.read(|it| it.brakes(cluster)).await?;
        let was_applied = self.resource.substrate().applied().is_some();
        let holds = |brake: &Brake| brake.holds(self.resource.project_id(), was_applied);
        Ok(if brakes.iter().any(holds) { EffectResult::Braked } else { EffectResult::Permitted })
    }

    /// Takes a permit from the budget for automatic destruction; like any write, it is guarded by version and epoch.
    pub(crate) async fn take_permit(&self, lost: LostObject) -> Result<EffectResult, Error> {
        let Pass { lease, config, by, .. } = self.pass;
        let Some(cluster) = self.resource.substrate().cluster().cloned() else {
            return Err(Error::Internal("a permit needs the id of the cluster"));
        };
        let (id, version) = (self.resource.id(), self.resource.version());
        let request =
            PermitRequest::new(lease.clone(), version, cluster, lost, config.allowance, by.clone());
        let schedule = self.pass.ports.schedule.within(self.pass.time_left()?);
        let permit = schedule.write(|it| it.permit(&request)).await?;
        telemetry::permit_requested(permit);
        Ok(match permit {
            Permit::Granted => EffectResult::Permitted,
            Permit::Braked => EffectResult::Braked,
            Permit::OverBudget => {
                let lost = &request.lost;
                tracing::warn!(resource = %id, %lost, "the budget for automatic destruction is spent");
                EffectResult::OverBudget
            }
            Permit::Stale | Permit::LeaseLost => EffectResult::LostRace,
        })
    }

    /// Requests the deletion of a failed resource. Logs at ERROR, because an operator has to know of each rollback.
    pub(crate) async fn roll_back(&self, stamp: Stamp) -> Result<EffectResult, Error> {
        if let Some(failure) = self.resource.failure() {
            tracing::error!(
                resource = %self.resource.id(),
                step = %failure.step(),
                reason = %failure.reason(),
                "a failed resource is rolled back"
            );
        }
        self.write(WriteKind::DeletionIntent, self.resource.request_deletion(stamp)).await
    }
}
