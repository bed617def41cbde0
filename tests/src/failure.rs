//! How the harness fails a test: one line with the failed action and the reason.

use std::{error::Error, fmt::Display};

/// Fails the test on an error.
pub(crate) trait OrFail<T> {
    /// The value, or a panic.
    fn or_fail(self, what: impl Display) -> T;
}

/// The error may be an `anyhow::Error`, such as those of the test servers.
impl<T, E: Into<Box<dyn Error + Send + Sync>>> OrFail<T> for Result<T, E> {
    #[track_caller]
    fn or_fail(self, what: impl Display) -> T {
        match self {
            Ok(value) => value,
            Err(error) => panic!("{what}: {}", broker_app::one_line(&*error.into())),
        }
    }
}
