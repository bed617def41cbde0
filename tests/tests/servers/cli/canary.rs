//! No secret in anything that the binary says, sends or leaves behind: in no output of any command, in no line of the log
//! at its most talkative, in no answer over HTTP, in no event, and in no row.
//!
//! Random secrets are put wherever one belongs: the password of the store, a bearer token of the cluster, a key in the URL
//! that events are posted to, a literal where only a reference is taken, a Secret that others materialise. The tokens of
//! machines are read where the machines find them, and providers repeat them. Then everything is searched for each of
//! them, in every spelling.

mod machines;
mod receiver;
mod scene;
mod secrets;
mod verbs;

use std::collections::BTreeSet;

use broker_tests::canary::Net;
use broker_tests::{is_nightly, until};

use super::process::Replica;
use scene::{ROWS, Scene};

/// Worlds, and machines in each of them. Every other machine fails after it was Ready, and the brake permits five of
/// those in ten minutes: a world has at most ten machines.
const NORMAL: (u64, usize) = (1, 8);
const NIGHTLY: (u64, usize) = (15, 10);

#[tokio::test]
async fn nothing_that_is_said_holds_a_secret() {
    let (worlds, machines) = if is_nightly() { NIGHTLY } else { NORMAL };
    let mut secrets = BTreeSet::new();
    for seed in 0..worlds {
        // What one world said is forgotten before the next: the log of all would not fit anywhere.
        let net = Box::pin(sing(seed, machines)).await;
        assert_something_was_said(&net);
        assert_eq!(net.leaks(), [""; 0], "world {seed}");
        secrets.extend(net.secrets);
    }
    println!("proof: {} secrets in a process", secrets.len());
}

/// Where somebody could find a secret, and what is found there in any case.
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

/// Tables that nobody writes to here: nothing has a label, and no brake is set.
const UNUSED: [&str; 3] =
    ["plexsphere.project_labels", "plexsphere.resource_labels", "plexsphere.provisioning_permits"];

/// Every place was looked at while something stood in it.
fn assert_something_was_said(net: &Net) {
    for (place, trace) in PLACES {
        assert!(net.at(place).contains(trace), "{place} lacks {trace}: {:.400}", net.at(place));
    }
    let tables = net.silent().into_iter().filter_map(|place| place.strip_prefix(ROWS));
    let empty: Vec<_> = tables.filter(|table| !UNUSED.contains(table)).collect();
    assert_eq!(empty, [""; 0], "nothing was there to be found");
}

/// One world with a replica in it, and everything that was heard of it.
async fn sing(seed: u64, machines: usize) -> Net {
    let mut scene = Scene::set(seed).await;
    let turning = scene.world.keep_turning();
    let replica = scene.environment.start_with(&["run", "--log=trace"]);
    replica.ready().await;
    hear_answer(&mut scene, &replica, "/readyz").await;

    let ids = machines::bring_up(&mut scene, machines).await;
    machines::repeat_tokens(&mut scene, &ids).await;
    let mut typed = verbs::type_all(&mut scene, ids[0]).await;
    await_events(&scene).await;
    for path in ["/livez", "/readyz", "/metrics", "/nothing"] {
        hear_answer(&mut scene, &replica, path).await;
    }
    scene.cluster.script().each(|_| true).before_forward().cut();
    scene.cluster.hang_up();
    scene.net.hear("the answer of /readyz", replica.unready().await);
    hear_answer(&mut scene, &replica, "/readyz").await;
    scene.cluster.script().clear();
    let ended = replica.stop().await;
    drop(turning);
    scene.hear_log(ended.log);
    scene.net.hear("the errors of a replica", ended.errors.join("\n"));

    typed.insert(verbs::type_run(&mut scene).await);
    verbs::assert_none_is_missing(&scene, &typed).await;
    let net = scene.end().await;
    assert!(net.secrets.len() > 3 * machines, "only {} secrets", net.secrets.len());
    net
}

/// Waits until some were taken, some refused, and one of a machine that failed was sent.
async fn await_events(scene: &Scene) {
    until("events to be taken and refused", || async {
        let posts = scene.receiver.posts();
        let failed = posts.iter().any(|post| post.contains("broker.ProvisionedResourceFailed"));
        (failed && posts.len() >= 4).then_some(())
    })
    .await;
}

/// Hears everything that is answered at a path, the head too.
async fn hear_answer(scene: &mut Scene, replica: &Replica, path: &str) {
    let answer = replica.answer(path).await;
    scene.net.hear(format!("the answer of {path}"), answer);
}
