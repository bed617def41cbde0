//! Cases for observing and draining a Node.

use broker_domain::BootstrapTokenId;
use futures_util::future::join;

use super::{NodeDeregistrarUnderTest, unknown_token};
use crate::prelude::*;

type World = dyn NodeDeregistrarUnderTest;

pub(super) fn cases<W: NodeDeregistrarUnderTest + 'static>() -> Vec<Case<W>> {
    let mut cases = suite_of![
        a_node_is_registered_with_and_without_a_peer,
        a_deregistered_node_can_never_have_a_peer,
        deregister_of_an_unconsumed_token_is_success,
        an_unknown_token_is_an_error,
        concurrent_join_and_deregister_leave_no_peer,
        a_deregister_affects_no_other_node,
        a_batch_equals_single_calls_in_order,
    ];
    cases.extend(dropping_suite_of![a_dropped_deregister_is_finished_by_the_next]);
    cases
}

async fn a_node_is_registered_with_and_without_a_peer(world: &World) -> Outcome {
    let token = world.enrolled_token().await?;
    require_registered(world, token, true, "a Node without a Peer yet").await?;
    require_join(world, token).await?;
    require_registered(world, token, true, "a Node with a Peer").await?;
    world.leave(token).await?;
    require_registered(world, token, true, "a Node whose Peer left").await
}

async fn a_dropped_deregister_is_finished_by_the_next(world: &World, polls: u32) -> Dropped {
    let token = world.enrolled_token().await?;
    require_join(world, token).await?;
    let result = dropped_after(polls, world.deregistrar().deregister(token)).await;
    // The dropped call may have removed the Peer or not. The next call finishes it.
    world.deregistrar().deregister(token).await?;
    require_deregistered(world, token).await?;
    Ok(result.is_some())
}

/// Covers Nodes with and without a Peer, and repeated calls.
async fn a_deregistered_node_can_never_have_a_peer(world: &World) -> Outcome {
    for joins_first in [false, true] {
        let token = world.enrolled_token().await?;
        if joins_first {
            require_join(world, token).await?;
        }
        for _ in 0..2 {
            world.deregistrar().deregister(token).await?;
            require_deregistered(world, token).await?;
        }
    }
    Ok(())
}

async fn deregister_of_an_unconsumed_token_is_success(world: &World) -> Outcome {
    let token = world.issued_token().await?;
    require_registered(world, token, false, "an unconsumed token").await?;
    world.deregistrar().deregister(token).await?;
    require_registered(world, token, false, "an unconsumed token").await
}

/// Another issuer may have issued it, and its Node may be alive in another mesh.
async fn an_unknown_token_is_an_error(world: &World) -> Outcome {
    let (deregistrar, unknown) = (world.deregistrar(), unknown_token()?);
    require(deregistrar.node_registered(unknown).await.is_err(), "an unknown token has no Node")?;
    require(deregistrar.deregister(unknown).await.is_err(), "an unknown token was deregistered")?;
    let batch = deregistrar.nodes_registered(&[world.issued_token().await?, unknown]).await?;
    require(matches!(batch[..], [Ok(false), Err(_)]), &format!("the batch is {batch:?}"))
}

/// Checks that the token's Node may join.
async fn require_join(world: &World, token: BootstrapTokenId) -> Outcome {
    require(world.join(token).await?, "a Node that enrolled may not join")
}

/// Checks that the Node has no Peer, is not registered, and gets no new Peer.
async fn require_deregistered(world: &World, token: BootstrapTokenId) -> Outcome {
    require(!world.has_peer(token).await?, "a deregistered Node has a live Peer")?;
    require_registered(world, token, false, "a deregistered Node").await?;
    require(!world.join(token).await?, "a deregistered Node joined")?;
    require(!world.has_peer(token).await?, "a deregistered Node has a live Peer")
}

async fn concurrent_join_and_deregister_leave_no_peer(world: &World) -> Outcome {
    for round in 0..8 {
        let token = world.enrolled_token().await?;
        if round % 4 < 2 {
            require_join(world, token).await?;
        }
        let join_call = world.join(token);
        let deregister = world.deregistrar().deregister(token);
        let (joined, deregistered) = if round % 2 == 0 {
            join(join_call, deregister).await
        } else {
            let (deregistered, joined) = join(deregister, join_call).await;
            (joined, deregistered)
        };
        // The agent may join or not. Its Peer does not outlive a successful deregister.
        joined?;
        deregistered?;
        require_deregistered(world, token).await?;
    }
    Ok(())
}

async fn a_deregister_affects_no_other_node(world: &World) -> Outcome {
    let (removed, kept) = (world.enrolled_token().await?, world.enrolled_token().await?);
    for token in [removed, kept] {
        require_join(world, token).await?;
    }
    world.deregistrar().deregister(removed).await?;
    require_registered(world, kept, true, "a Node that was not deregistered").await?;
    require(world.has_peer(kept).await?, "a Node that was not deregistered lost its Peer")
}

async fn a_batch_equals_single_calls_in_order(world: &World) -> Outcome {
    let enrolled = world.enrolled_token().await?;
    let deregistered = world.enrolled_token().await?;
    world.deregistrar().deregister(deregistered).await?;
    let unconsumed = world.issued_token().await?;
    // Not ordered by id, with one token twice, so that sorting or a set would fail.
    let tokens = [unconsumed, enrolled, deregistered, enrolled, unconsumed];
    let batch = world.deregistrar().nodes_registered(&tokens).await?;
    require(batch.len() == tokens.len(), "a batch does not return one result per token")?;
    for (token, result) in tokens.into_iter().zip(batch) {
        let single = world.deregistrar().node_registered(token).await?;
        require(result? == single, &format!("not {single} in the batch for {token}"))?;
    }
    let none = world.deregistrar().nodes_registered(&[]).await?;
    require(none.is_empty(), "an empty batch has results")
}

async fn require_registered(
    world: &World,
    token: BootstrapTokenId,
    expected: bool,
    what: &str,
) -> Outcome {
    let result = world.deregistrar().node_registered(token).await?;
    require(result == expected, &format!("{what} is registered: {result}"))
}
