//! Three replicas on one database and one API server, of which two are killed and restarted
//! repeatedly.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use broker_domain::{Phase, ProvisionedResourceId};
use broker_tests::real::RealWorld;
use broker_tests::until;
use broker_tests::world::{NODE, STANDALONE, operator};
use futures::{StreamExt, stream};

use super::host::{Host, HostConfig};
use broker_tests::is_nightly;

/// Short, so that leases of a killed replica are taken over during the test.
const LEASE: Duration = Duration::from_secs(5);

const SEED: u64 = 7;

/// Three replicas; the first is never killed.
struct Replicas<'a> {
    config: HostConfig<'a>,
    hosts: Vec<Host>,
    kills: u64,
    /// The number of leases that killed replicas held, which other replicas must take over.
    inherited_leases: i64,
}

impl<'a> Replicas<'a> {
    fn start(config: HostConfig<'a>) -> Self {
        let hosts = (0..3).map(|_| Host::start(&config)).collect();
        Self { config, hosts, kills: 0, inherited_leases: 0 }
    }

    async fn replace_one(&mut self, world: &RealWorld) {
        let index = 1 + usize::try_from(random(self.kills) % 2).unwrap();
        let killed = self.hosts.swap_remove(index).kill();
        self.inherited_leases += lease_count(world, &killed).await;
        self.hosts.push(Host::start(&self.config));
        self.kills += 1;
    }

    async fn stop(self) {
        for host in self.hosts {
            host.stop().await;
        }
    }
}

async fn lease_count(world: &RealWorld, replica: &str) -> i64 {
    let held = "SELECT count(*) FROM plexsphere.provisioned_resource_schedule
        WHERE lease_owner = $1 AND lease_until > clock_timestamp()";
    sqlx::query_scalar(held).bind(replica).fetch_one(world.pool()).await.unwrap()
}

/// A deterministic pseudo-random number per step of the seed.
fn random(step: u64) -> u64 {
    let mut hasher = DefaultHasher::new();
    (SEED, step).hash(&mut hasher);
    hasher.finish()
}

/// The number of resources in a phase, and the total number of row writes.
async fn progress(world: &RealWorld, phase: Phase) -> (usize, u64) {
    let (in_phase, written): (i64, i64) = sqlx::query_as(
        "SELECT count(*) FILTER (WHERE status = $1), coalesce(sum(version), 0)::bigint
        FROM plexsphere.provisioned_resources",
    )
    .bind(phase.as_str())
    .fetch_one(world.pool())
    .await
    .unwrap();
    (usize::try_from(in_phase).unwrap(), u64::try_from(written).unwrap())
}

/// Lets the replicas work and kills one after every few row writes, until all resources are in the
/// phase.
async fn run_until_all(world: &RealWorld, replicas: &mut Replicas<'_>, many: usize, phase: Phase) {
    let (_, mut killed_at) = progress(world, phase).await;
    loop {
        let step = (many as u64) / 2 + random(replicas.kills) % (many as u64);
        let (in_phase, written) =
            until(format_args!("all to be {phase}, or some progress"), || async {
                let (in_phase, written) = progress(world, phase).await;
                (in_phase == many || written >= killed_at + step).then_some((in_phase, written))
            })
            .await;
        if in_phase == many {
            return;
        }
        killed_at = written;
        replicas.replace_one(world).await;
    }
}

#[tokio::test]
async fn two_of_three_replicas_killed_repeatedly_still_converge() {
    let many = if is_nightly() { 300 } else { 40 };
    let world = Arc::new(RealWorld::new().await);
    let mut ids: Vec<ProvisionedResourceId> = Vec::new();
    for number in 0..many {
        let blueprint = if number % 4 == 0 { STANDALONE } else { NODE };
        ids.push(world.declare(&world.declaration(blueprint)).await.unwrap().id());
    }
    let (dsn, kubeconfig) = (world.database().url(), world.kubeconfig());
    let (sweep, poll) = (Duration::from_secs(1), Duration::from_millis(100));
    let config = HostConfig { dsn: &dsn, kubeconfig: &kubeconfig, lease: LEASE, sweep, poll };
    let simulation = world.keep_simulating();

    let mut replicas = Replicas::start(config);
    run_until_all(&world, &mut replicas, many, Phase::Ready).await;
    world.assert_all_invariants(&ids).await;
    stream::iter(&ids)
        .for_each_concurrent(4, |id| async {
            world.service.deprovision(&operator(), *id).await.unwrap();
        })
        .await;
    run_until_all(&world, &mut replicas, many, Phase::Deleted).await;
    let Replicas { kills, inherited_leases, .. } = &replicas;
    println!(
        "{many} converged and were deleted; {kills} replicas died and left {inherited_leases} leases behind"
    );
    assert!(*kills >= 4, "only {kills} replicas were killed");
    replicas.stop().await;
    drop(simulation);
    world.assert_all_invariants(&ids).await;
    world.assert_no_work(&ids).await;
    assert_eq!(world.crossplane.existing_objects().await, Vec::<String>::new());
}
