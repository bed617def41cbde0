//! The recorded history of every resource, for all output formats.

use std::time::Duration;

use broker_domain::{EventType, MeshRole, Phase, ProvisionedResource, ProvisionedResourceId};
use serde_json::Value;

use super::scenario::Scenario;

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
pub(super) struct JournalEntry {
    pub(super) name: String,
    pub(super) scenario: Scenario,
    pub(super) id: ProvisionedResourceId,
    /// Every phase with its entry time.
    pub(super) phases: Vec<(Duration, Phase)>,
    /// The note on the current phase.
    pub(super) note: String,
    /// The published events, with their sequence numbers.
    pub(super) events: Vec<(u64, EventType)>,
}

impl JournalEntry {
    pub(super) fn new(name: &str, scenario: Scenario, id: ProvisionedResourceId) -> Self {
        Self {
            name: name.to_owned(),
            scenario,
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
    pub(super) fn current_phase(&self) -> (Duration, Phase) {
        self.phases.last().copied().unwrap_or((Duration::ZERO, Phase::Pending))
    }

    pub(super) fn is_finished(&self) -> bool {
        self.current_phase().1 == self.scenario.last_phase()
    }
}

/// Describes a phase change for people.
pub(super) fn note(
    scenario: Scenario,
    from: Option<Phase>,
    to: Phase,
    resource: &ProvisionedResource,
) -> String {
    let is_node = resource.mesh_role() == MeshRole::Node;
    let text = match to {
        Phase::Pending if from.is_none() => return introduction(scenario, resource),
        Phase::Pending => "its composite resource was lost and is created again",
        Phase::Provisioning => "Crossplane composes it",
        Phase::Enrolling => "the substrate is ready, its agent boots",
        Phase::Ready if is_node => "its agent enrolled with the token that it found",
        Phase::Ready => "the substrate is ready",
        Phase::Failed => {
            return resource
                .failure()
                .map_or_else(String::new, |failure| failure.reason().to_string());
        }
        Phase::Deregistering if from == Some(Phase::Failed) => {
            "rolled back, as its declaration demands"
        }
        Phase::Deregistering => "its deletion was requested",
        Phase::Deprovisioning if resource.first_ready_at().is_some() && is_node => {
            "its Node is deregistered, its substrate is being deleted"
        }
        Phase::Deprovisioning => "it has no Node, its substrate is being deleted",
        Phase::Deleted => "all of its objects are deleted",
    };
    text.to_owned()
}

fn introduction(scenario: Scenario, resource: &ProvisionedResource) -> String {
    let introduction = scenario.introduction();
    let values = match resource.parameters().as_json() {
        "{}" => String::new(),
        values => format!(" {values}"),
    };
    format!("{}: {introduction}{values}", resource.xr_name())
}
