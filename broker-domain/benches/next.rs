//! How many instructions the decision takes. `cargo xtask bench next` runs this under callgrind.
//!
//! With the name of a case and a number, it prepares the case and runs it that often: the difference
//! between two numbers is what the case costs, without its preparation. With `--list` it names its cases;
//! with anything else it runs each of them once. A decision that allocates ends it: nothing is measured then.

#![expect(clippy::expect_used, reason = "a benchmark that cannot be prepared has nothing to say")]

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
            decide(*phase, times.parse().expect("how often is a number"));
        }
        _ => cases.into_iter().for_each(|(_, phase)| decide(phase, 1)),
    }
}

/// Decides on every combination of facts, so many times.
fn decide(phase: Phase, times: usize) {
    let facts: Vec<ObservedXr> = ObservedXr::every().collect();
    assert_eq!(facts.len(), DECISIONS, "there are other facts; name the cases after them");
    let allocated = Region::new(ALLOCATOR);
    for _ in 0..times {
        for observed in &facts {
            black_box(next(black_box(observed), black_box(phase)));
        }
    }
    assert_eq!(allocated.change().allocations, 0, "a decision allocates");
}
