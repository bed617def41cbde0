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

const CASE: &str = "all 384 decisions";

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let times = match arguments.as_slice() {
        [flag] if flag == "--list" => return println!("{CASE}"),
        [name, times] => {
            assert_eq!(name, CASE, "--list names the cases");
            times.parse().expect("how often is a number")
        }
        _ => 1,
    };
    let cells: Vec<(ObservedXr, Phase)> = Phase::ALL
        .into_iter()
        .flat_map(|phase| ObservedXr::every().map(move |observed| (observed, phase)))
        .collect();
    assert_eq!(cells.len(), 384, "the grid is another one; name the case after it");
    let allocated = Region::new(ALLOCATOR);
    for _ in 0..times {
        for (observed, phase) in &cells {
            black_box(next(black_box(observed), black_box(*phase)));
        }
    }
    assert_eq!(allocated.change().allocations, 0, "a decision allocates");
}
