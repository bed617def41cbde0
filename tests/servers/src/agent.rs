//! An agent that behaves like a current `plexd`, for tests: it reads the same files, fails for the same reasons,
//! registers by HTTP and keeps its identity.
//!
//! ```text
//! agent ──── start: the command line, the rights, one registration or none
//!  ├ config ── the rules for config.yaml and the environment
//!  ├ register ─ the request, its refusals, and a control plane that answers them
//!  └ machine ─ what cloud-init and systemd do with a rendered document, below a temporary root
//! ```
//!
//! The real agent runs until it is stopped. This one exits when it would be connected.

mod config;
pub mod machine;
pub mod register;

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use crate::tools::hex;
use config::Config;
use register::{Refusal, RegisterError, Registration, post};

/// The root of the machine's file system; default `/`.
pub const ROOT: &str = "PLEXD_TEST_ROOT";
/// The user of the process; default root.
pub const UID: &str = "PLEXD_TEST_UID";
/// The capabilities of the process, separated by spaces.
pub const CAPABILITIES: &str = "PLEXD_TEST_CAPABILITIES";

const NEEDED_CAPABILITIES: [&str; 2] = ["CAP_NET_ADMIN", "CAP_NET_RAW"];
const MAX_TOKEN_BYTES: usize = 512;
const ATTEMPTS: u32 = 3;

/// What a start led to.
#[derive(Debug, PartialEq, Eq)]
pub enum Started {
    /// It enrolled, as this Node.
    Registered(String),
    /// It had enrolled before, as this Node.
    Resumed(String),
}

/// Why the agent ended. None of the messages repeats the token.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The start command is not the documented one.
    #[error("usage: plexd up [--config FILE]")]
    Usage,
    /// The process lacks a right.
    #[error("{0} is missing")]
    Capability(&'static str),
    /// A file cannot be used.
    #[error("{path}: {problem}")]
    File {
        /// The path on the machine.
        path: String,
        /// Why not.
        problem: String,
    },
    /// A setting is missing or invalid.
    #[error("{0}")]
    Setting(String),
    /// The control plane refused the registration for good.
    #[error("refused: {0}")]
    Refused(Refusal),
    /// No attempt reached the control plane.
    #[error("the control plane does not answer")]
    Unreachable,
}

/// The machine as one process sees it.
#[derive(Debug)]
pub(crate) struct Host {
    root: PathBuf,
    uid: u32,
}

impl AgentError {
    fn file(path: &str, problem: &dyn fmt::Display) -> Self {
        Self::File { path: path.to_owned(), problem: problem.to_string() }
    }

    /// The exit code of the process.
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::Usage => 2,
            Self::Refused(_) => 3,
            Self::Capability(_) | Self::File { .. } | Self::Setting(_) | Self::Unreachable => 1,
        }
    }
}

impl Host {
    pub(crate) fn of(environment: &BTreeMap<String, String>) -> Self {
        let root = environment.get(ROOT).map_or("/", String::as_str).into();
        let uid = environment.get(UID).and_then(|uid| uid.parse().ok()).unwrap_or(0);
        Self { root, uid }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// Reads a file with the rights of the process. Files of a machine belong to root.
    pub(crate) fn read(&self, path: &str) -> Result<String, AgentError> {
        let real = self.path(path);
        let is_private = fs::metadata(&real)
            .map_err(|error| AgentError::file(path, &error.kind()))?
            .permissions()
            .mode()
            & 0o004
            == 0;
        if self.uid != 0 && is_private {
            return Err(AgentError::file(path, &ErrorKind::PermissionDenied));
        }
        fs::read_to_string(real).map_err(|error| AgentError::file(path, &error.kind()))
    }

    fn write_private(&self, path: &str, content: &str) -> Result<(), AgentError> {
        let real = self.path(path);
        let write = || {
            fs::create_dir_all(real.parent().unwrap_or(Path::new("/")))?;
            let mut file =
                fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&real)?;
            file.write_all(content.as_bytes())
        };
        write().map_err(|error| AgentError::file(path, &error.kind()))
    }

    fn delete(&self, path: &str) -> Result<(), AgentError> {
        fs::remove_file(self.path(path)).map_err(|error| AgentError::file(path, &error.kind()))
    }
}

/// Starts the agent with these arguments and this environment.
///
/// # Errors
///
/// As a current `plexd`: before any request for a configuration that cannot register, afterwards for a refusal.
pub fn start(
    arguments: &[String],
    environment: &BTreeMap<String, String>,
) -> Result<Started, AgentError> {
    let words: Vec<_> = arguments.iter().map(String::as_str).collect();
    let path = match words[..] {
        ["up"] => None,
        ["up", "--config", path] => Some(path),
        _ => return Err(AgentError::Usage),
    };
    let capabilities = environment.get(CAPABILITIES).map_or("", String::as_str);
    let has = |name: &&str| capabilities.split(' ').any(|capability| capability == *name);
    if let Some(missing) = NEEDED_CAPABILITIES.into_iter().find(|name| !has(name)) {
        return Err(AgentError::Capability(missing));
    }
    let host = Host::of(environment);
    let config = Config::read(&host, path, environment)?;
    let identity = format!("{}/identity.json", config.data_dir);
    match host.read(&identity) {
        Ok(identity) => {
            let read: Value = serde_json::from_str(&identity).unwrap_or_default();
            let node = read["node_id"].as_str();
            let node = node.ok_or_else(|| AgentError::Setting("the identity is damaged".into()))?;
            Ok(Started::Resumed(node.to_owned()))
        }
        Err(AgentError::File { problem, .. }) if problem == ErrorKind::NotFound.to_string() => {
            register(&host, &config, &identity)
        }
        Err(error) => Err(error),
    }
}

fn register(host: &Host, config: &Config, identity: &str) -> Result<Started, AgentError> {
    let setting = |value: &Option<String>, name: &str| {
        value.clone().ok_or_else(|| AgentError::Setting(format!("{name} is required")))
    };
    let project_id = setting(&config.project_id, "registration.project_id")?;
    let resource_handle = setting(&config.resource_handle, "registration.resource_handle")?;
    let bootstrap_token = match &config.token {
        Some(token) => token.clone(),
        None => host.read(&config.token_file)?,
    };
    let is_printable = bootstrap_token.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    if bootstrap_token.is_empty() || bootstrap_token.len() > MAX_TOKEN_BYTES || !is_printable {
        let problem = "a token has 1 to 512 printable ASCII bytes";
        return Err(AgentError::file(&config.token_file, &problem));
    }
    let (public_key, nonce) = (random()?, random()?);
    let request = Registration { project_id, resource_handle, bootstrap_token, nonce, public_key };
    let node = send(&config.base_url, &request)?;
    let kept = json!({"node_id": node, "public_key": request.public_key}).to_string();
    host.write_private(identity, &kept)?;
    if config.token.is_none() {
        host.delete(&config.token_file)?;
    }
    Ok(Started::Registered(node))
}

/// Retries what is not a refusal.
fn send(base_url: &str, request: &Registration) -> Result<String, AgentError> {
    for _ in 0..ATTEMPTS {
        match post(base_url, request) {
            Ok(node) => return Ok(node),
            Err(RegisterError::Refused(refusal)) => return Err(AgentError::Refused(refusal)),
            Err(RegisterError::NoAnswer) => std::thread::sleep(Duration::from_millis(50)),
        }
    }
    Err(AgentError::Unreachable)
}

fn random() -> Result<String, AgentError> {
    let path = "/dev/urandom";
    let mut bytes = [0; 32];
    fs::File::open(path)
        .and_then(|mut file| file.read_exact(&mut bytes))
        .map_err(|error| AgentError::file(path, &error.kind()))?;
    Ok(hex(&bytes))
}
