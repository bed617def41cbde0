//! One line per phase change, for a pipe or a file.

use std::io::{self, Write};
use std::time::Duration;

use broker_app::explain::Explanation;

use super::super::journal::{DemoChange, Entry};
use super::super::run_result::RunResult;
use super::{DemoOutput, Header, seconds, summary};

pub(in super::super) struct Plain<W>(pub(in super::super) W);

impl<W: Write> Plain<W> {
    fn line(&mut self, at: Duration, who: &str, what: &str, note: &str) -> io::Result<()> {
        let at = seconds(at);
        writeln!(self.0, "{at:>6}  {who:<12} {what:<31}  {note}")?;
        self.0.flush()
    }
}

impl<W: Write> DemoOutput for Plain<W> {
    fn begin(&mut self, header: Header) -> io::Result<()> {
        writeln!(self.0, "{}\n", summary::title(header))?;
        self.0.flush()
    }

    fn changed(&mut self, at: Duration, entry: &Entry, change: &DemoChange) -> io::Result<()> {
        match change {
            DemoChange::Phase { from, to, note } => {
                let what = match from {
                    Some(from) => format!("{from} -> {to}"),
                    None => to.to_string(),
                };
                self.line(at, &entry.name, &what, note)
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
        entry: &Entry,
        explained: &Explanation,
    ) -> io::Result<()> {
        self.line(at, &entry.name, "explain", "why it is where it is:")?;
        writeln!(self.0)?;
        for line in explained.to_string().lines() {
            writeln!(self.0, "        {line}")?;
        }
        writeln!(self.0)?;
        self.0.flush()
    }

    fn round(&mut self, _: Duration, _: &[Entry]) -> io::Result<()> {
        Ok(())
    }

    fn end(&mut self, ending: &RunResult) -> io::Result<()> {
        summary::write(&mut self.0, ending)
    }
}
