//! The recorded history of every resource, from which each output format draws.

use std::time::Duration;

use broker_domain::{EventType, MeshRole, Phase, ProvisionedResource, ProvisionedResourceId};
use serde_json::Value;

use super::story::Role;

/// A recorded change, with simulated time.
#[derive(Debug, Clone)]
pub(super) enum DemoChange {
    /// A resource was declared or changed its phase.
    Phase {
        from: Option<Phase>,
        to: Phase,
        note: String,
    },
    Event {
        event_type: EventType,
        sequence: u64,
        payload: Value,
    },
}

/// A resource and its history.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) role: Role,
    pub(super) id: ProvisionedResourceId,
    /// Every phase with its entry time.
    pub(super) phases: Vec<(Duration, Phase)>,
    /// The note on the current phase.
    pub(super) note: String,
    /// The published events, with their sequence numbers.
    pub(super) events: Vec<(u64, EventType)>,
}

impl Entry {
    pub(super) fn new(name: &str, role: Role, id: ProvisionedResourceId) -> Self {
        Self {
            name: name.to_owned(),
            role,
            id,
            phases: Vec::new(),
            note: String::new(),
            events: Vec::new(),
        }
    }

    pub(super) fn record(&mut self, at: Duration, change: &DemoChange) {
        match change {
            DemoChange::Phase { to, note, .. } => {
                self.phases.push((at, *to));
                self.note.clone_from(note);
            }
            DemoChange::Event { event_type, sequence, .. } => {
                self.events.push((*sequence, *event_type));
            }
        }
    }

    /// The entry time and name of the current phase. Every entry has at least one phase.
    pub(super) fn now(&self) -> (Duration, Phase) {
        self.phases.last().copied().unwrap_or((Duration::ZERO, Phase::Pending))
    }

    pub(super) fn is_over(&self) -> bool {
        self.now().1 == self.role.last_phase()
    }
}

/// Describes a phase change for people.
pub(super) fn note(
    role: Role,
    from: Option<Phase>,
    to: Phase,
    resource: &ProvisionedResource,
) -> String {
    let is_node = resource.mesh_role() == MeshRole::Node;
    let text = match to {
        Phase::Pending if from.is_none() => return introduction(role, resource),
        Phase::Pending => "its composite resource is gone and is made again",
        Phase::Provisioning => "Crossplane composes it",
        Phase::Enrolling => "the substrate is up, its agent boots",
        Phase::Ready if is_node => "its agent enrolled with the token that it found",
        Phase::Ready => "the substrate is up",
        Phase::Failed => {
            return resource.failure().map_or_else(String::new, |f| f.reason().to_string());
        }
        Phase::Deregistering if from == Some(Phase::Failed) => {
            "rolled back, as it was declared to be"
        }
        Phase::Deregistering => "its deletion was asked for",
        Phase::Deprovisioning if resource.first_ready_at().is_some() && is_node => {
            "its Node has left, the substrate is deleted"
        }
        Phase::Deprovisioning => "there is no Node, the substrate is deleted",
        Phase::Deleted => "everything is proven gone",
    };
    text.to_owned()
}

fn introduction(role: Role, resource: &ProvisionedResource) -> String {
    let introduction = role.introduction();
    let values = match resource.parameters().as_json() {
        "{}" => String::new(),
        values => format!(" {values}"),
    };
    format!("{}: {introduction}{values}", resource.xr_name())
}
