//! Log lines that operators act on: a rollback, a resource that a sweep could not read, a pass that
//! panicked.

use std::sync::Arc;

use broker_domain::{EventId, OnFailure, Phase, ProvisionedResourceId};
use broker_memory::Behaviour;
use broker_ports::IdSource;
use broker_tests::world::{NODE, World, background, declaration};
use tracing_subscriber::fmt::format::FmtSpan;

use broker_tests::log::{Log, with_log};

pub(crate) fn with_info_log<T>(work: impl AsyncFnOnce(Log) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    with_log(tracing::Level::INFO, FmtSpan::NONE, |log| runtime.block_on(work(log)))
}

#[track_caller]
fn assert_single_line(lines: &[String], parts: &[&str]) {
    let [line] = lines else { panic!("{lines:?}") };
    for part in parts {
        assert!(line.contains(part), "{part}: {line}");
    }
}

#[test]
fn failure_that_is_rolled_back_is_one_error_line() {
    with_info_log(async |log| {
        let world = World::new();
        let declared = declaration(NODE).on_failure(OnFailure::Rollback);
        let declared = world.declare(&declared).await.unwrap();
        world.cluster.behave_for(declared.id(), Behaviour::failing_after(1, "out of quota"));
        let deleted = world.until(declared.id(), Phase::Deleted).await;
        let id = format!("resource={}", deleted.id());
        let message = "a failed resource is rolled back";
        assert_single_line(
            &log.take_lines(" ERROR "),
            &[message, &id, "step=Provisioning", "reason=out of quota"],
        );
    });
}

#[test]
fn resource_that_cannot_be_swept_is_one_warning() {
    with_info_log(async |log| {
        let world = World::new();
        world.declare(&declaration(NODE)).await.unwrap();
        let unreadable = world.declare(&declaration(NODE)).await.unwrap();
        assert!(world.store.corrupt(unreadable.id()));
        world.sweep().await;
        let id = format!("resource={}", unreadable.id());
        let lines = log.take_lines("a resource could not be swept");
        assert_single_line(&lines, &[" WARN ", &id, "breaks the domain's rules"]);
    });
}

/// A panic's payload, which may contain anything.
const PAYLOAD: &str = "canary-of-a-panic";

/// Panics in the pass itself; panics of a collaborator become errors. Bypasses the panic hook,
/// which would print.
pub(crate) struct PanickingIds;

impl IdSource for PanickingIds {
    fn provisioned_resource_id(&self) -> ProvisionedResourceId {
        std::panic::resume_unwind(Box::new(PAYLOAD))
    }

    fn event_id(&self) -> EventId {
        std::panic::resume_unwind(Box::new(PAYLOAD))
    }
}

#[test]
fn pass_that_panics_is_logged_without_the_payload() {
    with_info_log(async |log| {
        let mut world = World::new();
        world.rewire(|ports| ports.ids = Arc::new(PanickingIds));
        background(world.runner(), async {
            world.declare(&declaration(NODE)).await.unwrap();
            for _ in 0..20 {
                world.let_time_pass().await;
            }
        })
        .await;
        let lines = log.take_lines("");
        assert!(lines.iter().any(|line| line.contains("a pass panicked")), "{lines:?}");
        assert!(!lines.iter().any(|line| line.contains(PAYLOAD)), "{lines:?}");
    });
}
