//! How much memory a replica keeps for what it follows, for `cargo xtask bench`: the watch cache, and what a sweep knows
//! from the one before. Rows are in a real Postgres; the API server is played in the same process.
//!
//! `memory --list` names the cases; `memory CASE` prints bytes: those that are still allocated for each resource when
//! everything is warm, or all that the process holds then, the player included.

#![expect(clippy::unwrap_used, reason = "a benchmark that cannot go on has nothing to say")]

#[path = "whole/played.rs"]
mod played;

use std::alloc::System;
use std::sync::Arc;
use std::time::Duration;

use broker_embed::Parts;
use broker_tests::TestCluster;
use broker_tests::real::{Machine, PATIENCE, RealWorld, wire};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// How often somebody looks whether the cache is warm.
const LOOK: Duration = Duration::from_millis(100);

/// What is looked at.
#[derive(Clone, Copy)]
enum Looked {
    /// Bytes on the heap for each resource.
    HeapEach,
    /// Bytes that the process holds.
    Resident,
}

const CASES: [(&str, usize, Looked); 4] = [
    ("heap per resource, of 10,000", 10_000, Looked::HeapEach),
    ("heap per resource, of 100,000", 100_000, Looked::HeapEach),
    ("resident with 10,000", 10_000, Looked::Resident),
    ("resident with 100,000", 100_000, Looked::Resident),
];

fn main() {
    let argument = std::env::args().nth(1).unwrap_or_default();
    let case = CASES.iter().find(|(name, ..)| *name == argument);
    let Some((_, many, looked)) = case else {
        for (name, ..) in CASES {
            println!("{name}");
        }
        return;
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let bytes = runtime.block_on(async {
        match looked {
            Looked::HeapEach => {
                let little = kept(1).await.0;
                (kept(*many).await.0 - little) / (many - 1)
            }
            Looked::Resident => kept(*many).await.1,
        }
    });
    println!("{bytes}");
}

/// Bytes on the heap that so many resources take, and bytes that the process holds then.
async fn kept(many: usize) -> (usize, usize) {
    let world = Arc::new(RealWorld::alone(&TestCluster::shared().await).await);
    let machines: Vec<Machine> = world.furnish_rows(many).await;
    let client = played::client(&world, machines, Arc::default()).await;
    let before = allocated();
    let (Parts { sweeper, .. }, cache) = wire(world.pool(), client, PATIENCE);
    let running = Arc::clone(&cache);
    let look = async {
        sweeper.sweep().await.unwrap();
        while cache.identity().is_none() {
            tokio::time::sleep(LOOK).await;
        }
        for _ in 0..2 {
            let (work, report) = sweeper.sweep().await.unwrap();
            assert!(work.is_empty() && report.settled == many, "{work:?}: {report:?}");
        }
        (allocated() - before, resident())
    };
    tokio::select! {
        bytes = look => bytes,
        () = running.run(std::future::pending()) => unreachable!("nobody stops it"),
    }
}

fn allocated() -> usize {
    let stats = ALLOCATOR.stats();
    stats.bytes_allocated - stats.bytes_deallocated
}

/// As the kernel counts it.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let kilobytes: usize = line.trim().trim_end_matches("kB").trim().parse().unwrap();
    kilobytes * 1024
}
