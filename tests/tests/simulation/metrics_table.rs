//! The metrics of a running broker match the published table in both directions.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use broker_app::{BrokerConfig, METRICS, MetricKind};
use broker_domain::{OnFailure, Phase};
use broker_memory::{Behaviour, Verb};
use broker_ports::{FailureClass, PortName};
use broker_testkit::faults::{DuplicateResponse, Fault, FaultPlan, LateArrival};
use broker_tests::world::{
    NODE, STANDALONE, World, background, config_with, declaration, operator,
};
use tokio::time::timeout;

use crate::log_lines::PanickingIds;
use broker_tests::log::MetricsCapture;

async fn run_for(world: &World, steps: usize) {
    let config = config_with(|config| {
        config.sweep_interval = Duration::from_secs(2);
        config.retention = Some(BrokerConfig::MIN_RETENTION);
    });
    background(world.runner_with(config), async {
        for _ in 0..steps {
            world.let_time_pass().await;
        }
    })
    .await;
}

async fn run_full_lifetime() {
    let hangs = Fault::Delay { by: Duration::from_hours(1), late: LateArrival::Never };
    let twice = Fault::Duplicate { response: DuplicateResponse::Second };
    let plan = FaultPlan::none()
        .on(PortName::Cluster, "apply", 1, hangs)
        .on(PortName::Cluster, "apply", 2, Fault::BeforeEffect)
        .on(PortName::Outbox, "acknowledge_event", 1, twice);
    let world = World::with_faults(plan);

    // A worker is cut off, and another takes over; then a pass fails.
    let node = world.declare(&declaration(NODE)).await.unwrap();
    timeout(Duration::from_secs(1), world.reconciler.reconcile(node.id())).await.unwrap_err();
    world.expire_leases();
    world.reconciler.reconcile(node.id()).await.unwrap_err();
    let failing = declaration(STANDALONE).on_failure(OnFailure::Rollback);
    let failing = world.declare(&failing).await.unwrap();
    world.cluster.behave_for(failing.id(), Behaviour::failing_after(1, "quota exceeded"));
    world.sink.set_reachable(false);
    world.agents_boot.store(false, Ordering::Relaxed);
    run_for(&world, 16).await;
    // So far events are only delayed. From now on the receiver rejects them.
    world.sink.set_reachable(true);
    for id in [node.id(), failing.id()] {
        world.sink.refuse(id, Some(FailureClass::Rejected));
    }
    assert_eq!(world.get(node.id()).await.phase(), Phase::Enrolling);
    world.agents_boot.store(true, Ordering::Relaxed);
    // Retries become due until the first events are dead-lettered.
    for _ in 0..3 {
        world.clock.advance(Duration::from_secs(31));
        run_for(&world, 4).await;
    }
    for id in [node.id(), failing.id()] {
        world.sink.refuse(id, None);
    }
    assert_eq!(world.get(node.id()).await.phase(), Phase::Ready);
    world.service.deprovision(&operator(), node.id()).await.unwrap();
    run_for(&world, 16).await;
    for id in [node.id(), failing.id()] {
        assert_eq!(world.get(id).await.phase(), Phase::Deleted);
        let skip = broker_ports::Redrive::Skip;
        while world.service.redrive_events(&operator(), id, skip).await.unwrap().is_some() {}
    }
    run_for(&world, 16).await;
    world.clock.advance(2 * BrokerConfig::MIN_RETENTION);
    run_for(&world, 16).await;
}

/// Spends the budget with losses, brakes a rollback, loses a race, and lets sweeps and passes fail.
async fn run_failures() {
    let world = World::new();
    let rolling_back = declaration(STANDALONE).on_failure(OnFailure::Rollback);
    let failing = world.declare_until(Phase::Ready, &rolling_back).await;
    world.cluster.behave_for(failing.id(), Behaviour::failing_after(0, "quota exceeded"));
    world.until(failing.id(), Phase::Failed).await;
    let cluster = world.service.set_brake(&operator(), None).await.unwrap();
    world.reconciler.reconcile(failing.id()).await.unwrap();
    world.service.release_brake(&operator(), &cluster, None).await.unwrap();
    for _ in 0..5 {
        let lost = world.declare_until(Phase::Ready, &declaration(STANDALONE)).await;
        world.cluster.delete_in_background(&world.xr(&lost));
        world.cluster.settle(5);
        world.reconciler.reconcile(lost.id()).await.unwrap();
    }
    let ready = world.declare_until(Phase::Ready, &declaration(NODE)).await;
    let armed = serde_json::json!({"metadata": {"annotations": {"plexsphere.io/armed": "odd"}}});
    world.cluster.behave_for(ready.id(), Behaviour::never_ready());
    world.cluster.patch_as("another-party", &world.xr(&ready), &armed);
    let drift = serde_json::json!({"status": {"conditions": []}});
    world.cluster.patch_as("another-party", &world.xr(&ready), &drift);
    world.reconciler.reconcile(ready.id()).await.unwrap();
    world.cluster.take_down();
    world.sweeper.sweep().await.unwrap_err();
    world.cluster.bring_back();
    world.cluster.forbid(Verb::List, "Machine");
    world.sweep().await;
    world.cluster.allow_everything();
    world.service.pause(&operator(), ready.id()).await.unwrap();
    world.reconciler.reconcile(ready.id()).await.unwrap();

    world.place(false);
    for _ in 0..1_000 {
        world.declare(&declaration(STANDALONE)).await.unwrap();
    }
    world.sweeper.sweep_within(Duration::ZERO).await.unwrap();

    let mut world = World::new();
    world.declare(&declaration(STANDALONE)).await.unwrap();
    world.rewire(|ports| ports.ids = Arc::new(PanickingIds));
    run_for(&world, 2).await;
}

#[tokio::test(start_paused = true)]
async fn recorded_metrics_match_the_published_table() {
    let capture = MetricsCapture::default();
    let guard = metrics::set_default_local_recorder(&capture);
    run_full_lifetime().await;
    Box::pin(run_failures()).await;
    drop(guard);

    let recorded = capture.recorded.into_inner().unwrap();
    let names: BTreeSet<_> = METRICS.iter().map(|metric| metric.name.to_owned()).collect();
    assert_eq!(recorded.keys().cloned().collect::<BTreeSet<_>>(), names);
    assert_eq!(capture.described.into_inner().unwrap(), names);
    for metric in METRICS {
        let (kind, labels) = &recorded[metric.name];
        let expected = match metric.kind {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram => "histogram",
            other => panic!("{other:?} is new"),
        };
        assert_eq!(*kind, expected, "{}", metric.name);
        let label_names: BTreeSet<_> = metric.labels.iter().map(|label| label.name).collect();
        let found: BTreeSet<_> = labels.keys().map(String::as_str).collect();
        assert_eq!(found, label_names, "{}", metric.name);
        for label in metric.labels {
            let table: BTreeSet<_> = (label.values)().into_iter().map(str::to_owned).collect();
            let found = &labels[label.name];
            let why = format!("{} {}", metric.name, label.name);
            if label.name == "reason" {
                assert!(found.is_subset(&table), "{why}: {found:?}");
            } else {
                assert_eq!(*found, table, "{why}");
            }
        }
    }
}
