//! Conditions that only an operator can resolve: a dead-lettered event, and a brake that a sweep sets after a mass
//! disappearance. Each occurs in one workflow before its rounds, so that the table covers the calls that it causes.

use broker_app::{Error, Service};
use broker_domain::{ClusterId, Phase, ProvisionedResource};
use broker_ports::{EventsOf, FailureClass, Outbox, Redrive, Schedule};
use broker_testkit::builders::rows;
use broker_tests::world::{STANDALONE, declaration, operator};
use tokio::time::timeout;

use super::{Actor, Declared, FaultKind, MAX_ATTEMPTS, Run, Workflow, timeout_under};
use crate::simulation::Kind;

/// The number of other resources: losing them all sets the brake, even without the workflow's own resource.
const BYSTANDERS: usize = 6;
/// The number of rejected attempts before the workflow begins. The workflow makes the last attempt.
const REFUSED_BEFORE: u8 = 2;

impl Run {
    /// Makes the sink reject the resource's events, and uses all delivery attempts but the last.
    pub(super) async fn make_sink_reject(&self) {
        self.world.sink.refuse(self.id(), Some(FailureClass::Rejected));
        for _ in 0..REFUSED_BEFORE {
            let report = self.world.other_relay().deliver_batch().await.unwrap();
            assert_eq!((report.rejected, report.dead_letter), (1, 0), "one attempt is left");
            self.world.expire_leases();
        }
    }

    /// Adds Ready resources, and delivers all their events.
    pub(super) async fn add_bystanders(&mut self) {
        for _ in 0..BYSTANDERS {
            let ready = self.world.declare_until(Phase::Ready, &declaration(STANDALONE)).await;
            self.bystanders.push(ready);
        }
        while self.world.other_relay().deliver_batch().await.unwrap().was_busy() {}
    }

    /// Another party deletes the composite resource, and those of the bystanders disappear from the watch cache.
    pub(super) fn lose_composites(&self) {
        let own = self.resource.as_ref().unwrap();
        self.world.cluster.delete_in_background(&self.world.xr(own));
        for bystander in &self.bystanders {
            self.world.cluster.hide_from_cache(&self.world.xr(bystander));
        }
    }
}

impl Run {
    pub(super) fn declared(&self) -> Vec<Declared> {
        let rolled_back = self.workflow == Workflow::CreateAndRollBack;
        let kind = if rolled_back { Kind::RolledBack } else { Kind::Node };
        let own = Declared { id: self.id(), kind, deleted: self.workflow == Workflow::Delete };
        let old = self.old.iter().map(|old| Declared { id: old.id(), kind, deleted: true });
        let others = self.bystanders.iter().map(|bystander| Declared {
            id: bystander.id(),
            kind: Kind::Standalone,
            deleted: false,
        });
        [own].into_iter().chain(old).chain(others).collect()
    }

    /// Asserts that the condition is reported and blocks its effects, until the operator resolves it.
    pub(super) async fn check_operator_condition(
        &mut self,
        fault_kind: FaultKind,
        declared: &[Declared],
    ) -> Result<(), String> {
        if self.workflow == Workflow::Delete {
            self.check_dead_letter(fault_kind).await?;
        } else if self.workflow == Workflow::ReProvision {
            self.check_brake(fault_kind, declared).await?;
        }
        self.resolve_operator_condition(fault_kind).await
    }

    /// Checks that the last attempt dead-letters the event and that no later event of the resource overtakes it.
    async fn check_dead_letter(&mut self, fault_kind: FaultKind) -> Result<(), String> {
        for _ in 0..MAX_ATTEMPTS {
            if !self.needs_operator().await {
                self.deliver(fault_kind).await;
            }
        }
        if !self.needs_operator().await {
            return Err("an event was rejected repeatedly and is not dead-lettered".to_owned());
        }
        self.world.sink.refuse(self.id(), None);
        self.deliver(fault_kind).await;
        match self.world.sink.deliveries_of(self.id()).len() {
            0 => Ok(()),
            many => Err(format!("S3: {many} events have overtaken a dead-lettered one")),
        }
    }

    /// Checks that a sweep sets the brake. Under the brake nothing is created, neither during the deletion of the
    /// composite resource nor after it.
    async fn check_brake(
        &mut self,
        fault_kind: FaultKind,
        declared: &[Declared],
    ) -> Result<(), String> {
        for _ in 0..MAX_ATTEMPTS {
            if !self.needs_operator().await {
                self.sweep(fault_kind).await;
            }
        }
        if !self.needs_operator().await {
            return Err("S8: a mass disappearance did not set the brake".to_owned());
        }
        let xr = self.world.xr(self.resource.as_ref().unwrap());
        for _ in 0..2 {
            let existed = self.world.cluster.exists(&xr);
            self.pass(fault_kind, declared).await?;
            let recreated = !existed && self.world.cluster.exists(&xr);
            // A stale read of the brake is like a read before the brake was set: the pass continues.
            if recreated && fault_kind != FaultKind::StaleRead {
                return Err("S8: the brake is set, and a missing object was recreated".to_owned());
            }
            self.advance_environment();
        }
        self.world.cluster.catch_up_cache();
        Ok(())
    }

    /// Repeats the operator's command until it succeeds; then the condition must be gone. A stale read
    /// may cause it again later.
    pub(super) async fn resolve_operator_condition(
        &mut self,
        fault_kind: FaultKind,
    ) -> Result<(), String> {
        if !self.needs_operator().await {
            return Ok(());
        }
        for _ in 0..MAX_ATTEMPTS {
            if let Ok(Ok(())) =
                timeout(timeout_under(fault_kind), self.run_operator_command(&self.caller)).await
            {
                if self.needs_operator().await {
                    return Err("the command succeeded, and the condition persists".to_owned());
                }
                return Ok(());
            }
            self.recover(fault_kind, Actor::Operator).await;
        }
        Err(format!("the operator got no response in {MAX_ATTEMPTS} attempts"))
    }

    pub(super) async fn run_operator_command(&self, service: &Service) -> Result<(), Error> {
        if self.workflow == Workflow::Delete {
            service.redrive_events(&operator(), self.id(), Redrive::Retry).await?;
        } else if self.workflow == Workflow::ReProvision {
            let project = self.resource.as_ref().map(ProvisionedResource::project_id);
            service.release_brake(&operator(), self.cluster(), project).await?;
        }
        Ok(())
    }

    async fn needs_operator(&self) -> bool {
        let store = &self.world.store;
        if self.workflow == Workflow::Delete {
            let dead_letter =
                store.dead_letter_events(EventsOf::Resource(self.id()), rows(1)).await;
            !dead_letter.unwrap().is_empty()
        } else if self.workflow == Workflow::ReProvision {
            !store.brakes(self.cluster()).await.unwrap().is_empty()
        } else {
            false
        }
    }

    fn cluster(&self) -> &ClusterId {
        let own = self.resource.as_ref().and_then(|resource| resource.substrate().cluster());
        own.expect("an applied resource has a cluster")
    }
}
