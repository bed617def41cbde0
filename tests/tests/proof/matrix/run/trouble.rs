//! What a person has to help with: an event that is refused until it is set aside, and so much missing at once that the
//! brake is pulled. Each befalls one workflow before its own rounds, so that the calls which it takes have their cells.

use broker_app::{Error, Service};
use broker_domain::{ClusterId, Phase, ProvisionedResource};
use broker_ports::{EventsOf, FailureClass, Outbox, Redrive, Schedule};
use broker_testkit::builders::rows;
use broker_tests::world::{STANDALONE, declaration, operator};
use tokio::time::timeout;

use super::{Declared, MOST_ASKED, Mishap, Run, Who, Workflow, patience};
use crate::simulation::Kind;

/// More than may be missing before the brake is pulled, whatever becomes of the one that the workflow is about.
const BYSTANDERS: usize = 6;
/// All attempts at a delivery but the last, which the workflow begins with.
const REFUSED_BEFORE: u8 = 2;

/// Before the calls that the plan means.
impl Run {
    /// The sink rejects the resource's events, and has done so before.
    pub(super) async fn take_the_sink_away(&self) {
        self.world.sink.refuse(self.id(), Some(FailureClass::Rejected));
        for _ in 0..REFUSED_BEFORE {
            let report = self.world.other_relay().deliver_batch().await.unwrap();
            assert_eq!((report.rejected, report.dead_letter), (1, 0), "it may be tried once more");
            self.world.let_leases_end();
        }
    }

    /// Others are Ready, and every event of theirs is delivered.
    pub(super) async fn surround(&mut self) {
        for _ in 0..BYSTANDERS {
            let ready = self.world.brought_to(Phase::Ready, &declaration(STANDALONE)).await;
            self.bystanders.push(ready);
        }
        while self.world.other_relay().deliver_batch().await.unwrap().was_busy() {}
    }

    /// Somebody deletes the composite resource, and the watch loses sight of all the others.
    pub(super) fn lose(&self) {
        let own = self.resource.as_ref().unwrap();
        self.world.cluster.delete_in_background(&self.world.xr(own));
        for bystander in &self.bystanders {
            self.world.cluster.miss_in_cache(&self.world.xr(bystander));
        }
    }
}

impl Run {
    /// Everything that there is, and what its callers want.
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

    /// What machines cannot settle by themselves: it is noticed, nothing comes of it, and a person ends it.
    pub(super) async fn face_trouble(
        &mut self,
        mishap: Mishap,
        declared: &[Declared],
    ) -> Result<(), String> {
        if self.workflow == Workflow::Delete {
            self.hold_the_events_back(mishap).await?;
        } else if self.workflow == Workflow::ReProvision {
            self.hold_everything_back(mishap, declared).await?;
        }
        self.get_help(mishap).await
    }

    /// Whoever comes to the last attempt sets the event aside, and no later one of the resource overtakes it.
    async fn hold_the_events_back(&mut self, mishap: Mishap) -> Result<(), String> {
        for _ in 0..MOST_ASKED {
            if !self.has_error().await {
                self.deliver(mishap).await;
            }
        }
        if !self.has_error().await {
            return Err("an event was refused again and again, and is not set aside".to_owned());
        }
        self.world.sink.refuse(self.id(), None);
        self.deliver(mishap).await;
        match self.world.sink.deliveries_of(self.id()).len() {
            0 => Ok(()),
            many => Err(format!("S3: {many} events have overtaken one that is set aside")),
        }
    }

    /// A sweep pulls the brake, and while it is on nothing is made: not while the composite resource goes, nor when it
    /// is gone.
    async fn hold_everything_back(
        &mut self,
        mishap: Mishap,
        declared: &[Declared],
    ) -> Result<(), String> {
        for _ in 0..MOST_ASKED {
            if !self.has_error().await {
                self.sweep(mishap).await;
            }
        }
        if !self.has_error().await {
            return Err("S8: too much is missing to believe it, and the brake is off".to_owned());
        }
        let xr = self.world.xr(self.resource.as_ref().unwrap());
        for _ in 0..2 {
            let stood = self.world.cluster.stands(&xr);
            self.pass(mishap, declared).await?;
            let made = !stood && self.world.cluster.stands(&xr);
            // An old answer about the brake is that of a pass which asked before it was pulled, and such a pass goes on.
            if made && mishap != Mishap::Stale {
                return Err("S8: the brake is on, and what was missing is made anew".to_owned());
            }
            self.outside();
        }
        self.world.cluster.catch_up_cache();
        Ok(())
    }

    /// A person asks until it is answered, and then the trouble is over. An old answer may bring it back later: that
    /// everything is missing, say.
    pub(super) async fn get_help(&mut self, mishap: Mishap) -> Result<(), String> {
        if !self.has_error().await {
            return Ok(());
        }
        for _ in 0..MOST_ASKED {
            if let Ok(Ok(())) = timeout(patience(mishap), self.helped(&self.caller)).await {
                if self.has_error().await {
                    return Err("the operator was told that it is over, and it is not".to_owned());
                }
                return Ok(());
            }
            self.recover(mishap, Who::Operator).await;
        }
        Err(format!("the operator asked {MOST_ASKED} times and was not answered"))
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
