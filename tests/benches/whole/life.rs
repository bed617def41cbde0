//! Server load of whole lifecycles: machines go from declaration to Deleted under the shipped runner, with
//! one replica and with three. Everything counts, including hints that each replica follows and no-op
//! passes. There is no baseline; the counts are for `docs/scale.md`.

use std::sync::Arc;
use std::time::Duration;

use broker_domain::{Phase, ProvisionedResourceId};
use broker_tests::real::{Behaviour, PATIENCE, wire};
use broker_tests::until;
use broker_tests::world::{NODE, operator};
use tokio::task::JoinSet;

use super::lab::{Lab, Way};
use super::stand::{Stand, at_once, run_replica};

const AT_ONCE: usize = 8;

/// No request for this long means settled.
const REST: Duration = Duration::from_secs(1);

pub(super) async fn run(lab: Lab) {
    for (replicas, named) in [(1, "1 replica"), (3, "3 replicas")] {
        let stand = Stand::new().await;
        let many = lab.many(50);
        let _running = run_replicas(&stand, replicas).await;
        let _world = stand.world.keep_turning();
        let case = |what: &str| lab.case(&stand, format!("{named}, 50 machines {what}"), many);
        let (up, back, down) = (case("up"), case("in trouble and back"), case("down"));
        for ((up, back), down) in up.rounds().zip(back.rounds()).zip(down.rounds()) {
            let mut machines = Vec::new();
            up.measure(Way::Ours, async { machines = bring_up(&stand, many).await }).await;
            back.measure(Way::Ours, have_trouble(&stand, &machines)).await;
            down.measure(Way::Ours, take_down(&stand, machines)).await;
        }
    }
}

/// Replicas that share nothing but their servers.
async fn run_replicas(stand: &Stand, replicas: usize) -> Vec<JoinSet<()>> {
    let world = &stand.world;
    let mut running = Vec::new();
    for number in 0..replicas {
        let client = world.cluster.identity(&world.user).await;
        let pool = world.database().trusting_pool();
        let (parts, _) = wire(&pool, client, PATIENCE);
        running.push(run_replica(&format!("replica-{number}"), &parts.ports));
    }
    running
}

async fn bring_up(stand: &Stand, many: usize) -> Vec<ProvisionedResourceId> {
    let world = &stand.world;
    let mut machines = Vec::new();
    for _ in 0..many {
        machines.push(world.declare(&world.declaration(NODE)).await.unwrap().id());
    }
    all_in(stand, &machines, Phase::Ready).await;
    machines
}

async fn have_trouble(stand: &Stand, machines: &[ProvisionedResourceId]) {
    for (behaviour, phase) in
        [(Behaviour::NeverReady, Phase::Provisioning), (Behaviour::Ready, Phase::Ready)]
    {
        for id in machines {
            stand.world.crossplane.behave_for(*id, behaviour.clone());
        }
        all_in(stand, machines, phase).await;
    }
}

async fn take_down(stand: &Stand, machines: Vec<ProvisionedResourceId>) {
    let world = Arc::clone(&stand.world);
    at_once(AT_ONCE, machines.clone(), move |id| {
        let world = Arc::clone(&world);
        async move {
            world.service.deprovision(&operator(), id).await.unwrap();
        }
    })
    .await;
    all_in(stand, &machines, Phase::Deleted).await;
}

/// Waits until all are in a phase and no request is made any more, so that late requests are counted too.
async fn all_in(stand: &Stand, machines: &[ProvisionedResourceId], phase: Phase) {
    let world = &stand.world;
    let ids: Vec<_> = machines.iter().map(ProvisionedResourceId::as_uuid).collect();
    until(phase, || async {
        let there = "SELECT count(*) FROM plexsphere.provisioned_resources
            WHERE id = ANY ($1) AND status = $2";
        let there = sqlx::query_scalar::<_, i64>(there).bind(&ids).bind(phase.as_str());
        let there = there.fetch_one(world.pool()).await.unwrap();
        (usize::try_from(there).unwrap() == ids.len()).then_some(())
    })
    .await;
    until("all requests to end", || async {
        let before = stand.mark().await;
        tokio::time::sleep(REST).await;
        stand.since(&before, Way::Ours).await.is_nothing().then_some(())
    })
    .await;
}
