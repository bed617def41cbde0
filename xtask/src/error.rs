//! What a task can fail with, and how a person is told.

use std::io;
use std::path::PathBuf;

use broker_test_servers::servers::ServersError;
use broker_test_servers::tools::SetupError;
use broker_test_servers::up::UpError;

/// Why a task failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TaskError {
    #[error(transparent)]
    Setup(#[from] SetupError),
    #[error(transparent)]
    Servers(#[from] ServersError),
    #[error(transparent)]
    Up(#[from] UpError),
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
