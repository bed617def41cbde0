//! The binary leaks no secret: in no output of any command, in no log line at the most verbose
//! level, in no HTTP answer, in no event, and in no row.
//!
//! Random secrets are placed wherever one belongs: the store's password, a bearer token of the
//! cluster, a key in the event URL, a literal where only a reference is accepted, a foreign Secret.
//! Machines' tokens are read where machines find them, and providers repeat them. Then all output
//! is searched for each secret in every spelling.

mod machines;
mod receiver;
mod scene;
mod secrets;
mod verbs;

use std::collections::BTreeSet;

use broker_tests::canary::LeakDetector;
use broker_tests::{is_nightly, until};

use super::process::Replica;
use scene::{ROWS, Scene};

/// Worlds, and machines per world. Every second machine fails after it was Ready, and the brake
/// permits five of those in ten minutes: a world has at most ten machines.
const NORMAL: (u64, usize) = (1, 8);
const NIGHTLY: (u64, usize) = (15, 10);

#[tokio::test]
async fn no_output_of_the_binary_contains_a_secret() {
    let (worlds, machines) = if is_nightly() { NIGHTLY } else { NORMAL };
    let mut secrets = BTreeSet::new();
    for seed in 0..worlds {
        // The output of one world is dropped before the next: all logs together would not fit into
        // memory.
        let net = Box::pin(run_and_capture(seed, machines)).await;
        assert_every_place_captured(&net);
        assert_eq!(net.leaks(), [""; 0], "world {seed}");
        secrets.extend(net.secrets);
    }
    println!("proof: {} secrets in a process", secrets.len());
}

/// Every place that could leak a secret, and a text that it contains in any case.
const PLACES: [(&str, &str); 19] = [
    ("the log", r#""level":"TRACE""#),
    ("the log", "broker.pass"),
    ("the answer of /livez", "ok"),
    ("the answer of /readyz", "ok"),
    ("the answer of /readyz", "cluster"),
    ("the answer of /metrics", "provisioning_broker_"),
    ("the answer of /nothing", "404"),
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

/// Tables without rows here: no labels, no brakes.
const UNUSED: [&str; 3] =
    ["plexsphere.project_labels", "plexsphere.resource_labels", "plexsphere.provisioning_permits"];

fn assert_every_place_captured(net: &LeakDetector) {
    for (place, trace) in PLACES {
        assert!(net.at(place).contains(trace), "{place} lacks {trace}: {:.400}", net.at(place));
    }
    let tables = net.silent().into_iter().filter_map(|place| place.strip_prefix(ROWS));
    let empty: Vec<_> = tables.filter(|table| !UNUSED.contains(table)).collect();
    assert_eq!(empty, [""; 0], "no secret was placed");
}

async fn run_and_capture(seed: u64, machines: usize) -> LeakDetector {
    let mut scene = Scene::set(seed).await;
    let turning = scene.world.keep_turning();
    let replica = scene.environment.start_with(&["run", "--log=trace"]);
    replica.ready().await;
    capture_answer(&mut scene, &replica, "/readyz").await;

    let ids = machines::bring_up(&mut scene, machines).await;
    machines::repeat_tokens(&mut scene, &ids).await;
    let mut typed = verbs::type_all(&mut scene, ids[0]).await;
    await_events(&scene).await;
    for path in ["/livez", "/readyz", "/metrics", "/nothing"] {
        capture_answer(&mut scene, &replica, path).await;
    }
    scene.cluster.script().each(|_| true).before_forward().cut();
    scene.cluster.hang_up();
    scene.net.record("the answer of /readyz", replica.unready().await);
    capture_answer(&mut scene, &replica, "/readyz").await;
    scene.cluster.script().clear();
    let ended = replica.stop().await;
    drop(turning);
    scene.record_log(ended.log);
    scene.net.record("the errors of a replica", ended.errors.join("\n"));

    typed.insert(verbs::type_run(&mut scene).await);
    verbs::assert_none_is_missing(&scene, &typed).await;
    let net = scene.end().await;
    assert!(net.secrets.len() > 3 * machines, "only {} secrets", net.secrets.len());
    net
}

/// Waits until some events were accepted, some rejected, and one of a failed machine was sent.
async fn await_events(scene: &Scene) {
    until("accepted and rejected events", || async {
        let posts = scene.receiver.posts();
        let failed = posts.iter().any(|post| post.contains("broker.ProvisionedResourceFailed"));
        (failed && posts.len() >= 4).then_some(())
    })
    .await;
}

async fn capture_answer(scene: &mut Scene, replica: &Replica, path: &str) {
    let answer = replica.answer(path).await;
    scene.net.record(format!("the answer of {path}"), answer);
}
