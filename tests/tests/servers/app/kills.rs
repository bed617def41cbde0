//! The runner's process is killed at every request that it makes: before the server receives it,
//! and after the server has executed it, before the answer. Another replica takes over, the
//! resource reaches the same phase, and every invariant holds.
//!
//! The nightly run tries every request of each workflow. The normal run tries the first and the
//! last of each kind that changes something: a death at a read, or just before a change, leaves the
//! same state as a death after the previous change.

mod death;
mod workflow;

use std::panic::AssertUnwindSafe;

use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};

use broker_tests::is_nightly;
use death::{Death, Extent};
use workflow::{Lane, Workflow};

/// Concurrent deaths, each in a separate world: replicas of one world would take over from one
/// another.
const SIDE_BY_SIDE: usize = 4;

/// The result of one death: whether and where the replica died before it was done, or the failure.
struct Outcome {
    death: Death,
    survived: Result<(bool, Lane), String>,
}

async fn die(workflow: Workflow, death: Death, lane: Option<Lane>) -> Outcome {
    let lane = match lane {
        Some(lane) => lane,
        None => Lane::new().await,
    };
    // The panic was reported; the others continue.
    let survived = AssertUnwindSafe(workflow.survive(&lane, &death)).catch_unwind().await;
    let survived = match survived {
        Ok(killed) => Ok((killed, lane)),
        Err(_) => Err(lane.state().await),
    };
    Outcome { death, survived }
}

async fn survives_every_death(workflow: Workflow) {
    let lane = Lane::new().await;
    let asked = workflow.asks_for(&lane).await;
    let (postgres, kubernetes) = (asked.postgres.len(), asked.kubernetes.len());
    assert!(postgres > 10 && kubernetes > 5, "{postgres} and {kubernetes} requests are too few");
    let extent = if is_nightly() { Extent::Everything } else { Extent::Changes };
    let mut waiting = asked.deaths(extent);
    let tried = waiting.len();

    let mut lanes = vec![lane];
    let mut dying = FuturesUnordered::new();
    let (mut died, mut failed) = (0, Vec::new());
    loop {
        while dying.len() < SIDE_BY_SIDE
            && let Some(death) = waiting.pop_front()
        {
            dying.push(die(workflow, death, lanes.pop()));
        }
        let Some(Outcome { death, survived }) = dying.next().await else { break };
        match survived {
            Ok((killed, lane)) => {
                died += usize::from(killed);
                lanes.push(lane);
                if !killed {
                    println!("{workflow:?} was done before {death}");
                }
            }
            Err(state) => failed.push(format!("{death}: {state}")),
        }
    }
    println!(
        "{workflow:?}: {postgres} requests to Postgres, {kubernetes} to Kubernetes; \
         killed {died} of {tried} times, {} did not survive",
        failed.len()
    );
    assert!(failed.is_empty(), "{workflow:?} did not survive: {}", failed.join("\n"));
    // The last requests of the counted run may follow the resource's final phase.
    assert!(died * 2 > tried, "only {died} of {tried} replicas died before they were done");
}

#[tokio::test]
async fn creation_survives_a_kill_at_any_request() {
    survives_every_death(Workflow::Create).await;
}

#[tokio::test]
async fn rollback_survives_a_kill_at_any_request() {
    survives_every_death(Workflow::Rollback).await;
}

#[tokio::test]
async fn deletion_survives_a_kill_at_any_request() {
    survives_every_death(Workflow::Delete).await;
}

#[tokio::test]
async fn replacement_survives_a_kill_at_any_request() {
    survives_every_death(Workflow::Replace).await;
}
