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

use super::host::{Host, Place};
use broker_tests::is_nightly;

/// So short that the leases of a dead replica are taken over while the others work.
const LEASE: Duration = Duration::from_secs(5);

const SEED: u64 = 7;

/// Three replicas; the first is never killed.
struct Replicas<'a> {
    place: Place<'a>,
    hosts: Vec<Host>,
    deaths: u64,
    /// Leases of dead replicas, each of which another one has to take over.
    left_behind: i64,
}

impl<'a> Replicas<'a> {
    fn start(place: Place<'a>) -> Self {
        let hosts = (0..3).map(|_| Host::start(&place)).collect();
        Self { place, hosts, deaths: 0, left_behind: 0 }
    }

    async fn replace_one(&mut self, world: &RealWorld) {
        let victim = 1 + usize::try_from(random(self.deaths) % 2).unwrap();
        let dead = self.hosts.swap_remove(victim).kill();
        self.left_behind += held_by(world, &dead).await;
        self.hosts.push(Host::start(&self.place));
        self.deaths += 1;
    }

    async fn stop(self) {
        for host in self.hosts {
            host.stop().await;
        }
    }
}

async fn held_by(world: &RealWorld, replica: &str) -> i64 {
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

/// How many are in a phase, and the total number of row writes.
async fn progress(world: &RealWorld, phase: Phase) -> (usize, u64) {
    let (arrived, written): (i64, i64) = sqlx::query_as(
        "SELECT count(*) FILTER (WHERE status = $1), coalesce(sum(version), 0)::bigint
        FROM plexsphere.provisioned_resources",
    )
    .bind(phase.as_str())
    .fetch_one(world.pool())
    .await
    .unwrap();
    (usize::try_from(arrived).unwrap(), u64::try_from(written).unwrap())
}

/// Lets the replicas work and kills one after every few row writes, until all resources are in the
/// phase.
async fn arrive(world: &RealWorld, replicas: &mut Replicas<'_>, many: usize, phase: Phase) {
    let (_, mut killed_at) = progress(world, phase).await;
    loop {
        let step = (many as u64) / 2 + random(replicas.deaths) % (many as u64);
        let (arrived, written) =
            until(format_args!("all to be {phase}, or some progress"), || async {
                let (arrived, written) = progress(world, phase).await;
                (arrived == many || written >= killed_at + step).then_some((arrived, written))
            })
            .await;
        if arrived == many {
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
    let place = Place { dsn: &dsn, kubeconfig: &kubeconfig, lease: LEASE, sweep, poll };
    let turning = world.keep_turning();

    let mut replicas = Replicas::start(place);
    arrive(&world, &mut replicas, many, Phase::Ready).await;
    world.assert_all_sound(&ids).await;
    stream::iter(&ids)
        .for_each_concurrent(4, |id| async {
            world.service.deprovision(&operator(), *id).await.unwrap();
        })
        .await;
    arrive(&world, &mut replicas, many, Phase::Deleted).await;
    let Replicas { deaths, left_behind, .. } = &replicas;
    println!(
        "{many} converged and were deleted; {deaths} replicas died and left {left_behind} leases behind"
    );
    assert!(*deaths >= 4, "only {deaths} replicas were killed");
    replicas.stop().await;
    drop(turning);
    world.assert_all_sound(&ids).await;
    world.assert_still(&ids).await;
    assert_eq!(world.crossplane.existing_objects().await, Vec::<String>::new());
}
