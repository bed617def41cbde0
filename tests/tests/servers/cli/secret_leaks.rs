//! The binary leaks no secret: in no output of any command, in no log line at the most verbose
//! level, in no HTTP response, in no event, and in no row.
//!
//! Random secrets are placed wherever one belongs: the store's password, a bearer token of the
//! cluster, a key in the event URL, a literal where only a reference is accepted, a foreign Secret.
//! Machines' tokens are read where machines find them, and providers repeat them. Then all output
//! is searched for each secret in every spelling.

mod machines;
mod receiver;
mod fixture;
mod secrets;
mod verbs;

use std::collections::BTreeSet;

use broker_tests::secret_search::LeakDetector;
use broker_tests::{is_nightly, until};

use super::process::Replica;
use fixture::{Fixture, ROWS};

/// The numbers of worlds, and of machines per world. Every second machine fails after it was Ready. The allowance is five
/// such failures in ten minutes, so a world has at most ten machines.
const NORMAL: (u64, usize) = (1, 8);
const NIGHTLY: (u64, usize) = (15, 10);

#[tokio::test]
async fn no_output_of_the_binary_contains_a_secret() {
    let (worlds, machines) = if is_nightly() { NIGHTLY } else { NORMAL };
    let mut secrets = BTreeSet::new();
    for seed in 0..worlds {
        // The output of one world is dropped before the next: all logs together would not fit into
        // memory.
        let detector = Box::pin(run_and_capture(seed, machines)).await;
        assert_every_place_captured(&detector);
        assert_eq!(detector.leaks(), [""; 0], "world {seed}");
        secrets.extend(detector.secrets);
    }
    println!("proof: {} secrets in a process", secrets.len());
}

/// Every place that could leak a secret, with a text that it always contains.
const PLACES: [(&str, &str); 19] = [
    ("the log", r#""level":"TRACE""#),
    ("the log", "broker.pass"),
    ("the response of /livez", "ok"),
    ("the response of /readyz", "ok"),
    ("the response of /readyz", "cluster"),
    ("the response of /metrics", "provisioning_broker_"),
    ("the response of /nothing", "404"),
    ("an event", "broker.ProvisionedResourceReady"),
    ("an event", "broker.ProvisionedResourceFailed"),
    ("the output of get", "cannot boot with █"),
    ("the output of explain", "cannot boot with █"),
    ("the errors of provision", "hush"),
    ("the errors of plan", "hush"),
    ("the errors of run", "error["),
    ("the rows of plexsphere.provisioned_resources", "cannot boot with █"),
    ("the rows of plexsphere.provisioning_outbox", "cannot boot with █"),
    ("the rows of plexsphere.provisioned_resource_audit", "declaration_refused"),
    ("the rows of plexsphere.provisioned_resource_schedule", "converge"),
    ("the rows of plexsphere.bootstrap_tokens", "\\x"),
];

/// Tables without rows here: no labels, no brakes, no shared ProviderConfigs.
const UNUSED: [&str; 5] = [
    "plexsphere.project_labels",
    "plexsphere.resource_labels",
    "plexsphere.provisioning_permits",
    "plexsphere.provisioning_shared_configs",
    "plexsphere.provisioning_shared_config_users",
];

fn assert_every_place_captured(detector: &LeakDetector) {
    for (place, trace) in PLACES {
        assert!(
            detector.text_of(place).contains(trace),
            "{place} lacks {trace}: {:.400}",
            detector.text_of(place)
        );
    }
    let tables =
        detector.places_without_text().into_iter().filter_map(|place| place.strip_prefix(ROWS));
    let empty: Vec<_> = tables.filter(|table| !UNUSED.contains(table)).collect();
    assert_eq!(empty, [""; 0], "tables without rows prove nothing");
}

async fn run_and_capture(seed: u64, machines: usize) -> LeakDetector {
    let mut fixture = Fixture::new(seed).await;
    let simulation = fixture.world.keep_simulating();
    let replica = fixture.environment.start_with(&["run", "--log=trace"]);
    replica.ready().await;
    capture_response(&mut fixture, &replica, "/readyz").await;

    let ids = machines::bring_up(&mut fixture, machines).await;
    machines::repeat_tokens(&mut fixture, &ids).await;
    let mut run = verbs::run_all(&mut fixture, ids[0]).await;
    await_events(&fixture).await;
    for path in ["/livez", "/readyz", "/metrics", "/nothing"] {
        capture_response(&mut fixture, &replica, path).await;
    }
    fixture.cluster.script().each(|_| true).before_forward().cut();
    fixture.cluster.hang_up();
    fixture.detector.record("the response of /readyz", replica.unready().await);
    capture_response(&mut fixture, &replica, "/readyz").await;
    fixture.cluster.script().clear();
    let ended = replica.stop().await;
    drop(simulation);
    fixture.record_log(ended.log);
    fixture.detector.record("the errors of a replica", ended.errors.join("\n"));

    run.insert(verbs::run_failing_starts(&mut fixture).await);
    verbs::assert_every_verb_ran(&fixture, &run).await;
    let detector = fixture.end().await;
    assert!(detector.secrets.len() > 3 * machines, "only {} secrets", detector.secrets.len());
    detector
}

/// Waits until some events were accepted, some rejected, and one of a failed machine was sent.
async fn await_events(fixture: &Fixture) {
    until("accepted and rejected events", || async {
        let posts = fixture.receiver.posts();
        let failed = posts.iter().any(|post| post.contains("broker.ProvisionedResourceFailed"));
        (failed && posts.len() >= 4).then_some(())
    })
    .await;
}

async fn capture_response(fixture: &mut Fixture, replica: &Replica, path: &str) {
    let response = replica.raw_response(path).await;
    fixture.detector.record(format!("the response of {path}"), response);
}
