//! Simulation: the whole application with several replicas on in-memory adapters, one story per
//! seed.
//!
//! A seed determines a story (declarations, deletions, interference, kills, waits) and a fault plan
//! for every call of every port, by replicas and by callers. Time is tokio's paused clock on one
//! thread, so a seed reproduces the same trace byte for byte. After the faults stop, every caller
//! gets a response, and everything must settle in the declared state.

mod story_run;
mod promises;
mod story;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use broker_tests::world::World;

use super::environment;
use super::panics::PanickingMesh;
use broker_tests::is_nightly;
pub(crate) use promises::{
    check_history, check_no_object_left, check_nodes_leave_first, check_settled,
};
use story::Step;
pub(crate) use story::{Kind, Story};
pub(crate) use story_run::{Declared, run_and_inspect};
use story_run::{FAULT_NAMES, StoryResult, run, run_in};

const NORMAL_SEEDS: u64 = 1_000;
const NIGHTLY_SEEDS: u64 = 10_000;

/// The seeds: from `cargo xtask simulate`, or the default range.
fn seeds() -> std::ops::Range<u64> {
    let first = environment("BROKER_SEED").map_or(0, |seed| seed.parse().unwrap());
    let count = if is_nightly() { NIGHTLY_SEEDS } else { NORMAL_SEEDS };
    let count = environment("BROKER_SEEDS").map_or(count, |seeds| seeds.parse().unwrap());
    first..first + count
}

#[test]
fn every_seed_settles() {
    let seeds = seeds();
    let next = AtomicU64::new(seeds.start);
    let failed = Mutex::new(None::<u64>);
    let faults = Mutex::new(BTreeMap::<&str, u64>::new());
    let lost_responses = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end || failed.lock().unwrap().is_some() {
                        return;
                    }
                    let result = run(&Story::of(seed));
                    lost_responses.fetch_add(result.lost_responses, Ordering::Relaxed);
                    for (kind, times) in result.faults {
                        *faults.lock().unwrap().entry(kind).or_default() += times;
                    }
                    if result.failure.is_some() {
                        let mut failed = failed.lock().unwrap();
                        *failed = Some(failed.map_or(seed, |other| other.min(seed)));
                    }
                }
            });
        }
    });
    if let Some(seed) = failed.into_inner().unwrap() {
        panic!("{}", failure_report(&Story::of(seed)));
    }
    let faults = faults.into_inner().unwrap();
    let (count, fired) = (seeds.end - seeds.start, faults.values().sum::<u64>());
    println!("proof: {count} seeds, {fired} faults of {} kinds", faults.len());
    if count >= NORMAL_SEEDS {
        assert!(fired > count, "only {fired} faults fired");
        let never: Vec<_> = FAULT_NAMES.iter().filter(|kind| !faults.contains_key(*kind)).collect();
        assert!(never.is_empty(), "these faults never fired: {never:?}");
        assert!(lost_responses.into_inner() > 0, "no caller ever retried a stored declaration");
    }
}

/// The failure report: the command that reproduces it, and the shortest story that still fails.
fn failure_report(story: &Story) -> String {
    let seed = story.seed;
    let (story, StoryResult { trace, failure, .. }) = shrunk(story);
    let failure = failure.unwrap_or_default();
    let steps = story.steps.len();
    format!(
        "seed {seed}: {failure}\nrepeat it with: cargo xtask simulate --seed {seed}\n\
         the shortest story that still fails has {steps} steps:\n{trace}"
    )
}

/// Removes one step after the other while the story still fails for the same reason.
fn shrunk(story: &Story) -> (Story, StoryResult) {
    let mut best = (story.clone(), run(story));
    let mut index = 0;
    while index < best.0.steps.len() {
        let mut shorter = best.0.clone();
        shorter.steps.remove(index);
        let result = run(&shorter);
        if result.failure.is_some() && result.reason() == best.1.reason() {
            best = (shorter, result);
        } else {
            index += 1;
        }
    }
    best
}

#[test]
fn same_seed_gives_the_same_trace() {
    let mut traces = std::collections::BTreeSet::new();
    for seed in 0..20 {
        let [first, second] = [(); 2].map(|()| run(&Story::of(seed)).trace);
        assert!(first == second, "seed {seed} gave two traces:\n{first}\n{second}");
        traces.insert(first);
    }
    assert_eq!(traces.len(), 20, "other seeds give other traces");
}

/// A declaration at the very end, without time to settle.
fn unfinished() -> Story {
    let mut story = Story { timeout: 0, ..Story::of(3) };
    story.steps.push(Step::Declare(Kind::Node));
    story
}

/// The simulation reports a panic, although the runner turns it into an error and retries.
#[test]
fn panic_in_a_pass_is_reported() {
    let story = Story { steps: vec![Step::Declare(Kind::Node)], ..Story::of(3) };
    let mut world = World::new();
    world.rewire(|ports| ports.nodes = Arc::new(PanickingMesh::ThroughHook));
    let failure = run_in(&story, world).failure.unwrap_or_default();
    assert!(failure.starts_with("a panic: "), "{failure}");
    assert!(failure.contains("the mesh panicked"), "{failure}");
}

/// Negative control: a story that ends too early fails. The reported story is shorter and fails for
/// the same reason.
#[test]
fn failing_story_is_shrunk_and_names_its_command() {
    let story = unfinished();
    let (failed, (shorter, result)) = (run(&story), shrunk(&story));
    assert!(shorter.steps.len() < story.steps.len(), "{} steps", shorter.steps.len());
    assert!(failed.failure.is_some(), "{}", failed.trace);
    assert_eq!(result.reason(), failed.reason());
    let report = failure_report(&story);
    assert!(report.contains("cargo xtask simulate --seed 3\n"), "{report}");
    assert!(report.contains(&format!("still fails has {} steps", shorter.steps.len())), "{report}");
}
