//! Checks of the promises, during and at the end of a story.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use broker_domain::{MeshRole, ObjectReference, Phase, ProvisionedResource};
use broker_memory::Verb;
use broker_ports::Repository;
use broker_render::ARMED_ANNOTATION;
use broker_tests::world::World;

use super::story::Kind;
use super::story_run::Declared;

/// Every resource is in its declared state, and its events were delivered.
pub(crate) async fn check_settled(world: &World, declared: &[Declared]) -> Result<(), String> {
    let existing = world.existing_objects();
    for (number, expected) in declared.iter().enumerate() {
        let row = world.get(expected.id).await;
        let has_declared_phase = match (expected.deleted, expected.kind) {
            (true, _) | (false, Kind::RolledBack) => row.phase() == Phase::Deleted,
            // The failure came before any deletion request, and it is retained.
            (false, Kind::Failing) => row.phase() == Phase::Failed,
            (false, Kind::Node | Kind::Standalone) => row.phase() == Phase::Ready,
        };
        if !has_declared_phase {
            return Err(format!("L1, L2: #{number} is in {} at the end", row.phase()));
        }
        if row.phase() == Phase::Ready {
            check_ready(world, &row).map_err(|error| format!("{error} (#{number})"))?;
        }
        let name = row.xr_name();
        let own = existing.iter().filter(|object| object.name().starts_with(name.as_str())).count();
        let expected_count = match row.phase() {
            Phase::Ready => 3..=3,
            // A Failed resource is not repaired: deleted objects stay deleted.
            Phase::Failed => 0..=3,
            Phase::Pending
            | Phase::Provisioning
            | Phase::Enrolling
            | Phase::Deregistering
            | Phase::Deprovisioning
            | Phase::Deleted => 0..=0,
        };
        if !expected_count.contains(&own) {
            return Err(format!(
                "S7, S9: {own} objects of #{number} exist, not {expected_count:?}"
            ));
        }
        let delivered = world.sink.deliveries_of(expected.id);
        let numbers: BTreeSet<_> = delivered.iter().map(|event| event.sequence).collect();
        if numbers.len() as u64 != row.event_sequence() {
            let (delivered, all) = (numbers.len(), row.event_sequence());
            return Err(format!("S3: {delivered} of {all} events of #{number} were delivered"));
        }
    }
    Ok(())
}

/// A Ready Node is armed with the row's token, and the Node enrolled with that token.
fn check_ready(world: &World, row: &ProvisionedResource) -> Result<(), String> {
    let xr = world.cluster.object(&world.xr(row)).ok_or("L1: no composite resource")?;
    let pointer = format!("/metadata/annotations/{}", ARMED_ANNOTATION.replace('/', "~1"));
    let armed = xr.pointer(&pointer).and_then(|armed| armed.as_str()).unwrap_or_default();
    match (row.mesh_role(), row.bootstrap_token_id()) {
        (MeshRole::Standalone, _) if armed == "standalone" => Ok(()),
        (MeshRole::Node, Some(token)) if armed == token.to_string() => {
            let node = world.mesh.consumer(token).ok_or("S11: no Node enrolled")?;
            if node.deregistered { Err("S8: the Node was deregistered".to_owned()) } else { Ok(()) }
        }
        (MeshRole::Standalone | MeshRole::Node, _) => Err(format!("L1: armed with {armed:?}")),
    }
}

/// S7: no object of the resources exists.
pub(crate) async fn check_no_object_left(
    world: &World,
    declared: &[Declared],
) -> Result<(), String> {
    for (number, expected) in declared.iter().enumerate() {
        let name = world.get(expected.id).await.xr_name();
        let belongs = |object: &ObjectReference| object.name().starts_with(name.as_str());
        if let Some(left) = world.existing_objects().into_iter().find(belongs) {
            return Err(format!("S7: #{number} is Deleted and {left} exists"));
        }
    }
    Ok(())
}

/// S5, at any time in a world where only the broker deletes: substrate that is gone or being
/// deleted has no live Node.
pub(crate) async fn check_nodes_leave_first(
    world: &World,
    declared: &[Declared],
) -> Result<(), String> {
    for (number, expected) in declared.iter().enumerate() {
        let row = world.get(expected.id).await;
        let leaving = row.phase().is_teardown() || row.phase() == Phase::Deleted;
        let xr = world.cluster.object(&world.xr(&row));
        let deleting = xr.is_none_or(|xr| xr.pointer("/metadata/deletionTimestamp").is_some());
        if leaving && deleting && has_live_node(world, &row) {
            return Err(format!(
                "S5: substrate of #{number} is being deleted, and its Node is live"
            ));
        }
    }
    Ok(())
}

fn has_live_node(world: &World, row: &ProvisionedResource) -> bool {
    let consumer = row.bootstrap_token_id().and_then(|token| world.mesh.consumer(token));
    consumer.is_some_and(|node| !node.deregistered)
}

/// The state that a settled world must keep.
pub(super) async fn snapshot(world: &World, declared: &[Declared]) -> String {
    let mut snapshot = String::new();
    for expected in declared {
        let row = world.get(expected.id).await;
        let _ = write!(snapshot, "{} {} ", row.version(), row.phase());
    }
    // Deliveries are not compared: an event whose acknowledgement was lost may be delivered again. A new event would show
    // as a new version.
    let (applied, deleted) = (Verb::Patch, Verb::Delete);
    let [applied, deleted] = [applied, deleted].map(|verb| world.cluster.requests(verb));
    let _ = write!(snapshot, "{applied} applied {deleted} deleted");
    snapshot
}

/// S2, S3, S4, S5 and S16, from the audit, the delivered events and the mesh.
pub(crate) async fn check_history(world: &World, declared: &[Declared]) -> Result<(), String> {
    for (number, expected) in declared.iter().enumerate() {
        let row = world.get(expected.id).await;
        let lines = world.store.history(expected.id).await.map_err(|error| error.to_string())?;
        let written: Vec<_> = lines.iter().filter_map(|line| line.version).collect();
        let all_versions = 1..=row.version().get();
        if !written.iter().map(|version| version.get()).eq(all_versions) {
            return Err(format!("S2: #{number} has versions without an audit line, or with two"));
        }
        let epochs: Vec<_> = lines
            .iter()
            .filter(|line| line.version.is_some())
            .filter_map(|line| line.epoch)
            .collect();
        if !epochs.is_sorted() {
            return Err(format!("S16: a superseded lease wrote #{number}"));
        }
        let mut first_delivered = Vec::new();
        for event in world.sink.deliveries_of(expected.id) {
            if !first_delivered.contains(&event.sequence) {
                first_delivered.push(event.sequence);
            }
        }
        if !first_delivered.iter().copied().eq(1..=row.event_sequence()) {
            return Err(format!("S3: the events of #{number} arrived as {first_delivered:?}"));
        }
        if row.phase() == Phase::Deleted && has_live_node(world, &row) {
            return Err(format!("S5: #{number} is Deleted and its Node is live"));
        }
        if row.phase() == Phase::Deleted && world.tokens.live_token(row.id()).is_some() {
            return Err(format!("S4: #{number} is Deleted and has a live token"));
        }
    }
    Ok(())
}
