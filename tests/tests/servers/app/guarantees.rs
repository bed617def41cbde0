//! Negative control of the harness: each guarantee is violated once without the broker, and the
//! harness must report it.

use broker_domain::{Phase, ProvisionedResourceId, XrName};
use broker_render::FIELD_MANAGER;
use broker_tests::TestCluster;
use broker_tests::real::RealWorld;
use broker_tests::world::{NODE, operator};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{ApiResource, DeleteParams, DynamicObject, ObjectMeta, PostParams};
use kube::core::GroupVersionKind;
use serde_json::json;
use sqlx::{AssertSqlSafe, Executor};

/// The guarantee, the phase, and how it is violated.
type Breach = (&'static str, Phase, How);

enum How {
    /// A statement about the resource `$1`.
    Sql(&'static str),
    /// A second ProviderConfig with this name suffix.
    Config(&'static str),
    /// Another party changes the composite resource.
    Note,
    /// A field that is not the broker's is applied with its field manager.
    Taken,
    /// A deletion as the broker, without a read before.
    Blind,
    /// An object of the broker in a foreign namespace.
    Elsewhere,
    Leak,
}

const BREACHES: [Breach; 15] = [
    (
        "S1",
        Phase::Ready,
        How::Sql(
            "UPDATE plexsphere.provisioned_resource_audit
        SET previous_phase = 'Deleted' WHERE provisioned_resource_id = $1 AND new_phase = 'Ready'",
        ),
    ),
    (
        "S2",
        Phase::Ready,
        How::Sql(
            "UPDATE plexsphere.provisioned_resources
        SET status = 'Enrolling' WHERE id = $1",
        ),
    ),
    (
        "S2",
        Phase::Ready,
        How::Sql(
            "DELETE FROM plexsphere.provisioning_outbox
        WHERE provisioned_resource_id = $1 AND sequence = 2",
        ),
    ),
    (
        "S3",
        Phase::Ready,
        How::Sql(
            "UPDATE plexsphere.provisioning_outbox
        SET sequence = 7 WHERE provisioned_resource_id = $1 AND sequence = 2",
        ),
    ),
    (
        "S4",
        Phase::Deleted,
        How::Sql(
            "UPDATE plexsphere.bootstrap_tokens SET consumed_at = NULL, consumed_by_node_id = NULL
        WHERE provisioned_resource_id = $1",
        ),
    ),
    (
        "S5",
        Phase::Deleted,
        How::Sql(
            "UPDATE plexsphere.nodes SET deregistered_at = NULL WHERE id IN
        (SELECT consumed_by_node_id FROM plexsphere.bootstrap_tokens
         WHERE provisioned_resource_id = $1)",
        ),
    ),
    ("S6", Phase::Ready, How::Config("-another")),
    ("S7", Phase::Deleted, How::Config("")),
    ("S8", Phase::Ready, How::Blind),
    ("S10", Phase::Ready, How::Note),
    ("S10", Phase::Ready, How::Taken),
    (
        "S11",
        Phase::Ready,
        How::Sql(
            "UPDATE plexsphere.provisioned_resource_audit
        SET at = at - interval '1 hour' WHERE provisioned_resource_id = $1
        AND new_phase IN ('Enrolling', 'Ready')",
        ),
    ),
    ("S14", Phase::Ready, How::Elsewhere),
    ("S15", Phase::Ready, How::Leak),
    (
        "S16",
        Phase::Ready,
        How::Sql(
            "UPDATE plexsphere.provisioned_resource_audit
        SET epoch = 99 WHERE provisioned_resource_id = $1 AND action = 'token_recorded'",
        ),
    ),
];

/// The ProviderConfig of a resource, or a second one.
fn config_of(world: &RealWorld, name: &str) -> (Api<DynamicObject>, DynamicObject) {
    let group = world.kinds.provider_group();
    let kind = GroupVersionKind::gvk(&group, "v1beta1", "ProviderConfig");
    let kind = ApiResource::from_gvk_with_plural(&kind, "providerconfigs");
    let api = Api::namespaced_with(world.admin.clone(), &world.home(), &kind);
    (api, DynamicObject::new(name, &kind))
}

async fn commit(world: &RealWorld, id: ProvisionedResourceId, how: &How) {
    let name = XrName::of(id).to_string();
    match how {
        How::Sql(statement) => past_triggers(world, statement, id).await,
        How::Config(suffix) => {
            let (api, config) = config_of(world, &format!("{name}{suffix}"));
            api.create(&PostParams::default(), &config).await.unwrap();
        }
        How::Note => {
            let rewritten = json!({"metadata": {"annotations": {"team.example.org/note": "?"}}});
            world.crossplane.patch(id, rewritten).await;
        }
        How::Taken => {
            let taken = json!({"metadata": {"annotations": {"team.example.org/other": "ours"}}});
            world.crossplane.apply_as(FIELD_MANAGER, id, taken).await;
        }
        How::Blind => {
            let broker = world.broker.client.clone();
            let group = world.kinds.group();
            let (kind, plural) = world.kinds.of(NODE);
            let kind = GroupVersionKind::gvk(&group, "v1", kind);
            let kind = ApiResource::from_gvk_with_plural(&kind, plural);
            let api: Api<DynamicObject> = Api::namespaced_with(broker, &world.home(), &kind);
            world.forget_requests();
            api.delete(&name, &DeleteParams::default()).await.unwrap();
        }
        How::Elsewhere => {
            // With the broker's user name, and with rights that its roles do not grant.
            let broker =
                world.cluster.identity_in(&world.user, broker_test_servers::servers::MASTERS).await;
            let metadata = ObjectMeta { name: Some(name), ..ObjectMeta::default() };
            let lost = ConfigMap { metadata, ..ConfigMap::default() };
            let elsewhere = Api::namespaced(broker, "default");
            elsewhere.create(&PostParams::default(), &lost).await.unwrap();
        }
        How::Leak => {
            let token = world.plaintexts().pop().unwrap();
            let leak = format!(
                "UPDATE plexsphere.provisioned_resource_schedule
                SET last_reason = 'x', last_error = '{token}' WHERE provisioned_resource_id = '{id}'"
            );
            world.pool().execute(AssertSqlSafe(leak)).await.unwrap();
        }
    }
}

async fn past_triggers(world: &RealWorld, statement: &'static str, id: ProvisionedResourceId) {
    let mut transaction = world.pool().begin().await.unwrap();
    transaction.execute("SET LOCAL session_replication_role = replica").await.unwrap();
    let statement = sqlx::query(statement).bind(id.as_uuid());
    let changed = statement.execute(&mut *transaction).await.unwrap().rows_affected();
    assert!(changed > 0, "the statement changed no row");
    transaction.commit().await.unwrap();
}

async fn declare_until(world: &RealWorld, phase: Phase) -> ProvisionedResourceId {
    if phase != Phase::Deleted {
        return world.declare_until(phase, &world.declaration(NODE)).await.id();
    }
    let ready = world.declare_until(Phase::Ready, &world.declaration(NODE)).await.id();
    world.service.deprovision(&operator(), ready).await.unwrap();
    world.until(ready, Phase::Deleted).await;
    ready
}

#[tokio::test]
async fn every_violation_is_reported_by_name() {
    let cluster = TestCluster::shared().await;
    let world = RealWorld::alone(&cluster).await;
    for (name, phase, how) in &BREACHES {
        let id = declare_until(&world, *phase).await;
        let said = |objections: &[String]| {
            let name = format!("{name}:");
            objections.iter().any(|objection| objection.starts_with(&name))
        };
        let before = world.objections(&[id]).await;
        assert!(!said(&before), "{name} was violated before: {before:?}");
        commit(&world, id, how).await;
        let after = world.objections(&[id]).await;
        assert!(said(&after), "{name} is not reported: {after:?}");
    }
}

#[tokio::test]
async fn work_left_for_a_sweep_or_a_pass_is_reported() {
    let world = RealWorld::new().await;
    let id = declare_until(&world, Phase::Ready).await;
    assert_eq!(world.stirred(&[id]).await, Vec::<String>::new());
    world.crossplane.delete_by_hand(id).await;
    let stirred = world.stirred(&[id]).await;
    for name in ["S12: a sweep", "S13: another pass wrote", "S12: AuditedRequest"] {
        assert!(stirred.iter().any(|it| it.starts_with(name)), "{name}: {stirred:?}");
    }
}
