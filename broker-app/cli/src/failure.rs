//! How a command fails: one line with a reason code, and an exit code.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use broker_app::{BootError, StartError};
use broker_domain::{Phase, ProvisionedResource, ProvisionedResourceId};
use broker_embed::BrokerError;

use crate::catalog::ArchiveError;
use crate::demo::DemoError;
use crate::parameters::ValuesError;
use crate::settings::SettingsError;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    Success,
    Error,
    /// The command line is invalid.
    Usage,
    /// `--wait` timed out; the replicas continue.
    NotFinished,
    /// The awaited phase can no longer be reached.
    FailedTerminally,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The command line is invalid.
    #[error("{0}")]
    Usage(String),
    /// The environment is invalid.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// An error of the service.
    #[error(transparent)]
    Broker(#[from] broker_app::Error),
    /// A replica did not start.
    #[error(transparent)]
    Boot(#[from] BootError),
    /// Postgres or the cluster cannot be used with the configured settings.
    #[error("cannot use {subject}")]
    Compose {
        subject: &'static str,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The parameter values are invalid.
    #[error(transparent)]
    Values(#[from] ValuesError),
    #[error("cannot read {path}")]
    File {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// A catalog has errors; each was printed.
    #[error("{path} cannot be published: {errors} of its problems are errors")]
    Catalog { path: PathBuf, errors: usize },
    #[error(
        "{path} contains no blueprint; use a directory with one directory per blueprint, or a tar archive of one"
    )]
    EmptyCatalog { path: PathBuf },
    #[error("cannot use {path}")]
    Archive {
        path: PathBuf,
        #[source]
        source: ArchiveError,
    },
    /// An import refuses blueprints; each problem was printed.
    #[error("{path}: {refused} of {total} blueprints are refused, so the import publishes nothing")]
    CatalogRefused { path: PathBuf, refused: usize, total: usize },
    /// `--wait` timed out.
    #[error("{id} is {phase} after {}; the replicas continue", humantime::format_duration(*.timeout))]
    NotFinished { id: ProvisionedResourceId, phase: Phase, timeout: Duration },
    /// The awaited phase can no longer be reached.
    #[error("{id} is {phase} and will not become {target}{}", failure_suffix(.failure.as_deref()))]
    PhaseUnreachable {
        id: ProvisionedResourceId,
        phase: Phase,
        target: Phase,
        failure: Option<String>,
    },
    #[error("cannot listen on {address}")]
    Listen {
        address: std::net::SocketAddr,
        #[source]
        source: io::Error,
    },
    /// The process cannot be set up.
    #[error("cannot {operation}")]
    Process {
        operation: &'static str,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    #[error(transparent)]
    Demo(#[from] DemoError),
    /// Writing to standard output failed.
    #[error("cannot write the output")]
    Output(#[from] io::Error),
}

fn failure_suffix(failure: Option<&str>) -> String {
    failure.map_or_else(String::new, |failure| format!(": {failure}"))
}

impl Exit {
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Error => 1,
            Self::Usage => 2,
            Self::NotFinished => 3,
            Self::FailedTerminally => 4,
        }
    }
}

impl From<BrokerError> for Failure {
    fn from(error: BrokerError) -> Self {
        match error {
            BrokerError::Start(StartError::Port(error)) => Self::Broker(error),
            BrokerError::Start(StartError::TokenTtl { ttl, window }) => {
                Self::Settings(SettingsError::TokenTtl { ttl, min: window.min, max: window.max })
            }
            BrokerError::Store { source, .. } => Self::Compose { subject: "Postgres", source },
            BrokerError::Boot(error) => Self::Boot(error),
            other @ (BrokerError::Start(_) | _) => {
                Self::Compose { subject: "this configuration", source: other.into() }
            }
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        exit.code().into()
    }
}

impl Failure {
    /// The resource can no longer reach `target`.
    pub(crate) fn phase_unreachable(resource: &ProvisionedResource, target: Phase) -> Self {
        let failure = resource.failure();
        Self::PhaseUnreachable {
            id: resource.id(),
            phase: resource.phase(),
            target,
            failure: failure
                .map(|failure| format!("it failed in {}: {}", failure.step(), failure.reason())),
        }
    }

    /// The stable reason code. Library errors keep theirs.
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Self::Usage(_) => "usage",
            Self::Settings(_) => "environment_invalid",
            Self::Broker(error) | Self::Boot(BootError::Infrastructure(error)) => error.reason(),
            Self::Boot(BootError::ResourceError { reason, .. }) => reason,
            Self::Boot(_) => "boot_refused",
            Self::Compose { .. } => "setup_failed",
            Self::Values(error) if error.is_usage() => "usage",
            Self::Values(_) => "values_invalid",
            Self::File { .. } => "file_unreadable",
            Self::Catalog { .. } | Self::EmptyCatalog { .. } | Self::Archive { .. } => {
                "catalog_invalid"
            }
            Self::CatalogRefused { .. } => "catalog_refused",
            Self::NotFinished { .. } => "not_finished",
            Self::PhaseUnreachable { .. } => "failed_terminally",
            Self::Listen { .. } => "listen_failed",
            Self::Process { .. } => "process_failed",
            Self::Demo(_) => "demo_failed",
            Self::Output(_) => "output_failed",
        }
    }

    pub(crate) fn exit(&self) -> Exit {
        match self {
            // The reader closed the pipe, as `… | head` does.
            Self::Output(error) | Self::Demo(DemoError::Output(error))
                if error.kind() == io::ErrorKind::BrokenPipe =>
            {
                Exit::Success
            }
            Self::Usage(_) => Exit::Usage,
            Self::Values(error) if error.is_usage() => Exit::Usage,
            Self::NotFinished { .. } => Exit::NotFinished,
            Self::PhaseUnreachable { .. } => Exit::FailedTerminally,
            Self::Settings(_)
            | Self::Broker(_)
            | Self::Boot(_)
            | Self::Compose { .. }
            | Self::Values(_)
            | Self::File { .. }
            | Self::Catalog { .. }
            | Self::EmptyCatalog { .. }
            | Self::Archive { .. }
            | Self::CatalogRefused { .. }
            | Self::Listen { .. }
            | Self::Process { .. }
            | Self::Demo(_)
            | Self::Output(_) => Exit::Error,
        }
    }

    pub(crate) fn line(&self) -> String {
        format!("error[{}]: {}", self.reason(), in_one_line(self))
    }
}

/// An error with its sources, without repetition: some libraries include the source in their message.
pub(crate) fn in_one_line(error: &dyn std::error::Error) -> String {
    let mut line = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let text = cause.to_string();
        if !line.ends_with(&text) {
            line = format!("{line}: {text}");
        }
        source = cause.source();
    }
    line.replace('\n', " ")
}
