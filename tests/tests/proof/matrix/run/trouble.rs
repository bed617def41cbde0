//! Trouble that an operator must resolve: an event that is rejected until it is dead-lettered, and
//! a mass disappearance that sets the brake. Each affects one workflow before its own rounds, so
//! that the calls involved have cells too.

use broker_app::{Error, Service};
use broker_domain::{ClusterId, Phase, ProvisionedResource};
use broker_ports::{EventsOf, FailureClass, Outbox, Redrive, Schedule};
use broker_testkit::builders::rows;
use broker_tests::world::{STANDALONE, declaration, operator};
use tokio::time::timeout;

use super::{Declared, MOST_ASKED, Mishap, Run, Who, Workflow, timeout_under};
use crate::simulation::Kind;

/// More than may be missing before the brake is set, whatever happens to the workflow's own
/// resource.
const BYSTANDERS: usize = 6;
/// All attempts at a delivery but the last, with which the workflow begins.
const REFUSED_BEFORE: u8 = 2;

impl Run {
    /// The sink rejects the resource's events, and has done so before.
    pub(super) async fn make_sink_reject(&self) {
        self.world.sink.refuse(self.id(), Some(FailureClass::Rejected));
        for _ in 0..REFUSED_BEFORE {
            let report = self.world.other_relay().deliver_batch().await.unwrap();
            assert_eq!((report.rejected, report.dead_letter), (1, 0), "it may be tried once more");
            self.world.expire_leases();
        }
    }

    /// Others are Ready, and all their events are delivered.
    pub(super) async fn add_bystanders(&mut self) {
        for _ in 0..BYSTANDERS {
            let ready = self.world.declare_until(Phase::Ready, &declaration(STANDALONE)).await;
            self.bystanders.push(ready);
        }
        while self.world.other_relay().deliver_batch().await.unwrap().was_busy() {}
    }

    /// Another party deletes the composite resource, and the watch loses all others.
    pub(super) fn lose(&self) {
        let own = self.resource.as_ref().unwrap();
        self.world.cluster.delete_in_background(&self.world.xr(own));
        for bystander in &self.bystanders {
            self.world.cluster.miss_in_cache(&self.world.xr(bystander));
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

    /// A condition that only an operator can resolve: it is reported, nothing happens, and the
    /// operator ends it.
    pub(super) async fn meet_trouble(
        &mut self,
        mishap: Mishap,
        declared: &[Declared],
    ) -> Result<(), String> {
        if self.workflow == Workflow::Delete {
            self.check_dead_letter(mishap).await?;
        } else if self.workflow == Workflow::ReProvision {
            self.check_brake(mishap, declared).await?;
        }
        self.resolve_trouble(mishap).await
    }

    /// The relay that makes the last attempt dead-letters the event, and no later event of the
    /// resource overtakes it.
    async fn check_dead_letter(&mut self, mishap: Mishap) -> Result<(), String> {
        for _ in 0..MOST_ASKED {
            if !self.has_error().await {
                self.deliver(mishap).await;
            }
        }
        if !self.has_error().await {
            return Err("an event was rejected repeatedly and is not dead-lettered".to_owned());
        }
        self.world.sink.refuse(self.id(), None);
        self.deliver(mishap).await;
        match self.world.sink.deliveries_of(self.id()).len() {
            0 => Ok(()),
            many => Err(format!("S3: {many} events have overtaken a dead-lettered one")),
        }
    }

    /// A sweep sets the brake. While it is set nothing is created: neither during the deletion of
    /// the composite resource nor after it.
    async fn check_brake(&mut self, mishap: Mishap, declared: &[Declared]) -> Result<(), String> {
        for _ in 0..MOST_ASKED {
            if !self.has_error().await {
                self.sweep(mishap).await;
            }
        }
        if !self.has_error().await {
            return Err("S8: a mass disappearance did not set the brake".to_owned());
        }
        let xr = self.world.xr(self.resource.as_ref().unwrap());
        for _ in 0..2 {
            let stood = self.world.cluster.exists(&xr);
            self.pass(mishap, declared).await?;
            let made = !stood && self.world.cluster.exists(&xr);
            // A stale answer about the brake is like a pass that read it before it was set: such a
            // pass continues.
            if made && mishap != Mishap::Stale {
                return Err("S8: the brake is set, and a missing object was recreated".to_owned());
            }
            self.outside();
        }
        self.world.cluster.catch_up_cache();
        Ok(())
    }

    /// The operator repeats the command until it is answered; then the trouble is over. A stale
    /// read may bring it back later, for example a second mass disappearance.
    pub(super) async fn resolve_trouble(&mut self, mishap: Mishap) -> Result<(), String> {
        if !self.has_error().await {
            return Ok(());
        }
        for _ in 0..MOST_ASKED {
            if let Ok(Ok(())) = timeout(timeout_under(mishap), self.helped(&self.caller)).await {
                if self.has_error().await {
                    return Err("the command succeeded, and the trouble persists".to_owned());
                }
                return Ok(());
            }
            self.recover(mishap, Who::Operator).await;
        }
        Err(format!("the operator got no answer in {MOST_ASKED} attempts"))
    }

    pub(super) async fn helped(&self, service: &Service) -> Result<(), Error> {
        if self.workflow == Workflow::Delete {
            service.redrive_events(&operator(), self.id(), Redrive::Retry).await?;
        } else if self.workflow == Workflow::ReProvision {
            let project = self.resource.as_ref().map(ProvisionedResource::project_id);
            service.release_brake(&operator(), self.cluster(), project).await?;
        }
        Ok(())
    }

    async fn has_error(&self) -> bool {
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
        own.expect("it was applied there")
    }
}
