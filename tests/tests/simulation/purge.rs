//! Purging: rows leave the store only after a configured retention.

use std::time::Duration;

use broker_app::BrokerConfig;
use broker_domain::{Phase, RequestId};
use broker_ports::{AuditAction, Outbox, Repository};
use broker_testkit::builders::{id, rows};
use broker_tests::world::{
    NODE, STANDALONE, World, background, caller_of, config, config_with, declaration, operator,
    project,
};

const DAY: Duration = Duration::from_hours(24);

fn config_with_retention(retention: Duration) -> BrokerConfig {
    config_with(|config| config.retention = Some(retention))
}

async fn run_sweeps(world: &World, config: BrokerConfig, sweeps: u32) {
    let interval = config.sweep_interval;
    background(world.runner_with(config), async {
        for _ in 0..sweeps {
            tokio::time::sleep(interval).await;
            world.clock.advance(interval);
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn expired_row_is_purged_and_frees_its_request_id() {
    let world = World::new();
    let request = RequestId::new("order-1").unwrap();
    let declared = declaration(STANDALONE).with_request_id(request);
    let first = world.declare_until(Phase::Ready, &declared).await;
    let other = world.declare_until(Phase::Ready, &declaration(NODE)).await;
    world.service.deprovision(&operator(), first.id()).await.unwrap();
    world.until(first.id(), Phase::Deleted).await;

    run_sweeps(&world, config_with_retention(DAY), 4).await;
    assert_eq!(world.store.backlog().await.unwrap().depth, 0, "every event was delivered");
    assert_eq!(world.get(first.id()).await.phase(), Phase::Deleted, "the retention has not passed");

    world.clock.advance(DAY);
    run_sweeps(&world, config_with_retention(DAY), 2).await;
    assert_eq!(world.store.get_by_id(first.id()).await.unwrap(), None);
    assert_eq!(world.get(other.id()).await.phase(), Phase::Ready, "an existing resource stays");
    let history = world.store.history(first.id()).await.unwrap();
    assert_eq!(history.last().unwrap().entry.action, AuditAction::Purged, "its audit stays");
    let shown = world.service.history(&caller_of(project()), first.id()).await.unwrap();
    assert_eq!(shown, history, "the Project still sees the history");
    let hidden = world.service.history(&caller_of(id(0xbad)), first.id()).await;
    assert_eq!(hidden.unwrap_err().reason(), "provisioned_resource_not_found");
    let remaining = world.store.purge_events(Duration::ZERO, rows(10)).await.unwrap();
    assert_eq!(remaining, 0, "its events are purged too");

    let redeclared = world.declare(&declared).await.unwrap();
    assert_ne!(redeclared.id(), first.id());
}

#[tokio::test(start_paused = true)]
async fn nothing_is_purged_without_a_retention() {
    let world = World::new();
    let ready = world.declare_until(Phase::Ready, &declaration(STANDALONE)).await;
    world.service.deprovision(&operator(), ready.id()).await.unwrap();
    let gone = world.until(ready.id(), Phase::Deleted).await;
    world.clock.advance(1_000 * DAY);
    run_sweeps(&world, config("replica-1"), 4).await;
    assert_eq!(world.get(gone.id()).await, gone);
}
