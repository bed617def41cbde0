//! How the story is shown: lines, JSON or a live table. Each writes what happens as it happens.

mod json;
mod live;
mod plain;
mod summary;

use std::io;
use std::time::Duration;

pub(super) use json::Json;
pub(super) use live::Live;
pub(super) use plain::Plain;

use broker_app::explain::Explanation;

use super::journal::{Entry, Happening};
use super::verdict::Ending;

/// What is going to be shown.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bill {
    pub(super) seed: u32,
    pub(super) resources: u16,
}

/// A way of showing the story. The demo calls it in order: begin, then anything, then end.
pub(super) trait Show {
    fn begin(&mut self, bill: Bill) -> io::Result<()>;

    /// Something happened to a resource; `entry` knows of it already.
    fn happened(&mut self, at: Duration, entry: &Entry, happening: &Happening) -> io::Result<()>;

    /// The namespace of a Project became ready.
    fn namespace_ready(&mut self, at: Duration, project: &str) -> io::Result<()>;

    /// Somebody asked why a resource is where it is.
    fn explained(&mut self, at: Duration, entry: &Entry, explained: &Explanation)
    -> io::Result<()>;

    /// A round is over.
    fn round(&mut self, at: Duration, entries: &[Entry]) -> io::Result<()>;

    fn end(&mut self, ending: &Ending) -> io::Result<()>;
}

/// A time of the simulation, for people.
fn seconds(time: Duration) -> String {
    format!("{:.1}s", time.as_secs_f64())
}
