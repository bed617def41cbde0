//! The end of the story: what became of each resource, and whether that is what was told.

use std::time::Duration;

use broker_domain::{EventType, Phase};

use super::journal::Entry;

/// What became of a resource.
#[derive(Debug, Clone)]
pub(super) struct Outcome {
    /// Its life.
    pub(super) entry: Entry,
    /// How many of its objects stand on the cluster.
    pub(super) standing: usize,
    /// Its Node is live in the mesh.
    pub(super) live_node: bool,
}

/// How everything ended.
#[derive(Debug, Clone)]
pub(super) struct Ending {
    /// After how much time.
    pub(super) after: Duration,
    pub(super) outcomes: Vec<Outcome>,
    /// How many resources a last sweep wanted to work on.
    pub(super) unsettled: usize,
}

/// Composite resource, ProviderConfig, and the one object that it composed.
const OBJECTS_OF_ONE: usize = 3;

impl Ending {
    /// What did not end as it should have, the first thing found.
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

    /// What is wrong with it, to be read after its name.
    fn flaw(&self) -> Option<String> {
        let Entry { role, events, .. } = &self.entry;
        let last = role.last_phase();
        if self.phase() != last {
            return Some(format!("is in {}, not in {last}", self.phase()));
        }
        if self.path() != role.path() {
            let (went, told) = (arrows(&self.path()), arrows(role.path()));
            return Some(format!("went {went}, not {told}"));
        }
        let heard: Vec<_> = events.iter().map(|(_, event_type)| *event_type).collect();
        if heard != role.events() {
            let (heard, told) = (commas(&heard), commas(role.events()));
            return Some(format!("was told of by {heard}, not by {told}"));
        }
        if let Some((sequence, _)) =
            events.iter().zip(1..).find_map(|(event, nth)| (event.0 != nth).then_some(event))
        {
            return Some(format!("has a gap in its events before number {sequence}"));
        }
        let (objects, node) = if last == Phase::Deleted {
            (0, false)
        } else {
            // Whoever goes through Enrolling leaves it by an agent that enrols.
            (OBJECTS_OF_ONE, role.path().contains(&Phase::Enrolling))
        };
        if self.standing != objects {
            return Some(format!("has {} objects on the cluster, not {objects}", self.standing));
        }
        (self.live_node != node)
            .then(|| if node { "has no live Node" } else { "has a live Node" }.to_owned())
    }
}

/// Phases as a way.
pub(super) fn arrows(path: &[Phase]) -> String {
    path.iter().map(|phase| phase.as_str()).collect::<Vec<_>>().join(" -> ")
}

/// Events as a list, without what all of their names begin with.
pub(super) fn commas(events: &[EventType]) -> String {
    let short = |event: &EventType| {
        event.as_str().strip_prefix("broker.ProvisionedResource").unwrap_or(event.as_str())
    };
    events.iter().map(short).collect::<Vec<_>>().join(", ")
}
