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
        retire_drains_the_named_peer_and_marks,
        join_against_retire_has_one_winner,
        retire_marks_no_node_with_another_live_peer,
    ]
}

async fn consumers_keep_the_order_of_tokens(world: &World) -> Outcome {
    let (one, gone) = (world.enrolled_token().await?, world.enrolled_token().await?);
    let gone_node = node_of(world, gone).await?;
    retired(world, gone_node, None, Retired::Done).await?;
    let tokens = [gone, world.issued_token().await?, one, unknown_token()?, one];
    let consumers = world.tokens().consumers(&tokens).await?;
    let marks: Vec<_> = consumers.iter().map(|c| c.map(|consumer| consumer.deregistered)).collect();
    require(
        marks == [Some(true), None, Some(false), None, Some(false)],
        &format!("the consumers are {consumers:?}"),
    )?;
    require(consumers[2] == consumers[4], "one token has two consumers")?;
    require(consumers[0].map(|c| c.node) == Some(gone_node), "a Node changed its id")
}

async fn a_live_peer_is_found(world: &World) -> Outcome {
    let token = world.enrolled_token().await?;
    let node = node_of(world, token).await?;
    require(world.peers().live_peer(node).await?.is_none(), "a Node has a Peer before it joined")?;
    let peer = join(world, token, node).await?;
    require(
        world.peers().live_peer(node).await? == Some(peer),
        "the same Peer has another id the second time",
    )?;
    world.leave(token).await?;
    require(world.peers().live_peer(node).await?.is_none(), "a removed Peer is still live")
}

/// Also without a Peer, and after the named Peer is gone.
async fn retire_drains_the_named_peer_and_marks(world: &World) -> Outcome {
    for (joins, leaves) in [(true, false), (false, false), (true, true)] {
        let token = world.enrolled_token().await?;
        let node = node_of(world, token).await?;
        let peer = if joins { Some(join(world, token, node).await?) } else { None };
        if leaves {
            world.leave(token).await?;
        }
        // Idempotent, also without a named Peer.
        for named in [peer, peer, None] {
            retired(world, node, named, Retired::Done).await?;
            require(!world.has_peer(token).await?, "the named Peer is live after its Node left")?;
            marked(world, token, true).await?;
        }
        require(!world.join(token).await?, "a marked Node joined")?;
        let live = world.peers().live_peer(node).await?;
        require(live.is_none(), "a marked Node has a live Peer")?;
    }
    Ok(())
}

async fn join_against_retire_has_one_winner(world: &World) -> Outcome {
    for round in 0..8 {
        let token = world.enrolled_token().await?;
        let node = node_of(world, token).await?;
        let agent = world.join(token);
        let leave = world.commander().retire(node, None);
        let (joined, left) = if round % 2 == 0 {
            future::join(agent, leave).await
        } else {
            let (left, joined) = future::join(leave, agent).await;
            (joined, left)
        };
        let (joined, left) = (joined?, left?);
        require(joined == (left == Retired::PeerAppeared), "the race has two winners or none")?;
        marked(world, token, !joined).await?;
        require(world.has_peer(token).await? == joined, "the loser of the race took effect")?;
    }
    Ok(())
}

async fn retire_marks_no_node_with_another_live_peer(world: &World) -> Outcome {
    let token = world.enrolled_token().await?;
    let node = node_of(world, token).await?;
    let seen = join(world, token, node).await?;
    world.leave(token).await?;
    let now = join(world, token, node).await?;
    // A mesh that keeps a Peer over a reboot has no second one, so a foreign Peer serves.
    let other = if seen == now { PeerId::new(Uuid::from_u128(0x00dd))? } else { seen };
    // It also keeps a Node whose Peer appeared before the command unobserved.
    for named in [Some(other), None] {
        retired(world, node, named, Retired::PeerAppeared).await?;
        marked(world, token, false).await?;
        require(world.has_peer(token).await?, "a Peer that was not named was drained")?;
    }
    Ok(())
}

pub(super) async fn node_of(world: &World, token: BootstrapTokenId) -> Checked<NodeId> {
    Ok(consumer(world, token).await?.node)
}

async fn consumer(world: &World, token: BootstrapTokenId) -> Checked<Consumer> {
    let consumers = world.tokens().consumers(&[token]).await?;
    let [Some(consumer)] = consumers[..] else {
        return Err(Violation::new(format!("the consumer of a consumed token is {consumers:?}")));
    };
    Ok(consumer)
}

async fn marked(world: &World, token: BootstrapTokenId, expected: bool) -> Outcome {
    let marked = consumer(world, token).await?.deregistered;
    require(marked == expected, &format!("the mark of the Node is {marked}"))
}

pub(super) async fn join(world: &World, token: BootstrapTokenId, node: NodeId) -> Checked<PeerId> {
    require(world.join(token).await?, "a Node that enrolled may not join")?;
    let peer = world.peers().live_peer(node).await?;
    peer.ok_or_else(|| Violation::new("a Node that joined has no live Peer"))
}

async fn retired(world: &World, node: NodeId, peer: Option<PeerId>, expected: Retired) -> Outcome {
    let retired = world.commander().retire(node, peer).await?;
    require(retired == expected, &format!("retire returned {retired:?} instead of {expected:?}"))
}
