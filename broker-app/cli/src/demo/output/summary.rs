//! The summary at the end, the same for pipes and terminals.

use std::io::{self, Write};

use broker_domain::Phase;

use super::super::run_result::{Outcome, RunResult, arrow_separated, comma_separated};
use super::{Header, seconds};

pub(super) fn title(header: Header) -> String {
    let Header { seed, resources } = header;
    let plural = if resources == 1 { "" } else { "s" };
    format!(
        "Provisioning Broker demo: {resources} resource{plural}, seed {seed}, everything simulated"
    )
}

pub(super) fn write(out: &mut impl Write, result: &RunResult) -> io::Result<()> {
    writeln!(out, "\nAfter {}:\n", seconds(result.after))?;
    for outcome in &result.outcomes {
        let Outcome { entry, .. } = outcome;
        let (name, phase) = (&entry.name, outcome.phase());
        writeln!(out, "{name:<12} {phase:<14}  {}", arrow_separated(&outcome.path()))?;
        let events: Vec<_> = entry.events.iter().map(|(_, event_type)| *event_type).collect();
        let (events, remains) = (comma_separated(&events), remains(outcome));
        writeln!(out, "{:<29}events: {events}; {remains}", "")?;
    }
    let count = |phase| result.outcomes.iter().filter(|outcome| outcome.phase() == phase).count();
    let events: usize = result.outcomes.iter().map(|outcome| outcome.entry.events.len()).sum();
    let counts: Vec<_> = Phase::ALL
        .into_iter()
        .map(|phase| (count(phase), phase))
        .filter(|(count, _)| *count > 0)
        .map(|(count, phase)| format!("{count} {phase}"))
        .collect();
    writeln!(out, "\n{}; {events} events.", counts.join(", "))?;
    // The demo's error reports a difference, so the summary does not repeat it.
    if result.mismatch().is_none() {
        writeln!(
            out,
            "Every event was published once and in order, deleted resources left no objects, and a last sweep \
             found no work."
        )?;
    }
    out.flush()
}

fn remains(outcome: &Outcome) -> String {
    let objects = match outcome.objects_left {
        0 => "no object on the cluster".to_owned(),
        1 => "1 object on the cluster".to_owned(),
        many => format!("{many} objects on the cluster"),
    };
    let node = if outcome.live_node { ", its Node is in the mesh" } else { "" };
    format!("{objects}{node}")
}
