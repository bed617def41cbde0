//! A sweep of a world in which there is nothing to do costs nothing: no row, no event, no request. Counted by
//! the servers themselves, over a thousand each that are converged, that wait in Provisioning, that wait for a
//! namespace, and that wait for a composite resource on its way out.
//!
//! One resource of each kind is brought there by the broker itself. The others are its copies: the row is
//! copied in the database, and the objects are applied as the broker applies them.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::Instant;

use broker_app::SweepReport;
use broker_domain::{ObjectReference, Phase, ProvisionedResource, ProvisionedResourceId};
use broker_ports::IdSource;
use broker_render::{FIELD_MANAGER, references_digest};
use broker_tests::TestCluster;
use broker_tests::cluster::AuditedRequest;
use broker_tests::real::{Behaviour, PATIENCE, RealWorld, SystemIds};
use broker_tests::world::{STANDALONE, operator};
use futures::{StreamExt, stream};
use kube::Api;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};
use sqlx::AssertSqlSafe;

/// As many as there are of each.
const MANY: usize = 1_000;

/// Objects that are made at once.
const AT_ONCE: usize = 32;

const CROSSPLANE: &str = "crossplane";

/// What keeps a composite resource until somebody lets it go.
const HELD: &str = "composite.apiextensions.crossplane.io";

/// A copy of a row under another id: everything that names the resource names the copy.
const COPY: &str = "INSERT INTO plexsphere.provisioned_resources
SELECT (jsonb_populate_record(original, jsonb_build_object(
    'id', copy.id,
    'xr_name', 'pr-' || copy.id,
    'request_id', NULL,
    'request_hash', NULL,
    'substrate', replace(original.substrate::text, original.id::text, copy.id::text)::jsonb,
    'references_digest', copy.digest,
    'xr_uid', copy.uid))).*
FROM plexsphere.provisioned_resources AS original,
    unnest($2::uuid[], $3::bytea[], $4::text[]) AS copy (id, digest, uid)
WHERE original.id = $1";

/// Rows as they lie in the tables, and requests as the API server had them.
#[derive(Debug, PartialEq, Eq)]
struct Cost {
    /// Rows that were inserted, updated or deleted, by table.
    rows: BTreeSet<String>,
    events: i64,
    requests: Vec<AuditedRequest>,
}

fn nothing() -> Cost {
    Cost { rows: BTreeSet::new(), events: 0, requests: Vec::new() }
}

/// Every row by its table, its place and the transaction that wrote it. Whatever is written moves.
async fn rows(world: &RealWorld) -> BTreeSet<String> {
    let tables: Vec<String> = sqlx::query_scalar(
        "SELECT table_name::text FROM information_schema.tables
        WHERE table_schema = 'plexsphere' AND table_type = 'BASE TABLE'",
    )
    .fetch_all(world.pool())
    .await
    .unwrap();
    assert!(tables.iter().any(|table| table == "provisioned_resource_schedule"), "{tables:?}");
    let mut rows = BTreeSet::new();
    for table in tables {
        let statement = format!("SELECT ctid::text || ' ' || xmin::text FROM plexsphere.{table}");
        let found: Vec<String> =
            sqlx::query_scalar(AssertSqlSafe(statement)).fetch_all(world.pool()).await.unwrap();
        rows.extend(found.into_iter().map(|row| format!("{table} {row}")));
    }
    rows
}

async fn events(world: &RealWorld) -> i64 {
    let count = sqlx::query_scalar("SELECT count(*) FROM plexsphere.provisioning_outbox");
    count.fetch_one(world.pool()).await.unwrap()
}

/// What something costs.
async fn cost_of<T>(world: &RealWorld, what: impl Future<Output = T>) -> (T, Cost) {
    let log = world.cluster.audit_log();
    let (before, events_before, mark) = (rows(world).await, events(world).await, log.mark());
    let answer = what.await;
    let requests = log.since(mark, &world.user).await;
    let rows = rows(world).await.symmetric_difference(&before).cloned().collect();
    let events = events(world).await - events_before;
    (answer, Cost { rows, events, requests })
}

/// Where the objects of a world stand.
struct Objects {
    composites: Api<DynamicObject>,
    configs: Api<DynamicObject>,
}

impl Objects {
    fn of(world: &RealWorld) -> Self {
        let home = broker_render::namespace(world.project);
        let api = |group: &str, version: &str, kind: &str, plural: &str| {
            let kind = GroupVersionKind::gvk(group, version, kind);
            let kind = ApiResource::from_gvk_with_plural(&kind, plural);
            Api::namespaced_with(world.admin.clone(), home.as_str(), &kind)
        };
        let (kind, plural) = world.kinds.of(STANDALONE);
        let configs = world.kinds.provider_group();
        Self {
            composites: api(&world.kinds.group(), "v1", kind, plural),
            configs: api(&configs, "v1beta1", "ProviderConfig", "providerconfigs"),
        }
    }

    /// Makes the objects of a copy: what the broker sends, what Crossplane writes, and what becomes of it.
    async fn copy(&self, original: &Original, to: ProvisionedResourceId) -> Option<String> {
        let Original { id, composite, config, deleting } = original;
        let renamed = |object: &Value| -> Value {
            let text = object.to_string().replace(&id.to_string(), &to.to_string());
            serde_json::from_str(&text).unwrap()
        };
        let name = to.xr_name();
        let ours = PatchParams::apply(FIELD_MANAGER).force();
        let config = Patch::Apply(renamed(&sent(config)));
        self.configs.patch(name.as_str(), &ours, &config).await.unwrap();
        let sent = Patch::Apply(renamed(&sent(composite)));
        let copy = self.composites.patch(name.as_str(), &ours, &sent).await.unwrap();
        let theirs =
            PatchParams { field_manager: Some(CROSSPLANE.into()), ..PatchParams::default() };
        let composed = renamed(&json!({
            "metadata": {"finalizers": [HELD]},
            "spec": {"crossplane": composite["spec"]["crossplane"]},
        }));
        self.composites.patch(name.as_str(), &theirs, &Patch::Merge(composed)).await.unwrap();
        let status = Patch::Merge(json!({"status": composite["status"]}));
        self.composites.patch_status(name.as_str(), &theirs, &status).await.unwrap();
        if *deleting {
            let foreground = DeleteParams::foreground();
            self.composites.delete(name.as_str(), &foreground).await.unwrap();
        }
        copy.metadata.uid
    }
}

/// What of an object the broker sent.
fn sent(object: &Value) -> Value {
    let metadata = &object["metadata"];
    let mut annotations = metadata["annotations"].clone();
    if let Some(annotations) = annotations.as_object_mut() {
        // The played Crossplane has a note of its own there.
        annotations.retain(|name, _| name.starts_with("plexsphere.io/"));
    }
    let mut spec = object["spec"].clone();
    if let Some(spec) = spec.as_object_mut() {
        spec.remove("crossplane");
    }
    json!({
        "apiVersion": object["apiVersion"],
        "kind": object["kind"],
        "metadata": {
            "name": metadata["name"], "namespace": metadata["namespace"],
            "labels": metadata["labels"], "annotations": annotations,
        },
        "spec": spec,
    })
}

/// What copies are made of.
struct Original {
    id: ProvisionedResourceId,
    composite: Value,
    config: Value,
    deleting: bool,
}

/// Makes as many as it takes of one that the broker itself brought there.
async fn multiply(world: &RealWorld, original: &ProvisionedResource, behaviour: &Behaviour) {
    let ids: Vec<_> = (1..MANY).map(|_| SystemIds.provisioned_resource_id()).collect();
    // Crossplane has turns of its own while the next original is brought about.
    for id in &ids {
        world.crossplane.behave_for(*id, behaviour.clone());
    }
    let mut uids = vec![None; ids.len()];
    if !original.substrate().composed().is_empty() {
        let (objects, name) = (Objects::of(world), original.xr_name());
        let composite = objects.composites.get(name.as_str()).await.unwrap();
        let original = Original {
            id: original.id(),
            deleting: composite.metadata.deletion_timestamp.is_some(),
            composite: serde_json::to_value(composite).unwrap(),
            config: serde_json::to_value(objects.configs.get(name.as_str()).await.unwrap())
                .unwrap(),
        };
        let copies = stream::iter(&ids).map(|id| objects.copy(&original, *id));
        uids = copies.buffered(AT_ONCE).collect().await;
    }
    let digests: Vec<_> = ids.iter().map(|id| digest(original, *id)).collect();
    let copied = sqlx::query(COPY)
        .bind(original.id().as_uuid())
        .bind(ids.iter().map(ProvisionedResourceId::as_uuid).collect::<Vec<_>>())
        .bind(digests)
        .bind(uids)
        .execute(world.pool())
        .await
        .unwrap();
    assert_eq!(copied.rows_affected(), ids.len() as u64);
}

/// The digest over the references of a copy, as the row has it.
fn digest(original: &ProvisionedResource, to: ProvisionedResourceId) -> Option<Vec<u8>> {
    let composed = original.substrate().composed();
    let renamed = composed.iter().map(|part| {
        let name = part.name().replace(&original.id().to_string(), &to.to_string());
        ObjectReference::new(part.api_version(), part.kind(), &name, part.namespace()).unwrap()
    });
    original.substrate().references_digest()?;
    Some(references_digest(&renamed.collect()).as_bytes().to_vec())
}

/// Sweeps until the cache has heard of everything, and once more, which has to cost nothing.
async fn expect_silence(world: &RealWorld, expected: usize, why: &str) {
    let started = Instant::now();
    loop {
        let (work, report) = world.sweep().await;
        let settled = work.is_empty() && report.settled == expected;
        if settled && world.cache.identity().is_some() {
            break;
        }
        let (waiting, troubles) = (report.waiting, report.by_reason());
        assert!(
            started.elapsed() < PATIENCE,
            "{why}: {} of {expected} settled, {waiting} wait, {} to do, {troubles:?}, {} missing",
            report.settled,
            work.len(),
            report.missing,
        );
    }
    let ((work, report), cost) = cost_of(world, world.sweep()).await;
    let SweepReport { looked_at, settled, troubles, orphans, unlisted_kinds, .. } = report;
    assert_eq!((looked_at, settled), (expected, expected), "{why}: {troubles:?}");
    assert!(work.is_empty() && orphans.is_empty() && unlisted_kinds.is_empty(), "{why}");
    assert_eq!(cost, nothing(), "{why}");
}

/// On a control plane of its own: thousands of objects are a flood to everybody else's.
#[tokio::test]
async fn sweeping_a_thousand_of_each_kind_with_nothing_to_do_costs_nothing() {
    let dedicated = TestCluster::dedicated().await;
    let world = RealWorld::alone(&dedicated).await;
    let _running = world.run_cache();
    let declaration = world.declaration(STANDALONE);

    let ready = world.brought_to(Phase::Ready, &declaration).await;
    multiply(&world, &ready, &Behaviour::Ready).await;
    expect_silence(&world, MANY, "converged").await;

    let waiting = world.declare(&declaration).await.unwrap();
    world.crossplane.behave_for(waiting.id(), Behaviour::NeverReady);
    let mut waiting = world.until(waiting.id(), Phase::Provisioning).await;
    while waiting.substrate().composed().is_empty() {
        world.round(waiting.id()).await.unwrap();
        waiting = world.get(waiting.id()).await;
    }
    multiply(&world, &waiting, &Behaviour::NeverReady).await;
    expect_silence(&world, 2 * MANY, "waits in Provisioning").await;

    let leaving = world.brought_to(Phase::Ready, &declaration).await;
    world.crossplane.deletes.store(false, Ordering::Relaxed);
    world.service.deprovision(&operator(), leaving.id()).await.unwrap();
    let leaving = world.until(leaving.id(), Phase::Deprovisioning).await;
    multiply(&world, &leaving, &Behaviour::Ready).await;
    expect_silence(&world, 3 * MANY, "waits for its composite resource to go").await;

    world.place(false).await;
    let homeless = world.declare(&declaration).await.unwrap();
    multiply(&world, &homeless, &Behaviour::Ready).await;
    expect_silence(&world, 4 * MANY, "waits for a namespace").await;

    // The scales work: a pass costs something of each, as long as there is something to do.
    world.place(true).await;
    let pass = Box::pin(world.reconciler.reconcile(homeless.id()));
    let (passed, cost) = cost_of(&world, pass).await;
    passed.unwrap();
    assert!(!cost.rows.is_empty() && !cost.requests.is_empty(), "{cost:?}");
    let (declared, cost) = cost_of(&world, world.declare(&declaration)).await;
    declared.unwrap();
    assert_eq!((cost.events, cost.requests.len()), (1, 0));
}
