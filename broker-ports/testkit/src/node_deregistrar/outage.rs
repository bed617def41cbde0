//! Cases for outages: an unreachable mesh is an error. A Node that is wrongly reported as deregistered would stay in the
//! mesh while its machine is torn down.

use super::seams::{World, join, node_of};
use super::{NodeDeregistrarUnderTest, SeamsUnderTest, unknown_token};
use crate::prelude::*;

pub(super) fn cases<W: NodeDeregistrarUnderTest + 'static>() -> Vec<Case<W>> {
    suite_of![an_unreachable_deregistrar_never_reports_absence,]
}

pub(super) fn seams_cases<W: SeamsUnderTest + 'static>() -> Vec<Case<W>> {
    suite_of![unreachable_seams_never_report_absence,]
}

async fn an_unreachable_deregistrar_never_reports_absence(
    world: &dyn NodeDeregistrarUnderTest,
) -> Outcome {
    let joined = world.enrolled_token().await?;
    require(world.join(joined).await?, "a Node that enrolled may not join")?;
    // The last two tokens have no Node, but an adapter can only learn that from the mesh.
    let tokens = [joined, world.issued_token().await?, unknown_token()?];
    let deregistrar = world.deregistrar();
    world.cut_off().await?;
    for token in tokens {
        require_outage(deregistrar.node_registered(token).await, "node_registered")?;
        require_outage(deregistrar.deregister(token).await, "deregister")?;
    }
    match deregistrar.nodes_registered(&tokens).await {
        Ok(results) => {
            require(results.len() == tokens.len(), "a batch does not return one result per token")?;
            results.into_iter().try_for_each(|result| require_outage(result, "nodes_registered"))
        }
        failed @ Err(_) => require_outage(failed, "nodes_registered"),
    }
}

async fn unreachable_seams_never_report_absence(world: &World) -> Outcome {
    let token = world.enrolled_token().await?;
    let node = node_of(world, token).await?;
    let peer = join(world, token, node).await?;
    world.cut_off().await?;
    require_outage(world.tokens().consumers(&[token]).await, "consumers")?;
    require_outage(world.peers().live_peer(node).await, "live_peer")?;
    for expected_peer in [Some(peer), None] {
        require_outage(world.commander().retire(node, expected_peer).await, "retire")?;
    }
    Ok(())
}
