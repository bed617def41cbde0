//! What 32 tasks see of the store at once could have been seen one after the other.
//!
//! Each seed is a short history: 32 tasks do a few random things each, and write down what they asked, what
//! they were answered, and when. The checker then looks for an order of all of it that agrees with those
//! times and in which a store without any concurrency, written down apart from the real one, gives the very
//! same answers.

mod checker;
mod model;
mod racy;
mod tasks;

use std::sync::Arc;

use broker_ports::memory::{ManualClock, MemoryStore};
use broker_ports::testing::builders::second;

use self::racy::{Race, Racy};
use self::tasks::Ports;

const SEEDS: u64 = 1_000;
/// A race does not come about in every history; over so many it does.
const SEEDS_PER_RACE: u64 = 60;

fn store() -> MemoryStore {
    MemoryStore::new(Arc::new(ManualClock::at(second(10_000))))
}

#[expect(clippy::disallowed_methods, reason = "the nightly run asks for more of the same test")]
fn seeds() -> u64 {
    let nightly = std::env::var_os("BROKER_NIGHTLY").is_some_and(|value| value == "1");
    if nightly { SEEDS * 10 } else { SEEDS }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_memory_store_is_linearizable() {
    let mut changes = 0;
    let mut overlaps = 0;
    for seed in 0..seeds() {
        let history = tasks::run(seed, Ports::of(store())).await;
        overlaps += checker::overlaps(&history);
        let order = checker::order(&history);
        let order =
            order.unwrap_or_else(|| panic!("no order explains seed {seed}: \n{}", lines(&history)));
        changes += order.changes;
    }
    println!("{} histories, {changes} changes, {overlaps} overlaps", seeds());
    assert!(changes > seeds() * 10, "the histories change too little to prove anything");
    assert!(overlaps > seeds() * 100, "the histories overlap too little to prove anything");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_store_that_looks_before_it_locks_is_found_out() {
    for race in Race::ALL {
        let mut found = 0;
        for seed in 0..SEEDS_PER_RACE {
            let history = tasks::run(seed, Ports::of(Racy::new(store(), race))).await;
            found += u64::from(checker::order(&history).is_none());
        }
        println!("{race:?} is found out in {found} of {SEEDS_PER_RACE} histories");
        assert!(found > 0, "{race:?} is never found out");
    }
}

/// A history for reading: one call a line.
fn lines(history: &[checker::Entry]) -> String {
    let line = |entry: &checker::Entry| {
        let checker::Entry { called, returned, call, answer } = entry;
        format!("{called:>3} to {returned:>3}: {call:?} is answered {answer:?}\n")
    };
    history.iter().map(line).collect()
}
