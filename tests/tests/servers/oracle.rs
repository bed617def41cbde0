//! The differential oracle: an in-memory adapter and the real one execute the same random history.
//!
//! A seed determines a history of calls. Each adapter executes the history and records the results,
//! without values that an adapter may choose: uids, object versions, the store's times. The two
//! transcripts must be equal: the simulation relies on it.
//!
//! The mesh has no histories, because its contract suites cover its few states.

mod cluster;
mod store;

use std::fmt::Debug;

use broker_domain::Error;
use broker_ports::PortError;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// The seeds of a run.
fn histories(normal: u64, many: u64) -> std::ops::Range<u64> {
    0..if broker_tests::is_nightly() { many } else { normal }
}

struct Transcript {
    random: StdRng,
    step: u32,
    lines: Vec<String>,
}

impl Transcript {
    fn new(seed: u64) -> Self {
        Self { random: StdRng::seed_from_u64(seed), step: 0, lines: Vec::new() }
    }

    fn random_below(&mut self, bound: u32) -> u32 {
        self.random.random_range(0..bound)
    }

    fn record<T: Debug>(&mut self, call: &str, result: Result<T, PortError>) {
        let result = match result {
            Ok(value) => without_times(&format!("{value:?}")),
            Err(error) => {
                let reason = error.domain().map(Error::reason);
                format!("{} {reason:?} {:?}", error.class(), error.refusal())
            }
        };
        self.lines.push(format!("{}: {call}: {result}", self.step));
    }
}

/// Removes every time before 2060: those of an adapter's own clock.
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

/// Compares the transcripts; reports the first difference with the steps before it.
fn compare(seed: u64, memory: &[String], real: &[String]) {
    let same = memory.iter().zip(real).take_while(|(one, other)| one == other).count();
    let (one, other) = (memory.get(same), real.get(same));
    let before = memory[..same].join("\n");
    assert!(
        one == other,
        "seed {seed}, after\n{before}\nin memory:\n{one:?}\non the server:\n{other:?}"
    );
}
