//! The systemd unit that starts the agent, for each source.

use super::{Enrolment, value_of};
use crate::agent::profile::AgentProfile;
use crate::agent::{Agent, AgentSource, ImageReference};

/// The path and the text of the unit, or of the drop-in for the unit of a package.
pub(super) fn unit(enrolment: &Enrolment<'_>, agent: &Agent) -> (String, String) {
    let profile = &agent.profile;
    let name = profile.service();
    let arguments = profile.arguments().iter().map(|value| word(&value_of(value, enrolment)));
    let arguments: Vec<_> = arguments.collect();
    let own = format!("/etc/systemd/system/{name}.service");
    match &agent.source {
        AgentSource::Package(_) => {
            (format!("{own}.d/broker.conf"), drop_in(&command(name, &arguments)))
        }
        AgentSource::Image(image) => {
            let start = command(&podman_run(profile, image), &arguments);
            let stop = format!("ExecStop=/usr/bin/podman stop {name}\n");
            (own, own_unit(profile, &start, &stop))
        }
        AgentSource::Download(_) => {
            let capabilities = profile.capabilities().join(" ");
            let rights = format!(
                "AmbientCapabilities={capabilities}\nCapabilityBoundingSet={capabilities}\n"
            );
            (own, own_unit(profile, &command(&binary(profile), &arguments), &rights))
        }
    }
}

/// The path of a downloaded binary.
pub(super) fn binary(profile: &AgentProfile) -> String {
    format!("/usr/local/bin/{}", profile.service())
}

/// The package's unit knows the agent's rights, and where the binary is. It may not know the start command, and it may
/// run as a user who cannot read the files that cloud-init writes: they belong to root.
fn drop_in(start: &str) -> String {
    format!("[Service]\nUser=root\nExecStart=\nExecStart={start}\n")
}

fn own_unit(profile: &AgentProfile, start: &str, more: &str) -> String {
    let name = profile.service();
    // Neither podman nor every agent creates the directory.
    let prepare = profile
        .state_directory()
        .map(|path| format!("ExecStartPre=/bin/mkdir -p -m 0700 {path}\n"))
        .unwrap_or_default();
    format!(
        "[Unit]
Description={name}
Wants=network-online.target
After=network-online.target

[Service]
{prepare}ExecStart={start}
{more}Restart=always
RestartSec=5

[Install]
WantedBy=multi-user.target
"
    )
}

/// The image's entry point is the agent; the arguments follow the image.
///
/// The container runs as root, whatever user the image names. The files are readable by root only, and the agent deletes
/// its token, so it has to own them. Giving them to uid 65534 instead would give token and identity to every process of
/// the machine that runs as `nobody`. Without the default capabilities, root in the container may do what the profile
/// says and use its own files.
fn podman_run(profile: &AgentProfile, image: &ImageReference) -> String {
    let mut words: Vec<_> =
        ["/usr/bin/podman", "run", "--rm", "--replace"].map(str::to_owned).to_vec();
    words.push(format!("--name={}", profile.service()));
    words.extend(["--network=host", "--user=0:0", "--cap-drop=all"].map(str::to_owned));
    words.extend(profile.capabilities().iter().map(|name| format!("--cap-add={name}")));
    words.extend(profile.directories().iter().map(|path| format!("--volume={path}:{path}")));
    words.push(word(image.as_str()));
    words.join(" ")
}

fn command(program: &str, arguments: &[String]) -> String {
    [&[program.to_owned()], arguments].concat().join(" ")
}

/// A word that systemd passes on verbatim: quoted, without specifiers (`%`) and variables (`$`).
fn word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._/:@=+,".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '%' | '$' => quoted.extend([c, c]),
            _ => quoted.push(c),
        }
    }
    quoted + "\""
}
