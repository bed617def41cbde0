//! Secret-leak tests: random secrets through every path of the application, searched for in
//! everything that is logged or stored.
//!
//! Each run of the simulation issues new tokens. Afterwards providers and webhooks repeat them in
//! messages, callers send literals where only a reference is accepted, a port panics with a token
//! in its message, and operators request explanations and plans. Then log, spans, metrics, errors,
//! panics, events, rows, audit and explanations are searched for each secret in every spelling. The
//! cluster is not searched: a token belongs there.

mod mischief;

use std::collections::BTreeSet;
use std::panic::catch_unwind;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use broker_tests::world::World;

use super::panics;
use super::simulation::{Declared, Story, tell};
use crate::ears::{Notebook, with_log};
use broker_tests::canary::{LeakDetector, base64};
use broker_tests::is_nightly;
use metrics::with_local_recorder;
use mischief::Mischief;
use tracing_subscriber::fmt::format::FmtSpan;

const NORMAL: usize = 500;
const NIGHTLY: usize = 10_000;

/// Runs `work` on this thread and captures its log and metrics.
fn listen<T>(net: &mut LeakDetector, work: impl FnOnce(&mut LeakDetector) -> T) -> T {
    let measured = Notebook::default();
    let result = with_log(tracing::Level::TRACE, FmtSpan::FULL, |log| {
        let result = with_local_recorder(&measured, || work(net));
        net.record("the log", log.take("").join("\n"));
        result
    });
    for (name, (_, labels)) in measured.recorded.into_inner().unwrap() {
        net.record("a metric", name);
        for value in labels.into_values().flatten() {
            net.record("a metric", value);
        }
    }
    net.record(
        "a metric",
        measured.described.into_inner().unwrap().into_iter().collect::<String>(),
    );
    result
}

fn run_and_capture(seed: u64) -> LeakDetector {
    let story = Story::of(seed);
    let number = u32::try_from(seed).unwrap();
    let mut mischief = Mischief::new(number);
    let mut net = LeakDetector::default();
    let life = listen(&mut net, |net| {
        let mut world = World::with_tokens(story.faults(), number);
        mischief.furnish(&mut world);
        let look = async |world: &World, declared: &[Declared]| {
            mischief.make(world, declared, net).await;
        };
        tell(&story, world, look)
    });
    net.record("the story", life.trace);
    net.record("a complaint", life.complaint.unwrap_or_default());
    net.record("a panic", life.panics.join("\n"));
    net.secrets.extend(mischief.issued());
    net
}

#[test]
fn no_secret_is_logged_or_stored() {
    let wanted = if is_nightly() { NIGHTLY } else { NORMAL };
    let (seeds, sung) = (AtomicU64::new(0), Mutex::new(BTreeSet::new()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while sung.lock().unwrap().len() < wanted {
                    let seed = seeds.fetch_add(1, Ordering::Relaxed);
                    let net = run_and_capture(seed);
                    assert_eq!(net.found(), [""; 0], "seed {seed}");
                    sung.lock().unwrap().extend(net.secrets);
                }
            });
        }
    });
    println!("proof: {} secrets in memory", sung.into_inner().unwrap().len());
}

#[test]
fn every_place_is_captured() {
    let (mut left, mut seed) = (PLACES.to_vec(), 0);
    while !left.is_empty() {
        assert!(seed < 50, "no output was captured at {left:?}");
        let net = run_and_capture(seed);
        left.retain(|(place, trace)| !net.at(place).contains(trace));
        seed += 1;
    }
}

/// Every place that could leak a secret, and a text that it contains in any case.
const PLACES: [(&str, &str); 12] = [
    ("the log", "broker.pass"),
    ("a metric", "provisioning_broker_"),
    ("an error", "hush"),
    ("a panic", "the mesh panicked"),
    ("a declaration", "Declaration"),
    ("a token", "BootstrapToken"),
    ("an explanation", "cannot boot with █"),
    ("a plan", "Plan"),
    ("a row", "ProvisionedResource"),
    ("the audit", "TokenIssue"),
    ("an event", "specversion"),
    ("the story", "is declared"),
];

type Leak = (&'static str, fn(&mut LeakDetector, &str));

/// Negative control: a leak planted in any place is found.
#[test]
fn planted_leak_is_found_in_every_place() {
    let secret = "pl4nted-\"s3cret\"-wïth-quotes";
    let leaks: [Leak; 8] = [
        ("the log", |_, secret| tracing::trace!(token = secret, "issued")),
        ("the log", |_, secret| drop(tracing::debug_span!("issue", token = ?secret).entered())),
        ("a metric", |_, secret| {
            metrics::counter!("tokens", "of" => secret.to_owned()).increment(1);
        }),
        ("an error", |net, secret| {
            let source = std::io::Error::other(secret.to_owned());
            net.record_error(&broker_ports::PortError::rejected("no").with_source(source));
        }),
        ("a panic", |net, secret| {
            let _listening = panics::listen();
            drop(catch_unwind(|| assert!(secret.is_empty(), "no node enrolled with {secret}")));
            net.record("a panic", panics::heard().join("\n"));
        }),
        ("an event", |net, secret| net.record("an event", format!("{:?}", [secret]))),
        ("a row", |net, secret| {
            net.record("a row", serde_json::json!({"note": secret}).to_string());
        }),
        ("a plan", |net, secret| net.record("a plan", base64(format!("{secret}!")))),
    ];
    for (place, leak) in leaks {
        let mut net = LeakDetector::default();
        listen(&mut net, |net| leak(net, secret));
        assert_eq!(net.found(), [""; 0], "the secret is not registered yet");
        net.secrets.insert(secret.to_owned());
        assert_eq!(net.found(), [place]);
    }
}
