//! Problems of the broker, its collaborators or its callers.
#![expect(clippy::wildcard_enum_match_arm, reason = "the next module handles the other verdicts")]

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use broker_app::decide::Mode;
use broker_app::explain::{Budgets, Verdict};
use broker_domain::{ClusterId, MeshRole, Phase, ProvisionedResourceId};
use broker_memory::BlueprintDocuments;
use broker_ports::{
    ApprovalState, BlueprintState, Brake, ClaimEvents, ClaimRequest, ClaimTarget, Clock,
    CredentialState, NodeDeregistrar, Outbox, PortName, Schedule, TokenIssuer,
};
use broker_render::{InjectionStrategy, ProviderConfigUse};
use broker_testkit::builders::{id, rows, worker};
use broker_testkit::faults::{Fault, FaultPlan, Faults};
use broker_tests::world::{LEASE, NODE, SIZED, World, declaration, operator, project};

use super::super::fixture::Fixture;
use super::cluster::{self, narrow_xrd};

/// Enough consecutive failures for a back-off longer than the test.
const FAILURES: usize = 8;

/// The finalizer of an object whose deletion does not finish.
pub(in super::super) const HELD: &str = "example.org/held";

pub(super) async fn create(fixture: &mut Fixture, verdict: Verdict) {
    let world = &fixture.world;
    match verdict {
        Verdict::RetryPending => {
            // The first pass tells the replica its cluster; without it, the replica claims nothing.
            fixture.replica.reconcile(id(0xdead)).await.unwrap();
            world.cluster.take_down();
            for _ in 0..FAILURES {
                fixture.replica.reconcile(fixture.id).await.unwrap_err();
            }
            world.cluster.bring_back();
        }
        Verdict::PassUnderWay => lease(fixture).await,
        Verdict::LeaseLeftBehind => {
            lease(fixture).await;
            world.clock.advance(LEASE + Duration::from_secs(1));
        }
        Verdict::PausedHere => world.service.pause(&operator(), fixture.id).await.unwrap(),
        Verdict::DryRun => {
            fixture.replica = world.replica_in_mode("dry", Mode::DryRun);
            fixture.reconfigure_service(|_, config| config.mode = Mode::DryRun);
        }
        Verdict::Brake => {
            let cluster = ClusterId::new("kube-system-uid").unwrap();
            let brake = Brake::new(9, 12, world.clock.now());
            world.store.set_brake(&cluster, &brake, operator().attribution()).await.unwrap();
        }
        Verdict::NoReplica => world.clock.advance(Duration::from_mins(6)),
        Verdict::PassFailing => {
            let faults = failing_calls(PortName::TokenIssuer, "issue");
            fixture.replica = world.replica_with("replica-1", |ports| {
                ports.tokens = faults.wrap::<dyn TokenIssuer>(Arc::clone(&ports.tokens));
            });
        }
        Verdict::DeregistrationFailed => {
            let faults = failing_calls(PortName::NodeDeregistrar, "deregister");
            fixture.replica = world.replica_with("replica-1", |ports| {
                ports.nodes = faults.wrap::<dyn NodeDeregistrar>(Arc::clone(&ports.nodes));
            });
        }
        Verdict::OutboxPoisoned => {
            let request = ClaimEvents::new(worker("relay"), rows(10), Duration::from_secs(30));
            for event in world.store.claim_events(&request).await.unwrap() {
                let outcome = world.store.dead_letter_event(&event.claim, "HTTP 410 Gone").await;
                assert_eq!(outcome.unwrap(), broker_ports::Acknowledged::Done);
            }
        }
        Verdict::StoreUnreachable => world.store.set_reachable(false),
        Verdict::CollaboratorUnreachable => world.platform.set_reachable(false),
        Verdict::BlueprintMissing => world.platform.unpublish(id(NODE)),
        Verdict::BlueprintUnreadable => publish(fixture, NODE, "kind: Nonsense", "[]"),
        Verdict::CannotRender => {
            // The schema no longer accepts the parameters of the declaration.
            let size = r#"[{"name":"size","type":"string"}]"#;
            publish(fixture, SIZED, &narrow_xrd().to_string(), size);
        }
        Verdict::CredentialMissing => world.platform.withdraw(project(), id(4)),
        Verdict::CredentialExpired => {
            world.platform.set_credential_state(id(4), CredentialState::Expired);
        }
        Verdict::CredentialRevoked => {
            world.platform.set_credential_state(id(4), CredentialState::Revoked);
        }
        Verdict::CredentialNotApproved => {
            world.platform.set_approval(project(), id(4), ApprovalState::Rejected);
        }
        Verdict::BlueprintRetired => {
            world.platform.set_blueprint_state(id(NODE), BlueprintState::Retired);
        }
        Verdict::CloudMissing => world.platform.remove_cloud(id(0xc0)),
        Verdict::ResourceMissing => world.platform.remove_resource(id(2)),
        Verdict::AssignmentMissing => world.platform.displace(project()),
        Verdict::NodeNeverCalled => {
            world.agents_boot.store(false, Ordering::Relaxed);
            world.clock.advance(Duration::from_mins(2));
            fixture.reconfigure_service(|_, config| {
                let mut budgets = Budgets::default();
                budgets.enrolling = Duration::from_mins(1);
                config.budgets = Some(budgets);
            });
        }
        Verdict::TokenExpired => {
            world.agents_boot.store(false, Ordering::Relaxed);
            world.clock.advance(Duration::from_mins(61));
        }
        Verdict::TokenInvalid => {
            world.agents_boot.store(false, Ordering::Relaxed);
            world.tokens.close(fixture.id).await.unwrap();
        }
        Verdict::MeshUnreachable => world.mesh.set_reachable(false),
        Verdict::SharedConfigLeaving => fixture.id = declare_while_config_leaves(world).await,
        other => Box::pin(cluster::create(fixture, other)).await,
    }
}

/// A finalizer holds the shared ProviderConfig that the last user left.
async fn declare_while_config_leaves(world: &World) -> ProvisionedResourceId {
    const SHARING: u128 = 0xb5;
    let sharing = ProviderConfigUse::parse("shared:openstack").unwrap();
    let (names, schema) = (("Server", "servers"), r#"{"parameters":[]}"#);
    world.publish_using(sharing, SHARING, names, MeshRole::Standalone, schema);
    let former = world.declare_until(Phase::Ready, &declaration(SHARING)).await;
    let config = former.substrate().provider_config().unwrap();
    world.cluster.add_finalizer(config, HELD);
    world.service.deprovision(&operator(), former.id()).await.unwrap();
    world.until(former.id(), Phase::Deleted).await;
    world.declare(&declaration(SHARING)).await.unwrap().id()
}

/// Claims the resource for a worker that never runs a pass.
async fn lease(fixture: &Fixture) {
    let request = ClaimRequest::new(worker("idle-worker"), ClaimTarget::One(fixture.id), LEASE);
    assert_eq!(fixture.world.store.claim(&request).await.unwrap().len(), 1);
}

fn failing_calls(port: PortName, method: &'static str) -> Faults {
    Faults::new(FaultPlan::none().from_call(port, method, 1, Fault::BeforeEffect))
}

/// Publishes a blueprint again, with other documents than at the declaration.
fn publish(fixture: &Fixture, blueprint: u128, xrd: &str, parameters: &str) {
    let documents = BlueprintDocuments {
        xrd: xrd.as_bytes().to_vec(),
        composition: BlueprintDocuments::composition_named("machines"),
        parameter_schema: format!(r#"{{"parameters":{parameters}}}"#).into_bytes(),
        injection_strategy: InjectionStrategy::CloudInitUserData,
        mesh_role: MeshRole::Node,
        composed_kinds: Vec::new(),
        provider_config: ProviderConfigUse::PerResource,
    };
    fixture.world.platform.publish(id(blueprint), documents);
}
