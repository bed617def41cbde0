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
        deregister_of_a_token_without_a_node_is_success,
        join_against_deregister_leaves_no_peer,
        a_deregister_affects_no_other_node,
        a_batch_equals_single_calls_in_order,
    ];
    cases.extend(dropping_suite_of![a_dropped_deregister_is_finished_by_the_next]);
    cases
}

async fn a_node_is_registered_with_and_without_a_peer(world: &World) -> Outcome {
    let token = world.enrolled_token().await?;
    registered(world, token, true, "a Node without a Peer yet").await?;
    joins(world, token).await?;
    registered(world, token, true, "a Node with a Peer").await?;
    world.leave(token).await?;
    registered(world, token, true, "a Node whose Peer left").await
}

async fn a_dropped_deregister_is_finished_by_the_next(world: &World, polls: u32) -> Dropped {
    let token = world.enrolled_token().await?;
    joins(world, token).await?;
    let answer = dropped_after(polls, world.deregistrar().deregister(token)).await;
    // Dropped halfway, with or without a Peer; the next call finishes it.
    world.deregistrar().deregister(token).await?;
    is_gone(world, token).await?;
    Ok(answer.is_some())
}

/// With and without a Peer, and repeated.
async fn a_deregistered_node_can_never_have_a_peer(world: &World) -> Outcome {
    for joined_before in [false, true] {
        let token = world.enrolled_token().await?;
        if joined_before {
            joins(world, token).await?;
        }
        for _ in 0..2 {
            world.deregistrar().deregister(token).await?;
            is_gone(world, token).await?;
        }
    }
    Ok(())
}

async fn deregister_of_a_token_without_a_node_is_success(world: &World) -> Outcome {
    for token in [world.issued_token().await?, unknown_token()?] {
        registered(world, token, false, "an unconsumed token").await?;
        world.deregistrar().deregister(token).await?;
        registered(world, token, false, "an unconsumed token").await?;
    }
    Ok(())
}

/// The token's Node brings up a Peer.
async fn joins(world: &World, token: BootstrapTokenId) -> Outcome {
    require(world.join(token).await?, "a Node that enrolled may not join")
}

/// It has no Peer, is not registered, and gets no new Peer.
async fn is_gone(world: &World, token: BootstrapTokenId) -> Outcome {
    require(!world.has_peer(token).await?, "a deregistered Node has a live Peer")?;
    registered(world, token, false, "a deregistered Node").await?;
    require(!world.join(token).await?, "a deregistered Node joined")?;
    require(!world.has_peer(token).await?, "a deregistered Node has a live Peer")
}

async fn join_against_deregister_leaves_no_peer(world: &World) -> Outcome {
    for round in 0..8 {
        let token = world.enrolled_token().await?;
        if round % 4 < 2 {
            joins(world, token).await?;
        }
        let agent = world.join(token);
        let leave = world.deregistrar().deregister(token);
        let (joined, left) = if round % 2 == 0 {
            join(agent, leave).await
        } else {
            let (left, joined) = join(leave, agent).await;
            (joined, left)
        };
        // The agent may win or lose the race; its Peer does not outlive a successful deregister.
        joined?;
        left?;
        is_gone(world, token).await?;
    }
    Ok(())
}

async fn a_deregister_affects_no_other_node(world: &World) -> Outcome {
    let (one, other) = (world.enrolled_token().await?, world.enrolled_token().await?);
    for token in [one, other] {
        joins(world, token).await?;
    }
    world.deregistrar().deregister(one).await?;
    registered(world, other, true, "a neighbour of a deregistered Node").await?;
    require(world.has_peer(other).await?, "a neighbour lost its Peer")
}

async fn a_batch_equals_single_calls_in_order(world: &World) -> Outcome {
    let enrolled = world.enrolled_token().await?;
    let gone = world.enrolled_token().await?;
    world.deregistrar().deregister(gone).await?;
    let unconsumed = world.issued_token().await?;
    let unknown = unknown_token()?;
    // Not ordered by id, with one token twice, so that sorting or a set would fail.
    let tokens = [unconsumed, enrolled, gone, enrolled, unknown, unconsumed];
    let batch = world.deregistrar().nodes_registered(&tokens).await?;
    require(batch.len() == tokens.len(), "a batch has not one result per token")?;
    for (token, answer) in tokens.into_iter().zip(batch) {
        let single = world.deregistrar().node_registered(token).await?;
        require(
            answer? == single,
            &format!("the batch differs from the single answer {single} about {token}"),
        )?;
    }
    let none = world.deregistrar().nodes_registered(&[]).await?;
    require(none.is_empty(), "an empty batch has results")
}

async fn registered(world: &World, token: BootstrapTokenId, expected: bool, what: &str) -> Outcome {
    let answer = world.deregistrar().node_registered(token).await?;
    require(answer == expected, &format!("{what} is registered: {answer}"))
}
