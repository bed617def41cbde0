//! The runner's process is killed at every request that it makes: before the server receives it,
//! and after the server has executed it, before the answer. Another replica takes over, the
//! resource reaches the same phase, and every invariant holds.
//!
//! The nightly run kills at every request of each workflow, the normal run at the first and the last
//! request of each kind that changes something. A kill at a read, or just before a change, leaves the same
//! state as a kill after the previous change.

mod kill_point;
mod workflow;

use std::panic::AssertUnwindSafe;

use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};

use broker_tests::is_nightly;
use kill_point::{Coverage, KillPoint};
use workflow::{ReusableWorld, Workflow};

/// Concurrent kills, each in a separate world: replicas of one world would take over each other's leases.
const CONCURRENCY: usize = 4;

/// The result of one kill: whether the replica was killed before the workflow was done, or the failure.
struct Outcome {
    kill_point: KillPoint,
    result: Result<(bool, ReusableWorld), String>,
}

async fn run_with_kill(
    workflow: Workflow,
    kill_point: KillPoint,
    world: Option<ReusableWorld>,
) -> Outcome {
    let world = match world {
        Some(world) => world,
        None => ReusableWorld::new().await,
    };
    // The panic was reported; the others continue.
    let result = AssertUnwindSafe(workflow.run_with_kill(&world, &kill_point)).catch_unwind().await;
    let result = match result {
        Ok(killed) => Ok((killed, world)),
        Err(_) => Err(world.state().await),
    };
    Outcome { kill_point, result }
}

async fn assert_survives_every_kill(workflow: Workflow) {
    let world = ReusableWorld::new().await;
    let recorded = workflow.record_requests(&world).await;
    let (postgres, kubernetes) = (recorded.postgres.len(), recorded.kubernetes.len());
    assert!(postgres > 10 && kubernetes > 5, "{postgres} and {kubernetes} requests are too few");
    let coverage = if is_nightly() { Coverage::Everything } else { Coverage::Changes };
    let mut waiting = recorded.kill_points(coverage);
    let total = waiting.len();

    let mut worlds = vec![world];
    let mut running = FuturesUnordered::new();
    let (mut killed_count, mut failed) = (0, Vec::new());
    loop {
        while running.len() < CONCURRENCY
            && let Some(kill_point) = waiting.pop_front()
        {
            running.push(run_with_kill(workflow, kill_point, worlds.pop()));
        }
        let Some(Outcome { kill_point, result }) = running.next().await else { break };
        match result {
            Ok((killed, world)) => {
                killed_count += usize::from(killed);
                worlds.push(world);
                if !killed {
                    println!("{workflow:?} was done before {kill_point}");
                }
            }
            Err(state) => failed.push(format!("{kill_point}: {state}")),
        }
    }
    println!(
        "{workflow:?}: {postgres} requests to Postgres, {kubernetes} to Kubernetes; \
         killed {killed_count} of {total} times, {} did not survive",
        failed.len()
    );
    assert!(failed.is_empty(), "{workflow:?} did not survive: {}", failed.join("\n"));
    // The last requests of the counted run may follow the resource's final phase.
    assert!(killed_count * 2 > total, "only {killed_count} of {total} replicas died early");
}

#[tokio::test]
async fn creation_survives_a_kill_at_any_request() {
    assert_survives_every_kill(Workflow::Create).await;
}

#[tokio::test]
async fn rollback_survives_a_kill_at_any_request() {
    assert_survives_every_kill(Workflow::Rollback).await;
}

#[tokio::test]
async fn deletion_survives_a_kill_at_any_request() {
    assert_survives_every_kill(Workflow::Delete).await;
}

#[tokio::test]
async fn replacement_survives_a_kill_at_any_request() {
    assert_survives_every_kill(Workflow::Replace).await;
}
