//! Programs that are built with Go from a module file of this crate, and kept in the cache.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest, Sha256};

use super::{Lookup, SetupError, is_executable};
use crate::cache::{create_open_directory, io, open_to_all};
use crate::child::{run_logged, show_tail};

/// Stripped: nobody debugs these, and they shrink by a third.
const LINKER_FLAGS: &str = "-s -w";
/// What every `go.mod` asks for.
pub(super) const GO_VERSION: &str = "1.26";

/// A module file and its sums, compiled in, so that a build reads nothing from the checkout and its key cannot
/// differ from what is built.
pub(super) struct Module {
    pub(super) go_mod: &'static str,
    pub(super) go_sum: &'static str,
}

/// A program of one of the modules that a module file requires.
pub(super) struct Binary {
    pub(super) name: &'static str,
    pub(super) package: &'static str,
    /// The required module that the package belongs to.
    pub(super) module: &'static str,
    /// Where the linker writes the version, which the sources do not know.
    pub(super) version_variables: Option<&'static str>,
    pub(super) built_from: Module,
    /// Directories of the module's sources that are kept beside the program: where they are, and as what.
    pub(super) documents: &'static [(&'static str, &'static str)],
}

impl Binary {
    /// Where it is in the cache, if it was ever built.
    pub(super) fn cached(&self, lookup: &Lookup) -> Option<PathBuf> {
        let artifact = lookup.cache.artifact(&self.key());
        self.is_complete(&artifact).then(|| artifact.join(self.name))
    }

    pub(super) fn build(
        &self,
        lookup: &Lookup,
        go: &Path,
        progress: &dyn Fn(&str),
    ) -> Result<PathBuf, SetupError> {
        let key = self.key();
        let is_complete = |artifact: &Path| self.is_complete(artifact);
        let artifact = lookup.cache.provide(&key, progress, is_complete, |directory| {
            let log = lookup.cache.log(&key)?;
            let binary = directory.join(self.name);
            let module = directory.join("module");
            self.built_from.write(&module)?;
            let mut build = command(go, &module);
            build
                .env("CGO_ENABLED", "0")
                .args(["build", "-trimpath", "-ldflags", &self.linker_flags(), "-o"])
                .arg(&binary)
                .arg(self.package);
            run_logged(progress, &format!("building {}", self.title()), &mut build, &log)
                .inspect_err(|_| show_tail(progress, &log))?;
            self.copy_documents(go, &module, directory, &log)?;
            fs::remove_dir_all(&module).map_err(io("remove", &module))?;
            open_to_all(&binary)
        })?;
        Ok(artifact.join(self.name))
    }

    fn is_complete(&self, artifact: &Path) -> bool {
        is_executable(&artifact.join(self.name))
            && self.documents.iter().all(|(_, name)| artifact.join(name).is_dir())
    }

    /// The sources are in Go's own cache by now, which somebody may clean.
    fn copy_documents(
        &self,
        go: &Path,
        module: &Path,
        to: &Path,
        log: &Path,
    ) -> Result<(), SetupError> {
        if self.documents.is_empty() {
            return Ok(());
        }
        let answer = command(go, module)
            .args(["list", "-m", "-f", "{{.Dir}}", self.module])
            .output()
            .map_err(io("run", go))?;
        let sources = String::from_utf8_lossy(&answer.stdout);
        if !answer.status.success() {
            return Err(SetupError::StepFailed {
                what: format!("looking for the sources of {}", self.title()),
                how: String::from_utf8_lossy(&answer.stderr).trim().to_owned(),
                log: log.to_owned(),
            });
        }
        for (from, name) in self.documents {
            copy_directory(&Path::new(sources.trim()).join(from), &to.join(name))?;
        }
        Ok(())
    }

    pub(super) fn linker_flags(&self) -> String {
        let mut flags = LINKER_FLAGS.to_owned();
        if let Some(package) = self.version_variables {
            let version = self.version();
            let mut parts = version.split('.');
            let (major, minor) =
                (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
            for (variable, value) in [
                ("gitVersion", format!("v{version}").as_str()),
                ("gitMajor", major),
                ("gitMinor", minor),
            ] {
                // Writing to a String cannot fail.
                let _ = write!(flags, " -X {package}.{variable}={value}");
            }
        }
        flags
    }

    pub(super) fn title(&self) -> String {
        format!("{} {}", self.name, self.version())
    }

    /// The required version of the module, without its `v`.
    fn version(&self) -> &'static str {
        self.built_from
            .go_mod
            .lines()
            .find_map(|line| {
                line.trim().strip_prefix(self.module)?.strip_prefix(" v")?.split(' ').next()
            })
            .unwrap_or("unknown")
    }

    /// The version says to people what it is; the digest covers all that the result depends on, so
    /// that a changed dependency or flag never meets an old binary.
    pub(super) fn key(&self) -> String {
        let mut digest = Sha256::new();
        for part in [self.built_from.go_mod, self.built_from.go_sum, &self.linker_flags()] {
            digest.update(part.as_bytes());
            digest.update([0]);
        }
        let digest = super::hex(&digest.finalize()[..6]);
        let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
        format!("{}-{}-{os}-{arch}-{digest}", self.name, self.version())
    }
}

impl Module {
    fn write(&self, directory: &Path) -> Result<(), SetupError> {
        fs::create_dir(directory).map_err(io("create", directory))?;
        for (name, text) in [("go.mod", self.go_mod), ("go.sum", self.go_sum)] {
            let path = directory.join(name);
            fs::write(&path, text).map_err(io("write", &path))?;
        }
        Ok(())
    }
}

/// Fails early, with everything that is missing in one line, when a build would fail. `otherwise` is what a
/// person may do instead of installing Go.
pub(super) fn check(
    lookup: &Lookup,
    missing: &[String],
    otherwise: &'static str,
) -> Result<(), SetupError> {
    match lookup.on_path("go") {
        _ if missing.is_empty() => Ok(()),
        None => Err(no_go(missing.join(", "), otherwise)),
        Some(go) => match too_old(&go) {
            Some(found) => Err(SetupError::OldGo {
                what: missing.join(", "),
                found,
                go: GO_VERSION,
                otherwise,
            }),
            None => Ok(()),
        },
    }
}

pub(super) fn no_go(what: String, otherwise: &'static str) -> SetupError {
    SetupError::NoGo { what, go: GO_VERSION, otherwise }
}

/// Whatever the user set up for their own modules is not for ours.
fn command(go: &Path, module: &Path) -> Command {
    let mut command = Command::new(go);
    command.current_dir(module).env("GOFLAGS", "-mod=readonly").env("GOWORK", "off");
    command
}

/// The version of a Go that can neither build the servers nor fetch a toolchain that can, which it does by
/// itself from 1.21 on.
fn too_old(go: &Path) -> Option<String> {
    let answer = Command::new(go).args(["env", "GOVERSION"]).output().ok()?;
    let version = String::from_utf8(answer.stdout).ok()?;
    is_too_old(version.trim()).then(|| version.trim().to_owned())
}

fn is_too_old(version: &str) -> bool {
    let minor = version.strip_prefix("go1.").and_then(|rest| rest.split('.').next());
    minor.and_then(|minor| minor.parse::<u32>().ok()).is_some_and(|minor| minor < 21)
}

/// Go keeps its sources read-only; the copies are ours, and anybody may read them.
fn copy_directory(from: &Path, to: &Path) -> Result<(), SetupError> {
    create_open_directory(to)?;
    for entry in fs::read_dir(from).map_err(io("read", from))? {
        let entry = entry.map_err(io("read", from))?;
        let (path, copy) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type().map_err(io("read", &path))?.is_dir() {
            copy_directory(&path, &copy)?;
        } else {
            let text = fs::read(&path).map_err(io("read", &path))?;
            fs::write(&copy, text).map_err(io("write", &copy))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::tests::Machine;

    const SAMPLE: Binary = Binary {
        name: "sample",
        package: "example.org/sample/cmd",
        module: "example.org/sample",
        version_variables: None,
        built_from: Module { go_mod: "require example.org/sample v1.2.3", go_sum: "" },
        documents: &[("cluster/crds", "crds")],
    };

    #[test]
    fn a_go_that_cannot_help_itself_is_too_old() {
        for (version, expected) in [
            ("go1.19.8", true),
            ("go1.20", true),
            ("go1.21.0", false),
            ("go1.26.8", false),
            ("go2.0", false),
            ("devel", false),
        ] {
            assert_eq!(is_too_old(version), expected, "{version}");
        }
    }

    #[test]
    fn documents_of_the_sources_stand_beside_the_program() {
        let machine = Machine::new();
        machine.put("sources/cluster/crds/inner/one.yaml");
        // Stands in for Go: `list` names the sources, `build` writes to the path after `-o`.
        machine.put_script(
            "bin/go",
            r#"if [ "$1" = list ]; then cd "$(dirname "$0")/../sources" && pwd; exit; fi
               while [ "$1" != -o ]; do shift; done; echo binary > "$2""#,
        );
        let lookup = machine.lookup();
        assert_eq!(SAMPLE.cached(&lookup), None);

        let built = SAMPLE.build(&lookup, &machine.path("bin/go"), &|_| {}).ok().unwrap();

        assert!(built.with_file_name("crds").join("inner/one.yaml").is_file());
        assert_eq!(SAMPLE.cached(&lookup), Some(built.clone()));
        fs::remove_dir_all(built.with_file_name("crds")).unwrap();
        assert_eq!(SAMPLE.cached(&lookup), None, "half of it is nothing");
    }
}
