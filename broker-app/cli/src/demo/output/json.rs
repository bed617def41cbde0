//! One JSON object per line, for programs. Keys are added, never changed or removed.

use std::io::{self, Write};
use std::time::Duration;

use broker_app::explain::Explanation;
use broker_domain::Phase;
use serde_json::{Value, json};

use super::super::journal::{DemoChange, JournalEntry};
use super::super::run_result::{Outcome, RunResult};
use super::{DemoOutput, Header};

pub(in super::super) struct JsonLines<W>(pub(in super::super) W);

impl<W: Write> JsonLines<W> {
    fn line(&mut self, object: &Value) -> io::Result<()> {
        writeln!(self.0, "{object}")?;
        self.0.flush()
    }
}

impl<W: Write> DemoOutput for JsonLines<W> {
    fn begin(&mut self, _: Header) -> io::Result<()> {
        Ok(())
    }

    fn changed(
        &mut self,
        at: Duration,
        entry: &JournalEntry,
        change: &DemoChange,
    ) -> io::Result<()> {
        let object = match change {
            DemoChange::Phase { from, to, note } => json!({
                "type": "phase",
                "elapsed_ms": millis(at),
                "resource": entry.name,
                "provisioned_resource_id": entry.id.to_string(),
                "from": from.map(Phase::as_str),
                "to": to.as_str(),
                "note": note,
            }),
            DemoChange::Event { payload, .. } => json!({
                "type": "event",
                "elapsed_ms": millis(at),
                "resource": entry.name,
                "event": payload,
            }),
        };
        self.line(&object)
    }

    fn namespace_ready(&mut self, at: Duration, project: &str) -> io::Result<()> {
        self.line(&json!({"type": "namespace", "elapsed_ms": millis(at), "project": project}))
    }

    fn explained(
        &mut self,
        at: Duration,
        entry: &JournalEntry,
        explained: &Explanation,
    ) -> io::Result<()> {
        self.line(&json!({
            "type": "explanation",
            "elapsed_ms": millis(at),
            "resource": entry.name,
            "explanation": explained.to_json(),
        }))
    }

    fn round_finished(&mut self, _: Duration, _: &[JournalEntry]) -> io::Result<()> {
        Ok(())
    }

    fn end(&mut self, result: &RunResult) -> io::Result<()> {
        result.outcomes.iter().try_for_each(|outcome| self.line(&outcome_object(outcome)))
    }
}

fn outcome_object(outcome: &Outcome) -> Value {
    let Outcome { entry, objects_left, live_node } = outcome;
    let path: Vec<_> = outcome.path().iter().map(|phase| phase.as_str()).collect();
    let events: Vec<_> = entry.events.iter().map(|(_, event)| event.as_str()).collect();
    json!({
        "type": "outcome",
        "resource": entry.name,
        "provisioned_resource_id": entry.id.to_string(),
        "xr_name": entry.id.xr_name().as_str(),
        "phase": outcome.phase().as_str(),
        "path": path,
        "events": events,
        "objects_left": objects_left,
        "node_live": live_node,
    })
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
