//! Memory of a warm replica, for `cargo xtask bench`: the watch cache and the state between sweeps. Postgres is real,
//! the API server is simulated in this process.
//!
//! `memory --list` names the cases. `memory CASE` prints bytes: heap per resource, or the resident set including the
//! simulated API server.

#![expect(clippy::unwrap_used, reason = "a benchmark without its setup cannot measure")]

#[path = "end_to_end/fake_api_server.rs"]
mod fake_api_server;

use std::alloc::System;
use std::sync::Arc;
use std::time::Duration;

use broker_embed::Parts;
use broker_tests::TestCluster;
use broker_tests::real::{Machine, RealWorld, TIMEOUT, wire};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const POLL_INTERVAL: Duration = Duration::from_millis(100);

#[derive(Clone, Copy)]
enum Quantity {
    HeapPerResource,
    ResidentSet,
}

const CASES: [(&str, usize, Quantity); 4] = [
    ("heap per resource, 10,000 resources", 10_000, Quantity::HeapPerResource),
    ("heap per resource, 100,000 resources", 100_000, Quantity::HeapPerResource),
    ("resident set, 10,000 resources", 10_000, Quantity::ResidentSet),
    ("resident set, 100,000 resources", 100_000, Quantity::ResidentSet),
];

fn main() {
    let argument = std::env::args().nth(1).unwrap_or_default();
    let case = CASES.iter().find(|(name, ..)| *name == argument);
    let Some((_, count, quantity)) = case else {
        for (name, ..) in CASES {
            println!("{name}");
        }
        return;
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let bytes = runtime.block_on(async {
        match quantity {
            Quantity::HeapPerResource => {
                let one = measure(1).await.0;
                (measure(*count).await.0 - one) / (count - 1)
            }
            Quantity::ResidentSet => measure(*count).await.1,
        }
    });
    println!("{bytes}");
}

/// Heap bytes of a replica with this many resources, and the resident set.
async fn measure(count: usize) -> (usize, usize) {
    let world = Arc::new(RealWorld::with_exclusive_kinds(&TestCluster::shared().await).await);
    let machines: Vec<Machine> = world.create_machine_rows(count).await;
    let client = fake_api_server::client(&world, machines, Arc::default()).await;
    let before = allocated();
    let (Parts { sweeper, .. }, cache) = wire(world.pool(), client, TIMEOUT);
    let running = Arc::clone(&cache);
    let measurement = async {
        sweeper.sweep().await.unwrap();
        while cache.identity().is_none() {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        for _ in 0..2 {
            let (work, report) = sweeper.sweep().await.unwrap();
            assert!(work.is_empty() && report.settled == count, "{work:?}: {report:?}");
        }
        (allocated() - before, resident_set())
    };
    tokio::select! {
        bytes = measurement => bytes,
        () = running.run(std::future::pending()) => unreachable!("the cache runs until it is dropped"),
    }
}

fn allocated() -> usize {
    let stats = ALLOCATOR.stats();
    stats.bytes_allocated - stats.bytes_deallocated
}

fn resident_set() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let kilobytes: usize = line.trim().trim_end_matches("kB").trim().parse().unwrap();
    kilobytes * 1024
}
