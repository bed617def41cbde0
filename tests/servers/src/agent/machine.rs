//! A machine below a temporary root: it does with a rendered document what cloud-init, systemd and podman do.
//!
//! The document's script runs with `apt-get`, `podman`, `systemctl` and `curl` replaced by recorders. The agent starts as
//! the unit says, with the user, the capabilities and the files that the unit gives it.

mod unit;

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context as _, Result, bail, ensure};
use broker_app::render::read_document;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

use super::{CAPABILITIES, ROOT, UID};
use crate::tools::hex;
use unit::Unit;

/// The user of the image.
const IMAGE_UID: &str = "65534";

/// What `curl` downloads: a program that runs the agent.
const DOWNLOAD: &str = "#!/bin/sh\nexec \"$PLEXD_TEST_PROGRAM\" \"$@\"\n";

/// Records the call. Installs podman as a recorder, and plexd with a unit of the package that starts it as early
/// releases did, as a user without access to the files of root.
const APT_GET: &str = r#"#!/bin/sh
set -eu
echo "apt-get $*" >>"$PLEXD_TEST_ROOT/log"
for package; do :; done
case "$1 $package" in
"install podman") : >"$PLEXD_TEST_ROOT/usr/bin/podman" ;;
"install plexd" | "install plexd="*)
  printf '#!/bin/sh\nexec "$PLEXD_TEST_PROGRAM" "$@"\n' >"$PLEXD_TEST_ROOT/usr/bin/plexd"
  chmod 0755 "$PLEXD_TEST_ROOT/usr/bin/plexd"
  printf '[Service]\nUser=plexd\nExecStart=/usr/bin/plexd\n' >"$PLEXD_TEST_ROOT/lib/systemd/system/plexd.service"
  ;;
esac
"#;

const SYSTEMCTL: &str = "#!/bin/sh\necho \"systemctl $*\" >>\"$PLEXD_TEST_ROOT/log\"\n";

const CURL: &str = r#"#!/bin/sh
set -eu
echo "curl $*" >>"$PLEXD_TEST_ROOT/log"
while [ "$1" != --output ]; do shift; done
printf '#!/bin/sh\nexec "$PLEXD_TEST_PROGRAM" "$@"\n' >"$2"
"#;

/// A machine that has booted once.
#[derive(Debug)]
pub struct Machine {
    root: TempDir,
    program: PathBuf,
}

/// The checksum of the program that `curl` downloads.
#[must_use]
pub fn download_sha256() -> String {
    hex(&Sha256::digest(DOWNLOAD))
}

impl Machine {
    /// Boots with a cloud-init document. `program` runs the agent.
    ///
    /// # Errors
    ///
    /// The document is not one of cloud-init, or a command of it fails.
    pub fn boot(document: &str, program: &Path) -> Result<Self> {
        let machine = Self { root: TempDir::new()?, program: program.to_owned() };
        for directory in ["shims", "usr/bin", "usr/local/bin", "lib/systemd/system", "var/lib"] {
            fs::create_dir_all(machine.path(directory))?;
        }
        for (name, script) in [("apt-get", APT_GET), ("systemctl", SYSTEMCTL), ("curl", CURL)] {
            write(&machine.path("shims").join(name), script, 0o755)?;
        }
        let read = write_files(document, machine.root.path())?;
        for command in read["runcmd"].as_array().into_iter().flatten() {
            let words = command.as_array().into_iter().flatten().filter_map(Value::as_str);
            let words: Vec<_> = words.map(|word| machine.rewritten(word)).collect();
            let output = machine.command("/bin/sh").args(&words[1..]).output()?;
            let shown = String::from_utf8_lossy(&output.stderr);
            ensure!(output.status.success() && words[0] == "/bin/sh", "{words:?} failed: {shown}");
        }
        Ok(machine)
    }

    /// A path on the machine.
    #[must_use]
    pub fn path(&self, path: &str) -> PathBuf {
        self.root.path().join(path.trim_start_matches('/'))
    }

    /// The recorded commands, one per line.
    ///
    /// # Errors
    ///
    /// Nothing was recorded.
    pub fn recorded(&self) -> Result<String> {
        Ok(fs::read_to_string(self.path("log"))?)
    }

    /// Starts the enabled unit of the agent, and waits until the agent exits. A second call is a restart of the machine.
    ///
    /// # Errors
    ///
    /// No unit is enabled, or systemd or podman would refuse to start it.
    pub fn start(&self) -> Result<Output> {
        let enabled = "systemctl enable --now plexd.service";
        ensure!(self.recorded()?.lines().last() == Some(enabled), "the unit is not enabled");
        let unit = Unit::read(&self.path(""), "plexd.service")?;
        for command in &unit.start_pre {
            let [mkdir, .., directory] = &command[..] else { bail!("{command:?}") };
            ensure!(mkdir == "/bin/mkdir", "{command:?} is not emulated");
            fs::create_dir_all(self.path(directory))?;
        }
        let (program, arguments) = unit.start.split_first().context("no start command")?;
        if program == "/usr/bin/podman" {
            return self.podman(arguments);
        }
        // systemd searches a name without a slash.
        let candidates = if program.starts_with('/') {
            vec![program.clone()]
        } else {
            ["/usr/local/bin", "/usr/bin"].map(|path| format!("{path}/{program}")).to_vec()
        };
        let found = candidates.iter().map(|path| self.path(path)).find(|path| path.is_file());
        let found = found.with_context(|| format!("{program} is not installed"))?;
        // The unit of the package has no bound; root then has every capability.
        let of_root = if unit.user == "root" { "CAP_NET_ADMIN CAP_NET_RAW" } else { "" };
        let capabilities = unit.capabilities.as_deref().unwrap_or(of_root);
        let uid = if unit.user == "root" { "0" } else { "1000" };
        let mut command = self.command(found);
        command.args(arguments).env(UID, uid).env(CAPABILITIES, capabilities);
        Ok(command.output()?)
    }

    /// `podman run` of an image with the entry point `plexd`: a new file system with the mounted directories.
    fn podman(&self, arguments: &[String]) -> Result<Output> {
        ensure!(self.path("usr/bin/podman").exists(), "podman is not installed");
        let container = TempDir::new()?;
        let (mut uid, mut capabilities) = (IMAGE_UID, Vec::new());
        let mut words = arguments.iter();
        ensure!(words.next().is_some_and(|word| word == "run"), "not podman run");
        let image = words.by_ref().find(|word| !word.starts_with("--"));
        let options = arguments.iter().skip(1).take_while(|word| word.starts_with("--"));
        for option in options {
            match option.split_once('=').unwrap_or((option, "")) {
                ("--user", "0:0") => uid = "0",
                ("--cap-add", name) => capabilities.push(name),
                ("--volume", mount) => {
                    let (from, to) = mount.split_once(':').context("a volume without a target")?;
                    ensure!(self.path(from).is_dir(), "{from} does not exist");
                    let target = container.path().join(to.trim_start_matches('/'));
                    fs::create_dir_all(target.parent().context("a target without a parent")?)?;
                    symlink(self.path(from), target)?;
                }
                ("--rm" | "--replace", "")
                | ("--name", "plexd")
                | ("--network", "host")
                | ("--cap-drop", "all") => {}
                _ => bail!("{option} is not emulated"),
            }
        }
        ensure!(image.is_some_and(|image| image.contains("plexd@sha256:")), "another image");
        let mut command = self.command(&self.program);
        command.args(words).env(ROOT, container.path()).env(UID, uid);
        Ok(command.env(CAPABILITIES, capabilities.join(" ")).output()?)
    }

    /// A process of the machine, with nothing of this process's environment.
    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        let path = format!("{}:/usr/bin:/bin", self.path("shims").display());
        command.env_clear().env("PATH", path).env(ROOT, self.root.path());
        command.env("PLEXD_TEST_PROGRAM", &self.program).current_dir(self.root.path());
        command
    }

    /// A path of the machine, where a word is one.
    fn rewritten(&self, word: &str) -> String {
        let is_path = ["/etc/", "/usr/local/"].iter().any(|start| word.starts_with(start));
        if is_path { self.path(word).display().to_string() } else { word.to_owned() }
    }
}

/// Writes the files of a cloud-init document below a root, and returns the document.
///
/// # Errors
///
/// The document is not one of cloud-init, or a file cannot be written.
pub fn write_files(document: &str, root: &Path) -> Result<Value> {
    ensure!(document.starts_with("#cloud-config\n"), "not a cloud-config document");
    let read = read_document("user data", document.as_bytes())?;
    for file in read["write_files"].as_array().into_iter().flatten() {
        let text = |key: &str| file[key].as_str().with_context(|| format!("a file has no {key}"));
        ensure!(text("owner")? == "root:root", "a file belongs to another user");
        let mode = u32::from_str_radix(text("permissions")?, 8)?;
        write(&root.join(text("path")?.trim_start_matches('/')), text("content")?, mode)?;
    }
    Ok(read)
}

fn write(path: &Path, content: &str, mode: u32) -> Result<()> {
    fs::create_dir_all(path.parent().context("a file without a directory")?)?;
    fs::write(path, content)?;
    Ok(fs::set_permissions(path, fs::Permissions::from_mode(mode))?)
}
