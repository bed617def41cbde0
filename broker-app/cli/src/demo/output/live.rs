//! A live table: each round redraws it in place.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::time::Duration;

use broker_app::explain::Explanation;
use broker_domain::Phase;

use super::super::journal::{DemoChange, JournalEntry};
use super::super::run_result::RunResult;
use super::{DemoOutput, Header, seconds, summary};
use crate::terminal::{Size, Terminal};

pub(in super::super) struct LiveTable<W> {
    out: W,
    terminal: Terminal,
    /// Called before each frame.
    size: fn() -> Size,
    title: String,
    /// The number of lines of the last frame.
    frame_lines: usize,
    /// Printed below the table at the end: they do not fit into it.
    explained: Vec<String>,
}

/// Above the rows: title, empty line and column headings. Below: the number of hidden rows, and the cursor.
const LINES_AROUND_ROWS: usize = 5;

/// Erases the rest of an earlier frame's line, then ends the line.
const END_OF_LINE: &str = "\x1b[K\n";
/// Erases the rest of an earlier frame below the cursor.
const ERASE_BELOW: &str = "\x1b[J";
const RESET: &str = "\x1b[0m";

impl<W: Write> LiveTable<W> {
    pub(in super::super) fn new(out: W, terminal: Terminal, size: fn() -> Size) -> Self {
        Self { out, terminal, size, title: String::new(), frame_lines: 0, explained: Vec::new() }
    }

    fn frame(&self, at: Duration, entries: &[JournalEntry]) -> Vec<String> {
        let Size { columns, rows } = (self.size)();
        let max_rows = rows.saturating_sub(LINES_AROUND_ROWS);
        let shown = latest_changes(entries, max_rows);
        let mut lines = vec![clip(&format!("{}, {}", self.title, seconds(at)), columns)];
        lines.push(String::new());
        lines.push(clip(&row("RESOURCE", "PHASE", "FOR", "LAST CHANGE"), columns));
        for entry in &shown {
            let (since, phase) = entry.current_phase();
            let age = seconds(at.saturating_sub(since));
            let line = clip(&row(&entry.name, phase.as_str(), &age, &entry.note), columns);
            lines.push(if self.terminal.colour { coloured(&line, phase) } else { line });
        }
        let hidden = entries.len() - shown.len();
        if hidden > 0 {
            lines.push(clip(&format!("and {hidden} more with older changes"), columns));
        }
        lines
    }
}

impl<W: Write> DemoOutput for LiveTable<W> {
    fn begin(&mut self, header: Header) -> io::Result<()> {
        self.title = summary::title(header);
        Ok(())
    }

    /// The next frame shows it.
    fn changed(&mut self, _: Duration, _: &JournalEntry, _: &DemoChange) -> io::Result<()> {
        Ok(())
    }

    fn namespace_ready(&mut self, _: Duration, _: &str) -> io::Result<()> {
        Ok(())
    }

    fn explained(
        &mut self,
        at: Duration,
        entry: &JournalEntry,
        explained: &Explanation,
    ) -> io::Result<()> {
        let (at, name) = (seconds(at), &entry.name);
        self.explained.push(format!("explanation of {name} at {at}:\n\n{explained}"));
        Ok(())
    }

    fn round_finished(&mut self, at: Duration, entries: &[JournalEntry]) -> io::Result<()> {
        let mut text = String::new();
        if self.frame_lines > 0 {
            // Writing to a string cannot fail.
            let _ = write!(text, "\x1b[{}A\r", self.frame_lines);
        }
        let lines = self.frame(at, entries);
        for line in &lines {
            text.push_str(line);
            text.push_str(END_OF_LINE);
        }
        text.push_str(ERASE_BELOW);
        self.frame_lines = lines.len();
        // One write per frame, so that no partial frame is visible.
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }

    fn end(&mut self, result: &RunResult) -> io::Result<()> {
        for explained in &self.explained {
            writeln!(self.out, "\n{explained}")?;
        }
        summary::write(&mut self.out, result)
    }
}

const NAME_WIDTH: usize = 12;
const PHASE_WIDTH: usize = 14;

fn row(name: &str, phase: &str, age: &str, note: &str) -> String {
    format!("{name:<NAME_WIDTH$} {phase:<PHASE_WIDTH$} {age:>6}  {note}")
}

/// The `max_rows` entries with the latest changes, in declaration order.
fn latest_changes(entries: &[JournalEntry], max_rows: usize) -> Vec<&JournalEntry> {
    let mut newest: Vec<_> = entries.iter().enumerate().collect();
    newest.sort_by_key(|(index, entry)| (std::cmp::Reverse(entry.current_phase().0), *index));
    newest.truncate(max_rows);
    newest.sort_by_key(|(index, _)| *index);
    newest.into_iter().map(|(_, entry)| entry).collect()
}

/// Clips a line to the terminal's width: a wrapped line would break the cursor movement.
fn clip(line: &str, columns: usize) -> String {
    if line.chars().count() < columns {
        return line.to_owned();
    }
    let kept: String = line.chars().take(columns.saturating_sub(3)).collect();
    format!("{kept}..")
}

/// Colours the phase. The columns before it are ASCII only, so byte offsets are columns.
fn coloured(line: &str, phase: Phase) -> String {
    let start = NAME_WIDTH + 1;
    let end = start + phase.as_str().len();
    let colour = match phase {
        Phase::Pending | Phase::Provisioning | Phase::Enrolling => "\x1b[36m",
        Phase::Ready => "\x1b[32m",
        Phase::Failed => "\x1b[31m",
        Phase::Deregistering | Phase::Deprovisioning => "\x1b[33m",
        Phase::Deleted => "\x1b[2m",
    };
    match (line.get(..start), line.get(start..end), line.get(end..)) {
        (Some(before), Some(name), Some(after)) => format!("{before}{colour}{name}{RESET}{after}"),
        _ => line.to_owned(),
    }
}
