//! The `#cloud-config` document that makes a booting machine enrol.
//!
//! It writes the agent's two files and runs one script that installs and starts the agent. Scripts and units
//! are constant. Variable values appear only in quoted YAML strings or in the argument list of the one
//! command, so that no token, URL or image name can be executed.

use broker_domain::Error;
use secrecy::SecretString;
use serde_json::{Value, json};

use crate::agent::{Agent, AgentSource, ApiUrl};
use crate::document;

/// The smallest limit that a provider sets for user data, in bytes.
pub const MAX_USER_DATA_BYTES: usize = 16 * 1024;

const TOKEN_PATH: &str = "/etc/plexd/bootstrap-token";
const CONFIG_PATH: &str = "/etc/plexd/config.yaml";
const INSTALL_PATH: &str = "/etc/plexd/install";
const UNIT_PATH: &str = "/etc/systemd/system/plexd.service";

/// `$1`: the package, as `name` or `name=version`. The package brings its own unit.
const INSTALL_PACKAGE: &str = r#"#!/bin/sh
set -eu
export DEBIAN_FRONTEND=noninteractive
apt-get update
apt-get install --yes --no-install-recommends -- "$1"
systemctl enable --now plexd.service
"#;

/// `$1`: the image.
const INSTALL_IMAGE: &str = r#"#!/bin/sh
set -eu
export DEBIAN_FRONTEND=noninteractive
if ! command -v podman >/dev/null; then
  apt-get update
  apt-get install --yes --no-install-recommends -- podman
fi
printf 'PLEXD_IMAGE=%s\n' "$1" >/etc/plexd/image.env
systemctl daemon-reload
systemctl enable --now plexd.service
"#;

const UNIT_IMAGE: &str = "[Unit]
Description=plexd
Wants=network-online.target
After=network-online.target

[Service]
EnvironmentFile=/etc/plexd/image.env
ExecStart=/usr/bin/podman run --rm --replace --name=plexd --network=host --cap-add=NET_ADMIN --volume=/etc/plexd:/etc/plexd ${PLEXD_IMAGE}
ExecStop=/usr/bin/podman stop plexd
Restart=always
RestartSec=5

[Install]
WantedBy=multi-user.target
";

/// `$1`: the URL; `$2`: the checksum. The script compares the checksum before it makes the file executable.
/// curl treats brackets in the URL literally and follows no redirect away from TLS. Only the loopback
/// interface allows plain HTTP, which the type of the URL enforces.
const INSTALL_DOWNLOAD: &str = r#"#!/bin/sh
set -eu
umask 077
curl --fail --silent --show-error --location --retry 5 --globoff --proto '=https,http' --proto-redir '=https' --output /usr/local/bin/plexd.part -- "$1"
printf '%s  %s\n' "$2" /usr/local/bin/plexd.part | sha256sum --check --quiet -
chmod 0755 /usr/local/bin/plexd.part
mv /usr/local/bin/plexd.part /usr/local/bin/plexd
systemctl daemon-reload
systemctl enable --now plexd.service
"#;

const UNIT_DOWNLOAD: &str = "[Unit]
Description=plexd
Wants=network-online.target
After=network-online.target

[Service]
ExecStart=/usr/local/bin/plexd
Restart=always
RestartSec=5

[Install]
WantedBy=multi-user.target
";

/// Renders the document.
pub(crate) fn document(token: &str, api_url: &ApiUrl, agent: &Agent) -> Result<String, Error> {
    let (install, unit, arguments) = match &agent.source {
        AgentSource::Package(package) => (INSTALL_PACKAGE, None, vec![package.argument()]),
        AgentSource::Image(image) => {
            (INSTALL_IMAGE, Some(UNIT_IMAGE), vec![image.as_str().to_owned()])
        }
        AgentSource::Download(download) => {
            let arguments = vec![download.url().to_owned(), download.sha256().to_owned()];
            (INSTALL_DOWNLOAD, Some(UNIT_DOWNLOAD), arguments)
        }
    };
    let config = format!("api_url: {}\n", string(api_url.as_str()));
    let mut files = vec![
        file(TOKEN_PATH, "0600", &string(token)),
        file(CONFIG_PATH, "0600", &string(&config)),
        file(INSTALL_PATH, "0700", &block(install)),
    ];
    files.extend(unit.map(|unit| file(UNIT_PATH, "0644", &block(unit))));
    let command: Vec<_> = ["/bin/sh", INSTALL_PATH]
        .into_iter()
        .chain(arguments.iter().map(String::as_str))
        .map(string)
        .collect();
    let (files, command) = (files.concat(), command.join(", "));
    let document = format!("#cloud-config\nwrite_files:\n{files}runcmd:\n- [{command}]\n");
    if document.len() <= MAX_USER_DATA_BYTES {
        return Ok(document);
    }
    let length = document.len();
    let problem = format!("would be {length} bytes; a machine takes at most {MAX_USER_DATA_BYTES}");
    Err(Error::invalid("spec.userData", problem))
}

/// Extracts the token from a document that [`document`] wrote.
pub(crate) fn token_in(text: &str) -> Option<SecretString> {
    let document = document::read("userData", text.as_bytes()).ok()?;
    let files = document.get("write_files")?.as_array()?;
    let file = files.iter().find(|file| file.get("path") == Some(&json!(TOKEN_PATH)))?;
    file.get("content")?.as_str().map(SecretString::from)
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

/// Constant text as a readable literal block.
fn block(text: &str) -> String {
    let lines = text.trim_end().lines();
    let indented = lines.map(|line| match line {
        "" => String::new(),
        line => format!("    {line}"),
    });
    format!("|\n{}", indented.collect::<Vec<_>>().join("\n"))
}
