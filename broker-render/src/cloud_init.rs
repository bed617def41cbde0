//! The `#cloud-config` document that makes a booting machine enrol.
//!
//! It writes the agent's files and runs one script that installs and starts the agent. Scripts are constant.
//! Variable values appear only in quoted YAML strings, in the argument list of the one command, and as quoted
//! words of a unit's command line, so that no token, URL or image name can be executed.

mod unit;

use broker_domain::{Error, ProjectId, ResourceHandle};
use secrecy::SecretString;
use serde_json::Value;

use crate::agent::file::{Content, Field, Node};
use crate::agent::profile::{AgentProfile, AgentValue, AgentVariable, PLEXD_TOKEN};
use crate::agent::{Agent, AgentSource, ApiUrl};
use crate::document;

/// The smallest limit that a provider sets for user data, in bytes.
pub const MAX_USER_DATA_BYTES: usize = 16 * 1024;

/// The comment on the second line of a document: the path of the file with the token, and in a YAML file the path
/// of the field. A later reader of the live object may have another profile.
const TOKEN_COMMENT: &str = "# bootstrap-token: ";

/// The values of an enrolment.
#[derive(Clone, Copy)]
pub(crate) struct Enrolment<'a> {
    pub(crate) token: &'a str,
    pub(crate) api_url: &'a ApiUrl,
    pub(crate) project: ProjectId,
    pub(crate) handle: &'a ResourceHandle,
}

/// `$1`: the package, as `name` or `name=version`; `$2`: the unit, which the package brings. The package may own
/// the configuration file as well: dpkg would ask which of the two to keep, and fail without a terminal.
const INSTALL_PACKAGE: &str = r#"#!/bin/sh
set -eu
export DEBIAN_FRONTEND=noninteractive
apt-get update
apt-get install --yes --no-install-recommends -o Dpkg::Options::=--force-confold -- "$1"
systemctl daemon-reload
systemctl enable --now "$2"
"#;

/// `$1`: the unit, which names the image.
const INSTALL_IMAGE: &str = r#"#!/bin/sh
set -eu
export DEBIAN_FRONTEND=noninteractive
if ! command -v podman >/dev/null; then
  apt-get update
  apt-get install --yes --no-install-recommends -- podman
fi
systemctl daemon-reload
systemctl enable --now "$1"
"#;

/// `$1`: the URL; `$2`: the checksum; `$3`: the binary; `$4`: the unit. The script compares the checksum before it
/// makes the file executable. curl treats brackets in the URL literally and follows no redirect away from TLS. Only
/// the loopback interface allows plain HTTP, which the type of the URL enforces.
const INSTALL_DOWNLOAD: &str = r#"#!/bin/sh
set -eu
umask 077
curl --fail --silent --show-error --location --retry 5 --globoff --proto '=https,http' --proto-redir '=https' --output "$3.part" -- "$1"
printf '%s  %s\n' "$2" "$3.part" | sha256sum --check --quiet -
chmod 0755 "$3.part"
mv "$3.part" "$3"
systemctl daemon-reload
systemctl enable --now "$4"
"#;

/// Renders the document.
pub(crate) fn document(enrolment: &Enrolment<'_>, agent: &Agent) -> Result<String, Error> {
    let profile = &agent.profile;
    let service = format!("{}.service", profile.service());
    let (install, arguments) = match &agent.source {
        AgentSource::Package(package) => (INSTALL_PACKAGE, vec![package.argument(), service]),
        AgentSource::Image(_) => (INSTALL_IMAGE, vec![service]),
        AgentSource::Download(download) => {
            let (url, sha256) = (download.url().to_owned(), download.sha256().to_owned());
            (INSTALL_DOWNLOAD, vec![url, sha256, unit::binary(profile), service])
        }
    };
    let install_path = profile.install_path();
    let (unit_path, unit) = unit::unit(enrolment, agent);
    let mut files: Vec<_> = profile
        .files()
        .iter()
        .map(|(path, content)| file(path, "0600", &string(&text_of(&content.0, enrolment))))
        .collect();
    files.push(file(&install_path, "0700", &block(install)));
    files.push(file(&unit_path, "0644", &block(&unit)));
    let command: Vec<_> = ["/bin/sh", &install_path]
        .into_iter()
        .chain(arguments.iter().map(String::as_str))
        .map(string)
        .collect();
    let (files, command, place) = (files.concat(), command.join(", "), token_place(profile));
    let document = format!(
        "#cloud-config\n{TOKEN_COMMENT}{place}\nwrite_files:\n{files}runcmd:\n- [{command}]\n"
    );
    if document.len() <= MAX_USER_DATA_BYTES {
        return Ok(document);
    }
    let length = document.len();
    let problem = format!("would be {length} bytes; a machine takes at most {MAX_USER_DATA_BYTES}");
    Err(Error::invalid("spec.userData", problem))
}

/// The bootstrap token in a cloud-init document that this crate rendered, for any profile.
///
/// ```
/// let document = "#cloud-config\n# bootstrap-token: /etc/meshd/agent.yaml server.token\nwrite_files:\n\
///                 - {path: /etc/meshd/agent.yaml, content: 'server: {token: secret}'}\n";
/// use secrecy::ExposeSecret;
/// assert_eq!(broker_render::token_in(document).unwrap().expose_secret(), "secret");
/// ```
pub fn token_in(document: &str) -> Option<SecretString> {
    // A document of an earlier release has no comment; its profile was plexd.
    let comment = document.lines().nth(1).and_then(|line| line.strip_prefix(TOKEN_COMMENT));
    let (path, key) = comment.map_or((PLEXD_TOKEN, None), |place| {
        place.split_once(' ').map_or((place, None), |(path, key)| (path, Some(key)))
    });
    let read = document::read("userData", document.as_bytes()).ok()?;
    let files = read.get("write_files")?.as_array()?;
    let is_token_file = |file: &&Value| file.get("path").and_then(Value::as_str) == Some(path);
    let content = files.iter().find(is_token_file)?.get("content")?.as_str()?;
    match key {
        None => Some(SecretString::from(content)),
        Some(key) => {
            let content = document::read("content", content.as_bytes()).ok()?;
            let field = key.split('.').try_fold(&content, |value, step| value.get(step))?;
            field.as_str().map(SecretString::from)
        }
    }
}

fn token_place(profile: &AgentProfile) -> String {
    match profile.token_place() {
        (path, key) if key.is_empty() => path.to_owned(),
        (path, key) => format!("{path} {key}"),
    }
}

fn value_of(value: &AgentValue, enrolment: &Enrolment<'_>) -> String {
    match value {
        AgentValue::Constant(text) => text.clone(),
        AgentValue::Variable(AgentVariable::Token) => enrolment.token.to_owned(),
        AgentValue::Variable(AgentVariable::ApiUrl) => enrolment.api_url.as_str().to_owned(),
        AgentValue::Variable(AgentVariable::Project) => enrolment.project.to_string(),
        AgentValue::Variable(AgentVariable::ResourceHandle) => enrolment.handle.as_str().to_owned(),
    }
}

fn text_of(content: &Content, enrolment: &Enrolment<'_>) -> String {
    match content {
        Content::Text(value) => value_of(value, enrolment),
        Content::Yaml(fields) => yaml(fields, 0, enrolment),
    }
}

/// Quotes every value: a handle or an id may look like a number or a boolean. So may a short key.
fn yaml(fields: &[Field], depth: usize, enrolment: &Enrolment<'_>) -> String {
    let is_plain = |key: &str| {
        let is_boolean = ["yes", "no", "on", "off", "true", "false", "null"].contains(&key);
        key.len() > 1 && !is_boolean && key.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')
    };
    let line = |field: &Field| {
        let key = if is_plain(&field.key) { field.key.clone() } else { string(&field.key) };
        let indent = "  ".repeat(depth);
        match &field.node {
            Node::Value(value) => {
                format!("{indent}{key}: {}\n", string(&value_of(value, enrolment)))
            }
            Node::Fields(below) => format!("{indent}{key}:\n{}", yaml(below, depth + 1, enrolment)),
        }
    };
    fields.iter().map(line).collect()
}

fn file(path: &str, permissions: &str, content: &str) -> String {
    let owner = "root:root";
    format!(
        "- path: {path}\n  owner: {owner}\n  permissions: \"{permissions}\"\n  content: {content}\n"
    )
}

/// A string that YAML reads verbatim: JSON's quoting is a subset of YAML's.
fn string(text: &str) -> String {
    Value::from(text).to_string()
}

/// Multi-line text without variables at a line's start, as a readable literal block.
fn block(text: &str) -> String {
    let lines = text.trim_end().lines();
    let indented = lines.map(|line| match line {
        "" => String::new(),
        line => format!("    {line}"),
    });
    format!("|\n{}", indented.collect::<Vec<_>>().join("\n"))
}
