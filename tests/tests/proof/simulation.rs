//! Simulation: the whole application, several replicas of it, on in-memory adapters, one life per seed.
//!
//! A seed makes a story (who declares, deletes, meddles, kills and waits when) and a plan of faults for every call
//! of every port, be it for a replica or for a caller. Time is tokio's paused clock on one thread, so that a seed tells
//! the same story each time, byte for byte. When the faults stop, everybody is answered, and everything has to come to
//! rest where its callers want it.

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

/// Which seeds: `cargo xtask simulate` says so, or the run does.
fn seeds() -> std::ops::Range<u64> {
    let first = environment("BROKER_SEED").map_or(0, |seed| seed.parse().unwrap());
    let many = if is_nightly() { NIGHTLY } else { NORMAL };
    let many = environment("BROKER_SEEDS").map_or(many, |seeds| seeds.parse().unwrap());
    first..first + many
}

#[test]
fn every_seed_comes_to_rest() {
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
        panic!("{}", in_words(&Story::of(seed)));
    }
    let faults = faults.into_inner().unwrap();
    let (many, fired) = (seeds.end - seeds.start, faults.values().sum::<u64>());
    println!("proof: {many} seeds, {fired} faults of {} kinds", faults.len());
    if many >= NORMAL {
        assert!(fired > many, "{fired} faults: hardly anything goes wrong");
        let never: Vec<_> = KINDS.iter().filter(|kind| !faults.contains_key(*kind)).collect();
        assert!(never.is_empty(), "these faults never fired: {never:?}");
        assert!(unheard.into_inner() > 0, "no caller ever asked again for what was stored");
    }
}

/// What a person needs who has to mend it: the one command, and the shortest story that still fails.
fn in_words(story: &Story) -> String {
    let seed = story.seed;
    let (story, Life { trace, complaint, .. }) = shrunk(story);
    let complaint = complaint.unwrap_or_default();
    let steps = story.steps.len();
    format!(
        "seed {seed}: {complaint}\nrepeat it with: cargo xtask simulate --seed {seed}\n\
         the shortest story that still fails has {steps} steps:\n{trace}"
    )
}

/// Leaves out one step after the other, as long as it still fails for the same reason.
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
fn a_seed_tells_the_same_story_each_time() {
    let mut traces = std::collections::BTreeSet::new();
    for seed in 0..20 {
        let [first, second] = [(); 2].map(|()| live(&Story::of(seed)).trace);
        assert!(first == second, "seed {seed} told two stories:\n{first}\n{second}");
        traces.insert(first);
    }
    assert_eq!(traces.len(), 20, "other seeds, other stories");
}

/// Somebody wants something at the very end, and nobody waits for it.
fn unfinished() -> Story {
    let mut story = Story { patience: 0, ..Story::of(3) };
    story.steps.push(Step::Declare(Kind::Node));
    story
}

/// A panic is complained about, which the runner turns into an error and tries again.
#[test]
fn a_panic_in_a_pass_is_complained_about() {
    let story = Story { steps: vec![Step::Declare(Kind::Node)], ..Story::of(3) };
    let mut world = World::new();
    world.rewire(|ports| ports.nodes = Arc::new(BrokenMesh::Aloud));
    let complaint = live_in(&story, world).complaint.unwrap_or_default();
    assert!(complaint.starts_with("a panic: "), "{complaint}");
    assert!(complaint.contains("the mesh broke down"), "{complaint}");
}

/// A panic of the telling itself names its seed, like everything else that fails.
#[test]
fn a_story_that_breaks_down_is_told_with_its_command() {
    let nobody = Step::Kill(99);
    let story = Story { steps: vec![Step::Land, nobody, Step::Land], ..Story::of(5) };
    let words = in_words(&story);
    assert!(words.starts_with("seed 5: a panic: 1 of them"), "{words}");
    assert!(words.contains("cargo xtask simulate --seed 5\n"), "{words}");
    assert!(words.contains("still fails has 1 steps"), "{words}");
}

/// A check that cannot fail is none: a story whose end is not waited for is complained about. What is told of it is
/// shorter than what failed, and fails for the same reason.
#[test]
fn a_story_that_fails_is_shrunk_and_names_its_command() {
    let story = unfinished();
    let (failed, (shorter, life)) = (live(&story), shrunk(&story));
    assert!(shorter.steps.len() < story.steps.len(), "{} steps", shorter.steps.len());
    assert!(failed.complaint.is_some(), "{}", failed.trace);
    assert_eq!(life.reason(), failed.reason());
    let words = in_words(&story);
    assert!(words.contains("cargo xtask simulate --seed 3\n"), "{words}");
    assert!(words.contains(&format!("still fails has {} steps", shorter.steps.len())), "{words}");
}
