//! One line per phase change, for a pipe or a file.

use std::io::{self, Write};
use std::time::Duration;

use broker_app::explain::Explanation;

use super::super::journal::{DemoChange, JournalEntry};
use super::super::run_result::RunResult;
use super::{DemoOutput, Header, seconds, summary};

pub(in super::super) struct PlainLines<W>(pub(in super::super) W);

impl<W: Write> PlainLines<W> {
    fn line(&mut self, at: Duration, subject: &str, change: &str, note: &str) -> io::Result<()> {
        let at = seconds(at);
        writeln!(self.0, "{at:>6}  {subject:<12} {change:<31}  {note}")?;
        self.0.flush()
    }
}

impl<W: Write> DemoOutput for PlainLines<W> {
    fn begin(&mut self, header: Header) -> io::Result<()> {
        writeln!(self.0, "{}\n", summary::title(header))?;
        self.0.flush()
    }

    fn changed(
        &mut self,
        at: Duration,
        entry: &JournalEntry,
        change: &DemoChange,
    ) -> io::Result<()> {
        match change {
            DemoChange::Phase { from, to, note } => {
                let transition = match from {
                    Some(from) => format!("{from} -> {to}"),
                    None => to.to_string(),
                };
                self.line(at, &entry.name, &transition, note)
            }
            // Each event follows a phase change that was printed.
            DemoChange::Event { .. } => Ok(()),
        }
    }

    fn namespace_ready(&mut self, at: Duration, project: &str) -> io::Result<()> {
        self.line(at, project, "", "the namespace of this Project is ready now")
    }

    fn explained(
        &mut self,
        at: Duration,
        entry: &JournalEntry,
        explained: &Explanation,
    ) -> io::Result<()> {
        self.line(at, &entry.name, "explain", "why it is in this phase:")?;
        writeln!(self.0)?;
        for line in explained.to_string().lines() {
            writeln!(self.0, "        {line}")?;
        }
        writeln!(self.0)?;
        self.0.flush()
    }

    fn round_finished(&mut self, _: Duration, _: &[JournalEntry]) -> io::Result<()> {
        Ok(())
    }

    fn end(&mut self, result: &RunResult) -> io::Result<()> {
        summary::write(&mut self.0, result)
    }
}
