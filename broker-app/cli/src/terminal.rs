//! The terminal behind standard output: whether the demo can draw on it, and its size.

use std::io::{IsTerminal, stdout};

use terminal_size::{Height, Width, terminal_size};

/// A terminal that can move its cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Terminal {
    pub(crate) colour: bool,
}

/// The size in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) columns: usize,
    pub(crate) rows: usize,
}

impl Size {
    /// The size of a terminal that does not report one.
    const DEFAULT: Self = Self { columns: 80, rows: 24 };

    /// The minimum for a live table.
    const MIN: Self = Self { columns: 50, rows: 12 };

    /// Read before each frame: users resize windows.
    pub(crate) fn now() -> Self {
        terminal_size().map_or(Self::DEFAULT, |(Width(columns), Height(rows))| Self {
            columns: columns.into(),
            rows: rows.into(),
        })
    }

    fn fits_table(self) -> bool {
        self.columns >= Self::MIN.columns && self.rows >= Self::MIN.rows
    }
}

impl Terminal {
    /// `None` for a pipe, a file, a terminal without cursor movement, or one smaller than [`Size::MIN`].
    pub(crate) fn from_stdout() -> Option<Self> {
        let has_cursor_movement = is_set("TERM") && !has_value("TERM", "dumb");
        let usable = stdout().is_terminal() && has_cursor_movement && Size::now().fits_table();
        // Any non-empty value of NO_COLOR disables colour: see https://no-color.org.
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

fn has_value(name: &str, expected: &str) -> bool {
    variable(name).is_some_and(|value| value == expected)
}
