//! Two at once, without luck: one holds the lock, the other is seen waiting for it, and only then does the
//! first one commit. Whoever decides on what it saw before it waited is found out.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use broker_domain::ProvisionedResourceId;
use broker_pg::{EnrolError, JoinError};
use broker_ports::{Issue, NodeId, PeerCommander, PeerResolver, Retired, TokenIssuer, TokenState};
use broker_tests::until;
use sqlx::{Executor, PgPool, Postgres, Transaction};
use uuid::Uuid;

use super::world::World;

/// Somebody else's transaction, which holds a lock.
struct Holder(Transaction<'static, Postgres>);

impl Holder {
    async fn of_node(pool: &PgPool, node: NodeId) -> Self {
        let mut holder = Self(pool.begin().await.unwrap());
        holder.does("SELECT FROM plexsphere.nodes WHERE id = $1 FOR UPDATE", node.as_uuid()).await;
        holder
    }

    async fn of_ledger(pool: &PgPool, resource: ProvisionedResourceId) -> Self {
        let lock = "SELECT FROM plexsphere.bootstrap_token_ledgers \
                    WHERE provisioned_resource_id = $1 FOR UPDATE";
        let mut holder = Self(pool.begin().await.unwrap());
        holder.does(lock, resource.as_uuid()).await;
        holder
    }

    async fn does(&mut self, statement: &'static str, id: Uuid) {
        let done = self.0.execute(sqlx::query(statement).bind(id)).await.unwrap();
        assert_eq!(done.rows_affected(), 1, "{statement}");
    }

    /// Commits once somebody waits for the lock.
    async fn commit_when_waited_for(self, pool: &PgPool) {
        let waiting = "SELECT EXISTS (SELECT FROM pg_stat_activity \
                       WHERE datname = current_database() AND wait_event_type = 'Lock')";
        until("somebody to wait for the lock", || async {
            let waits: bool = sqlx::query_scalar(waiting).fetch_one(pool).await.unwrap();
            waits.then_some(())
        })
        .await;
        self.0.commit().await.unwrap();
    }
}

const ANOTHER_TOKEN: &str = "INSERT INTO plexsphere.bootstrap_tokens \
    (provisioned_resource_id, ordinal, sha256, expires_at) \
    VALUES ($1, 1, sha256('another'), clock_timestamp() + interval '1 hour')";

const INVALIDATION: &str = "UPDATE plexsphere.bootstrap_tokens SET invalidated_at = clock_timestamp() \
    WHERE provisioned_resource_id = $1 AND invalidated_at IS NULL";

async fn open_tokens(world: &World) -> i64 {
    let count = "SELECT count(*) FROM plexsphere.bootstrap_tokens \
                 WHERE consumed_at IS NULL AND invalidated_at IS NULL";
    sqlx::query_scalar(count).fetch_one(world.pool()).await.unwrap()
}

#[tokio::test]
async fn an_issue_that_waited_replaces_what_was_issued_meanwhile() {
    let world = World::fresh().await;
    let resource = World::new_resource();
    world.issue(resource).await.unwrap();
    let mut holder = Holder::of_ledger(world.pool(), resource).await;
    holder.does(INVALIDATION, resource.as_uuid()).await;
    holder.does(ANOTHER_TOKEN, resource.as_uuid()).await;
    let issue = world.issue(resource);
    let (issued, ()) = tokio::join!(issue, holder.commit_when_waited_for(world.pool()));
    let state = world.tokens.state(issued.unwrap().id).await.unwrap();
    assert!(matches!(state, Some(TokenState::Live { .. })), "{state:?}");
    assert_eq!(open_tokens(&world).await, 1);
}

#[tokio::test]
async fn an_issue_that_waited_is_told_what_was_consumed_meanwhile() {
    let world = World::fresh().await;
    let resource = World::new_resource();
    let token = world.issue(resource).await.unwrap();
    let mut holder = Holder::of_ledger(world.pool(), resource).await;
    let node = Uuid::from_u128(0x00de);
    holder.does("INSERT INTO plexsphere.nodes (id) VALUES ($1)", node).await;
    let consume = "UPDATE plexsphere.bootstrap_tokens SET consumed_at = clock_timestamp(), \
                   consumed_by_node_id = $1";
    holder.does(consume, node).await;
    let request = world.request(resource).await.unwrap();
    let issue = world.tokens.issue(&request);
    let (issued, ()) = tokio::join!(issue, holder.commit_when_waited_for(world.pool()));
    let issued = issued.unwrap();
    assert!(matches!(issued, Issue::Consumed { id } if id == token.id), "{issued:?}");
}

#[tokio::test]
async fn a_close_that_waited_invalidates_what_was_issued_meanwhile() {
    let world = World::fresh().await;
    let resource = World::new_resource();
    world.issue(resource).await.unwrap();
    let mut holder = Holder::of_ledger(world.pool(), resource).await;
    holder.does(INVALIDATION, resource.as_uuid()).await;
    holder.does(ANOTHER_TOKEN, resource.as_uuid()).await;
    let close = world.tokens.close(resource);
    let (closed, ()) = tokio::join!(close, holder.commit_when_waited_for(world.pool()));
    closed.unwrap();
    assert_eq!(open_tokens(&world).await, 0);
}

#[tokio::test]
async fn an_agent_that_waited_is_not_let_in_by_what_was_closed_meanwhile() {
    let world = World::fresh().await;
    let resource = World::new_resource();
    let token = world.issue(resource).await.unwrap();
    let mut holder = Holder::of_ledger(world.pool(), resource).await;
    holder.does(INVALIDATION, resource.as_uuid()).await;
    let enrol = world.mesh.enrol(token.plaintext.secret());
    let (enrolled, ()) = tokio::join!(enrol, holder.commit_when_waited_for(world.pool()));
    let refused = enrolled.unwrap_err();
    assert!(matches!(refused, EnrolError::Invalidated), "{refused}");
}

/// Whoever issues has looked for a consumed token, found none, and is about to replace the open one.
#[tokio::test]
async fn an_agent_waits_for_whoever_decides_about_its_token() {
    let world = World::fresh().await;
    let resource = World::new_resource();
    let token = world.issue(resource).await.unwrap();
    let holder = Holder::of_ledger(world.pool(), resource).await;
    let enrol = world.mesh.enrol(token.plaintext.secret());
    let (enrolled, ()) = tokio::join!(enrol, holder.commit_when_waited_for(world.pool()));
    enrolled.unwrap();
}

#[tokio::test]
async fn a_retire_that_waited_sees_the_peer_that_joined_meanwhile() {
    let world = World::fresh().await;
    let node = enrolled(&world).await;
    let mut holder = Holder::of_node(world.pool(), node).await;
    holder.does("INSERT INTO plexsphere.peers (node_id) VALUES ($1)", node.as_uuid()).await;
    let retire = world.mesh.retire(node, None);
    let (retired, ()) = tokio::join!(retire, holder.commit_when_waited_for(world.pool()));
    assert_eq!(retired.unwrap(), Retired::PeerAppeared);
    assert!(
        world.mesh.live_peer(node).await.unwrap().is_some(),
        "a Peer that nobody named is gone"
    );
    world.mesh.join(node).await.expect("the Node was marked");
}

#[tokio::test]
async fn a_node_that_waited_to_join_sees_that_it_was_deregistered_meanwhile() {
    let world = World::fresh().await;
    let node = enrolled(&world).await;
    let mut holder = Holder::of_node(world.pool(), node).await;
    let mark = "UPDATE plexsphere.nodes SET deregistered_at = clock_timestamp() WHERE id = $1";
    holder.does(mark, node.as_uuid()).await;
    let (joined, ()) =
        tokio::join!(world.mesh.join(node), holder.commit_when_waited_for(world.pool()));
    let refused = joined.unwrap_err();
    assert!(matches!(refused, JoinError::Deregistered), "{refused}");
    assert!(world.mesh.live_peer(node).await.unwrap().is_none());
}

async fn enrolled(world: &World) -> NodeId {
    let token = world.issue(World::new_resource()).await.unwrap();
    world.mesh.enrol(token.plaintext.secret()).await.unwrap()
}

/// A call that is dropped on its way to the server, at whatever moment, leaves no transaction open in which
/// somebody else's word would be lost.
#[tokio::test]
async fn what_is_done_after_a_dropped_call_is_committed() {
    let database = Arc::new(super::fresh_database().await);
    // One connection: whoever comes next gets what the dropped call left.
    let world = World::with_connections(&database, 1);
    let mut dropped = 0;
    // How many polls it takes to the answer depends on how busy the machine is: so more than one call is dropped
    // at every moment there is, and on a busy machine more calls are made until enough were dropped.
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
        // One statement, which is its own transaction unless one is open.
        world.mesh.enrol(token.plaintext.secret()).await.unwrap();
        let seen = "SELECT consumed_at IS NOT NULL FROM plexsphere.bootstrap_tokens WHERE id = $1";
        let id = token.id.as_uuid();
        let seen: Option<bool> =
            sqlx::query_scalar(seen).bind(id).fetch_optional(world.pool()).await.unwrap();
        assert_eq!(seen, Some(true), "lost after a call that was dropped at poll {polls}");
        dropped += usize::from(!answered);
    }
    assert!(dropped > 3, "only {dropped} calls were dropped on their way");
}
