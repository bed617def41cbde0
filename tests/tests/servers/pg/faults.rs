//! The adapters under faults that a real server, or the way to it, really has.
//!
//! Every operation that writes meets every [`Fault`]. Afterwards the whole database is looked at: it is as it
//! was, or as the operation alone leaves it, and nothing in between. Then the fault is over and the caller asks
//! again, and the database is as if there had been neither fault nor second attempt: nothing is lost and
//! nothing is doubled.

mod deadlocks;
mod fault;
mod migrating;
mod operation;
mod picture;
mod scene;
mod server;

use fault::Fault;
use operation::{Adapters, Operation};
use picture::Picture;
use scene::Scene;

/// One operation under one fault, and once more without it.
async fn suffer(scene: &Scene, operation: Operation, alone: &Picture, fault: Fault) {
    let case = format!("{}, {}", operation.name(), fault.name());
    scene.restore().await;
    let before = scene.picture().await;
    let faulty = fault.strike(scene, operation).await;
    let answer = operation.run(scene, &Adapters::over(faulty.pool())).await;
    let error = answer.expect_err(&case);
    assert_eq!(error.class(), fault.class(operation), "{case}: {error:?}");
    assert_eq!(scene::sqlstate(&error), fault.sqlstate(), "{case}: {error:?}");
    faulty.over(scene).await;

    let happened = fault.happens();
    let expected = if happened { alone } else { &before };
    scene.picture().await.assert_is(expected, &format!("{case}: after the fault"));

    let again = if happened { operation.repeated() } else { Some(operation.done()) };
    let Some(expected) = again else { return };
    let answer = operation.run(scene, &Adapters::over(scene.pool())).await;
    assert_eq!(answer.expect(&case), expected, "{case}: the second attempt");
    scene.picture().await.assert_is(alone, &format!("{case}: after the second attempt"));
}

/// Answers the number of cases, so that none is lost either.
async fn suffering(operations: &[Operation], faults: &[Fault]) -> usize {
    let scene = Scene::new().await;
    let mut cases = 0;
    for operation in operations {
        let alone = scene.picture_after(*operation).await;
        for fault in faults {
            suffer(&scene, *operation, &alone, *fault).await;
            cases += 1;
        }
    }
    cases
}

async fn everything_suffers(faults: &[Fault]) -> usize {
    suffering(Operation::ALL, faults).await
}

#[tokio::test]
async fn what_never_reached_the_server_is_transient() {
    assert_eq!(everything_suffers(&[Fault::NobodyListens, Fault::PoolExhausted]).await, 58);
}

#[tokio::test]
async fn a_connection_that_is_cut_around_a_commit_leaves_it_unknown() {
    assert_eq!(everything_suffers(&[Fault::CutBeforeCommit, Fault::CutAfterCommit]).await, 58);
}

#[tokio::test]
async fn what_the_server_takes_back_by_itself_did_not_happen() {
    let faults = [
        Fault::ReadOnly,
        Fault::DiskFull,
        Fault::OutOfMemory,
        Fault::StatementTimeout,
        Fault::LockTimeout,
        Fault::Serialization,
        Fault::Deadlock,
    ];
    assert_eq!(everything_suffers(&faults).await, 203);
}

#[tokio::test]
async fn a_session_that_is_ended_leaves_unknown_only_what_commits_by_itself() {
    assert_eq!(everything_suffers(&[Fault::SessionEnded]).await, 29);
}

/// A transaction whose commit was not sent yet cannot have happened, whatever was answered before.
#[tokio::test]
async fn a_connection_that_is_cut_within_a_transaction_is_transient() {
    let transactions: Vec<_> =
        Operation::ALL.iter().copied().filter(|operation| operation.is_transaction()).collect();
    let faults = [Fault::CutBeforeWork, Fault::CutAfterWork];
    assert_eq!(suffering(&transactions, &faults).await, 12);
}
