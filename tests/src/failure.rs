//! How the harness fails a test: one line that says what could not be done and why.

use std::{error::Error, fmt::Display};

/// Fails the test on an error.
pub(crate) trait OrFail<T> {
    /// The value, or the end of the test.
    fn or_fail(self, what: impl Display) -> T;
}

/// The error may be one of `anyhow`, as those of the test servers are.
impl<T, E: Into<Box<dyn Error + Send + Sync>>> OrFail<T> for Result<T, E> {
    #[track_caller]
    fn or_fail(self, what: impl Display) -> T {
        match self {
            Ok(value) => value,
            Err(error) => panic!("{what}: {}", broker_app::one_line(&*error.into())),
        }
    }
}
