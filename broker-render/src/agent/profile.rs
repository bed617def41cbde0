//! The contract of an agent: the files that it reads, the command that starts it, and the rights that it needs.
//!
//! A profile is data, not text: each variable fills a whole file, a string of a YAML file, or one argument of the
//! start command. The renderer quotes it there, so that no value can become a key, a second argument or a command.

use broker_domain::Error;

use super::file::{AgentFile, Content, Field, Node};
use crate::text::{list, quoted};

/// What the broker writes for an agent on a machine that boots with cloud-init.
///
/// ```
/// use broker_render::{AgentFile, AgentProfile, AgentVariable};
///
/// let settings = AgentFile::yaml([
///     ("server.url", AgentVariable::ApiUrl.into()),
///     ("server.tenant", AgentVariable::Project.into()),
///     ("server.token", AgentVariable::Token.into()),
/// ])?;
/// let profile = AgentProfile::new("meshd", [("/etc/meshd/agent.yaml", settings)])?
///     .with_arguments(["serve".into(), "--name".into(), AgentVariable::ResourceHandle.into()])?
///     .with_state_directory("/var/lib/meshd")?
///     .with_capabilities(["CAP_NET_ADMIN"])?;
/// assert_eq!(profile.service(), "meshd");
/// # Ok::<(), broker_domain::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentProfile {
    service: String,
    files: Vec<(String, AgentFile)>,
    arguments: Vec<AgentValue>,
    state_directory: Option<String>,
    capabilities: Vec<String>,
}

/// A constant, or a variable of the enrolment.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum AgentValue {
    /// The same text on every machine.
    Constant(String),
    /// A value that differs between installations or machines.
    Variable(AgentVariable),
}

/// A value that the broker supplies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum AgentVariable {
    /// The bootstrap token. A profile writes it exactly once, and into a file.
    Token,
    /// The URL of the control plane.
    ApiUrl,
    /// The id of the Project.
    Project,
    /// The handle of the Resource.
    ResourceHandle,
}

impl From<AgentVariable> for AgentValue {
    fn from(variable: AgentVariable) -> Self {
        Self::Variable(variable)
    }
}

impl From<&str> for AgentValue {
    fn from(constant: &str) -> Self {
        Self::Constant(constant.to_owned())
    }
}

impl AgentValue {
    pub(super) const fn is_token(&self) -> bool {
        matches!(self, Self::Variable(AgentVariable::Token))
    }
}

impl Default for AgentProfile {
    /// [`AgentProfile::plexd`].
    fn default() -> Self {
        Self::plexd()
    }
}

impl AgentProfile {
    /// The names of the profiles that [`AgentProfile::shipped`] knows.
    pub const SHIPPED: [&'static str; 2] = ["plexd", "plexd-early-2026"];

    /// A profile by its name.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidInput`] for a name that is not in [`AgentProfile::SHIPPED`].
    pub fn shipped(name: &str) -> Result<Self, Error> {
        match name {
            "plexd" => Ok(Self::plexd()),
            "plexd-early-2026" => Ok(Self::plexd_early_2026()),
            _ => {
                let allowed = list(Self::SHIPPED);
                Err(invalid("name", format!("is {}; use one of {allowed}", quoted(name))))
            }
        }
    }

    /// A current `plexd`, started as `plexd up --config /etc/plexd/config.yaml`.
    pub fn plexd() -> Self {
        let field = |key: &str, node| Field { key: key.to_owned(), node };
        let value = |key, value| field(key, Node::Value(value));
        let registration = vec![
            value("project_id", AgentVariable::Project.into()),
            value("resource_handle", AgentVariable::ResourceHandle.into()),
        ];
        let base_url = vec![value("base_url", AgentVariable::ApiUrl.into())];
        let config = vec![
            field("api", Node::Fields(base_url)),
            field("registration", Node::Fields(registration)),
            value("data_dir", PLEXD_STATE.into()),
        ];
        Self {
            arguments: ["up", "--config", PLEXD_CONFIG].map(AgentValue::from).to_vec(),
            ..Self::plexd_with(config)
        }
    }

    /// A `plexd` released in early 2026, started without arguments. It reads a top-level `api_url` and ignores other
    /// fields.
    pub fn plexd_early_2026() -> Self {
        let node = Node::Value(AgentVariable::ApiUrl.into());
        Self::plexd_with(vec![Field { key: "api_url".to_owned(), node }])
    }

    fn plexd_with(config: Vec<Field>) -> Self {
        Self {
            service: "plexd".to_owned(),
            files: vec![
                (PLEXD_TOKEN.to_owned(), AgentFile::text(AgentVariable::Token)),
                (PLEXD_CONFIG.to_owned(), AgentFile(Content::Yaml(config))),
            ],
            arguments: Vec::new(),
            state_directory: Some(PLEXD_STATE.to_owned()),
            capabilities: ["CAP_NET_ADMIN", "CAP_NET_RAW"].map(str::to_owned).to_vec(),
        }
    }

    /// A profile of an agent that starts without arguments and keeps nothing. The service is the name of its systemd
    /// unit, container and binary. Each file is written with mode 0600, owned by root.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidInput`] when the service or a path is malformed, or when the files do not contain the token
    /// exactly once.
    pub fn new<'a>(
        service: &str,
        files: impl IntoIterator<Item = (&'a str, AgentFile)>,
    ) -> Result<Self, Error> {
        let starts_well = service.starts_with(|c: char| c.is_ascii_lowercase());
        if !is_word(service) || !starts_well || service.len() > MAX_SERVICE_BYTES {
            let allowed = "use letters, digits, - and _, the first a lower-case letter";
            return Err(invalid("service", format!("is {}; {allowed}", quoted(service))));
        }
        let mut profile = Self {
            service: service.to_owned(),
            files: Vec::new(),
            arguments: Vec::new(),
            state_directory: None,
            capabilities: Vec::new(),
        };
        for (path, file) in files {
            require_path("file", path)?;
            let taken = profile.files.iter().any(|(other, _)| other == path);
            if taken || path == profile.install_path() {
                return Err(invalid(
                    "file",
                    format!("{} is taken; use another path", quoted(path)),
                ));
            }
            profile.files.push((path.to_owned(), file));
        }
        let uses: usize = profile.files.iter().map(|(_, file)| file.token_keys().len()).sum();
        if uses != 1 {
            let problem = format!("contain the token {uses} times; write it once");
            return Err(invalid("files", problem));
        }
        Ok(profile)
    }

    /// Sets the arguments of the start command.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidInput`] for the token, which every user of the machine would see, and for a constant that is
    /// not printable ASCII.
    pub fn with_arguments(
        mut self,
        arguments: impl IntoIterator<Item = AgentValue>,
    ) -> Result<Self, Error> {
        self.arguments = arguments.into_iter().collect();
        for argument in &self.arguments {
            match argument {
                AgentValue::Variable(AgentVariable::Token) => {
                    let problem = "contain the token, which every user would see; use a file";
                    return Err(invalid("arguments", problem));
                }
                AgentValue::Constant(text) if !text.bytes().all(|b| matches!(b, b' '..=b'~')) => {
                    let problem = format!("contain {}; use printable ASCII", quoted(text));
                    return Err(invalid("arguments", problem));
                }
                AgentValue::Variable(_) | AgentValue::Constant(_) => {}
            }
        }
        Ok(self)
    }

    /// Sets the directory in which the agent keeps its identity. The unit creates it with mode 0700, and a container
    /// mounts it.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidInput`] when it is not an absolute path like that of a file.
    pub fn with_state_directory(mut self, path: &str) -> Result<Self, Error> {
        require_path("state_directory", path)?;
        self.state_directory = Some(path.to_owned());
        Ok(self)
    }

    /// Sets the capabilities that the agent needs. It gets no others, except from the unit of a package.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidInput`] for a name that does not look like `CAP_NET_ADMIN`.
    pub fn with_capabilities<'a>(
        mut self,
        names: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, Error> {
        self.capabilities = names.into_iter().map(str::to_owned).collect();
        let is_capability = |name: &str| {
            let rest = name.strip_prefix("CAP_").unwrap_or_default();
            !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_uppercase() || b == b'_')
        };
        match self.capabilities.iter().find(|name| !is_capability(name)) {
            Some(name) => {
                let problem = format!("contain {}; use names such as CAP_NET_ADMIN", quoted(name));
                Err(invalid("capabilities", problem))
            }
            None => Ok(self),
        }
    }

    /// The name of its systemd unit, container and binary.
    pub fn service(&self) -> &str {
        &self.service
    }

    pub(crate) fn files(&self) -> &[(String, AgentFile)] {
        &self.files
    }

    pub(crate) fn arguments(&self) -> &[AgentValue] {
        &self.arguments
    }

    pub(crate) fn state_directory(&self) -> Option<&str> {
        self.state_directory.as_deref()
    }

    pub(crate) fn capabilities(&self) -> &[String] {
        &self.capabilities
    }

    pub(crate) fn install_path(&self) -> String {
        format!("/etc/{}/install", self.service)
    }

    /// The directories that a container needs from the machine, without duplicates.
    pub(crate) fn directories(&self) -> Vec<&str> {
        let of_files = self.files.iter().filter_map(|(path, _)| Some(path.rsplit_once('/')?.0));
        let mut directories: Vec<_> = of_files.chain(self.state_directory()).collect();
        directories.sort_unstable();
        directories.dedup();
        directories
    }

    /// The file with the token, and the path of the field, empty for the whole file.
    pub(crate) fn token_place(&self) -> (&str, String) {
        let places = self.files.iter().map(|(path, file)| (path.as_str(), file.token_keys()));
        let mut places = places.filter_map(|(path, keys)| Some((path, keys.into_iter().next()?)));
        places.next().unwrap_or_default()
    }
}

/// The file from which a `plexd` reads its token.
pub(crate) const PLEXD_TOKEN: &str = "/etc/plexd/bootstrap-token";
const PLEXD_CONFIG: &str = "/etc/plexd/config.yaml";
const PLEXD_STATE: &str = "/var/lib/plexd";

const MAX_SERVICE_BYTES: usize = 63;

pub(super) fn invalid(field: &str, problem: impl Into<String>) -> Error {
    Error::invalid(format!("agent.profile.{field}"), problem)
}

pub(super) fn is_word(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    !text.is_empty() && text.len() <= 128 && text.chars().all(allowed)
}

/// Requires a path at least two directories deep: a container mounts the directory, which must not be `/etc`.
fn require_path(field: &str, path: &str) -> Result<(), Error> {
    let is_name = |name: &str| {
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        !name.is_empty() && !name.starts_with(['.', '-']) && name.chars().all(allowed)
    };
    let names: Vec<_> = path.split('/').skip(1).collect();
    if path.starts_with('/')
        && path.len() <= 255
        && names.len() >= 3
        && names.into_iter().all(is_name)
    {
        return Ok(());
    }
    let allowed = "use an absolute path such as /etc/NAME/FILE of letters, digits and -_.";
    Err(invalid(field, format!("{} is not usable; {allowed}", quoted(path))))
}
