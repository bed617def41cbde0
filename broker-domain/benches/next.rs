//! Benchmark of the decide stage: instructions per call of `next`. `cargo xtask bench next` runs it under
//! callgrind.
//!
//! Arguments: a case name and a repetition count run that case; `--list` prints the case names; anything else
//! runs each case once. The cost of a case is the difference between two repetition counts, which cancels its
//! setup. The benchmark panics when a decision allocates.

#![expect(clippy::expect_used, reason = "a benchmark without its setup cannot measure")]

use std::alloc::System;
use std::hint::black_box;

use broker_domain::{ObservedXr, Phase, next};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Decisions in each phase: as many as there are combinations of facts.
const DECISIONS: usize = 48;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let cases = Phase::ALL.map(|phase| (format!("{phase}, {DECISIONS} decisions"), phase));
    match arguments.as_slice() {
        [flag] if flag == "--list" => {
            for (case, _) in cases {
                println!("{case}");
            }
        }
        [name, times] => {
            let named = cases.iter().find(|(case, _)| case == name);
            let (_, phase) = named.expect("--list names the cases");
            decide(*phase, times.parse().expect("a repetition count"));
        }
        _ => cases.into_iter().for_each(|(_, phase)| decide(phase, 1)),
    }
}

fn decide(phase: Phase, times: usize) {
    let facts: Vec<ObservedXr> = ObservedXr::every().collect();
    assert_eq!(facts.len(), DECISIONS, "the number of facts changed; rename the cases");
    let allocated = Region::new(ALLOCATOR);
    for _ in 0..times {
        for observed in &facts {
            black_box(next(black_box(observed), black_box(phase)));
        }
    }
    assert_eq!(allocated.change().allocations, 0, "a decision allocates");
}
