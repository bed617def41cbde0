//! One workflow, lived through: the caller asks, then rounds of pass, sweep and relay until everything is where it
//! should be. Whoever fails or dies on the way is followed by somebody else.

mod trouble;

use std::time::Duration;

use broker_app::{Error, PassResult, Reconciler, Relay, Service};
use broker_domain::{
    Declaration, OnFailure, Phase, ProvisionedResource, ProvisionedResourceId, RequestId,
};
use broker_memory::Behaviour;
use broker_ports::{ListQuery, PortName, Repository};
use broker_testkit::builders::rows;
use broker_testkit::faults::{FaultPlan, Faults};
use broker_tests::K;
use broker_tests::world::{NODE, World, declaration, decorated_service, operator};
use tokio::time::timeout;

use super::mishap::Mishap;
use super::workflow::{About, Workflow};
use crate::simulation::{Declared, at_rest, kept, nothing_left, unharmed};

/// What a fault may cost beside K passes.
const MOST_ROUNDS: u8 = K + 3;
/// How often a caller asks who is not answered.
const MOST_ASKED: u8 = 4;
/// Shorter than any deadline.
const A_MOMENT: Duration = Duration::from_secs(1);

/// Who was at work when something went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    Caller,
    Worker,
    Relay,
    Operator,
}

pub(super) struct Run {
    world: World,
    caller: Service,
    worker: Reconciler,
    relay: Relay,
    resource: Option<ProvisionedResource>,
    /// What the resource takes the place of.
    old: Option<ProvisionedResource>,
    /// What else stands on the cluster.
    bystanders: Vec<ProvisionedResource>,
    workflow: Workflow,
    /// How many late requests have arrived.
    pub(super) landed: usize,
    /// Whatever lease there was is over, and nobody has claimed another.
    free: bool,
    /// In which phase the reads of the cluster were made, from which on.
    reading: Vec<(u64, String)>,
}

impl Run {
    /// Up to where the workflow begins.
    pub(super) async fn begin(workflow: Workflow, plan: FaultPlan) -> Self {
        let world = World::with_faults(plan);
        let ports = world.ports.clone();
        let worker = world.replica_with("replica-2", |to| *to = ports);
        let faults = world.faults.clone();
        let caller =
            world.service_rewired(|ports| *ports = decorated_service(ports, &faults), |_| {});
        let relay = world.relay();
        let mut run = Self {
            world,
            caller,
            worker,
            relay,
            resource: None,
            old: None,
            bystanders: Vec::new(),
            workflow,
            landed: 0,
            free: false,
            reading: Vec::new(),
        };
        match workflow {
            Workflow::Create | Workflow::CreateAndRollBack => {}
            Workflow::Delete => {
                run.reach(Phase::Ready).await;
                run.take_the_sink_away().await;
            }
            Workflow::ReProvision => {
                run.surround().await;
                run.reach(Phase::Ready).await;
                run.lose();
            }
            Workflow::Replace => {
                run.reach(Phase::Ready).await;
                run.old = run.resource.take();
            }
            Workflow::TakeOver => {
                let declared = run.world.declare(&run.wanted()).await.unwrap();
                let cut_off =
                    timeout(A_MOMENT, run.world.reconciler.reconcile(declared.id())).await;
                assert!(cut_off.is_err(), "the first worker dies while it applies");
                run.resource = Some(declared);
                run.world.let_leases_end();
                run.free = true;
            }
        }
        run
    }

    pub(super) const fn faults(&self) -> &Faults {
        &self.world.faults
    }

    /// Which reads of the cluster were made in which phase.
    pub(super) fn reads(&self) -> About {
        let last = self.reads_so_far();
        let ends = self.reading.iter().skip(1).map(|(from, _)| *from).chain([last]);
        let stretches = self.reading.iter().zip(ends);
        let reads = stretches.flat_map(|((from, phase), to)| {
            (from + 1..=to).map(move |nth| ((PortName::Cluster, "read", nth), phase.clone()))
        });
        reads.collect()
    }

    fn reads_so_far(&self) -> u64 {
        self.faults().calls().get(&(PortName::Cluster, "read")).copied().unwrap_or(0)
    }

    /// The same name each time, so that asking again is asking for the same.
    fn wanted(&self) -> Declaration {
        let wanted = declaration(NODE).with_request_id(RequestId::new("order-1").unwrap());
        let rolls_back = self.workflow == Workflow::CreateAndRollBack;
        if rolls_back { wanted.on_failure(OnFailure::Rollback) } else { wanted }
    }

    fn id(&self) -> ProvisionedResourceId {
        self.resource.as_ref().expect("it was declared").id()
    }

    /// What passes are made over: the resource, and what it takes the place of.
    fn ids(&self) -> Vec<ProvisionedResourceId> {
        [self.id()].into_iter().chain(self.old.as_ref().map(ProvisionedResource::id)).collect()
    }

    /// Before the calls that the plan means: nothing of the workflow itself has begun.
    async fn reach(&mut self, phase: Phase) {
        let id = self.world.declare(&self.wanted()).await.unwrap().id();
        for _ in 0..MOST_ROUNDS {
            self.worker.reconcile(id).await.unwrap();
            self.world.sweeper.sweep().await.unwrap();
            self.outside();
            let resource = self.world.get(id).await;
            let there = resource.phase() == phase;
            self.resource = Some(resource);
            if there {
                return;
            }
        }
        panic!("{id} is in {}, not in {phase}", self.world.get(id).await.phase());
    }

    fn outside(&self) {
        self.world.clock.advance(Duration::from_secs(1));
        self.world.cluster.tick();
        self.world.boot_agents();
    }

    /// The caller asks, and rounds are made until everything is where it should be.
    pub(super) async fn go_on(&mut self, mishap: Mishap) -> Result<(), String> {
        self.ask(mishap).await?;
        let (id, declared) = (self.id(), self.declared());
        self.face_trouble(mishap, &declared).await?;
        let mut wrong = Err("it was not tried".to_owned());
        for _ in 0..MOST_ROUNDS {
            self.pass(mishap, &declared).await?;
            unharmed(&self.world, &declared).await?;
            self.sweep(mishap).await;
            self.deliver(mishap).await;
            self.get_help(mishap).await?;
            self.outside();
            wrong = at_rest(&self.world, &declared).await;
            if wrong.is_ok() && self.world.get(id).await.phase() == self.workflow.end() {
                self.is_alone().await?;
                return kept(&self.world, &declared).await;
            }
        }
        wrong
    }

    /// The caller's own part, asked for again and again under the same name until it is answered.
    async fn ask(&mut self, mishap: Mishap) -> Result<(), String> {
        if matches!(self.workflow, Workflow::ReProvision | Workflow::TakeOver) {
            return Ok(());
        }
        for _ in 0..MOST_ASKED {
            if let Ok(Ok(resource)) = timeout(patience(mishap), self.asked(&self.caller)).await {
                if self.workflow == Workflow::CreateAndRollBack {
                    let fails = Behaviour::failing_after(1, "out of quota");
                    self.world.cluster.behave_for(resource.id(), fails);
                }
                self.resource = Some(resource);
                return Ok(());
            }
            self.recover(mishap, Who::Caller).await;
        }
        Err(format!("the caller asked {MOST_ASKED} times and was not answered"))
    }

    async fn asked(&self, service: &Service) -> Result<ProvisionedResource, Error> {
        match (&self.old, self.workflow) {
            (Some(old), _) => service.replace(&operator(), old.id(), None).await,
            (None, Workflow::Delete) => service.deprovision(&operator(), self.id()).await,
            (None, _) => service.provision(&operator(), &self.wanted()).await,
        }
    }

    /// One pass over each.
    async fn pass(&mut self, mishap: Mishap, declared: &[Declared]) -> Result<(), String> {
        for id in self.ids() {
            self.pass_over(id, mishap, declared).await?;
        }
        Ok(())
    }

    /// L3: a free resource can be claimed after its worker died.
    async fn pass_over(
        &mut self,
        id: ProvisionedResourceId,
        mishap: Mishap,
        declared: &[Declared],
    ) -> Result<(), String> {
        let phase = self.world.get(id).await.phase();
        self.reading.push((self.reads_so_far(), phase.to_string()));
        let (free, fired) = (self.free, self.faults().log().entries().len());
        self.free = false;
        let passed = timeout(patience(mishap), self.worker.reconcile(id)).await;
        let undisturbed = self.faults().log().entries().len() == fired;
        let at_rest = matches!(phase, Phase::Deleted | Phase::Failed);
        if matches!(passed, Ok(Ok(PassResult::NotClaimed))) && free && undisturbed && !at_rest {
            return Err(format!("L3: nobody has it, in {phase}, and it cannot be claimed"));
        }
        if matches!(passed, Ok(Ok(PassResult::Completed { to: Phase::Deleted, .. }))) {
            // Before a sweep finds it: that would remove what a teardown has missed.
            let own: Vec<_> = declared.iter().filter(|it| it.id == id).copied().collect();
            nothing_left(&self.world, &own).await?;
        }
        if matches!(passed, Err(_) | Ok(Err(_) | Ok(PassResult::NotClaimed))) {
            self.recover(mishap, Who::Worker).await;
        }
        Ok(())
    }

    async fn sweep(&mut self, mishap: Mishap) {
        self.reading.push((self.reads_so_far(), "by a sweep".to_owned()));
        let swept = timeout(patience(mishap), self.world.sweeper.sweep()).await;
        if matches!(swept, Err(_) | Ok(Err(_))) {
            self.recover(mishap, Who::Worker).await;
        }
    }

    /// An event that could not be delivered is delivered by a later batch.
    async fn deliver(&mut self, mishap: Mishap) {
        match timeout(patience(mishap), self.relay.deliver_batch()).await {
            Ok(Ok(report)) if report.delivered > 0 => {}
            // What was claimed is free again when the claim is over.
            Ok(Ok(_)) => self.world.let_leases_end(),
            Ok(Err(_)) | Err(_) => self.recover(mishap, Who::Relay).await,
        }
    }

    /// The lease of whoever failed or died ends, and what was under way arrives, sooner or later: past the lease when
    /// somebody else has been at it.
    async fn recover(&mut self, mishap: Mishap, who: Who) {
        if mishap == Mishap::CrashAfter {
            self.land().await;
        }
        self.world.let_leases_end();
        self.free = true;
        if mishap == Mishap::PastTheLease {
            match who {
                Who::Caller => drop(self.asked(&self.world.service).await),
                Who::Worker => {
                    for id in self.ids() {
                        drop(self.world.replica("replica-3").reconcile(id).await);
                    }
                }
                Who::Relay => drop(self.world.other_relay().deliver_batch().await),
                Who::Operator => drop(self.helped(&self.world.service).await),
            }
            self.land().await;
        }
    }

    async fn land(&mut self) {
        while let Some(fired) = self.world.faults.land_next().await {
            self.landed += 1;
            // A claim that arrives only now is a lease like any other.
            self.free &= (fired.port, fired.method) != (PortName::Schedule, "claim");
        }
    }

    /// However often it was asked for, there is one, beside what it takes the place of.
    async fn is_alone(&self) -> Result<(), String> {
        let page = self.world.store.list(&ListQuery::new(rows(10))).await;
        let many = page.map_err(|error| error.to_string())?.resources.len();
        match many.saturating_sub(self.bystanders.len() + usize::from(self.old.is_some())) {
            1 => Ok(()),
            many => Err(format!("S13: there are {many} resources of one request")),
        }
    }
}

/// How long somebody is left alone: whoever is cut off, for a moment only.
const fn patience(mishap: Mishap) -> Duration {
    if mishap.cuts_off() { A_MOMENT } else { Duration::from_mins(30) }
}
