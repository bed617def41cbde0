//! Teardown: N Ready machines, from the deletion request to Deleted, by the shipped runner. The baseline
//! deletes the composite resource and, once a watch reports it gone, the ProviderConfig, with the same
//! concurrency. The naive way deletes one machine after the other, polls, and uses one transaction per
//! write. In all three, the garbage collector ends each foreground deletion.

use std::collections::BTreeSet;
use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use broker_domain::XrName;
use broker_tests::real::Machine;
use broker_tests::until;
use broker_tests::world::operator;
use http::{Method, Request};
use kube::api::WatchEvent;
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client, ResourceExt as _};
use serde_json::json;
use sqlx::PgPool;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::fixture::{Fixture, commit, follow, for_each_concurrent, run_broker};
use super::harness::{BenchOptions, Way};
use super::sweep::composites;

/// Concurrent teardowns: the shipped runner's number of workers.
const CONCURRENCY: usize = 8;

const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// A deregistered Node and three phases with one audit line each: one transaction per write.
const TRANSACTIONS: [&str; 7] = [
    "UPDATE plexsphere.nodes SET deregistered_at = clock_timestamp()
    WHERE id = (SELECT bootstrap_token_id FROM plexsphere.provisioned_resources WHERE id = $1)",
    "UPDATE plexsphere.provisioned_resources SET status = 'Deregistering', version = version + 1,
    deletion_requested_at = clock_timestamp() WHERE id = $1",
    AUDIT,
    "UPDATE plexsphere.provisioned_resources SET status = 'Deprovisioning', version = version + 1 WHERE id = $1",
    AUDIT,
    "UPDATE plexsphere.provisioned_resources SET status = 'Deleted', version = version + 1, token_closed = true
    WHERE id = $1",
    AUDIT,
];

const AUDIT: &str = "INSERT INTO plexsphere.provisioned_resource_audit
    (provisioned_resource_id, action, actor, correlation_id) VALUES ($1, 'phase_changed', 'naive', 'naive')";

pub(super) async fn run(options: BenchOptions) {
    let (bare, ours) = (Fixture::new().await, Fixture::new().await);
    for fixture in [&bare, &ours] {
        wait_for_collector(fixture).await;
    }
    let (deleted, _following) = follow_deletions(&bare);
    let _running = run_broker(&ours.world);
    for count in [20, 50, 200] {
        let name = format!("{count} machines");
        let count = options.size(count);
        let (bare_case, ours_case) =
            (options.case(&bare, name.as_str(), count), options.case(&ours, name.as_str(), count));
        for (bare_round, ours_round) in bare_case.rounds().zip(ours_case.rounds()) {
            let machines = bare.world.create_machines(count).await;
            bare_round.measure(Way::Baseline, delete(&bare, machines, &deleted)).await;
            let machines = ours.world.create_machines(count).await;
            ours_round.measure(Way::Ours, deprovision(&ours, machines)).await;
            let machines = bare.world.create_machines(count).await;
            bare_round.measure(Way::Naive, one_by_one(&bare, machines)).await;
        }
    }
}

/// Waits until the garbage collector has discovered the new kinds: before, it ends no foreground deletion.
async fn wait_for_collector(fixture: &Fixture) {
    for machine in fixture.world.create_machines(1).await {
        for kind in paths(fixture) {
            delete_and_poll(&fixture.bare_client, &path_of(&kind, machine)).await;
        }
    }
}

/// The paths of deleted objects, from a watch per kind.
type DeletedPaths = watch::Receiver<BTreeSet<String>>;

fn follow_deletions(fixture: &Fixture) -> (DeletedPaths, [JoinSet<()>; 2]) {
    let (sender, deleted) = watch::channel(BTreeSet::new());
    let kinds = &fixture.world.kinds;
    let config = GroupVersionKind::gvk(&kinds.provider_group(), "v1beta1", "ProviderConfig");
    let config = ApiResource::from_gvk_with_plural(&config, "providerconfigs");
    let configs =
        Api::namespaced_with(fixture.bare_client.clone(), &fixture.world.namespace(), &config);
    let watched = [composites(fixture), configs].into_iter().zip(paths(fixture));
    let following = watched.map(|(objects, kind)| {
        let sender = sender.clone();
        follow(objects, move |event| {
            if let WatchEvent::Deleted(object) = event {
                sender.send_modify(|deleted| {
                    deleted.insert(format!("{kind}/{}", object.name_any()));
                });
            }
            ready(())
        })
    });
    let following: Vec<_> = following.collect();
    (deleted, following.try_into().unwrap())
}

async fn deprovision(fixture: &Fixture, machines: Vec<Machine>) {
    let world = Arc::clone(&fixture.world);
    let count = i64::try_from(machines.len()).unwrap();
    let before = count_deleted(world.pool()).await;
    for_each_concurrent(CONCURRENCY, machines, move |Machine { id, .. }| {
        let world = Arc::clone(&world);
        async move {
            world.service.deprovision(&operator(), id).await.unwrap();
        }
    })
    .await;
    until("all to be Deleted", || async {
        (count_deleted(fixture.world.pool()).await == before + count).then_some(())
    })
    .await;
}

async fn count_deleted(pool: &PgPool) -> i64 {
    let deleted = "SELECT count(*) FROM plexsphere.provisioned_resources WHERE status = 'Deleted'";
    sqlx::query_scalar(deleted).fetch_one(pool).await.unwrap()
}

async fn delete(fixture: &Fixture, machines: Vec<Machine>, deleted: &DeletedPaths) {
    let (client, kinds, deleted) = (fixture.bare_client.clone(), paths(fixture), deleted.clone());
    for_each_concurrent(CONCURRENCY, machines, move |machine| {
        let (client, kinds, mut deleted) = (client.clone(), kinds.clone(), deleted.clone());
        async move {
            for kind in kinds {
                let path = path_of(&kind, machine);
                send_deletion(&client, &path).await;
                deleted.wait_for(|deleted| deleted.contains(&path)).await.unwrap();
            }
        }
    })
    .await;
}

async fn one_by_one(fixture: &Fixture, machines: Vec<Machine>) {
    let pool = fixture.world.pool();
    for machine in machines {
        for kind in paths(fixture) {
            delete_and_poll(&fixture.bare_client, &path_of(&kind, machine)).await;
        }
        for statement in TRANSACTIONS {
            commit(pool, sqlx::query(statement).bind(machine.id.as_uuid())).await;
        }
    }
}

fn paths(fixture: &Fixture) -> [String; 2] {
    let (kinds, namespace) = (&fixture.world.kinds, fixture.world.namespace());
    [
        format!("/apis/{}/v1/namespaces/{namespace}/machines", kinds.group()),
        format!("/apis/{}/v1beta1/namespaces/{namespace}/providerconfigs", kinds.provider_group()),
    ]
}

fn path_of(kind: &str, machine: Machine) -> String {
    format!("{kind}/{}", XrName::of(machine.id))
}

async fn send_deletion(client: &Client, path: &str) {
    let options = json!({
        "apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Foreground",
    });
    let request = Request::builder().method(Method::DELETE).uri(path);
    let request = request.header("content-type", "application/json");
    client.request_text(request.body(options.to_string().into_bytes()).unwrap()).await.unwrap();
}

async fn delete_and_poll(client: &Client, path: &str) {
    send_deletion(client, path).await;
    while client.request_text(Request::get(path).body(Vec::new()).unwrap()).await.is_ok() {
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}
