//! Deterministic races: one transaction holds a lock and commits once the call under test waits for it. A
//! call that decides on a read before the wait fails the test.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use broker_pg::{EnrolError, JoinError};
use broker_ports::{Issue, PeerCommander, PeerResolver, Retired, TokenIssuer, TokenState};
use sqlx::Executor;
use uuid::Uuid;

use super::world::World;
use crate::servers::pg::faults::wait_for_lock_waiter;

/// Runs `call` while another transaction executes the statements with the id. That transaction commits once
/// `call` waits for its lock.
async fn during_transaction<T>(
    world: &World,
    id: Uuid,
    statements: &[&'static str],
    call: impl Future<Output = T>,
) -> T {
    let mut holder = world.pool().begin().await.unwrap();
    for statement in statements {
        let done = holder.execute(sqlx::query(*statement).bind(id)).await.unwrap();
        assert_eq!(done.rows_affected(), 1, "{statement}");
    }
    let commit = async {
        wait_for_lock_waiter(world.pool()).await;
        holder.commit().await.unwrap();
    };
    tokio::join!(call, commit).0
}

const LEDGER: &str = "SELECT FROM plexsphere.bootstrap_token_ledgers \
    WHERE provisioned_resource_id = $1 FOR UPDATE";

const INVALIDATION: &str = "UPDATE plexsphere.bootstrap_tokens SET invalidated_at = clock_timestamp() \
    WHERE provisioned_resource_id = $1 AND invalidated_at IS NULL";

const ANOTHER_TOKEN: &str = "INSERT INTO plexsphere.bootstrap_tokens \
    (provisioned_resource_id, ordinal, sha256, expires_at) \
    VALUES ($1, 1, sha256($1::text::bytea), clock_timestamp() + interval '1 hour')";

/// The new Node gets the id of the resource.
const NODE: &str = "INSERT INTO plexsphere.nodes (id) VALUES ($1)";
const CONSUMPTION: &str = "UPDATE plexsphere.bootstrap_tokens SET consumed_at = clock_timestamp(), \
    consumed_by_node_id = $1 WHERE provisioned_resource_id = $1";

#[tokio::test]
async fn token_call_decides_on_the_ledger_as_locked() {
    let world = World::fresh().await;
    let live_tokens = async |resource: Uuid| -> i64 {
        let count = "SELECT count(*) FROM plexsphere.bootstrap_tokens \
            WHERE provisioned_resource_id = $1 AND consumed_at IS NULL AND invalidated_at IS NULL";
        sqlx::query_scalar(count).bind(resource).fetch_one(world.pool()).await.unwrap()
    };
    let issue_token = async || {
        let resource = World::new_resource();
        (resource, resource.as_uuid(), world.issue(resource).await.unwrap())
    };

    // An issue replaces a token that was issued meanwhile.
    let (resource, id, _) = issue_token().await;
    let replacement = [LEDGER, INVALIDATION, ANOTHER_TOKEN];
    let token = during_transaction(&world, id, &replacement, world.issue(resource)).await.unwrap();
    let state = world.tokens.state(token.id).await.unwrap();
    assert!(matches!(state, Some(TokenState::Live { .. })), "{state:?}");
    assert_eq!(live_tokens(id).await, 1);

    // An issue reports a token that was consumed meanwhile.
    let (resource, id, token) = issue_token().await;
    let request = world.request(resource).await.unwrap();
    let repeated = world.tokens.issue(&request);
    let issue =
        during_transaction(&world, id, &[LEDGER, NODE, CONSUMPTION], repeated).await.unwrap();
    assert!(matches!(issue, Issue::Consumed { id } if id == token.id), "{issue:?}");

    // A close invalidates a token that was issued meanwhile.
    let (resource, id, _) = issue_token().await;
    during_transaction(&world, id, &replacement, world.tokens.close(resource)).await.unwrap();
    assert_eq!(live_tokens(id).await, 0);

    // An agent whose token was closed meanwhile is refused.
    let (_, id, token) = issue_token().await;
    let enrol = world.mesh.enrol(token.plaintext.secret());
    let refused = during_transaction(&world, id, &[LEDGER, INVALIDATION], enrol).await.unwrap_err();
    assert!(matches!(refused, EnrolError::Invalidated), "{refused}");

    // An agent waits for a worker that holds the ledger, and then enrols.
    let (_, id, token) = issue_token().await;
    during_transaction(&world, id, &[LEDGER], world.mesh.enrol(token.plaintext.secret()))
        .await
        .unwrap();
}

#[tokio::test]
async fn node_call_decides_on_the_node_as_locked() {
    const LOCK: &str = "SELECT FROM plexsphere.nodes WHERE id = $1 FOR UPDATE";
    let world = World::fresh().await;
    let enrolled = async || {
        let token = world.issue(World::new_resource()).await.unwrap();
        world.mesh.enrol(token.plaintext.secret()).await.unwrap()
    };

    // A retire sees the Peer that joined meanwhile.
    let node = enrolled().await;
    let peer = "INSERT INTO plexsphere.peers (node_id) VALUES ($1)";
    let retire = world.mesh.retire(node, None);
    let retired = during_transaction(&world, node.as_uuid(), &[LOCK, peer], retire).await.unwrap();
    assert_eq!(retired, Retired::PeerAppeared);
    assert!(world.mesh.live_peer(node).await.unwrap().is_some(), "the unnamed Peer was removed");
    world.mesh.join(node).await.expect("the Node was marked");

    // A Node that joins sees that it was deregistered meanwhile.
    let node = enrolled().await;
    let mark = "UPDATE plexsphere.nodes SET deregistered_at = clock_timestamp() WHERE id = $1";
    let join = world.mesh.join(node);
    let refused =
        during_transaction(&world, node.as_uuid(), &[LOCK, mark], join).await.unwrap_err();
    assert!(matches!(refused, JoinError::Deregistered), "{refused}");
    assert!(world.mesh.live_peer(node).await.unwrap().is_none());
}

/// A call that is dropped at any moment leaves no open transaction in which a later statement would
/// be lost.
#[tokio::test]
async fn statement_after_a_dropped_call_is_committed() {
    let database = Arc::new(super::fresh_database().await);
    // One connection: the next call gets the connection of the dropped one.
    let world = World::with_connections(&database, 1);
    let mut dropped = 0;
    // The number of polls until the answer depends on the load. So several calls are dropped at
    // each number of polls, and a busy machine makes more calls until enough were dropped.
    for (round, polls) in (1..=12).cycle().take(3_600).enumerate() {
        if round >= 36 && dropped > 3 {
            break;
        }
        let resource = World::new_resource();
        let token = world.issue(World::new_resource()).await.unwrap();
        let mut answered = false;
        {
            let mut close = pin!(world.tokens.close(resource));
            let mut left = polls;
            poll_fn(|context| match close.as_mut().poll(context) {
                Poll::Ready(closed) => {
                    answered = closed.is_ok();
                    Poll::Ready(())
                }
                Poll::Pending if left <= 1 => Poll::Ready(()),
                Poll::Pending => {
                    left -= 1;
                    Poll::Pending
                }
            })
            .await;
        }
        // Enrolling is one statement. In a transaction that the dropped call left open, it would never commit.
        world.mesh.enrol(token.plaintext.secret()).await.unwrap();
        let seen = "SELECT consumed_at IS NOT NULL FROM plexsphere.bootstrap_tokens WHERE id = $1";
        let id = token.id.as_uuid();
        let seen: Option<bool> =
            sqlx::query_scalar(seen).bind(id).fetch_optional(world.pool()).await.unwrap();
        assert_eq!(seen, Some(true), "lost after a call dropped at poll {polls}");
        dropped += usize::from(!answered);
    }
    assert!(dropped > 3, "only {dropped} calls were dropped in flight");
}
