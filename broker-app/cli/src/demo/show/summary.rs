//! The summary at the end, the same for pipes and terminals.

use std::io::{self, Write};

use broker_domain::Phase;

use super::super::run_result::{Outcome, RunResult, arrows, commas};
use super::{Header, seconds};

pub(super) fn title(header: Header) -> String {
    let Header { seed, resources } = header;
    let plural = if resources == 1 { "" } else { "s" };
    format!(
        "Provisioning Broker demo: {resources} resource{plural}, seed {seed}, everything simulated"
    )
}

pub(super) fn write(out: &mut impl Write, ending: &RunResult) -> io::Result<()> {
    writeln!(out, "\nAfter {}:\n", seconds(ending.after))?;
    for outcome in &ending.outcomes {
        let Outcome { entry, .. } = outcome;
        let (name, phase) = (&entry.name, outcome.phase());
        writeln!(out, "{name:<12} {phase:<14}  {}", arrows(&outcome.path()))?;
        let events: Vec<_> = entry.events.iter().map(|(_, event_type)| *event_type).collect();
        let (events, rest) = (commas(&events), what_is_left(outcome));
        writeln!(out, "{:<29}events: {events}; {rest}", "")?;
    }
    let count = |phase| ending.outcomes.iter().filter(|outcome| outcome.phase() == phase).count();
    let events: usize = ending.outcomes.iter().map(|outcome| outcome.entry.events.len()).sum();
    let counts: Vec<_> = Phase::ALL
        .into_iter()
        .map(|phase| (count(phase), phase))
        .filter(|(count, _)| *count > 0)
        .map(|(count, phase)| format!("{count} {phase}"))
        .collect();
    writeln!(out, "\n{}; {events} events.", counts.join(", "))?;
    // The demo's error reports a difference, so the summary does not repeat it.
    if ending.flaw().is_none() {
        writeln!(
            out,
            "Every event was told once and in order, nothing is left of what was deleted, and a last sweep \
             found nothing to do."
        )?;
    }
    out.flush()
}

fn what_is_left(outcome: &Outcome) -> String {
    let objects = match outcome.objects_left {
        0 => "nothing is left on the cluster".to_owned(),
        1 => "1 object stands".to_owned(),
        many => format!("{many} objects stand"),
    };
    let node = if outcome.live_node { ", its Node is in the mesh" } else { "" };
    format!("{objects}{node}")
}
