//! Server load of whole lifecycles: machines go from declaration to Deleted under the shipped runner, with
//! one replica and with three. Counts include no-op passes and the hints that each replica follows.
//! There is no baseline; the counts are for `docs/scale.md`.

use std::sync::Arc;
use std::time::Duration;

use broker_domain::{Phase, ProvisionedResourceId};
use broker_tests::real::{Behaviour, TIMEOUT, wire};
use broker_tests::until;
use broker_tests::world::{NODE, operator};
use tokio::task::JoinSet;

use super::fixture::{Fixture, for_each_concurrent, run_replica};
use super::harness::{BenchOptions, Way};

const CONCURRENCY: usize = 8;

/// Without requests and writes for this time, the broker is settled.
const QUIET_PERIOD: Duration = Duration::from_secs(1);

pub(super) async fn run(options: BenchOptions) {
    for (replicas, name) in [(1, "1 replica"), (3, "3 replicas")] {
        let fixture = Fixture::new().await;
        let count = options.size(50);
        let _running = run_replicas(&fixture, replicas).await;
        let _world = fixture.world.keep_simulating();
        let case =
            |step: &str| options.case(&fixture, format!("{name}, 50 machines {step}"), count);
        let creation = case("become Ready");
        let failure = case("fail and recover");
        let teardown = case("are torn down");
        let rounds = creation.rounds().zip(failure.rounds()).zip(teardown.rounds());
        for ((creation, failure), teardown) in rounds {
            let mut machines = Vec::new();
            creation.measure(Way::Ours, async { machines = create(&fixture, count).await }).await;
            failure.measure(Way::Ours, fail_and_recover(&fixture, &machines)).await;
            teardown.measure(Way::Ours, tear_down(&fixture, machines)).await;
        }
    }
}

/// Replicas with their own client and pool.
async fn run_replicas(fixture: &Fixture, replicas: usize) -> Vec<JoinSet<()>> {
    let world = &fixture.world;
    let mut running = Vec::new();
    for number in 0..replicas {
        let client = world.cluster.identity(&world.user).await;
        let pool = world.database().pool_like_binary();
        let (parts, _) = wire(&pool, client, TIMEOUT);
        running.push(run_replica(&format!("replica-{number}"), &parts.ports));
    }
    running
}

async fn create(fixture: &Fixture, count: usize) -> Vec<ProvisionedResourceId> {
    let world = &fixture.world;
    let mut machines = Vec::new();
    for _ in 0..count {
        machines.push(world.declare(&world.declaration(NODE)).await.unwrap().id());
    }
    wait_for_all(fixture, &machines, Phase::Ready).await;
    machines
}

async fn fail_and_recover(fixture: &Fixture, machines: &[ProvisionedResourceId]) {
    for (behaviour, phase) in
        [(Behaviour::NeverReady, Phase::Provisioning), (Behaviour::Ready, Phase::Ready)]
    {
        for id in machines {
            fixture.world.crossplane.behave_for(*id, behaviour.clone());
        }
        wait_for_all(fixture, machines, phase).await;
    }
}

async fn tear_down(fixture: &Fixture, machines: Vec<ProvisionedResourceId>) {
    let world = Arc::clone(&fixture.world);
    for_each_concurrent(CONCURRENCY, machines.clone(), move |id| {
        let world = Arc::clone(&world);
        async move {
            world.service.deprovision(&operator(), id).await.unwrap();
        }
    })
    .await;
    wait_for_all(fixture, &machines, Phase::Deleted).await;
}

/// Waits until all have the phase and requests have ceased, so that late requests are counted.
async fn wait_for_all(fixture: &Fixture, machines: &[ProvisionedResourceId], phase: Phase) {
    let world = &fixture.world;
    let ids: Vec<_> = machines.iter().map(ProvisionedResourceId::as_uuid).collect();
    until(phase, || async {
        let reached = "SELECT count(*) FROM plexsphere.provisioned_resources
            WHERE id = ANY ($1) AND status = $2";
        let reached = sqlx::query_scalar::<_, i64>(reached).bind(&ids).bind(phase.as_str());
        let reached = reached.fetch_one(world.pool()).await.unwrap();
        (usize::try_from(reached).unwrap() == ids.len()).then_some(())
    })
    .await;
    until("all requests to end", || async {
        let start = fixture.start_counting().await;
        tokio::time::sleep(QUIET_PERIOD).await;
        fixture.counts_since(&start, Way::Ours).await.is_zero().then_some(())
    })
    .await;
}
