//! The terminal that the standard output may be: whether it can be drawn on, and how large it is.

use std::io::{IsTerminal, stdout};

use terminal_size::{Height, Width, terminal_size};

/// A terminal that can move its cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Terminal {
    /// Whether its reader wants colours.
    pub(crate) colour: bool,
}

/// Characters across and down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) columns: usize,
    pub(crate) rows: usize,
}

impl Size {
    /// What a terminal had before it could be asked.
    const CLASSIC: Self = Self { columns: 80, rows: 24 };

    /// A live table in less than this is unreadable.
    const LEAST: Self = Self { columns: 50, rows: 12 };

    /// The terminal's size now: people resize windows.
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
    /// The one behind the standard output; `None` for a pipe, a file, a terminal that cannot move its
    /// cursor, or a very small one.
    pub(crate) fn of_stdout() -> Option<Self> {
        let movable = is_set("TERM") && !is("TERM", "dumb");
        let usable = stdout().is_terminal() && movable && Size::now().is_enough();
        // The convention of https://no-color.org: any value but an empty one.
        usable.then(|| Self { colour: !is_set("NO_COLOR") })
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the binary is the composition root: what its terminal can do stands in the environment"
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
