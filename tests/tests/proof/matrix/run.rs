//! One workflow: the caller's request, then rounds of pass, sweep and relay until everything is
//! settled. A worker that fails or dies is replaced by another one.

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

/// The most rounds of a workflow with a fault: K passes and a few more.
const MOST_ROUNDS: u8 = K + 3;
/// How often a caller retries without an answer.
const MOST_ASKED: u8 = 4;
/// Shorter than every deadline.
const A_MOMENT: Duration = Duration::from_secs(1);

/// Who was active when a fault fired.
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
    old: Option<ProvisionedResource>,
    bystanders: Vec<ProvisionedResource>,
    workflow: Workflow,
    pub(super) landed: usize,
    /// Any earlier lease has ended, and no worker has claimed the resource since.
    free: bool,
    /// The phase of the cluster reads, from which call number on.
    reading: Vec<(u64, String)>,
}

impl Run {
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
                run.make_sink_reject().await;
            }
            Workflow::ReProvision => {
                run.add_bystanders().await;
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
                run.world.expire_leases();
                run.free = true;
            }
        }
        run
    }

    pub(super) const fn faults(&self) -> &Faults {
        &self.world.faults
    }

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

    /// The same request id each time, so that a retry is idempotent.
    fn wanted(&self) -> Declaration {
        let wanted = declaration(NODE).with_request_id(RequestId::new("order-1").unwrap());
        let rolls_back = self.workflow == Workflow::CreateAndRollBack;
        if rolls_back { wanted.on_failure(OnFailure::Rollback) } else { wanted }
    }

    fn id(&self) -> ProvisionedResourceId {
        self.resource.as_ref().expect("it was declared").id()
    }

    /// The resources to pass over: the resource, and the one that it replaces.
    fn ids(&self) -> Vec<ProvisionedResourceId> {
        [self.id()].into_iter().chain(self.old.as_ref().map(ProvisionedResource::id)).collect()
    }

    /// Brings the resource into a phase before the calls that the plan counts.
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

    pub(super) async fn go_on(&mut self, mishap: Mishap) -> Result<(), String> {
        self.ask(mishap).await?;
        let (id, declared) = (self.id(), self.declared());
        self.meet_trouble(mishap, &declared).await?;
        let mut wrong = Err("the call was not made".to_owned());
        for _ in 0..MOST_ROUNDS {
            self.pass(mishap, &declared).await?;
            unharmed(&self.world, &declared).await?;
            self.sweep(mishap).await;
            self.deliver(mishap).await;
            self.resolve_trouble(mishap).await?;
            self.outside();
            wrong = at_rest(&self.world, &declared).await;
            if wrong.is_ok() && self.world.get(id).await.phase() == self.workflow.end() {
                self.is_alone().await?;
                return kept(&self.world, &declared).await;
            }
        }
        wrong
    }

    /// The caller's request, retried under the same id until it is answered.
    async fn ask(&mut self, mishap: Mishap) -> Result<(), String> {
        if matches!(self.workflow, Workflow::ReProvision | Workflow::TakeOver) {
            return Ok(());
        }
        for _ in 0..MOST_ASKED {
            if let Ok(Ok(resource)) = timeout(timeout_under(mishap), self.asked(&self.caller)).await
            {
                if self.workflow == Workflow::CreateAndRollBack {
                    let fails = Behaviour::failing_after(1, "out of quota");
                    self.world.cluster.behave_for(resource.id(), fails);
                }
                self.resource = Some(resource);
                return Ok(());
            }
            self.recover(mishap, Who::Caller).await;
        }
        Err(format!("the caller got no answer in {MOST_ASKED} attempts"))
    }

    async fn asked(&self, service: &Service) -> Result<ProvisionedResource, Error> {
        match (&self.old, self.workflow) {
            (Some(old), _) => service.replace(&operator(), old.id(), None).await,
            (None, Workflow::Delete) => service.deprovision(&operator(), self.id()).await,
            (None, _) => service.provision(&operator(), &self.wanted()).await,
        }
    }

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
        let passed = timeout(timeout_under(mishap), self.worker.reconcile(id)).await;
        let undisturbed = self.faults().log().entries().len() == fired;
        let at_rest = matches!(phase, Phase::Deleted | Phase::Failed);
        if matches!(passed, Ok(Ok(PassResult::NotClaimed))) && free && undisturbed && !at_rest {
            return Err(format!("L3: it is free in {phase} and cannot be claimed"));
        }
        if matches!(passed, Ok(Ok(PassResult::Completed { to: Phase::Deleted, .. }))) {
            // Before a sweep removes what a teardown has missed.
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
        let swept = timeout(timeout_under(mishap), self.world.sweeper.sweep()).await;
        if matches!(swept, Err(_) | Ok(Err(_))) {
            self.recover(mishap, Who::Worker).await;
        }
    }

    async fn deliver(&mut self, mishap: Mishap) {
        match timeout(timeout_under(mishap), self.relay.deliver_batch()).await {
            Ok(Ok(report)) if report.delivered > 0 => {}
            // Claimed events are free again after the claim has ended.
            Ok(Ok(_)) => self.world.expire_leases(),
            Ok(Err(_)) | Err(_) => self.recover(mishap, Who::Relay).await,
        }
    }

    /// The lease of the failed or dead worker ends, and its request in flight arrives, sooner or
    /// later: past the lease, after another worker has acted.
    async fn recover(&mut self, mishap: Mishap, who: Who) {
        if mishap == Mishap::CrashAfter {
            self.land().await;
        }
        self.world.expire_leases();
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
            // A claim that arrives only now is a valid lease.
            self.free &= (fired.port, fired.method) != (PortName::Schedule, "claim");
        }
    }

    /// Repeated requests created one resource, in addition to the one that it replaces.
    async fn is_alone(&self) -> Result<(), String> {
        let page = self.world.store.list(&ListQuery::new(rows(10))).await;
        let many = page.map_err(|error| error.to_string())?.resources.len();
        match many.saturating_sub(self.bystanders.len() + usize::from(self.old.is_some())) {
            1 => Ok(()),
            many => Err(format!("S13: there are {many} resources of one request")),
        }
    }
}

/// How long a caller waits: only a moment if its worker is cut off.
const fn timeout_under(mishap: Mishap) -> Duration {
    if mishap.cuts_off() { A_MOMENT } else { Duration::from_mins(30) }
}
