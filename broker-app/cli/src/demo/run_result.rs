//! The result of a demo: the outcome of every resource, compared with the plan.

use std::time::Duration;

use broker_domain::{EventType, Phase};

use super::journal::JournalEntry;

#[derive(Debug, Clone)]
pub(super) struct Outcome {
    /// Its recorded history.
    pub(super) entry: JournalEntry,
    /// The number of its objects on the cluster.
    pub(super) objects_left: usize,
    /// Whether its Node is live in the mesh.
    pub(super) live_node: bool,
}

#[derive(Debug, Clone)]
pub(super) struct RunResult {
    /// Simulated time.
    pub(super) after: Duration,
    pub(super) outcomes: Vec<Outcome>,
    /// The number of resources that the last sweep returned for a pass.
    pub(super) unsettled: usize,
}

/// Composite resource, ProviderConfig and one composed object.
const OBJECTS_PER_RESOURCE: usize = 3;

impl RunResult {
    /// The first difference from the plan.
    pub(super) fn mismatch(&self) -> Option<String> {
        let describe = |outcome: &Outcome| {
            outcome.mismatch().map(|mismatch| format!("{} {mismatch}", outcome.entry.name))
        };
        let unsettled = || {
            (self.unsettled > 0)
                .then(|| format!("a last sweep found {} resources to work on", self.unsettled))
        };
        self.outcomes.iter().find_map(describe).or_else(unsettled)
    }
}

impl Outcome {
    pub(super) fn phase(&self) -> Phase {
        self.entry.current_phase().1
    }

    pub(super) fn path(&self) -> Vec<Phase> {
        self.entry.phases.iter().map(|(_, phase)| *phase).collect()
    }

    /// The first difference, phrased to follow the resource's name.
    fn mismatch(&self) -> Option<String> {
        let JournalEntry { scenario, events, .. } = &self.entry;
        let last = scenario.last_phase();
        if self.phase() != last {
            return Some(format!("is in {}, not in {last}", self.phase()));
        }
        if self.path() != scenario.path() {
            let (actual, expected) =
                (arrow_separated(&self.path()), arrow_separated(scenario.path()));
            return Some(format!("went {actual}, not {expected}"));
        }
        let published: Vec<_> = events.iter().map(|(_, event_type)| *event_type).collect();
        if published != scenario.events() {
            let (published, expected) =
                (comma_separated(&published), comma_separated(scenario.events()));
            return Some(format!("published {published}, not {expected}"));
        }
        if let Some((sequence, _)) =
            events.iter().zip(1..).find_map(|(event, nth)| (event.0 != nth).then_some(event))
        {
            return Some(format!("has a gap in its events before number {sequence}"));
        }
        let (objects, node) = if last == Phase::Deleted {
            (0, false)
        } else {
            // A scenario with the phase Enrolling keeps a live Node.
            (OBJECTS_PER_RESOURCE, scenario.path().contains(&Phase::Enrolling))
        };
        if self.objects_left != objects {
            return Some(format!(
                "has {} objects on the cluster, not {objects}",
                self.objects_left
            ));
        }
        (self.live_node != node)
            .then(|| if node { "has no live Node" } else { "has a live Node" }.to_owned())
    }
}

/// Phases, joined by arrows.
pub(super) fn arrow_separated(path: &[Phase]) -> String {
    path.iter().map(|phase| phase.as_str()).collect::<Vec<_>>().join(" -> ")
}

/// Event types without their common prefix, joined by commas.
pub(super) fn comma_separated(events: &[EventType]) -> String {
    let short = |event: &EventType| {
        event.as_str().strip_prefix("broker.ProvisionedResource").unwrap_or(event.as_str())
    };
    events.iter().map(short).collect::<Vec<_>>().join(", ")
}
