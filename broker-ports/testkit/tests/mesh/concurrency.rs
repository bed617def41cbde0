//! Real threads: at most one live token, whoever issues, consumes and closes at the same time.

use std::sync::Arc;

use broker_domain::{BootstrapTokenId, TokenOrdinal};
use broker_ports::{Issue, IssueRequest, LeaseEpoch, TokenIssuer, TokenState};
use secrecy::ExposeSecret;
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use super::worlds::MeshWorld;

const TASKS: u64 = 32;
const ROUNDS: u32 = 50;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn at_most_one_live_token_on_many_threads() {
    for round in 0..ROUNDS {
        let world = Arc::new(MeshWorld::fresh());
        let request = world.request(1);
        let barrier = Arc::new(Barrier::new(usize::try_from(TASKS).unwrap()));
        let mut tasks = JoinSet::new();
        for task in 0..TASKS {
            let (world, barrier) = (Arc::clone(&world), Arc::clone(&barrier));
            let closes = task == 0 && round % 2 == 0;
            tasks.spawn(async move {
                barrier.wait().await;
                if closes {
                    world.tokens.close(request.resource).await.unwrap();
                    return Vec::new();
                }
                work(&world, request, task).await
            });
        }
        let mut ids = Vec::new();
        while let Some(worked) = tasks.join_next().await {
            ids.extend(worked.unwrap());
        }
        let mut live = 0;
        let mut consumed = 0;
        for id in ids {
            let state = world.tokens.state(id).await.unwrap().unwrap();
            live += usize::from(matches!(state, TokenState::Live { .. }));
            consumed += usize::from(matches!(state, TokenState::Consumed { .. }));
        }
        assert!(live <= usize::from(round % 2 == 1), "round {round}: {live} live tokens");
        assert!(consumed <= 4, "round {round}: {consumed} tokens of four ordinals were consumed");
    }
}

/// Asks for tokens under several ordinals, and is the agent of every second one.
async fn work(world: &MeshWorld, request: IssueRequest, task: u64) -> Vec<BootstrapTokenId> {
    let mut ids = Vec::new();
    for step in 0..16_u32 {
        let ordinal = TokenOrdinal::new(step % 4 + 1).unwrap();
        let epoch = LeaseEpoch::new(task / 8 + u64::from(step) / 4);
        let request = IssueRequest::new(request.resource, ordinal, epoch, request.ttl);
        if let Ok(Issue::Issued(token)) = world.tokens.issue(&request).await {
            if step % 2 == 0 {
                // It may have been replaced already; then it must not let anybody in.
                let _node = world.mesh.enrol(token.plaintext.secret().expose_secret());
            }
            ids.push(token.id);
        }
    }
    ids
}
