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

use std::collections::HashMap;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use broker_ports::Clock;
use broker_ports::memory::MemoryStore;
use broker_ports::testing::builders::second;
use time::{Duration, OffsetDateTime};

use self::racy::{Race, Racy};
use self::tasks::Ports;

const SEEDS: u64 = 1_000;
/// Calls that read only are not among them: lookup, list, sweep and history.
const CALLS_THAT_CHANGE: usize = 13;
/// A race does not come about in every history; the rarest does in one of a hundred.
const SEEDS_PER_RACE: u64 = 2_000;

fn store() -> MemoryStore {
    MemoryStore::new(Arc::new(Ticking::default()))
}

/// A clock that shows a later moment to everybody who looks, so that what came first is older.
#[derive(Default)]
struct Ticking(AtomicI64);

impl Clock for Ticking {
    fn now(&self) -> OffsetDateTime {
        second(10_000) + Duration::microseconds(self.0.fetch_add(1, Ordering::SeqCst))
    }
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
    let mut kinds = HashMap::new();
    for seed in 0..seeds() {
        let (history, beginning) = tasks::run(seed, Ports::of(store())).await;
        overlaps += checker::overlaps(&history);
        let order = checker::order(&history, &beginning);
        let order =
            order.unwrap_or_else(|| panic!("no order explains seed {seed}: \n{}", lines(&history)));
        changes += order.changes;
        for entry in history.iter().filter(|entry| !entry.answer.is_quiet()) {
            *kinds.entry(mem::discriminant(&entry.call)).or_insert(0) += 1;
        }
    }
    println!("{} histories, {changes} changes, {overlaps} overlaps", seeds());
    assert!(changes > seeds() * 10, "the histories change too little to prove anything");
    assert!(overlaps > seeds() * 100, "the histories overlap too little to prove anything");
    let rarest = kinds.values().min().copied().unwrap_or_default();
    println!("{} kinds of calls change something, each at least {rarest} times", kinds.len());
    assert_eq!(kinds.len(), CALLS_THAT_CHANGE, "a kind of call never changes anything");
    assert!(rarest >= seeds() / 10, "a kind of call changes something only {rarest} times");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_store_that_looks_before_it_locks_is_found_out() {
    for race in Race::ALL {
        let mut found = None;
        for seed in 0..SEEDS_PER_RACE {
            let racy = Ports::of(Racy::new(store(), race));
            let (history, beginning) = tasks::run(seed, racy).await;
            if checker::order(&history, &beginning).is_none() {
                found = Some(seed);
                break;
            }
        }
        println!("{race:?} is found out by seed {found:?}");
        assert!(found.is_some(), "{race:?} is never found out");
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
