//! Every call of the service, and the delivery of its events, carries the trace of the request in its span.

use std::time::Duration;

use broker_domain::Phase;
use broker_ports::{ListQuery, PageSize, Redrive, TraceParent};
use broker_tests::world::{NODE, World, declaration, operator, project};
use tracing_subscriber::fmt::format::FmtSpan;

use crate::log_capture::with_log;

const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// Every public method of the service that takes a context, and the delivery of an event, by the name of its span.
const CALLS: [&str; 25] = [
    "abandon",
    "admit",
    "brake_status",
    "deliver",
    "deprovision",
    "explain",
    "explain_all",
    "get",
    "history",
    "list",
    "pause",
    "plan",
    "plan_declaration",
    "provision",
    "reconcile_now",
    "redrive_all_events",
    "redrive_events",
    "release_brake",
    "replace",
    "resume",
    "retry",
    "scrub_audit",
    "set_brake",
    "status",
    "wait_for",
];

/// Calls every method once. A refused call has a span too.
async fn call_everything(world: &World) {
    let trace = TraceParent::new(TRACE).unwrap();
    let context = &operator().with_traceparent(trace);
    let (service, node) = (&world.service, declaration(NODE));
    let id = service.provision(context, &node).await.unwrap().id();
    let cluster = service.set_brake(context, Some(project())).await.unwrap();
    service.release_brake(context, &cluster, Some(project())).await.unwrap();
    service.brake_status(context).await.unwrap();
    service.admit(context, &node).await.unwrap();
    service.get(context, id).await.unwrap();
    service.list(context, &ListQuery::new(PageSize::MAX)).await.unwrap();
    service.status(context, id).await.unwrap();
    service.history(context, id).await.unwrap();
    service.explain(context, id).await.unwrap();
    service.explain_all(context, None, PageSize::MAX).await.unwrap();
    service.plan(context, id).await.unwrap();
    service.plan_declaration(context, &node).await.unwrap();
    service.pause(context, id).await.unwrap();
    service.resume(context, id).await.unwrap();
    service.reconcile_now(context, id).await.unwrap();
    service.redrive_events(context, id, Redrive::Retry).await.unwrap();
    service.redrive_all_events(context, None, Redrive::Retry).await.unwrap();
    service.scrub_audit(context, id).await.unwrap();
    drop(service.retry(context, id).await);
    drop(service.replace(context, id, None).await);
    drop(service.abandon(context, id, "test").await);
    service.wait_for(context, id, Phase::Pending, Duration::ZERO).await.unwrap();
    service.deprovision(context, id).await.unwrap();
    world.relay().deliver_batch().await.unwrap();
}

#[test]
fn service_call_carries_the_traceparent_in_its_span() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    with_log(tracing::Level::INFO, FmtSpan::NEW, |log| {
        runtime.block_on(call_everything(&World::new()));
        let lines = log.take_lines("");
        let field = format!("traceparent=\"{TRACE}\"");
        for call in CALLS {
            let span = format!("broker.{call}{{");
            let has_field = |line: &String| {
                line.split_once(&span).is_some_and(|(_, fields)| {
                    fields.split_once('}').is_some_and(|(fields, _)| fields.contains(&field))
                })
            };
            assert!(lines.iter().any(has_field), "{call} has no span with {field}");
        }
    });
}
