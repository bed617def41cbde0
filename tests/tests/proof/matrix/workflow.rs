//! Five workflows, each of which can be lived through with one call going wrong.

use std::fmt;
use std::time::Duration;

use broker_app::{Passed, Reconciler};
use broker_domain::{OnFailure, Phase, ProvisionedResource};
use broker_ports::PortName;
use broker_ports::memory::Behaviour;
use broker_ports::testing::faults::{Fault, FaultPlan, Late};
use broker_tests::world::{NODE, World, declaration, operator};
use tokio::time::timeout;

use super::Call;
use super::mishap::{AN_HOUR, Mishap};
use crate::simulation::{Declared, Kind, at_rest, kept, nothing_left, unharmed};

/// One constant for every check of this repository, and what a fault may cost beside it.
const MOST_ROUNDS: usize = 12 + 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Workflow {
    Create,
    CreateAndRollBack,
    Delete,
    ReProvision,
    TakeOver,
}

/// A call that a workflow makes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Made {
    pub(super) call: Call,
    pub(super) nth: u64,
    /// Something else would have been answered before.
    pub(super) could_be_stale: bool,
}

/// Shorter than any deadline.
const A_MOMENT: Duration = Duration::from_secs(1);
impl Workflow {
    pub(super) const ALL: [Self; 5] =
        [Self::Create, Self::CreateAndRollBack, Self::Delete, Self::ReProvision, Self::TakeOver];

    const fn end(self) -> Phase {
        match self {
            Self::Create | Self::ReProvision | Self::TakeOver => Phase::Ready,
            Self::CreateAndRollBack | Self::Delete => Phase::Deleted,
        }
    }

    /// Which calls it makes once it has begun.
    pub(super) async fn calls(self) -> Vec<Made> {
        let mut run = Run::begin(self, self.plan().remembering()).await;
        let before = run.world.faults.calls();
        run.go_on(Mishap::Before).await.expect("nothing goes wrong");
        let (after, stale) = (run.world.faults.calls(), run.world.faults.stale_calls());
        let mut made = Vec::new();
        for (call @ (port, method), last) in after {
            let first = before.get(&call).copied().unwrap_or(0) + 1;
            made.extend((first..=last).map(|nth| {
                let could_be_stale = stale.contains(&(port, method, nth));
                Made { call, nth, could_be_stale }
            }));
        }
        made
    }

    /// Lives through it while one call goes wrong.
    pub(super) async fn survive(self, call: Call, nth: u64, mishap: Mishap) -> Result<(), String> {
        let (port, method) = call;
        let plan = self.plan().on(port, method, nth, mishap.fault());
        let mut run = Run::begin(self, plan).await;
        run.go_on(mishap).await?;
        let log = run.world.faults.log();
        let fired = log
            .entries()
            .iter()
            .filter(|fired| (fired.port, fired.method, fired.nth) == (port, method, nth));
        match fired.count() {
            1 => Ok(()),
            times => Err(format!("it fired {times} times")),
        }
    }

    /// What goes wrong before it begins.
    fn plan(self) -> FaultPlan {
        let dies = Fault::Delay { by: AN_HOUR, late: Late::Never };
        match self {
            Self::TakeOver => FaultPlan::none().on(PortName::Cluster, "apply", 2, dies),
            Self::Create | Self::CreateAndRollBack | Self::Delete | Self::ReProvision => {
                FaultPlan::none()
            }
        }
    }
}

struct Run {
    world: World,
    worker: Reconciler,
    resource: ProvisionedResource,
    workflow: Workflow,
}

impl Run {
    /// Up to where the workflow begins.
    async fn begin(workflow: Workflow, plan: FaultPlan) -> Self {
        let world = World::with_faults(plan);
        let ports = world.ports.clone();
        let worker = world.replica_with("replica-2", |to| *to = ports);
        let wanted = match workflow {
            Workflow::CreateAndRollBack => declaration(NODE).on_failure(OnFailure::Rollback),
            Workflow::Create | Workflow::Delete | Workflow::ReProvision | Workflow::TakeOver => {
                declaration(NODE)
            }
        };
        let resource = world.declare(&wanted).await.unwrap();
        let id = resource.id();
        let mut run = Self { world, worker, resource, workflow };
        match workflow {
            Workflow::Create => {}
            Workflow::CreateAndRollBack => {
                run.world.cluster.behave_for(id, Behaviour::failing_after(1, "out of quota"));
            }
            Workflow::Delete => {
                run.reach(Phase::Ready).await;
                run.world.service.deprovision(&operator(), id).await.unwrap();
            }
            Workflow::ReProvision => {
                run.reach(Phase::Ready).await;
                let xr = run.world.xr(&run.resource);
                run.world.cluster.delete_in_background(&xr);
            }
            Workflow::TakeOver => {
                let cut_off = timeout(A_MOMENT, run.world.reconciler.reconcile(id)).await;
                assert!(cut_off.is_err(), "the first worker dies while it applies");
                run.world.let_leases_end();
            }
        }
        run
    }

    /// Before the calls that the plan means: nothing of the workflow itself has begun.
    async fn reach(&mut self, phase: Phase) {
        for _ in 0..MOST_ROUNDS {
            self.worker.reconcile(self.resource.id()).await.unwrap();
            self.world.sweeper.sweep().await.unwrap();
            self.outside();
            self.resource = self.world.get(self.resource.id()).await;
            if self.resource.phase() == phase {
                return;
            }
        }
        panic!("{} is in {}, not in {phase}", self.resource.id(), self.resource.phase());
    }

    fn outside(&self) {
        self.world.clock.advance(Duration::from_secs(1));
        self.world.cluster.tick();
        self.world.boot_agents();
    }

    /// Rounds until everything is where it should be.
    async fn go_on(&mut self, mishap: Mishap) -> Result<(), String> {
        let id = self.resource.id();
        let relay = self.world.relay();
        let kind = match self.workflow {
            Workflow::CreateAndRollBack => Kind::RolledBack,
            Workflow::Create | Workflow::Delete | Workflow::ReProvision | Workflow::TakeOver => {
                Kind::Node
            }
        };
        let deleted = self.workflow == Workflow::Delete;
        let declared = [Declared { id, kind, deleted }];
        let mut wrong = Err("it was not tried".to_owned());
        let patience = if mishap.cuts_off() { A_MOMENT } else { AN_HOUR / 2 };
        for _ in 0..MOST_ROUNDS {
            let passed = timeout(patience, self.worker.reconcile(id)).await;
            if matches!(passed, Ok(Ok(Passed::Through { to: Phase::Deleted, .. }))) {
                // Before a sweep finds it: that would remove what a teardown has missed.
                nothing_left(&self.world, &declared).await?;
            }
            if matches!(passed, Err(_) | Ok(Err(_) | Ok(Passed::NotClaimed))) {
                self.recover(mishap).await;
            }
            unharmed(&self.world, &declared).await?;
            let swept = timeout(patience, self.world.sweeper.sweep()).await;
            if matches!(swept, Err(_) | Ok(Err(_))) {
                self.recover(mishap).await;
            }
            // An event that could not be delivered is delivered by the next batch.
            if !relay.deliver_batch().await.is_ok_and(|report| report.delivered > 0) {
                // What was claimed is free again when the claim is over.
                self.world.let_leases_end();
            }
            self.outside();
            wrong = at_rest(&self.world, &declared).await;
            if wrong.is_ok() && self.world.get(id).await.phase() == self.workflow.end() {
                return kept(&self.world, &declared).await;
            }
        }
        wrong
    }

    /// The lease of whoever failed or died ends, and what was under way arrives, sooner or later.
    async fn recover(&self, mishap: Mishap) {
        if mishap == Mishap::CrashAfter {
            self.world.faults.land_all().await;
        }
        self.world.let_leases_end();
        if mishap == Mishap::PastTheLease {
            let _anything = self.world.replica("replica-3").reconcile(self.resource.id()).await;
            self.world.faults.land_all().await;
        }
    }
}

impl fmt::Display for Workflow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Create => "create",
            Self::CreateAndRollBack => "create, roll back",
            Self::Delete => "delete",
            Self::ReProvision => "re-provision",
            Self::TakeOver => "take over",
        })
    }
}
