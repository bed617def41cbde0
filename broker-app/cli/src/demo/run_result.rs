//! The result of a demo: the outcome of every resource, compared with the script.

use std::time::Duration;

use broker_domain::{EventType, Phase};

use super::journal::Entry;

#[derive(Debug, Clone)]
pub(super) struct Outcome {
    /// Its recorded history.
    pub(super) entry: Entry,
    /// How many of its objects exist on the cluster.
    pub(super) objects_left: usize,
    /// Whether its Node is live in the mesh.
    pub(super) live_node: bool,
}

/// The result of a run.
#[derive(Debug, Clone)]
pub(super) struct RunResult {
    /// Simulated time.
    pub(super) after: Duration,
    pub(super) outcomes: Vec<Outcome>,
    /// How many resources the last sweep returned for a pass.
    pub(super) unsettled: usize,
}

/// Composite resource, ProviderConfig and one composed object.
const OBJECTS_OF_ONE: usize = 3;

impl RunResult {
    /// The first difference from the script.
    pub(super) fn flaw(&self) -> Option<String> {
        let flawed =
            |outcome: &Outcome| outcome.flaw().map(|flaw| format!("{} {flaw}", outcome.entry.name));
        let unsettled = || {
            (self.unsettled > 0)
                .then(|| format!("a last sweep found {} resources to work on", self.unsettled))
        };
        self.outcomes.iter().find_map(flawed).or_else(unsettled)
    }
}

impl Outcome {
    pub(super) fn phase(&self) -> Phase {
        self.entry.now().1
    }

    pub(super) fn path(&self) -> Vec<Phase> {
        self.entry.phases.iter().map(|(_, phase)| *phase).collect()
    }

    /// The first difference, phrased to follow the resource's name.
    fn flaw(&self) -> Option<String> {
        let Entry { role, events, .. } = &self.entry;
        let last = role.last_phase();
        if self.phase() != last {
            return Some(format!("is in {}, not in {last}", self.phase()));
        }
        if self.path() != role.path() {
            let (went, expected) = (arrows(&self.path()), arrows(role.path()));
            return Some(format!("went {went}, not {expected}"));
        }
        let published: Vec<_> = events.iter().map(|(_, event_type)| *event_type).collect();
        if published != role.events() {
            let (published, expected) = (commas(&published), commas(role.events()));
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
            // A role that passes Enrolling keeps a live Node.
            (OBJECTS_OF_ONE, role.path().contains(&Phase::Enrolling))
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
pub(super) fn arrows(path: &[Phase]) -> String {
    path.iter().map(|phase| phase.as_str()).collect::<Vec<_>>().join(" -> ")
}

/// Event types without their common prefix, joined by commas.
pub(super) fn commas(events: &[EventType]) -> String {
    let short = |event: &EventType| {
        event.as_str().strip_prefix("broker.ProvisionedResource").unwrap_or(event.as_str())
    };
    events.iter().map(short).collect::<Vec<_>>().join(", ")
}
