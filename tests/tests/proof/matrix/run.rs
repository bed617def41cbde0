//! Runs one workflow: the caller's request, then rounds of pass, sweep and relay until everything is
//! settled.

mod operator_condition;

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

use super::fault_kind::FaultKind;
use super::workflow::{CallLabels, Workflow};
use crate::simulation::{
    Declared, check_history, check_no_object_left, check_nodes_leave_first, check_settled,
};

/// The maximum number of rounds of a workflow with a fault: K passes, and a few for recovery.
const MAX_ROUNDS: u8 = K + 3;
/// How often a caller sends a request without a response.
const MAX_ATTEMPTS: u8 = 4;
/// Shorter than every deadline.
const SHORT_TIMEOUT: Duration = Duration::from_secs(1);

/// The component whose call failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Actor {
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
    /// The resource that [`Workflow::Replace`] replaces.
    old: Option<ProvisionedResource>,
    /// Ready resources that seem lost with the workflow's own one.
    bystanders: Vec<ProvisionedResource>,
    workflow: Workflow,
    pub(super) late_arrivals: usize,
    /// No worker holds a lease on the resource.
    is_free: bool,
    /// Each pass or sweep: the number of cluster reads before it, and the resource's phase or "by a sweep".
    read_phases: Vec<(u64, String)>,
}

impl Run {
    pub(super) async fn begin(workflow: Workflow, plan: FaultPlan) -> Self {
        let world = World::with_faults(plan);
        let ports = world.ports.clone();
        let worker = world.replica_with("replica-2", |replica_ports| *replica_ports = ports);
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
            late_arrivals: 0,
            is_free: false,
            read_phases: Vec::new(),
        };
        match workflow {
            Workflow::Create | Workflow::CreateAndRollBack => {}
            Workflow::Delete => {
                run.reach_phase(Phase::Ready).await;
                run.make_sink_reject().await;
            }
            Workflow::ReProvision => {
                run.add_bystanders().await;
                run.reach_phase(Phase::Ready).await;
                run.lose_composites();
            }
            Workflow::Replace => {
                run.reach_phase(Phase::Ready).await;
                run.old = run.resource.take();
            }
            Workflow::TakeOver => {
                let declared = run.world.declare(&run.order()).await.unwrap();
                let cut_off =
                    timeout(SHORT_TIMEOUT, run.world.reconciler.reconcile(declared.id())).await;
                assert!(cut_off.is_err(), "the first worker dies while it applies");
                run.resource = Some(declared);
                run.world.expire_leases();
                run.is_free = true;
            }
        }
        run
    }

    pub(super) const fn faults(&self) -> &Faults {
        &self.world.faults
    }

    /// The phase of each cluster read.
    pub(super) fn labels_of_reads(&self) -> CallLabels {
        let last = self.reads_so_far();
        let ends = self.read_phases.iter().skip(1).map(|(from, _)| *from).chain([last]);
        let ranges = self.read_phases.iter().zip(ends);
        let reads = ranges.flat_map(|((from, phase), to)| {
            (from + 1..=to).map(move |nth| ((PortName::Cluster, "read", nth), phase.clone()))
        });
        reads.collect()
    }

    fn reads_so_far(&self) -> u64 {
        self.faults().calls().get(&(PortName::Cluster, "read")).copied().unwrap_or(0)
    }

    /// The declaration, always with one request id, so that a retry is idempotent.
    fn order(&self) -> Declaration {
        let order = declaration(NODE).with_request_id(RequestId::new("order-1").unwrap());
        let rolls_back = self.workflow == Workflow::CreateAndRollBack;
        if rolls_back { order.on_failure(OnFailure::Rollback) } else { order }
    }

    fn id(&self) -> ProvisionedResourceId {
        self.resource.as_ref().expect("a declared resource").id()
    }

    /// The resource, and the one that it replaces.
    fn ids(&self) -> Vec<ProvisionedResourceId> {
        [self.id()].into_iter().chain(self.old.as_ref().map(ProvisionedResource::id)).collect()
    }

    /// Brings the resource into a phase before the calls that the plan counts.
    async fn reach_phase(&mut self, phase: Phase) {
        let id = self.world.declare(&self.order()).await.unwrap().id();
        for _ in 0..MAX_ROUNDS {
            self.worker.reconcile(id).await.unwrap();
            self.world.sweeper.sweep().await.unwrap();
            self.advance_environment();
            let resource = self.world.get(id).await;
            let reached = resource.phase() == phase;
            self.resource = Some(resource);
            if reached {
                return;
            }
        }
        panic!("{id} is in {}, not in {phase}", self.world.get(id).await.phase());
    }

    fn advance_environment(&self) {
        self.world.clock.advance(Duration::from_secs(1));
        self.world.cluster.tick();
        self.world.boot_agents();
    }

    pub(super) async fn run_to_end(&mut self, fault_kind: FaultKind) -> Result<(), String> {
        self.request_until_answered(fault_kind).await?;
        let (id, declared) = (self.id(), self.declared());
        self.check_operator_condition(fault_kind, &declared).await?;
        let mut outcome = Err("no round ran".to_owned());
        for _ in 0..MAX_ROUNDS {
            self.pass(fault_kind, &declared).await?;
            check_nodes_leave_first(&self.world, &declared).await?;
            self.sweep(fault_kind).await;
            self.deliver(fault_kind).await;
            self.resolve_operator_condition(fault_kind).await?;
            self.advance_environment();
            outcome = check_settled(&self.world, &declared).await;
            if outcome.is_ok() && self.world.get(id).await.phase() == self.workflow.end() {
                self.check_no_duplicates().await?;
                return check_history(&self.world, &declared).await;
            }
        }
        outcome
    }

    /// Sends the caller's request until it gets a response, always under the same id.
    async fn request_until_answered(&mut self, fault_kind: FaultKind) -> Result<(), String> {
        if matches!(self.workflow, Workflow::ReProvision | Workflow::TakeOver) {
            return Ok(());
        }
        for _ in 0..MAX_ATTEMPTS {
            if let Ok(Ok(resource)) =
                timeout(timeout_under(fault_kind), self.send_request(&self.caller)).await
            {
                if self.workflow == Workflow::CreateAndRollBack {
                    let fails = Behaviour::failing_after(1, "out of quota");
                    self.world.cluster.behave_for(resource.id(), fails);
                }
                self.resource = Some(resource);
                return Ok(());
            }
            self.recover(fault_kind, Actor::Caller).await;
        }
        Err(format!("the caller got no response in {MAX_ATTEMPTS} attempts"))
    }

    async fn send_request(&self, service: &Service) -> Result<ProvisionedResource, Error> {
        match (&self.old, self.workflow) {
            (Some(old), _) => service.replace(&operator(), old.id(), None).await,
            (None, Workflow::Delete) => service.deprovision(&operator(), self.id()).await,
            (None, _) => service.provision(&operator(), &self.order()).await,
        }
    }

    async fn pass(&mut self, fault_kind: FaultKind, declared: &[Declared]) -> Result<(), String> {
        for id in self.ids() {
            self.pass_over(id, fault_kind, declared).await?;
        }
        Ok(())
    }

    /// Runs a pass. Checks L3: a resource can be claimed after the lease of a dead worker.
    async fn pass_over(
        &mut self,
        id: ProvisionedResourceId,
        fault_kind: FaultKind,
        declared: &[Declared],
    ) -> Result<(), String> {
        let phase = self.world.get(id).await.phase();
        self.read_phases.push((self.reads_so_far(), phase.to_string()));
        let (is_free, fired) = (self.is_free, self.faults().log().entries().len());
        self.is_free = false;
        let passed = timeout(timeout_under(fault_kind), self.worker.reconcile(id)).await;
        let undisturbed = self.faults().log().entries().len() == fired;
        let settled = matches!(phase, Phase::Deleted | Phase::Failed);
        if matches!(passed, Ok(Ok(PassResult::NotClaimed))) && is_free && undisturbed && !settled {
            return Err(format!("L3: the resource has no lease in {phase} and cannot be claimed"));
        }
        if matches!(passed, Ok(Ok(PassResult::Completed { to: Phase::Deleted, .. }))) {
            // Checked before a sweep can remove objects that the teardown missed.
            let own: Vec<_> =
                declared.iter().filter(|declared| declared.id == id).copied().collect();
            check_no_object_left(&self.world, &own).await?;
        }
        if matches!(passed, Err(_) | Ok(Err(_) | Ok(PassResult::NotClaimed))) {
            self.recover(fault_kind, Actor::Worker).await;
        }
        Ok(())
    }

    async fn sweep(&mut self, fault_kind: FaultKind) {
        self.read_phases.push((self.reads_so_far(), "by a sweep".to_owned()));
        let swept = timeout(timeout_under(fault_kind), self.world.sweeper.sweep()).await;
        if matches!(swept, Err(_) | Ok(Err(_))) {
            self.recover(fault_kind, Actor::Worker).await;
        }
    }

    async fn deliver(&mut self, fault_kind: FaultKind) {
        match timeout(timeout_under(fault_kind), self.relay.deliver_batch()).await {
            Ok(Ok(report)) if report.delivered > 0 => {}
            // Nothing was delivered: end the claims, so that a relay can claim the events again.
            Ok(Ok(_)) => self.world.expire_leases(),
            Ok(Err(_)) | Err(_) => self.recover(fault_kind, Actor::Relay).await,
        }
    }

    /// Ends the lease of the failed worker. With [`FaultKind::AfterLease`], its request in flight
    /// arrives after another worker has acted.
    async fn recover(&mut self, fault_kind: FaultKind, actor: Actor) {
        if fault_kind == FaultKind::CrashAfter {
            self.deliver_late_requests().await;
        }
        self.world.expire_leases();
        self.is_free = true;
        if fault_kind == FaultKind::AfterLease {
            match actor {
                Actor::Caller => drop(self.send_request(&self.world.service).await),
                Actor::Worker => {
                    for id in self.ids() {
                        drop(self.world.replica("replica-3").reconcile(id).await);
                    }
                }
                Actor::Relay => drop(self.world.other_relay().deliver_batch().await),
                Actor::Operator => drop(self.run_operator_command(&self.world.service).await),
            }
            self.deliver_late_requests().await;
        }
    }

    async fn deliver_late_requests(&mut self) {
        while let Some(fired) = self.world.faults.complete_next().await {
            self.late_arrivals += 1;
            // A late claim is a valid lease.
            self.is_free &= (fired.port, fired.method) != (PortName::Schedule, "claim");
        }
    }

    /// Checks that repeated requests created one resource, in addition to the one that it replaces.
    async fn check_no_duplicates(&self) -> Result<(), String> {
        let page = self.world.store.list(&ListQuery::new(rows(10))).await;
        let stored = page.map_err(|error| error.to_string())?.resources.len();
        match stored.saturating_sub(self.bystanders.len() + usize::from(self.old.is_some())) {
            1 => Ok(()),
            count => Err(format!("S13: {count} resources exist for one request")),
        }
    }
}

/// How long a caller waits: one second if the fault cuts off its worker.
const fn timeout_under(fault_kind: FaultKind) -> Duration {
    if fault_kind.cuts_off_its_worker() { SHORT_TIMEOUT } else { Duration::from_mins(30) }
}
