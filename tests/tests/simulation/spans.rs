//! Every call of the service, and the delivery of its events, carries the trace of the request in its span.

use broker_ports::TraceParent;
use broker_tests::log::with_log;
use broker_tests::world::{NODE, World, declaration, operator, project};
use tracing_subscriber::fmt::format::FmtSpan;

use crate::tenancy::{public_methods, responses};

const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// Calls every method once. A refused call has a span too.
async fn call_everything(world: &World) {
    let context = operator().with_traceparent(TraceParent::new(TRACE).unwrap());
    let id = world.declare(&declaration(NODE)).await.unwrap().id();
    responses(&world.service, &context, id, project()).await;
    world.relay().deliver_batch().await.unwrap();
}

#[test]
fn service_call_carries_the_traceparent_in_its_span() {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().start_paused(true).build().unwrap();
    with_log(tracing::Level::INFO, FmtSpan::NEW, |log| {
        runtime.block_on(call_everything(&World::new()));
        let lines = log.take_lines("");
        let field = format!("traceparent=\"{TRACE}\"");
        for call in public_methods().into_iter().chain(["deliver".to_owned()]) {
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
