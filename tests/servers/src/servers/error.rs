//! What can go wrong with the servers of a run. A server's log is gone with its run, so an error
//! about a server carries the end of it.

use std::{io, path::PathBuf, process::ExitStatus};

/// Why a server, or the directory that it runs in, could not be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServersError {
    /// A file or directory of the run could not be used.
    #[error("cannot {action} {}", path.display())]
    File {
        /// What was tried, as a verb.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },

    /// A program could not be started at all.
    #[error("cannot start {}", program.display())]
    Start {
        /// The program as it was called.
        program: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },

    /// A signal could not be sent.
    #[error("cannot signal {server}")]
    Signal {
        /// The server.
        server: &'static str,
        /// What the system said.
        #[source]
        source: io::Error,
    },

    /// A server was asked for something that only a running one can do.
    #[error("{server} is not running")]
    NotRunning {
        /// The server.
        server: &'static str,
    },

    /// A server ended although it should have gone on.
    #[error("{server} ended with {status} before it was ready; its log ends: {tail}")]
    Ended {
        /// The server.
        server: &'static str,
        /// How it ended.
        status: ExitStatus,
        /// The last lines of its log.
        tail: String,
    },

    /// A server found its port taken. The start is tried again with another one.
    #[error("{server} found its port taken; its log ends: {tail}")]
    PortTaken {
        /// The server.
        server: &'static str,
        /// The last lines of its log.
        tail: String,
    },

    /// A server has one port that it cannot do without, and somebody else has it.
    #[error(
        "{server} needs port {port}, which another program on this machine holds: end that one"
    )]
    PortHeld {
        /// The server.
        server: &'static str,
        /// The port.
        port: u16,
    },

    /// A server runs, but is not ready.
    #[error("{server} was not ready after {seconds} s; its log ends: {tail}")]
    NotReady {
        /// The server.
        server: &'static str,
        /// How long it was waited for.
        seconds: u64,
        /// The last lines of its log.
        tail: String,
    },

    /// A key or certificate could not be made.
    #[error("cannot make the certificate of {subject}")]
    Certificate {
        /// Whose certificate.
        subject: String,
        /// What the library said.
        #[source]
        source: rcgen::Error,
    },

    /// The certificates of the run cannot be used for TLS.
    #[error("cannot use the run's certificates for TLS")]
    Tls {
        /// What the library said.
        #[source]
        source: rustls::Error,
    },

    /// Root has no other user to run the servers as.
    #[error("servers do not run as root, and /etc/passwd has no user `nobody` to run them as")]
    NoUnprivilegedUser,

    /// An address does not end with a port.
    #[error("{url:?} names no port")]
    NoPort {
        /// The address.
        url: String,
    },

    /// A server did not answer a request.
    #[error("no answer to {request}")]
    Unanswered {
        /// What was asked.
        request: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },

    /// The API server refused a request.
    #[error("{request} was answered with {status}: {message}")]
    Refused {
        /// What was asked.
        request: String,
        /// The status of the answer.
        status: u16,
        /// The server's words.
        message: String,
    },

    /// Postgres refused a script.
    #[error("Postgres refused {request:?}: {message}")]
    RefusedScript {
        /// What was asked.
        request: String,
        /// The server's words.
        message: String,
    },

    /// `servers.json` is not what this version writes.
    #[error("cannot read the servers' description {}", path.display())]
    Description {
        /// The file.
        path: PathBuf,
        /// What the library said.
        #[source]
        source: serde_json::Error,
    },
}

impl ServersError {
    /// For `map_err` on anything done to a file.
    pub(crate) fn file(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { action, path, source }
    }
}
