//! Latency from a ready composite resource to the committed phase, one change after the other. The floor is
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

use super::lab::{Case, Lab, Way};
use super::processor::Spent;
use super::stand::{Stand, follow, run_broker};

const LOOK: Duration = Duration::from_millis(2);

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

pub(super) async fn run(lab: Lab) {
    let many = lab.many(100);
    // Separate worlds: the broker would follow the floor's changes too.
    let (bare, ours) = (Stand::new().await, Stand::new().await);
    let bare = Turns::new(lab, Way::Floor, &bare, many);
    let ours = Turns::new(lab, Way::Ours, &ours, many);
    let machines = bare.stand.world.furnish(many * bare.rounds()).await;
    let machines: Vec<_> = machines.into_iter().map(|Machine { id, .. }| id).collect();
    let waiting = waiting(&ours.stand.world, many * ours.rounds()).await;
    let _following = commit_changes(bare.stand);
    let _running = run_broker(&ours.stand.world);
    until("the cache to be warm", || async { ours.stand.world.cache.identity() }).await;
    let turns = machines.chunks(many).zip(waiting.chunks(many)).enumerate();
    for (number, (machines, waiting)) in turns {
        bare.time(number, NODE, machines).await;
        ours.time(number, STANDALONE, waiting).await;
    }
}

struct Turns<'a> {
    way: Way,
    stand: &'a Stand,
    /// The median and a high percentile.
    cases: [(Case<'a>, usize); 2],
}

impl<'a> Turns<'a> {
    fn new(lab: Lab, way: Way, stand: &'a Stand, many: usize) -> Self {
        let case = |name: &str| lab.case(stand, name, many);
        Self { way, stand, cases: [(case("p50"), 50), (case("p99"), 99)] }
    }

    fn rounds(&self) -> usize {
        self.cases[0].0.rounds().count()
    }

    async fn time(&self, number: usize, blueprint: u128, ids: &[ProvisionedResourceId]) {
        let Self { way, stand, cases } = self;
        let xrd = stand.world.kinds.xrd_of(blueprint);
        let composites = stand.world.composites_of(&stand.world.admin, &xrd);
        let before = stand.mark().await;
        let mut times = Vec::new();
        for id in ids {
            times.push(change(&composites, stand.world.pool(), *id).await);
        }
        let since = stand.since(&before, *way).await;
        times.sort();
        for (case, part) in cases {
            let place = (times.len() * part).div_ceil(100) - 1;
            if let Some(round) = case.rounds().nth(number) {
                round.tell(*way, times[place], &since, &Spent::new());
            }
        }
    }
}

/// Marks a composite resource ready; returns the time until the phase was committed.
async fn change(
    composites: &Api<DynamicObject>,
    pool: &PgPool,
    id: ProvisionedResourceId,
) -> Duration {
    let name = XrName::of(id).to_string();
    let mut status = Crossplane::ready_status(&composites.get(&name).await.unwrap());
    status["conditions"][0]["message"] = json!("it has changed");
    let said = SystemClock.now();
    let ready = Patch::Merge(json!({"status": status}));
    composites.patch_status(&name, &PatchParams::default(), &ready).await.unwrap();
    let committed: OffsetDateTime = loop {
        let found = sqlx::query_scalar(COMMITTED).bind(id.as_uuid()).bind(said);
        if let Some(at) = found.fetch_optional(pool).await.unwrap() {
            break at;
        }
        tokio::time::sleep(LOOK).await;
    };
    (committed - said).unsigned_abs()
}

/// A bare watch that commits each event.
fn commit_changes(stand: &Stand) -> JoinSet<()> {
    let xrd = stand.world.kinds.xrd_of(NODE);
    let pool = stand.world.pool().clone();
    follow(stand.world.composites_of(&stand.bare, &xrd), move |event| {
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
async fn waiting(world: &Arc<RealWorld>, many: usize) -> Vec<ProvisionedResourceId> {
    world.crossplane.play_only(world.kinds.of(STANDALONE).0);
    let mut ids = Vec::new();
    for _ in 0..many {
        let id = world.declare(&world.declaration(STANDALONE)).await.unwrap().id();
        world.crossplane.behave_for(id, Behaviour::NeverReady);
        ids.push(id);
    }
    // Applied; composed; the stale condition gone and the references recorded.
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
