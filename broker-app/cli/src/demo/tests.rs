//! The demo ends as expected for every seed, detects every wrong result, and prints no token.

use std::collections::BTreeSet;

use broker_domain::EventType;
use secrecy::ExposeSecret;

use super::*;

/// Runs a demo to its end; returns the result and every token that a machine received.
async fn run_to_the_end(
    mut demo: Demo,
    output: &mut dyn DemoOutput,
) -> (RunResult, BTreeSet<String>) {
    let resources = u16::try_from(demo.plan.resources.len()).unwrap();
    output.begin(Header { seed: 1, resources }).unwrap();
    let mut tokens = BTreeSet::new();
    while demo.run_round(output).await.unwrap() == Progress::Running {
        let machines = demo.world.cluster.agent_documents();
        tokens.extend(machines.iter().map(|machine| machine.token.secret().expose_secret().into()));
    }
    let result = demo.result().await.unwrap();
    output.end(&result).unwrap();
    (result, tokens)
}

async fn result_of(demo: Demo) -> RunResult {
    Box::pin(run_to_the_end(demo, &mut PlainLines(&mut io::sink()))).await.0
}

#[tokio::test]
async fn every_seed_ends_as_expected() {
    let seeds = (0..12).map(|seed| (seed, 6)).chain([(1, 1), (1, 2), (u32::MAX, 8)]);
    for (seed, resources) in seeds {
        let result = result_of(Demo::new(seed, resources).unwrap()).await;
        assert_eq!(result.mismatch(), None, "seed {seed}, {resources} resources");
        assert_eq!(result.outcomes.len(), usize::from(resources));
    }
}

type Corruption = fn(&mut RunResult);

#[tokio::test]
async fn every_wrong_result_is_detected() {
    let result = result_of(Demo::new(1, 6).unwrap()).await;
    let rows: [(&str, Corruption); 9] = [
        ("batch-1 is in Deprovisioning, not in Deleted", |result| {
            result.outcomes[5].entry.phases.pop();
        }),
        ("bucket-1 went Pending -> Ready, not Pending -> Provisioning -> Ready", |result| {
            result.outcomes[1].entry.phases.remove(1);
        }),
        ("web-1 published Requested, not Requested, Ready", |result| {
            result.outcomes[0].entry.events.pop();
        }),
        ("web-1 published Requested, Ready, Ready, not Requested, Ready", |result| {
            result.outcomes[0].entry.events.push((3, EventType::Ready));
        }),
        ("edge-1 has a gap in its events before number 3", |result| {
            result.outcomes[4].entry.events[1].0 = 3;
        }),
        ("gpu-1 has 1 objects on the cluster, not 0", |result| result.outcomes[3].objects_left = 1),
        ("web-1 has no live Node", |result| result.outcomes[0].live_node = false),
        ("batch-1 has a live Node", |result| result.outcomes[5].live_node = true),
        ("a last sweep found 2 resources to work on", |result| result.unsettled = 2),
    ];
    for (mismatch, corrupt) in rows {
        let mut corrupted = result.clone();
        corrupt(&mut corrupted);
        assert_eq!(corrupted.mismatch().unwrap(), mismatch);
    }
}

#[tokio::test]
async fn no_output_format_shows_a_token() {
    let size = || Size { columns: 400, rows: 50 };
    let (mut plain, mut json, mut live) = (Vec::new(), Vec::new(), Vec::new());
    let demo = || Demo::new(1, 6).unwrap();
    let (_, tokens) = Box::pin(run_to_the_end(demo(), &mut PlainLines(&mut plain))).await;
    Box::pin(run_to_the_end(demo(), &mut JsonLines(&mut json))).await;
    let terminal = Terminal { colour: true };
    Box::pin(run_to_the_end(demo(), &mut LiveTable::new(&mut live, terminal, size))).await;

    assert_eq!(tokens.len(), 5, "every machine received a token");
    for (format, output) in [("plain", plain), ("json", json), ("live", live)] {
        let output = String::from_utf8(output).unwrap();
        assert!(output.contains("web-1"), "{format}");
        assert!(!output.contains("cloud-config"), "{format}");
        for token in &tokens {
            assert!(
                token.len() >= 16 && !output.contains(token.as_str()),
                "{format} shows a token"
            );
        }
    }
}
