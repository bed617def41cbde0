//! The agent: its contract, its control plane and its delivery, configured by the embedder.
//!
//! Each value enters a document that a machine executes as root. Each is therefore a type whose constructor
//! rejects every character with a special meaning there.

pub(crate) mod file;
pub(crate) mod profile;

use std::fmt;
use std::sync::LazyLock;

use broker_domain::{Error, ProjectId, ResourceHandle};
use regex::Regex;

use crate::cloud_init::{self, Enrolment};
use crate::injection::MAX_TOKEN_BYTES;
use crate::text::quoted;

use profile::AgentProfile;

const MAX_URL_BYTES: usize = 2048;

/// `[host[:port]/]path[:tag][@digest]`, as registries write it.
static IMAGE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let label = "[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?";
    let host = format!(r"{label}(?:\.{label})*(?::[0-9]{{1,5}})?");
    let component = r"[a-z0-9]+(?:(?:\.|__?|-+)[a-z0-9]+)*";
    let path = format!("{component}(?:/{component})*");
    let tag = "[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}";
    let digest = "[a-z][a-z0-9]*:[0-9a-f]+";
    Regex::new(&format!("^(?:{host}/)?{path}(?::{tag})?(?:@{digest})?$")).ok()
});

/// The agent, for both kinds of delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Agent {
    /// The contract with a machine that boots with cloud-init.
    pub profile: AgentProfile,
    /// The delivery to a machine that boots with cloud-init.
    pub source: AgentSource,
    /// The image of a Helm release.
    pub image: ImageReference,
}

/// The delivery of the agent to a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum AgentSource {
    /// A Debian package from the machine's own package sources; apt verifies it.
    Package(DebianPackage),
    /// An OCI image, run by podman. Pin it by digest.
    Image(ImageReference),
    /// A binary; its checksum is verified before execution.
    Download(Download),
}

/// A Debian package, optionally with a version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DebianPackage {
    name: String,
    version: Option<String>,
}

/// A reference to an OCI image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageReference(String);

/// A file on a web server and its checksum.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Download {
    url: ApiUrl,
    sha256: String,
}

/// The URL of the control plane, or of a download: `https`, or `http` on the loopback interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiUrl(String);

impl Default for Agent {
    /// A current `plexd`: the package `plexd` in any version that the machine's package sources offer, and the image
    /// `plexsphere/plexd:stable`. Pin both for reproducible machines.
    fn default() -> Self {
        Self {
            profile: AgentProfile::plexd(),
            source: AgentSource::Package(DebianPackage { name: "plexd".to_owned(), version: None }),
            image: ImageReference("plexsphere/plexd:stable".to_owned()),
        }
    }
}

impl Agent {
    /// Sets the contract.
    #[must_use]
    pub fn with_profile(mut self, profile: AgentProfile) -> Self {
        self.profile = profile;
        self
    }

    /// Sets the delivery to machines.
    #[must_use]
    pub fn with_source(mut self, source: AgentSource) -> Self {
        self.source = source;
        self
    }

    /// Sets the image for Helm releases.
    #[must_use]
    pub fn with_image(mut self, image: ImageReference) -> Self {
        self.image = image;
        self
    }

    /// Checks that the largest cloud-init document of this agent fits: the one with the longest token and handle.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidInput`] when it would exceed [`crate::MAX_USER_DATA_BYTES`].
    pub fn check(&self, api_url: &ApiUrl) -> Result<(), Error> {
        // Quoting a backslash doubles it.
        let token = "\\".repeat(MAX_TOKEN_BYTES);
        let handle = ResourceHandle::new("h".repeat(ResourceHandle::MAX_LENGTH))?;
        let project: ProjectId = "5e0c4a36-7d0e-4c39-9c1c-3f3d6f1f2a10".parse()?;
        let enrolment = Enrolment { token: &token, api_url, project, handle: &handle };
        cloud_init::document(&enrolment, self).map(drop)
    }
}

impl DebianPackage {
    /// A package by name, in any version.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidInput`] when the text is not a Debian package name, or when apt would read its suffix
    /// as a command: `name-` removes, `name+` installs.
    pub fn new(name: impl Into<String>) -> Result<Self, Error> {
        let name = name.into();
        let is_apt_command = name.ends_with('-') || (name.ends_with('+') && !name.ends_with("++"));
        let valid = (2..=128).contains(&name.len())
            && !is_apt_command
            && name.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
            && name.chars().all(|c| {
                c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '+' | '-' | '.')
            });
        if valid {
            return Ok(Self { name, version: None });
        }
        let problem = format!("is {}; use a Debian package name", quoted(&name));
        Err(Error::invalid("agent.package.name", problem))
    }

    /// Selects one version.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidInput`] when the text is not a Debian version.
    pub fn in_version(mut self, version: impl Into<String>) -> Result<Self, Error> {
        let version = version.into();
        let valid = (1..=128).contains(&version.len())
            && version.starts_with(|c: char| c.is_ascii_digit())
            // As a suffix, apt reads `-` and `+` as commands; a version cannot end in the other two.
            && !version.ends_with(['-', '+', ':', '~'])
            && version
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '+' | '-' | ':' | '~'));
        if !valid {
            let problem = format!("is {}; use a Debian version", quoted(&version));
            return Err(Error::invalid("agent.package.version", problem));
        }
        self.version = Some(version);
        Ok(self)
    }

    /// The argument for apt: `name` or `name=version`.
    pub(crate) fn argument(&self) -> String {
        match &self.version {
            Some(version) => format!("{}={version}", self.name),
            None => self.name.clone(),
        }
    }
}

impl ImageReference {
    /// A reference such as `plexsphere/plexd:1.4`, or one with a digest.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidInput`] when the text is not an image reference.
    pub fn new(reference: impl Into<String>) -> Result<Self, Error> {
        let reference = reference.into();
        let is_reference = IMAGE.as_ref().is_some_and(|image| image.is_match(&reference));
        let valid = reference.len() <= 512 && is_reference;
        if valid {
            return Ok(Self(reference));
        }
        let problem = format!("is {}; use an image reference", quoted(&reference));
        Err(Error::invalid("agent.image", problem))
    }

    /// The reference.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Download {
    /// A file with its SHA-256 checksum of 64 hexadecimal digits.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidInput`] when the checksum is malformed.
    pub fn new(url: ApiUrl, sha256: impl Into<String>) -> Result<Self, Error> {
        let sha256 = sha256.into().to_ascii_lowercase();
        if sha256.len() == 64 && sha256.chars().all(|c| c.is_ascii_hexdigit()) {
            return Ok(Self { url, sha256 });
        }
        let problem = format!("is {}; use 64 hexadecimal digits", quoted(&sha256));
        Err(Error::invalid("agent.download.sha256", problem))
    }

    pub(crate) fn url(&self) -> &str {
        self.url.as_str()
    }

    pub(crate) fn sha256(&self) -> &str {
        &self.sha256
    }
}

impl ApiUrl {
    /// Accepts an absolute URL with a host, without credentials or fragment.
    ///
    /// ```
    /// use broker_render::ApiUrl;
    ///
    /// assert!(ApiUrl::new("https://api.plexsphere.example").is_ok());
    /// assert!(ApiUrl::new("http://127.0.0.1:8080").is_ok());
    /// assert!(ApiUrl::new("http://api.plexsphere.example").is_err());
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::InvalidInput`] for anything else.
    pub fn new(url: impl Into<String>) -> Result<Self, Error> {
        let url = url.into();
        let invalid = |problem: &str| {
            let allowed = "use https://host[:port][/path], or http on the loopback interface";
            Err(Error::invalid("api_url", format!("{problem}; {allowed}")))
        };
        if url.len() > MAX_URL_BYTES {
            return invalid(&format!("is longer than {MAX_URL_BYTES} bytes"));
        }
        let allowed = |c: char| c.is_ascii_alphanumeric() || "-._~:/?[]!&'()*+,;=%@$".contains(c);
        if !url.chars().all(allowed) {
            return invalid("contains a character that is not allowed in a URL");
        }
        let Some((scheme, rest)) = url.split_once("://") else {
            return invalid("has no scheme");
        };
        let authority = rest.split(['/', '?']).next().unwrap_or_default();
        if authority.contains('@') {
            return invalid("holds credentials");
        }
        let Some(host) = host_of(authority) else {
            return invalid("has no host, or no valid port");
        };
        let loopback = ["localhost", "127.0.0.1", "[::1]"].contains(&host);
        if scheme == "https" || (scheme == "http" && loopback) {
            return Ok(Self(url));
        }
        invalid("has an unsupported scheme")
    }

    /// The URL.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ApiUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn host_of(authority: &str) -> Option<&str> {
    let bracket = authority.rfind(']').map_or(0, |end| end + 1);
    let (host, port) = match authority[bracket..].find(':') {
        Some(colon) => {
            let (host, port) = authority.split_at(bracket + colon);
            (host, Some(&port[1..]))
        }
        None => (authority, None),
    };
    let host_is_valid = if let Some(inner) = host.strip_prefix('[') {
        inner.strip_suffix(']')?.parse::<std::net::Ipv6Addr>().is_ok()
    } else {
        let valid = |c: char| c.is_ascii_alphanumeric() || c == '-';
        let is_label =
            |label: &str| !label.is_empty() && !label.starts_with('-') && label.chars().all(valid);
        host.split('.').all(is_label)
    };
    // Checks digits, because the number parser accepts a sign.
    let is_port = |port: &str| {
        port.chars().all(|c| c.is_ascii_digit()) && port.parse::<u16>().is_ok_and(|port| port > 0)
    };
    let port_is_valid = port.is_none_or(is_port);
    (host_is_valid && port_is_valid).then_some(host)
}
