//! Cases for the three seams of the chained deregistrar.

use broker_domain::BootstrapTokenId;
use broker_ports::{Consumer, NodeId, PeerId, Retired};
use futures_util::future;
use uuid::Uuid;

use super::{SeamsUnderTest, unknown_token};
use crate::prelude::*;

pub(super) type World = dyn SeamsUnderTest;

pub(super) fn cases<W: SeamsUnderTest + 'static>() -> Vec<Case<W>> {
    suite_of![
        consumers_keep_the_order_of_tokens,
        a_live_peer_is_found,
        retire_drains_the_peer_and_marks_the_node,
        concurrent_join_and_retire_have_one_winner,
        retire_marks_no_node_with_another_live_peer,
    ]
}

async fn consumers_keep_the_order_of_tokens(world: &World) -> Outcome {
    let (active, deregistered) = (world.enrolled_token().await?, world.enrolled_token().await?);
    let deregistered_node = node_of(world, deregistered).await?;
    require_retire(world, deregistered_node, None, Retired::Done).await?;
    let tokens = [deregistered, world.issued_token().await?, active, unknown_token()?, active];
    let consumers = world.tokens().consumers(&tokens).await?;
    let [Ok(Some(first)), Ok(None), Ok(Some(second)), Err(_), Ok(Some(third))] = consumers[..]
    else {
        return Err(Violation::new(format!("the consumers are {consumers:?}")));
    };
    require(first == Consumer::deregistered(deregistered_node), "the first consumer is wrong")?;
    require(second == third && !second.deregistered, "one token has two consumers")
}

async fn a_live_peer_is_found(world: &World) -> Outcome {
    let token = world.enrolled_token().await?;
    let node = node_of(world, token).await?;
    require(world.peers().live_peer(node).await?.is_none(), "a Node has a Peer before it joined")?;
    let peer = join(world, token, node).await?;
    require(world.peers().live_peer(node).await? == Some(peer), "another read has another id")?;
    world.leave(token).await?;
    require(world.peers().live_peer(node).await?.is_none(), "a removed Peer is still live")
}

/// Covers a Node with a Peer, without a Peer, and after its Peer left.
async fn retire_drains_the_peer_and_marks_the_node(world: &World) -> Outcome {
    for (joins, leaves) in [(true, false), (false, false), (true, true)] {
        let token = world.enrolled_token().await?;
        let node = node_of(world, token).await?;
        let peer = if joins { Some(join(world, token, node).await?) } else { None };
        if leaves {
            world.leave(token).await?;
        }
        // Retire is idempotent, also without an expected Peer.
        for expected_peer in [peer, peer, None] {
            require_retire(world, node, expected_peer, Retired::Done).await?;
            require(!world.has_peer(token).await?, "a Peer is live after its Node was retired")?;
            require_mark(world, token, true).await?;
        }
        require(!world.join(token).await?, "a marked Node joined")?;
        let live = world.peers().live_peer(node).await?;
        require(live.is_none(), "a marked Node has a live Peer")?;
    }
    Ok(())
}

async fn concurrent_join_and_retire_have_one_winner(world: &World) -> Outcome {
    for round in 0..8 {
        let token = world.enrolled_token().await?;
        let node = node_of(world, token).await?;
        let join_call = world.join(token);
        let retire = world.commander().retire(node, None);
        let (joined, retired) = if round % 2 == 0 {
            future::join(join_call, retire).await
        } else {
            let (retired, joined) = future::join(retire, join_call).await;
            (joined, retired)
        };
        let (joined, retired) = (joined?, retired?);
        require(joined == (retired == Retired::PeerAppeared), "the race has two winners or none")?;
        require_mark(world, token, !joined).await?;
        require(world.has_peer(token).await? == joined, "the loser of the race took effect")?;
    }
    Ok(())
}

async fn retire_marks_no_node_with_another_live_peer(world: &World) -> Outcome {
    let token = world.enrolled_token().await?;
    let node = node_of(world, token).await?;
    let first_peer = join(world, token, node).await?;
    world.leave(token).await?;
    let current_peer = join(world, token, node).await?;
    // A mesh may keep a Peer over a reboot. Then the case uses an unknown Peer.
    let other_peer =
        if first_peer == current_peer { PeerId::new(Uuid::from_u128(0x00dd))? } else { first_peer };
    // `None`: the Peer appeared after the caller had looked for it.
    for expected_peer in [Some(other_peer), None] {
        require_retire(world, node, expected_peer, Retired::PeerAppeared).await?;
        require_mark(world, token, false).await?;
        require(world.has_peer(token).await?, "a Peer that the caller did not expect was drained")?;
    }
    Ok(())
}

pub(super) async fn node_of(world: &World, token: BootstrapTokenId) -> Checked<NodeId> {
    Ok(consumer(world, token).await?.node)
}

async fn consumer(world: &World, token: BootstrapTokenId) -> Checked<Consumer> {
    let consumers = world.tokens().consumers(&[token]).await?;
    let [Ok(Some(consumer))] = consumers[..] else {
        return Err(Violation::new(format!("the consumer of a consumed token is {consumers:?}")));
    };
    Ok(consumer)
}

async fn require_mark(world: &World, token: BootstrapTokenId, expected: bool) -> Outcome {
    let marked = consumer(world, token).await?.deregistered;
    require(marked == expected, &format!("the mark of the Node is {marked}"))
}

pub(super) async fn join(world: &World, token: BootstrapTokenId, node: NodeId) -> Checked<PeerId> {
    require(world.join(token).await?, "a Node that enrolled may not join")?;
    let peer = world.peers().live_peer(node).await?;
    peer.ok_or_else(|| Violation::new("a Node that joined has no live Peer"))
}

async fn require_retire(
    world: &World,
    node: NodeId,
    peer: Option<PeerId>,
    expected: Retired,
) -> Outcome {
    let retired = world.commander().retire(node, peer).await?;
    require(retired == expected, &format!("retire returned {retired:?} instead of {expected:?}"))
}
