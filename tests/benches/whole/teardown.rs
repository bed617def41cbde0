//! Teardown: N Ready machines, from the deletion request to Deleted, by the shipped runner. The floor
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

use super::lab::{Lab, Way};
use super::stand::{Stand, at_once, commit, follow, run_broker};
use super::sweep::composites;

/// Concurrent teardowns: the shipped runner's number of workers.
const AT_ONCE: usize = 8;

const LOOK: Duration = Duration::from_millis(10);

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

pub(super) async fn run(lab: Lab) {
    let (bare, ours) = (Stand::new().await, Stand::new().await);
    for stand in [&bare, &ours] {
        until_collected(stand).await;
    }
    let (gone, _following) = follow_deletions(&bare);
    let _running = run_broker(&ours.world);
    for many in [20, 50, 200] {
        let name = format!("{many} machines");
        let many = lab.many(many);
        let (bare_case, ours_case) =
            (lab.case(&bare, name.as_str(), many), lab.case(&ours, name.as_str(), many));
        for (bare_round, ours_round) in bare_case.rounds().zip(ours_case.rounds()) {
            let machines = bare.world.furnish(many).await;
            bare_round.measure(Way::Floor, delete(&bare, machines, &gone)).await;
            let machines = ours.world.furnish(many).await;
            ours_round.measure(Way::Ours, deprovision(&ours, machines)).await;
            let machines = bare.world.furnish(many).await;
            bare_round.measure(Way::Naive, one_by_one(&bare, machines)).await;
        }
    }
}

/// The garbage collector discovers new kinds only after a while; until then it ends no foreground deletion.
async fn until_collected(stand: &Stand) {
    for machine in stand.world.furnish(1).await {
        for kind in paths(stand) {
            delete_and_look(&stand.bare, &path_of(&kind, machine)).await;
        }
    }
}

/// The paths of deleted objects, from a watch per kind.
type Gone = watch::Receiver<BTreeSet<String>>;

fn follow_deletions(stand: &Stand) -> (Gone, [JoinSet<()>; 2]) {
    let (told, gone) = watch::channel(BTreeSet::new());
    let kinds = &stand.world.kinds;
    let config = GroupVersionKind::gvk(&kinds.provider_group(), "v1beta1", "ProviderConfig");
    let config = ApiResource::from_gvk_with_plural(&config, "providerconfigs");
    let configs = Api::namespaced_with(stand.bare.clone(), &stand.world.home(), &config);
    let followed = [composites(stand), configs].into_iter().zip(paths(stand));
    let following = followed.map(|(objects, kind)| {
        let told = told.clone();
        follow(objects, move |event| {
            if let WatchEvent::Deleted(object) = event {
                told.send_modify(|gone| {
                    gone.insert(format!("{kind}/{}", object.name_any()));
                });
            }
            ready(())
        })
    });
    let following: Vec<_> = following.collect();
    (gone, following.try_into().unwrap())
}

async fn deprovision(stand: &Stand, machines: Vec<Machine>) {
    let world = Arc::clone(&stand.world);
    let many = i64::try_from(machines.len()).unwrap();
    let before = deleted(world.pool()).await;
    at_once(AT_ONCE, machines, move |Machine { id, .. }| {
        let world = Arc::clone(&world);
        async move {
            world.service.deprovision(&operator(), id).await.unwrap();
        }
    })
    .await;
    until("all to be Deleted", || async {
        (deleted(stand.world.pool()).await == before + many).then_some(())
    })
    .await;
}

async fn deleted(pool: &PgPool) -> i64 {
    let deleted = "SELECT count(*) FROM plexsphere.provisioned_resources WHERE status = 'Deleted'";
    sqlx::query_scalar(deleted).fetch_one(pool).await.unwrap()
}

async fn delete(stand: &Stand, machines: Vec<Machine>, gone: &Gone) {
    let (client, kinds, gone) = (stand.bare.clone(), paths(stand), gone.clone());
    at_once(AT_ONCE, machines, move |machine| {
        let (client, kinds, mut gone) = (client.clone(), kinds.clone(), gone.clone());
        async move {
            for kind in kinds {
                let path = path_of(&kind, machine);
                send_deletion(&client, &path).await;
                gone.wait_for(|gone| gone.contains(&path)).await.unwrap();
            }
        }
    })
    .await;
}

async fn one_by_one(stand: &Stand, machines: Vec<Machine>) {
    let pool = stand.world.pool();
    for machine in machines {
        for kind in paths(stand) {
            delete_and_look(&stand.bare, &path_of(&kind, machine)).await;
        }
        for statement in TRANSACTIONS {
            commit(pool, sqlx::query(statement).bind(machine.id.as_uuid())).await;
        }
    }
}

fn paths(stand: &Stand) -> [String; 2] {
    let (kinds, home) = (&stand.world.kinds, stand.world.home());
    [
        format!("/apis/{}/v1/namespaces/{home}/machines", kinds.group()),
        format!("/apis/{}/v1beta1/namespaces/{home}/providerconfigs", kinds.provider_group()),
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

async fn delete_and_look(client: &Client, path: &str) {
    send_deletion(client, path).await;
    while client.request_text(Request::get(path).body(Vec::new()).unwrap()).await.is_ok() {
        tokio::time::sleep(LOOK).await;
    }
}
