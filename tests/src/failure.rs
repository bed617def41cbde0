//! How the harness fails a test: one line that says what could not be done and why.

use std::fmt::Display;

/// Fails the test on an error.
pub(crate) trait OrFail<T> {
    /// The value, or the end of the test.
    fn or_fail(self, what: impl Display) -> T;
}

impl<T, E: Into<anyhow::Error>> OrFail<T> for Result<T, E> {
    #[track_caller]
    fn or_fail(self, what: impl Display) -> T {
        match self.map_err(Into::into) {
            Ok(value) => value,
            Err(error) => panic!("{what}: {}", broker_app::one_line(&*error)),
        }
    }
}
