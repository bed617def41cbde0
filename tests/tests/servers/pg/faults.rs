//! The adapters under faults that a real server, or the way to it, really has.

mod deadlocks;
mod migrating;
mod unanswered;

use std::error::Error;
use std::time::Duration;

use broker_pg::DatabaseError;
use broker_ports::PortError;

/// Longer than any test.
const HOUR: Duration = Duration::from_hours(1);

/// What the server said, if it did.
pub(super) fn sqlstate(error: &PortError) -> Option<&str> {
    let said: &DatabaseError = error.source()?.downcast_ref()?;
    Some(said.sqlstate())
}
