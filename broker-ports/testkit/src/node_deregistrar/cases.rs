//! What the broker relies on when it observes and drains a Node.

use broker_domain::BootstrapTokenId;
use futures_util::future::join;

use super::{NodeDeregistrarUnderTest, unknown_token};
use crate::prelude::*;

pub(super) fn cases<W: NodeDeregistrarUnderTest + 'static>() -> Vec<Case<W>> {
    let mut cases = suite_of![
        a_consumed_token_is_registered,
        a_peer_does_not_change_that,
        an_unconsumed_token_is_not_registered,
        an_unknown_token_is_not_registered,
        deregister_drains_the_peer,
        deregister_without_a_peer_is_success,
        deregister_of_an_unconsumed_token_is_success,
        deregister_of_an_unknown_token_is_success,
        deregister_twice_is_once,
        a_deregistered_node_gets_no_peer,
        join_against_deregister_leaves_no_peer,
        nodes_do_not_disturb_each_other,
        a_batch_equals_its_questions_in_order,
        an_empty_batch_is_empty,
    ];
    cases.extend(dropping_suite_of![deregister_that_was_dropped_is_finished_by_the_next]);
    cases
}

async fn a_consumed_token_is_registered(world: &dyn NodeDeregistrarUnderTest) -> Outcome {
    let token = world.enrolled_token().await?;
    registered(world, token, "a Node that enrolled").await
}

async fn a_peer_does_not_change_that(world: &dyn NodeDeregistrarUnderTest) -> Outcome {
    let token = world.enrolled_token().await?;
    registered(world, token, "a Node without a Peer yet").await?;
    require(world.join(token).await?, "a Node that enrolled may not join")?;
    registered(world, token, "a Node with a Peer").await?;
    world.leave(token).await?;
    registered(world, token, "a Node whose Peer went away by itself").await
}

async fn an_unconsumed_token_is_not_registered(world: &dyn NodeDeregistrarUnderTest) -> Outcome {
    let token = world.issued_token().await?;
    unregistered(world, token, "a token that nobody consumed").await
}

async fn an_unknown_token_is_not_registered(world: &dyn NodeDeregistrarUnderTest) -> Outcome {
    unregistered(world, unknown_token()?, "a token that nobody issued").await
}

async fn deregister_drains_the_peer(world: &dyn NodeDeregistrarUnderTest) -> Outcome {
    let token = world.enrolled_token().await?;
    require(world.join(token).await?, "a Node that enrolled may not join")?;
    world.deregistrar().deregister(token).await?;
    require(!world.has_peer(token).await?, "a deregistered Node has a live Peer")?;
    unregistered(world, token, "a deregistered Node").await
}

async fn deregister_without_a_peer_is_success(world: &dyn NodeDeregistrarUnderTest) -> Outcome {
    let token = world.enrolled_token().await?;
    world.deregistrar().deregister(token).await?;
    unregistered(world, token, "a deregistered Node that never had a Peer").await
}

async fn deregister_of_an_unconsumed_token_is_success(
    world: &dyn NodeDeregistrarUnderTest,
) -> Outcome {
    let token = world.issued_token().await?;
    world.deregistrar().deregister(token).await?;
    unregistered(world, token, "a token that nobody consumed").await
}

async fn deregister_of_an_unknown_token_is_success(
    world: &dyn NodeDeregistrarUnderTest,
) -> Outcome {
    Ok(world.deregistrar().deregister(unknown_token()?).await?)
}

async fn deregister_twice_is_once(world: &dyn NodeDeregistrarUnderTest) -> Outcome {
    let token = world.enrolled_token().await?;
    require(world.join(token).await?, "a Node that enrolled may not join")?;
    for _ in 0..2 {
        world.deregistrar().deregister(token).await?;
        require(!world.has_peer(token).await?, "a deregistered Node has a live Peer")?;
        unregistered(world, token, "a deregistered Node").await?;
    }
    Ok(())
}

async fn deregister_that_was_dropped_is_finished_by_the_next(
    world: &dyn NodeDeregistrarUnderTest,
    polls: u32,
) -> Dropped {
    let token = world.enrolled_token().await?;
    require(world.join(token).await?, "a Node that enrolled may not join")?;
    let answer = dropped_after(polls, world.deregistrar().deregister(token)).await;
    // Somewhere on its way, with a Peer or without one; the next call brings it to the end.
    world.deregistrar().deregister(token).await?;
    require(!world.has_peer(token).await?, "a deregistered Node has a live Peer")?;
    unregistered(world, token, "a deregistered Node").await?;
    require(!world.join(token).await?, "a deregistered Node joined")?;
    Ok(answer.is_some())
}

async fn a_deregistered_node_gets_no_peer(world: &dyn NodeDeregistrarUnderTest) -> Outcome {
    for joined_before in [false, true] {
        let token = world.enrolled_token().await?;
        if joined_before {
            require(world.join(token).await?, "a Node that enrolled may not join")?;
        }
        world.deregistrar().deregister(token).await?;
        require(!world.join(token).await?, "a deregistered Node joined")?;
        require(!world.has_peer(token).await?, "a deregistered Node has a live Peer")?;
    }
    Ok(())
}

async fn join_against_deregister_leaves_no_peer(world: &dyn NodeDeregistrarUnderTest) -> Outcome {
    for round in 0..8 {
        let token = world.enrolled_token().await?;
        if round % 4 < 2 {
            require(world.join(token).await?, "a Node that enrolled may not join")?;
        }
        let agent = world.join(token);
        let leave = world.deregistrar().deregister(token);
        let (joined, left) = if round % 2 == 0 {
            join(agent, leave).await
        } else {
            let (left, joined) = join(leave, agent).await;
            (joined, left)
        };
        // The agent may win or lose; its Peer does not outlive the answer to the other.
        joined?;
        left?;
        require(!world.has_peer(token).await?, "a deregistered Node has a live Peer")?;
        unregistered(world, token, "a deregistered Node").await?;
        require(!world.join(token).await?, "a deregistered Node joined")?;
    }
    Ok(())
}

async fn nodes_do_not_disturb_each_other(world: &dyn NodeDeregistrarUnderTest) -> Outcome {
    let (one, other) = (world.enrolled_token().await?, world.enrolled_token().await?);
    for token in [one, other] {
        require(world.join(token).await?, "a Node that enrolled may not join")?;
    }
    world.deregistrar().deregister(one).await?;
    registered(world, other, "a neighbour of a deregistered Node").await?;
    require(world.has_peer(other).await?, "a neighbour lost its Peer")
}

async fn a_batch_equals_its_questions_in_order(world: &dyn NodeDeregistrarUnderTest) -> Outcome {
    let enrolled = world.enrolled_token().await?;
    let gone = world.enrolled_token().await?;
    world.deregistrar().deregister(gone).await?;
    let unconsumed = world.issued_token().await?;
    let unknown = unknown_token()?;
    // No order by id, and one token twice: neither sorting nor a set on the way gives these answers.
    let tokens = [unconsumed, enrolled, gone, enrolled, unknown, unconsumed];
    let batch = world.deregistrar().nodes_registered(&tokens).await?;
    require(batch.len() == tokens.len(), "a batch has not one answer for each question")?;
    for (token, answer) in tokens.into_iter().zip(batch) {
        let single = world.deregistrar().node_registered(token).await?;
        require(
            answer? == single,
            &format!("the batch differs from the single answer {single} about {token}"),
        )?;
    }
    Ok(())
}

async fn an_empty_batch_is_empty(world: &dyn NodeDeregistrarUnderTest) -> Outcome {
    let batch = world.deregistrar().nodes_registered(&[]).await?;
    require(batch.is_empty(), "no question got an answer")
}

async fn registered(
    world: &dyn NodeDeregistrarUnderTest,
    token: BootstrapTokenId,
    what: &str,
) -> Outcome {
    let answer = world.deregistrar().node_registered(token).await?;
    require(answer, &format!("{what} is not registered"))
}

async fn unregistered(
    world: &dyn NodeDeregistrarUnderTest,
    token: BootstrapTokenId,
    what: &str,
) -> Outcome {
    let answer = world.deregistrar().node_registered(token).await?;
    require(!answer, &format!("{what} is registered"))
}
