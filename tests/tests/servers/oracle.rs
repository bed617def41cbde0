//! The differential oracle: the same random history through an in-memory adapter and through the real one.
//!
//! A seed makes a history of calls. Each world plays it by itself and writes down what it was answered, without what an
//! adapter is free to choose: uids, versions of objects, the store's times. The two transcripts have to be equal, line by
//! line. What the simulation proves about in-memory adapters is worth as much as this is true.
//!
//! Store and cluster only: they have histories that no case of a contract suite tells. A mesh has a few states, and its
//! suites walk through all of them.

mod cluster;
mod store;

use std::fmt::Debug;

use broker_domain::Error;
use broker_ports::PortError;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// How many histories.
fn histories(normal: u64, many: u64) -> std::ops::Range<u64> {
    0..if broker_tests::is_nightly() { many } else { normal }
}

/// A history as one world plays it.
struct Transcript {
    random: StdRng,
    step: u32,
    told: Vec<String>,
}

impl Transcript {
    fn of(seed: u64) -> Self {
        Self { random: StdRng::seed_from_u64(seed), step: 0, told: Vec::new() }
    }

    /// A number below this one.
    fn dice(&mut self, sides: u32) -> u32 {
        self.random.random_range(0..sides)
    }

    fn tell<T: Debug>(&mut self, what: &str, answer: Result<T, PortError>) {
        let answer = match answer {
            Ok(answer) => without_times(&format!("{answer:?}")),
            Err(error) => {
                let reason = error.domain().map(Error::reason);
                format!("{} {reason:?} {:?}", error.class(), error.refusal())
            }
        };
        self.told.push(format!("{}: {what}: {answer}", self.step));
    }
}

/// Leaves out every time before 2060: those of an adapter's own clock.
fn without_times(text: &str) -> String {
    const ZONE: &str = " +00:00:00";
    let mut parts = text.split(ZONE).peekable();
    let mut kept = String::new();
    while let Some(part) = parts.next() {
        let is_time = parts.peek().is_some();
        // As in `2026-01-31 9:05:00.5`.
        let begins = part.rfind(' ').and_then(|hour| part[..hour].len().checked_sub(10));
        match begins.filter(|begins| is_time && part[*begins..] < *"2060") {
            Some(begins) => kept.push_str(&part[..begins]),
            None => kept.push_str(part),
        }
    }
    kept
}

/// Both transcripts are the same, or the first difference is told with what led there.
fn compare(seed: u64, memory: &[String], real: &[String]) {
    let same = memory.iter().zip(real).take_while(|(one, other)| one == other).count();
    let (one, other) = (memory.get(same), real.get(same));
    let told = memory[..same].join("\n");
    assert!(
        one == other,
        "seed {seed}, after\n{told}\nin memory:\n{one:?}\non the server:\n{other:?}"
    );
}
