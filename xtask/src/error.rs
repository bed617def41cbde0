//! What a task can fail with, and how a person is told.

use std::error::Error;
use std::io;
use std::path::PathBuf;

use crate::servers::ServersError;
use crate::tools::SetupError;

/// Why a task failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TaskError {
    #[error(transparent)]
    Setup(#[from] SetupError),
    #[error(transparent)]
    Servers(#[from] ServersError),
    #[error("cannot read the workspace's metadata")]
    Metadata(#[source] Box<cargo_metadata::Error>),
    #[error("cannot run {program}")]
    Spawn {
        program: String,
        #[source]
        source: io::Error,
    },
    #[error("cannot {doing} {}", path.display())]
    File {
        doing: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot signal process {process}")]
    Signal {
        process: u32,
        #[source]
        source: io::Error,
    },
    #[error("the sample that servers are furnished with is broken")]
    Sample(#[source] broker_app::domain::Error),
    #[error("{what} failed ({how})")]
    Command { what: String, how: String },
    #[error("there is no tier {tier:?}; there are {}", known.join(", "))]
    UnknownTier { tier: String, known: Vec<String> },
    #[error("there is no benchmark {name:?}; there are {}", known.join(", "))]
    UnknownBenchmark { name: String, known: Vec<String> },
    #[error(
        "the benchmark {name:?} can only be measured; those that can be checked are {}",
        known.join(", ")
    )]
    CannotBeChecked { name: String, known: Vec<String> },
    #[error("no test's name contains {}", filters.join(" or "))]
    NothingMatches { filters: Vec<String> },
    #[error("cannot show what the tests say")]
    Screen(#[source] io::Error),
    #[error("the tests failed: {}", complaints.join("; "))]
    Tests { complaints: Vec<String> },
    #[error("failed: {}", steps.join(", "))]
    Lint { steps: Vec<&'static str> },
    #[error("tidy found problems: {findings}")]
    Untidy { findings: usize },
}

/// The error and its sources, from the outermost in, in one line.
pub fn one_line(error: &dyn Error) -> String {
    let mut line = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        let text = inner.to_string();
        // A transparent wrapper shows its source's words as its own.
        if !line.ends_with(&text) {
            line.push_str(": ");
            line.push_str(&text);
        }
        source = inner.source();
    }
    line.replace('\n', "; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chain_becomes_one_line() {
        let source = io::Error::other("disk\non fire");
        let error = TaskError::Setup(SetupError::Io { doing: "write", path: "a".into(), source });
        assert_eq!(one_line(&error), "cannot write a: disk; on fire");
    }
}
