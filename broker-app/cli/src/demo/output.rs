//! The output formats of the demo: lines, JSON or a live table.

mod json;
mod live;
mod plain;
mod summary;

use std::io;
use std::time::Duration;

pub(super) use json::JsonLines;
pub(super) use live::LiveTable;
pub(super) use plain::PlainLines;

use broker_app::explain::Explanation;

use super::journal::{DemoChange, JournalEntry};
use super::run_result::RunResult;

/// The parameters of a run, for its title.
#[derive(Debug, Clone, Copy)]
pub(super) struct Header {
    pub(super) seed: u32,
    pub(super) resources: u16,
}

/// An output format. The demo calls `begin` first and `end` last.
pub(super) trait DemoOutput {
    fn begin(&mut self, header: Header) -> io::Result<()>;

    /// A resource changed; `entry` already includes the change.
    fn changed(
        &mut self,
        at: Duration,
        entry: &JournalEntry,
        change: &DemoChange,
    ) -> io::Result<()>;

    fn namespace_ready(&mut self, at: Duration, project: &str) -> io::Result<()>;

    /// The demo explained a resource.
    fn explained(
        &mut self,
        at: Duration,
        entry: &JournalEntry,
        explained: &Explanation,
    ) -> io::Result<()>;

    fn round_finished(&mut self, at: Duration, entries: &[JournalEntry]) -> io::Result<()>;

    fn end(&mut self, result: &RunResult) -> io::Result<()>;
}

/// Simulated time, for people.
fn seconds(time: Duration) -> String {
    format!("{:.1}s", time.as_secs_f64())
}
