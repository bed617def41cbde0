//! The terminal behind standard output: whether the demo can draw on it, and its size.

use std::io::{IsTerminal, stdout};

use terminal_size::{Height, Width, terminal_size};

/// A terminal that can move its cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Terminal {
    pub(crate) colour: bool,
}

/// In characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) columns: usize,
    pub(crate) rows: usize,
}

impl Size {
    /// The size of a terminal that does not report one.
    const CLASSIC: Self = Self { columns: 80, rows: 24 };

    /// A live table needs at least this size.
    const LEAST: Self = Self { columns: 50, rows: 12 };

    /// The current size; users resize windows.
    pub(crate) fn now() -> Self {
        terminal_size().map_or(Self::CLASSIC, |(Width(columns), Height(rows))| Self {
            columns: columns.into(),
            rows: rows.into(),
        })
    }

    fn is_enough(self) -> bool {
        self.columns >= Self::LEAST.columns && self.rows >= Self::LEAST.rows
    }
}

impl Terminal {
    /// `None` for a pipe, a file, a terminal without cursor movement, or one smaller than [`Size::LEAST`].
    pub(crate) fn of_stdout() -> Option<Self> {
        let movable = is_set("TERM") && !is("TERM", "dumb");
        let usable = stdout().is_terminal() && movable && Size::now().is_enough();
        // See https://no-color.org: any value except an empty one.
        usable.then(|| Self { colour: !is_set("NO_COLOR") })
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the binary is the composition root: what its terminal can do is in the environment"
)]
fn variable(name: &str) -> Option<std::ffi::OsString> {
    std::env::var_os(name)
}

fn is_set(name: &str) -> bool {
    variable(name).is_some_and(|value| !value.is_empty())
}

fn is(name: &str, expected: &str) -> bool {
    variable(name).is_some_and(|value| value == expected)
}
