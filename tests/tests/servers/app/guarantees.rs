//! Negative control of the harness: each guarantee is violated once without the broker, and the
//! harness must report it.

use broker_domain::Phase::{self, Deleted, Ready};
use broker_domain::{ProvisionedResourceId, XrName};
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

/// A guarantee, the phase of the resource, and a violation of the guarantee.
type Case = (&'static str, Phase, Violation);

use Violation::Rows;

enum Violation {
    /// Rows of the resource change: the table, the assignment and a condition.
    Rows(&'static str, &'static str, &'static str),
    /// The second event is missing.
    MissingEvent,
    /// A second ProviderConfig with this name suffix.
    ExtraConfig(&'static str),
    /// Another party changes the composite resource.
    ChangedNote,
    /// A foreign field is applied with the broker's field manager.
    ForeignField,
    /// A deletion as the broker, without a read before.
    DeletionWithoutRead,
    /// An object of the broker in a foreign namespace.
    ForeignNamespace,
    StoredToken,
}

const AUDIT: &str = "provisioned_resource_audit";
const OUTBOX: &str = "provisioning_outbox";

const CASES: [Case; 15] = [
    ("S1", Ready, Rows(AUDIT, "previous_phase = 'Deleted'", "new_phase = 'Ready'")),
    ("S2", Ready, Rows("provisioned_resources", "status = 'Enrolling'", "true")),
    ("S2", Ready, Violation::MissingEvent),
    ("S3", Ready, Rows(OUTBOX, "sequence = 7", "sequence = 2")),
    (
        "S4",
        Deleted,
        Rows("bootstrap_tokens", "consumed_at = NULL, consumed_by_node_id = NULL", "true"),
    ),
    ("S5", Deleted, Rows("nodes", "deregistered_at = NULL", "true")),
    ("S6", Ready, Violation::ExtraConfig("-another")),
    ("S7", Deleted, Violation::ExtraConfig("")),
    ("S8", Ready, Violation::DeletionWithoutRead),
    ("S10", Ready, Violation::ChangedNote),
    ("S10", Ready, Violation::ForeignField),
    (
        "S11",
        Ready,
        Rows(AUDIT, "at = at - interval '1 hour'", "new_phase IN ('Enrolling', 'Ready')"),
    ),
    ("S14", Ready, Violation::ForeignNamespace),
    ("S15", Ready, Violation::StoredToken),
    ("S16", Ready, Rows(AUDIT, "epoch = 99", "action = 'token_recorded'")),
];

/// The condition for the rows of resource `$1` in a table.
fn of_resource(table: &str) -> &'static str {
    match table {
        "provisioned_resources" => "id = $1",
        "nodes" => {
            "id IN (SELECT consumed_by_node_id FROM plexsphere.bootstrap_tokens
                WHERE provisioned_resource_id = $1)"
        }
        _ => "provisioned_resource_id = $1",
    }
}

/// The ProviderConfig of a resource, or a second one.
fn config_of(world: &RealWorld, name: &str) -> (Api<DynamicObject>, DynamicObject) {
    let group = world.kinds.provider_group();
    let kind = GroupVersionKind::gvk(&group, "v1beta1", "ProviderConfig");
    let kind = ApiResource::from_gvk_with_plural(&kind, "providerconfigs");
    let api = Api::namespaced_with(world.admin.clone(), &world.home(), &kind);
    (api, DynamicObject::new(name, &kind))
}

async fn violate(world: &RealWorld, id: ProvisionedResourceId, violation: &Violation) {
    let name = XrName::of(id).to_string();
    match violation {
        Rows(table, change, condition) => {
            let rows = format!("{} AND {condition}", of_resource(table));
            let update = format!("UPDATE plexsphere.{table} SET {change} WHERE {rows}");
            execute_without_triggers(world, update, id).await;
        }
        Violation::MissingEvent => {
            let rows = format!("{} AND sequence = 2", of_resource(OUTBOX));
            let delete = format!("DELETE FROM plexsphere.{OUTBOX} WHERE {rows}");
            execute_without_triggers(world, delete, id).await;
        }
        Violation::ExtraConfig(suffix) => {
            let (api, config) = config_of(world, &format!("{name}{suffix}"));
            api.create(&PostParams::default(), &config).await.unwrap();
        }
        Violation::ChangedNote => {
            let rewritten = json!({"metadata": {"annotations": {"team.example.org/note": "?"}}});
            world.crossplane.patch(id, rewritten).await;
        }
        Violation::ForeignField => {
            let taken = json!({"metadata": {"annotations": {"team.example.org/other": "ours"}}});
            world.crossplane.apply_as(FIELD_MANAGER, id, taken).await;
        }
        Violation::DeletionWithoutRead => {
            let broker = world.broker.client.clone();
            let group = world.kinds.group();
            let (kind, plural) = world.kinds.of(NODE);
            let kind = GroupVersionKind::gvk(&group, "v1", kind);
            let kind = ApiResource::from_gvk_with_plural(&kind, plural);
            let api: Api<DynamicObject> = Api::namespaced_with(broker, &world.home(), &kind);
            world.forget_requests();
            api.delete(&name, &DeleteParams::default()).await.unwrap();
        }
        Violation::ForeignNamespace => {
            // With the broker's user name, and with rights that its roles do not grant.
            let broker =
                world.cluster.identity_in(&world.user, broker_test_servers::servers::MASTERS).await;
            let metadata = ObjectMeta { name: Some(name), ..ObjectMeta::default() };
            let lost = ConfigMap { metadata, ..ConfigMap::default() };
            let elsewhere = Api::namespaced(broker, "default");
            elsewhere.create(&PostParams::default(), &lost).await.unwrap();
        }
        Violation::StoredToken => {
            let token = world.plaintexts().pop().unwrap();
            let leak = format!(
                "UPDATE plexsphere.provisioned_resource_schedule
                SET last_reason = 'x', last_error = '{token}' WHERE provisioned_resource_id = '{id}'"
            );
            world.pool().execute(AssertSqlSafe(leak)).await.unwrap();
        }
    }
}

async fn execute_without_triggers(world: &RealWorld, statement: String, id: ProvisionedResourceId) {
    let mut transaction = world.pool().begin().await.unwrap();
    transaction.execute("SET LOCAL session_replication_role = replica").await.unwrap();
    let statement = sqlx::query(AssertSqlSafe(statement)).bind(id.as_uuid());
    let changed = statement.execute(&mut *transaction).await.unwrap().rows_affected();
    assert!(changed > 0, "the statement changed no row");
    transaction.commit().await.unwrap();
}

async fn declare_until(world: &RealWorld, phase: Phase) -> ProvisionedResourceId {
    if phase != Deleted {
        return world.declare_until(phase, &world.declaration(NODE)).await.id();
    }
    let ready = world.declare_until(Ready, &world.declaration(NODE)).await.id();
    world.service.deprovision(&operator(), ready).await.unwrap();
    world.until(ready, Deleted).await;
    ready
}

#[tokio::test]
async fn every_violation_is_reported_by_name() {
    let cluster = TestCluster::shared().await;
    let world = RealWorld::with_exclusive_kinds(&cluster).await;
    for (name, phase, violation) in &CASES {
        let id = declare_until(&world, *phase).await;
        let is_reported = |violations: &[String]| {
            let name = format!("{name}:");
            violations.iter().any(|violation| violation.starts_with(&name))
        };
        let before = world.violations(&[id]).await;
        assert!(!is_reported(&before), "{name} was violated before: {before:?}");
        violate(&world, id, violation).await;
        let after = world.violations(&[id]).await;
        assert!(is_reported(&after), "{name} is not reported: {after:?}");
    }
}

#[tokio::test]
async fn work_left_for_a_sweep_or_a_pass_is_reported() {
    let world = RealWorld::new().await;
    let id = declare_until(&world, Ready).await;
    assert_eq!(world.remaining_work(&[id]).await, Vec::<String>::new());
    world.crossplane.delete_by_hand(id).await;
    let remaining_work = world.remaining_work(&[id]).await;
    for name in ["S12: a sweep", "S13: another pass wrote", "S12: AuditedRequest"] {
        assert!(
            remaining_work.iter().any(|line| line.starts_with(name)),
            "{name}: {remaining_work:?}"
        );
    }
}
