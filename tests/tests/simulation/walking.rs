//! Every path of a resource's life in memory, and what only a world in memory shows.

use std::time::Duration;

use broker_app::{Error, Passed, Reconciler, Service, SweepReport, Work};
use broker_domain::{
    Declaration, ObjectReference, Phase, ProvisionedResource, ProvisionedResourceId,
};
use broker_memory::{Behaviour as Simulated, Part, Verb};
use broker_ports::{AuditAction, ReconcilerPorts};
use broker_testkit::builders::id;
use broker_tests::real::Behaviour;
use broker_tests::world::{NODE, World, declaration, operator, project};
use serde_json::Value;

use crate::paths::{Deletions, Namespace, Stage, every_path};

impl Stage for World {
    fn service(&self) -> &Service {
        &self.service
    }

    fn reconciler(&self) -> &Reconciler {
        &self.reconciler
    }

    fn ports(&self) -> ReconcilerPorts {
        self.ports.clone()
    }

    fn declaration(&self, blueprint: u128) -> Declaration {
        declaration(blueprint)
    }

    async fn round(&self, id: ProvisionedResourceId) -> Result<Passed, Error> {
        Self::round(self, id).await
    }

    async fn until(&self, id: ProvisionedResourceId, phase: Phase) -> ProvisionedResource {
        Self::until(self, id, phase).await
    }

    async fn brought_to(&self, phase: Phase, declaration: &Declaration) -> ProvisionedResource {
        Self::brought_to(self, phase, declaration).await
    }

    async fn sweep(&self) -> (Vec<Work>, SweepReport) {
        Self::sweep(self).await
    }

    fn behave(&self, id: ProvisionedResourceId, behaviour: Behaviour) {
        let simulated = match behaviour {
            Behaviour::Ready => Simulated::ready_after(1),
            Behaviour::NeverReady => Simulated::never_ready(),
            Behaviour::Failing(why) => Simulated::failing_after(1, &why),
        };
        self.cluster.behave_for(id, simulated);
    }

    fn deletions(&self, deletions: Deletions) {
        match deletions {
            Deletions::Held => self.cluster.stop(Part::Provider),
            Deletions::Finished => self.cluster.start(Part::Provider),
        }
    }

    async fn place(&self, namespace: Namespace) {
        Self::place(self, namespace == Namespace::Ready);
    }

    async fn withdraw_credential(&self) {
        self.neighbours.withdraw(project(), id(4));
    }

    async fn let_tokens_expire(&self) {
        self.clock.advance(Duration::from_hours(2));
    }

    async fn delete_by_hand(&self, resource: &ProvisionedResource) {
        self.cluster.delete_in_background(&Self::xr(self, resource));
        self.cluster.settle(5);
    }

    async fn edit(&self, resource: &ProvisionedResource, changes: Value) {
        self.cluster.patch_as("a person", &Self::xr(self, resource), &changes);
    }

    async fn xr(&self, resource: &ProvisionedResource) -> Option<Value> {
        self.cluster.object(&Self::xr(self, resource))
    }

    async fn standing(&self) -> Vec<String> {
        let named = |object: &ObjectReference| format!("{} {}", object.kind(), object.name());
        Self::standing(self).iter().map(named).collect()
    }

    async fn refusals(&self) -> usize {
        let lines = self.store.audit_trail();
        let refused = |action| action == AuditAction::DeclarationRefused;
        lines.iter().filter(|line| refused(line.entry.action)).count()
    }

    /// The store in memory is checked by its own suites, step by step.
    async fn check(&self, _: ProvisionedResourceId) {}
}

every_path!(World::new());

#[tokio::test]
async fn a_converged_and_a_waiting_world_cost_a_sweep_nothing() {
    let world = World::new();
    let ready = world.brought_to(Phase::Ready, &declaration(NODE)).await;
    let waiting = world.declare(&declaration(NODE)).await.unwrap();
    world.behave(waiting.id(), Behaviour::NeverReady);
    for _ in 0..4 {
        world.round(waiting.id()).await.unwrap();
    }
    assert_eq!(world.get(waiting.id()).await.phase(), Phase::Provisioning);
    world.clock.advance(Duration::from_mins(10));
    let writes = world.cluster.writes();
    let lines = world.store.audit_trail().len();
    let (work, report) = world.sweep().await;
    assert_eq!(work, [], "{report:?}");
    assert_eq!((report.looked_at, report.settled), (2, 2));
    assert_eq!((world.cluster.writes(), world.store.audit_trail().len()), (writes, lines));

    world.cluster.delete_in_background(&world.xr(&ready));
    let (work, report) = world.sweep().await;
    assert_eq!(
        work.iter().map(|work| work.resource).collect::<Vec<_>>(),
        [ready.id()],
        "{report:?}"
    );
}

#[tokio::test]
async fn a_mass_disappearance_pulls_the_brake() {
    let world = World::new();
    let mut resources = Vec::new();
    for _ in 0..8 {
        resources.push(world.brought_to(Phase::Ready, &declaration(NODE)).await);
    }
    for resource in &resources {
        world.cluster.delete_in_background(&world.xr(resource));
    }
    world.cluster.settle(5);
    let (work, report) = world.sweep().await;
    assert_eq!(work, [], "{report:?}");
    let brakes: Vec<_> = report.brakes.iter().map(|it| (it.project, it.absent)).collect();
    assert_eq!(brakes, [(Some(project()), 8)]);

    // A pass that is asked for by hand obeys, too.
    let first = &resources[0];
    let passed = world.round(first.id()).await.unwrap();
    assert!(matches!(passed, Passed::Through { .. }), "{passed:?}");
    assert_eq!(world.get(first.id()).await.phase(), Phase::Ready);
    assert!(!world.cluster.stands(&world.xr(first)));

    let cluster = first.substrate().cluster().unwrap().clone();
    let released = world.service.release_brake(&operator(), &cluster, Some(project())).await;
    assert_eq!(released.unwrap().absent.len(), 8, "every loss is accepted");
    world.round(first.id()).await.unwrap();
    world.until(first.id(), Phase::Ready).await;
    assert!(world.cluster.stands(&world.xr(first)));
}

#[tokio::test]
async fn another_cluster_proves_nothing() {
    let world = World::new();
    let ready = world.brought_to(Phase::Ready, &declaration(NODE)).await;
    world.cluster.swap_identity(broker_domain::ClusterId::new("another").unwrap());
    let error = world.round(ready.id()).await.unwrap_err();
    assert!(error.is_infrastructure(), "{error}");
    assert_eq!(world.get(ready.id()).await.phase(), Phase::Ready);
}

/// Not being allowed to look is no answer: what stands is neither made anew nor given up, on the way up or down.
#[tokio::test]
async fn a_forbidden_look_proves_nothing() {
    let world = World::new();
    let ready = world.brought_to(Phase::Ready, &declaration(NODE)).await;
    let leaving = world.brought_to(Phase::Ready, &declaration(NODE)).await;
    world.service.deprovision(&operator(), leaving.id()).await.unwrap();
    let before = (world.standing(), world.cluster.writes());

    world.cluster.forbid(Verb::Get, "Machine");
    for (resource, phase) in [(&ready, Phase::Ready), (&leaving, Phase::Deregistering)] {
        let error = world.round(resource.id()).await.unwrap_err();
        assert_eq!(error.reason(), "cluster_rejected", "{error}");
        assert_eq!(world.get(resource.id()).await.phase(), phase);
        let node = world.mesh.consumer(resource.bootstrap_token_id().unwrap()).unwrap();
        assert!(!node.deregistered, "a Node was told to leave in {phase}");
    }
    assert_eq!((world.standing(), world.cluster.writes()), before);

    world.cluster.allow_everything();
    world.until(ready.id(), Phase::Ready).await;
    world.until(leaving.id(), Phase::Deleted).await;
}
