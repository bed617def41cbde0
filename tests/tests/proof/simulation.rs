//! Simulation: the whole application with several replicas on in-memory adapters, one life per
//! seed.
//!
//! A seed determines a story (declarations, deletions, interference, kills, waits) and a fault plan
//! for every call of every port, by replicas and by callers. Time is tokio's paused clock on one
//! thread, so a seed reproduces the same trace byte for byte. After the faults stop, every caller
//! gets an answer, and everything must settle in the declared state.

mod life;
mod promises;
mod story;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use broker_tests::world::World;

use super::environment;
use super::panics::BrokenMesh;
use broker_tests::is_nightly;
pub(crate) use life::{Declared, tell};
use life::{KINDS, Life, live, live_in};
pub(crate) use promises::{at_rest, kept, nothing_left, unharmed};
use story::Step;
pub(crate) use story::{Kind, Story};

const NORMAL: u64 = 1_000;
const NIGHTLY: u64 = 10_000;

/// The seeds: from `cargo xtask simulate`, or the default range.
fn seeds() -> std::ops::Range<u64> {
    let first = environment("BROKER_SEED").map_or(0, |seed| seed.parse().unwrap());
    let many = if is_nightly() { NIGHTLY } else { NORMAL };
    let many = environment("BROKER_SEEDS").map_or(many, |seeds| seeds.parse().unwrap());
    first..first + many
}

#[test]
fn every_seed_settles() {
    let seeds = seeds();
    let next = AtomicU64::new(seeds.start);
    let failed = Mutex::new(None::<u64>);
    let faults = Mutex::new(BTreeMap::<&str, u64>::new());
    let unheard = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end || failed.lock().unwrap().is_some() {
                        return;
                    }
                    let life = live(&Story::of(seed));
                    unheard.fetch_add(life.unheard, Ordering::Relaxed);
                    for (kind, times) in life.faults {
                        *faults.lock().unwrap().entry(kind).or_default() += times;
                    }
                    if life.complaint.is_some() {
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
    let (many, fired) = (seeds.end - seeds.start, faults.values().sum::<u64>());
    println!("proof: {many} seeds, {fired} faults of {} kinds", faults.len());
    if many >= NORMAL {
        assert!(fired > many, "only {fired} faults fired");
        let never: Vec<_> = KINDS.iter().filter(|kind| !faults.contains_key(*kind)).collect();
        assert!(never.is_empty(), "these faults never fired: {never:?}");
        assert!(unheard.into_inner() > 0, "no caller ever retried a stored declaration");
    }
}

/// The failure report: the command that reproduces it, and the shortest story that still fails.
fn failure_report(story: &Story) -> String {
    let seed = story.seed;
    let (story, Life { trace, complaint, .. }) = shrunk(story);
    let complaint = complaint.unwrap_or_default();
    let steps = story.steps.len();
    format!(
        "seed {seed}: {complaint}\nrepeat it with: cargo xtask simulate --seed {seed}\n\
         the shortest story that still fails has {steps} steps:\n{trace}"
    )
}

/// Removes one step after the other while the story still fails for the same reason.
fn shrunk(story: &Story) -> (Story, Life) {
    let mut best = (story.clone(), live(story));
    let mut place = 0;
    while place < best.0.steps.len() {
        let mut shorter = best.0.clone();
        shorter.steps.remove(place);
        let life = live(&shorter);
        if life.complaint.is_some() && life.reason() == best.1.reason() {
            best = (shorter, life);
        } else {
            place += 1;
        }
    }
    best
}

#[test]
fn same_seed_gives_the_same_trace() {
    let mut traces = std::collections::BTreeSet::new();
    for seed in 0..20 {
        let [first, second] = [(); 2].map(|()| live(&Story::of(seed)).trace);
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
    world.rewire(|ports| ports.nodes = Arc::new(BrokenMesh::Aloud));
    let complaint = live_in(&story, world).complaint.unwrap_or_default();
    assert!(complaint.starts_with("a panic: "), "{complaint}");
    assert!(complaint.contains("the mesh panicked"), "{complaint}");
}

/// A panic of the simulation itself names its seed, like every other failure.
#[test]
fn panicking_story_is_reported_with_its_command() {
    let no_replica = Step::Kill(99);
    let story = Story { steps: vec![Step::Land, no_replica, Step::Land], ..Story::of(5) };
    let words = failure_report(&story);
    assert!(words.starts_with("seed 5: a panic: 1 of them"), "{words}");
    assert!(words.contains("cargo xtask simulate --seed 5\n"), "{words}");
    assert!(words.contains("still fails has 1 steps"), "{words}");
}

/// Negative control: a story that ends too early fails. The reported story is shorter and fails for
/// the same reason.
#[test]
fn failing_story_is_shrunk_and_names_its_command() {
    let story = unfinished();
    let (failed, (shorter, life)) = (live(&story), shrunk(&story));
    assert!(shorter.steps.len() < story.steps.len(), "{} steps", shorter.steps.len());
    assert!(failed.complaint.is_some(), "{}", failed.trace);
    assert_eq!(life.reason(), failed.reason());
    let words = failure_report(&story);
    assert!(words.contains("cargo xtask simulate --seed 3\n"), "{words}");
    assert!(words.contains(&format!("still fails has {} steps", shorter.steps.len())), "{words}");
}
