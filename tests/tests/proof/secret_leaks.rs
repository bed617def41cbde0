//! Secret-leak tests: random secrets through every path of the application, searched for in
//! everything that is logged or stored.
//!
//! Each run of the simulation issues new tokens. Afterwards providers and webhooks repeat them in messages, and a port
//! panics with one. Callers send literals where only a reference is accepted. Operators request explanations and plans.
//! Then log, spans, metrics, errors, panics, events, rows, audit and explanations are searched for each secret in every
//! spelling. The cluster is not searched: a token belongs there.

mod misuse;

use std::collections::BTreeSet;
use std::panic::catch_unwind;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use broker_tests::world::World;

use super::panics;
use super::simulation::{Declared, Story, run_and_inspect};
use broker_tests::is_nightly;
use broker_tests::log::{MetricsCapture, with_log};
use broker_tests::secret_search::{LeakDetector, base64};
use metrics::with_local_recorder;
use misuse::SecretMisuse;
use tracing_subscriber::fmt::format::FmtSpan;

const NORMAL_SECRETS: usize = 500;
const NIGHTLY_SECRETS: usize = 10_000;

/// Runs `work` on this thread and captures its log and metrics.
fn capture_output<T>(detector: &mut LeakDetector, work: impl FnOnce(&mut LeakDetector) -> T) -> T {
    let captured_metrics = MetricsCapture::default();
    let result = with_log(tracing::Level::TRACE, FmtSpan::FULL, |log| {
        let result = with_local_recorder(&captured_metrics, || work(detector));
        detector.record("the log", log.take_lines("").join("\n"));
        result
    });
    for (name, (_, labels)) in captured_metrics.recorded.into_inner().unwrap() {
        detector.record("a metric", name);
        for value in labels.into_values().flatten() {
            detector.record("a metric", value);
        }
    }
    detector.record(
        "a metric",
        captured_metrics.described.into_inner().unwrap().into_iter().collect::<String>(),
    );
    result
}

fn run_and_capture(seed: u64) -> LeakDetector {
    let story = Story::of(seed);
    let number = u32::try_from(seed).unwrap();
    let mut misuse = SecretMisuse::new(number);
    let mut detector = LeakDetector::default();
    let result = capture_output(&mut detector, |detector| {
        let mut world = World::with_tokens(story.faults(), number);
        misuse.prepare(&mut world);
        let inspect = async |world: &World, declared: &[Declared]| {
            misuse.misuse_all(world, declared, detector).await;
        };
        run_and_inspect(&story, world, inspect)
    });
    detector.record("the story", result.trace);
    detector.record("a failure", result.failure.unwrap_or_default());
    detector.record("a panic", result.panics.join("\n"));
    detector.secrets.extend(misuse.issued());
    detector
}

#[test]
fn no_secret_is_logged_or_stored() {
    let minimum = if is_nightly() { NIGHTLY_SECRETS } else { NORMAL_SECRETS };
    let (seeds, secrets) = (AtomicU64::new(0), Mutex::new(BTreeSet::new()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while secrets.lock().unwrap().len() < minimum {
                    let seed = seeds.fetch_add(1, Ordering::Relaxed);
                    let detector = run_and_capture(seed);
                    assert_eq!(detector.leaking_places(), [""; 0], "seed {seed}");
                    secrets.lock().unwrap().extend(detector.secrets);
                }
            });
        }
    });
    println!("proof: {} secrets in memory", secrets.into_inner().unwrap().len());
}

#[test]
fn every_output_is_captured() {
    let (mut missing, mut seed) = (OUTPUTS.to_vec(), 0);
    while !missing.is_empty() {
        assert!(seed < 50, "no output was captured of {missing:?}");
        let detector = run_and_capture(seed);
        missing.retain(|(output, trace)| !detector.text_of(output).contains(trace));
        seed += 1;
    }
}

/// Every output that could leak a secret, and a text that it contains in any case.
const OUTPUTS: [(&str, &str); 12] = [
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

/// Negative control: a leak planted in any output is found.
#[test]
fn planted_leak_is_found_in_every_output() {
    let secret = "pl4nted-\"s3cret\"-wïth-quotes";
    let leaks: [Leak; 8] = [
        ("the log", |_, secret| tracing::trace!(token = secret, "issued")),
        ("the log", |_, secret| drop(tracing::debug_span!("issue", token = ?secret).entered())),
        ("a metric", |_, secret| {
            metrics::counter!("tokens", "of" => secret.to_owned()).increment(1);
        }),
        ("an error", |detector, secret| {
            let source = std::io::Error::other(secret.to_owned());
            detector.record_error(&broker_ports::PortError::rejected("no").with_source(source));
        }),
        ("a panic", |detector, secret| {
            let _capture = panics::capture();
            drop(catch_unwind(|| assert!(secret.is_empty(), "no node enrolled with {secret}")));
            detector.record("a panic", panics::take_captured().join("\n"));
        }),
        ("an event", |detector, secret| detector.record("an event", format!("{:?}", [secret]))),
        ("a row", |detector, secret| {
            detector.record("a row", serde_json::json!({"note": secret}).to_string());
        }),
        ("a plan", |detector, secret| detector.record("a plan", base64(format!("{secret}!")))),
    ];
    for (output, leak) in leaks {
        let mut detector = LeakDetector::default();
        capture_output(&mut detector, |detector| leak(detector, secret));
        assert_eq!(detector.leaking_places(), [""; 0], "the secret is not registered yet");
        detector.secrets.insert(secret.to_owned());
        assert_eq!(detector.leaking_places(), [output]);
    }
}
