//! Promises about failure: a mesh that cannot be reached says so. A Node that is only believed to be gone
//! stays in the mesh while its machine is torn down.

use broker_domain::BootstrapTokenId;
use broker_ports::{NodeId, PeerId};

use super::seams::{join, node_of};
use super::{NodeDeregistrarUnderTest, SeamsUnderTest, unknown_token};
use crate::prelude::*;

pub(super) fn cases<W: NodeDeregistrarUnderTest + 'static>() -> Vec<Case<W>> {
    suite_of![
        a_deregistrar_that_is_cut_off_never_answers_with_absence,
        a_deregistrar_that_is_cut_off_deregisters_nothing,
    ]
}

pub(super) fn seams_cases<W: SeamsUnderTest + 'static>() -> Vec<Case<W>> {
    suite_of![
        seams_that_are_cut_off_never_answer_with_absence,
        a_commander_that_is_cut_off_retires_nothing,
    ]
}

async fn a_deregistrar_that_is_cut_off_never_answers_with_absence(
    world: &dyn NodeDeregistrarUnderTest,
) -> Outcome {
    let tokens = [world.enrolled_token().await?, world.issued_token().await?, unknown_token()?];
    let deregistrar = world.deregistrar();
    world.cut_off().await?;
    for token in tokens {
        require_outage(deregistrar.node_registered(token).await, "node_registered")?;
    }
    match deregistrar.nodes_registered(&tokens).await {
        Ok(answers) => {
            require(answers.len() == tokens.len(), "a batch has not one answer for each question")?;
            answers.into_iter().try_for_each(|answer| require_outage(answer, "nodes_registered"))
        }
        failed @ Err(_) => require_outage(failed, "nodes_registered"),
    }
}

async fn a_deregistrar_that_is_cut_off_deregisters_nothing(
    world: &dyn NodeDeregistrarUnderTest,
) -> Outcome {
    let joined = world.enrolled_token().await?;
    require(world.join(joined).await?, "a Node that enrolled may not join")?;
    // Nothing would be left to do for the last two, which only the mesh can tell.
    let tokens = [joined, world.issued_token().await?, unknown_token()?];
    world.cut_off().await?;
    for token in tokens {
        require_outage(world.deregistrar().deregister(token).await, "deregister")?;
    }
    Ok(())
}

async fn seams_that_are_cut_off_never_answer_with_absence(world: &dyn SeamsUnderTest) -> Outcome {
    let (token, node, _) = joined(world).await?;
    world.cut_off().await?;
    require_outage(world.tokens().consumers(&[token]).await, "consumers")?;
    require_outage(world.peers().live_peer(node).await, "live_peer")
}

async fn a_commander_that_is_cut_off_retires_nothing(world: &dyn SeamsUnderTest) -> Outcome {
    let (_, node, peer) = joined(world).await?;
    world.cut_off().await?;
    for named in [Some(peer), None] {
        require_outage(world.commander().retire(node, named).await, "retire")?;
    }
    Ok(())
}

async fn joined(
    world: &dyn SeamsUnderTest,
) -> Result<(BootstrapTokenId, NodeId, PeerId), Violation> {
    let token = world.enrolled_token().await?;
    let node = node_of(world, token).await?;
    Ok((token, node, join(world, token, node).await?))
}
