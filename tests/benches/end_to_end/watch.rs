//! Latency from a ready composite resource to the committed phase, one change after the other. The baseline is
//! a bare watch that commits a row per event. Both are measured by the store's clock, which is the
//! machine's.

use std::sync::Arc;
use std::time::Duration;

use broker_app::SystemClock;
use broker_domain::{Phase, ProvisionedResourceId, XrName};
use broker_ports::Clock;
use broker_tests::real::{Behaviour, Crossplane, Machine, RealWorld};
use broker_tests::until;
use broker_tests::world::{NODE, STANDALONE};
use futures::{StreamExt as _, stream};
use kube::api::{DynamicObject, Patch, PatchParams, WatchEvent};
use kube::{Api, ResourceExt as _};
use serde_json::json;
use sqlx::PgPool;
use sqlx::types::time::OffsetDateTime;
use tokio::task::JoinSet;

use super::fixture::{Fixture, follow, run_broker};
use super::harness::{BenchOptions, Case, Way};
use super::processor_time::ProcessorTicks;

const POLL_INTERVAL: Duration = Duration::from_millis(2);

const COMMITTED: &str = "SELECT at FROM plexsphere.provisioned_resource_audit
WHERE provisioned_resource_id = $1 AND at > $2 AND action = 'phase_changed' ORDER BY at LIMIT 1";

/// A row, and an audit line with its time.
const COMMIT: &str = "WITH changed AS (
    UPDATE plexsphere.provisioned_resources SET status = 'Enrolling', version = version + 1
    WHERE xr_name = $1 AND id = substr($1, 4)::uuid RETURNING id
)
INSERT INTO plexsphere.provisioned_resource_audit
    (provisioned_resource_id, action, actor, correlation_id, at)
SELECT id, 'phase_changed', 'bare', 'bare', clock_timestamp() FROM changed";

pub(super) async fn run(options: BenchOptions) {
    let count = options.size(100);
    // Separate worlds: otherwise the broker would follow the baseline's changes too.
    let (bare, ours) = (Fixture::new().await, Fixture::new().await);
    let bare = LatencyRuns::new(options, Way::Baseline, &bare, count);
    let ours = LatencyRuns::new(options, Way::Ours, &ours, count);
    let machines = bare.fixture.world.create_machines(count * bare.rounds()).await;
    let machines: Vec<_> = machines.into_iter().map(|Machine { id, .. }| id).collect();
    let waiting = waiting(&ours.fixture.world, count * ours.rounds()).await;
    let _following = commit_changes(bare.fixture);
    let _running = run_broker(&ours.fixture.world);
    until("the cache to be warm", || async { ours.fixture.world.cache.identity() }).await;
    let rounds = machines.chunks(count).zip(waiting.chunks(count)).enumerate();
    for (number, (machines, waiting)) in rounds {
        bare.measure_round(number, NODE, machines).await;
        ours.measure_round(number, STANDALONE, waiting).await;
    }
}

/// The measurements of one way.
struct LatencyRuns<'a> {
    way: Way,
    fixture: &'a Fixture,
    /// Each case with its percentile.
    cases: [(Case<'a>, usize); 2],
}

impl<'a> LatencyRuns<'a> {
    fn new(options: BenchOptions, way: Way, fixture: &'a Fixture, count: usize) -> Self {
        let case = |name: &str| options.case(fixture, name, count);
        Self { way, fixture, cases: [(case("p50"), 50), (case("p99"), 99)] }
    }

    fn rounds(&self) -> usize {
        self.cases[0].0.rounds().count()
    }

    async fn measure_round(&self, number: usize, blueprint: u128, ids: &[ProvisionedResourceId]) {
        let Self { way, fixture, cases } = self;
        let xrd = fixture.world.kinds.xrd_of(blueprint);
        let composites = fixture.world.composites_of(&fixture.world.admin, &xrd);
        let start = fixture.start_counting().await;
        let mut times = Vec::new();
        for id in ids {
            times.push(commit_latency(&composites, fixture.world.pool(), *id).await);
        }
        let counts = fixture.counts_since(&start, *way).await;
        times.sort();
        for (case, percentile) in cases {
            let place = (times.len() * percentile).div_ceil(100) - 1;
            if let Some(round) = case.rounds().nth(number) {
                round.report(*way, times[place], &counts, &ProcessorTicks::new());
            }
        }
    }
}

/// Marks a composite resource ready; returns the time until the phase was committed.
async fn commit_latency(
    composites: &Api<DynamicObject>,
    pool: &PgPool,
    id: ProvisionedResourceId,
) -> Duration {
    let name = XrName::of(id).to_string();
    let mut status = Crossplane::ready_status(&composites.get(&name).await.unwrap());
    status["conditions"][0]["message"] = json!("changed");
    let patched_at = SystemClock.now();
    let ready = Patch::Merge(json!({"status": status}));
    composites.patch_status(&name, &PatchParams::default(), &ready).await.unwrap();
    let committed: OffsetDateTime = loop {
        let found = sqlx::query_scalar(COMMITTED).bind(id.as_uuid()).bind(patched_at);
        if let Some(at) = found.fetch_optional(pool).await.unwrap() {
            break at;
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    };
    (committed - patched_at).unsigned_abs()
}

/// A bare watch that commits each event.
fn commit_changes(fixture: &Fixture) -> JoinSet<()> {
    let xrd = fixture.world.kinds.xrd_of(NODE);
    let pool = fixture.world.pool().clone();
    follow(fixture.world.composites_of(&fixture.bare_client, &xrd), move |event| {
        let pool = pool.clone();
        async move {
            if let WatchEvent::Modified(composite) = event {
                let commit = sqlx::query(COMMIT).bind(composite.name_any());
                commit.execute(&pool).await.unwrap();
            }
        }
    })
}

/// Resources without a Node, composed and not ready yet.
async fn waiting(world: &Arc<RealWorld>, count: usize) -> Vec<ProvisionedResourceId> {
    world.crossplane.handle_only(world.kinds.of(STANDALONE).0);
    let mut ids = Vec::new();
    for _ in 0..count {
        let id = world.declare(&world.declaration(STANDALONE)).await.unwrap().id();
        world.crossplane.behave_for(id, Behaviour::NeverReady);
        ids.push(id);
    }
    // One round each for: the apply, the composition, the update of the stale condition, and the record of the references.
    for _ in 0..4 {
        let passes = stream::iter(&ids);
        passes
            .for_each_concurrent(8, |id| async { drop(world.reconciler.reconcile(*id).await) })
            .await;
        world.turn().await;
    }
    for id in &ids {
        world.reconciler.reconcile(*id).await.unwrap();
        assert_eq!(world.get(*id).await.phase(), Phase::Provisioning);
    }
    world.settle().await;
    ids
}
