//! Programs that are built with Go from a module file of this crate, and kept in the cache.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use sha2::{Digest, Sha256};

use super::{Lookup, check_others_can_run, is_executable};
use crate::cache::{create_open_directory, open_to_all};
use crate::child::{run_logged, show_tail};
use crate::failure::cannot;

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
    /// The required module that it belongs to.
    pub(super) module: &'static str,
    /// Its path within that module.
    pub(super) package: &'static str,
    /// Where the linker writes the version, which the sources do not know.
    pub(super) version_variables: Option<&'static str>,
    pub(super) built_from: Module,
    /// Directories of the module's sources that are kept beside the program: where they are, and as what.
    pub(super) documents: &'static [(&'static str, &'static str)],
}

impl Binary {
    pub(super) const fn new(
        name: &'static str,
        module: &'static str,
        package: &'static str,
        built_from: Module,
    ) -> Self {
        Self { name, module, package, version_variables: None, built_from, documents: &[] }
    }

    /// Where it is, if it was ever built. `KUBEBUILDER_ASSETS` first: who sets it wants those, whatever else there is.
    pub(super) fn find(&self, lookup: &Lookup) -> Option<PathBuf> {
        let cached = lookup.cache.artifact(&self.key());
        let mut places = lookup.kubebuilder_assets.iter().chain([&cached]);
        places.find(|place| self.is_complete(place)).map(|place| place.join(self.name))
    }

    fn build(&self, lookup: &Lookup, go: &Path, progress: &dyn Fn(&str)) -> Result<PathBuf> {
        let key = self.key();
        let is_complete = |artifact: &Path| self.is_complete(artifact);
        let artifact = lookup.cache.provide(&key, progress, is_complete, |directory| {
            let log = lookup.cache.log(&key)?;
            let binary = directory.join(self.name);
            let module = directory.join("module");
            fs::create_dir(&module).with_context(cannot("create", &module))?;
            let Module { go_mod, go_sum } = self.built_from;
            for (name, text) in [("go.mod", go_mod), ("go.sum", go_sum)] {
                fs::write(module.join(name), text).with_context(cannot("write", name))?;
            }
            let mut build = command(go, &module);
            build
                .env("CGO_ENABLED", "0")
                .args(["build", "-trimpath", "-ldflags", &self.linker_flags(), "-o"])
                .arg(&binary)
                .arg(format!("{}{}", self.module, self.package));
            run_logged(progress, &format!("building {}", self.title()), &mut build, &log)
                .inspect_err(|_| show_tail(progress, &log))?;
            self.copy_documents(go, &module, directory)?;
            fs::remove_dir_all(&module).with_context(cannot("remove", &module))?;
            open_to_all(&binary)
        })?;
        Ok(artifact.join(self.name))
    }

    fn is_complete(&self, artifact: &Path) -> bool {
        is_executable(&artifact.join(self.name))
            && self.documents.iter().all(|(_, name)| artifact.join(name).is_dir())
    }

    /// The sources are in Go's own cache by now, which somebody may clean.
    fn copy_documents(&self, go: &Path, module: &Path, to: &Path) -> Result<()> {
        if self.documents.is_empty() {
            return Ok(());
        }
        let mut list = command(go, module);
        let answer = list.args(["list", "-m", "-f", "{{.Dir}}", self.module]).output();
        let answer = answer.with_context(cannot("run", go))?;
        let (sources, said) = (answer.stdout, String::from_utf8_lossy(&answer.stderr));
        let title = self.title();
        ensure!(answer.status.success(), "looking for the sources of {title} failed ({said})");
        for (from, name) in self.documents {
            let sources = String::from_utf8_lossy(&sources);
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

/// Fails early, with everything that is missing in one line, when a build would fail. `otherwise` is what a
/// person may do instead of installing Go.
pub(super) fn check<const N: usize>(
    lookup: &Lookup,
    binaries: [&Binary; N],
    otherwise: &str,
) -> Result<()> {
    let missing = missing(lookup, binaries);
    let found = lookup.on_path("go").map(|go| too_old(&go));
    match found {
        _ if missing.is_empty() => Ok(()),
        None => bail!(
            "missing {missing}: install Go {GO_VERSION} or newer to have them built{otherwise}"
        ),
        Some(Some(old)) => bail!(
            "missing {missing}, and {old} is too old to build them: install Go {GO_VERSION} or \
             newer{otherwise}"
        ),
        Some(None) => Ok(()),
    }
}

fn missing<const N: usize>(lookup: &Lookup, binaries: [&Binary; N]) -> String {
    let missing = binaries.into_iter().filter(|binary| binary.find(lookup).is_none());
    missing.map(Binary::title).collect::<Vec<_>>().join(", ")
}

/// Finds the programs; builds those that are missing if there is somebody to tell of it.
pub(super) fn provide<const N: usize>(
    lookup: &Lookup,
    binaries: [&Binary; N],
    otherwise: &str,
    progress: Option<&dyn Fn(&str)>,
) -> Result<[PathBuf; N]> {
    let missing = missing(lookup, binaries);
    let mut paths = binaries.map(|binary| binary.find(lookup).unwrap_or_default());
    if let Some(progress) = progress.filter(|_| !missing.is_empty()) {
        check(lookup, binaries, otherwise)?;
        let go = lookup.on_path("go").context("there is no go on PATH")?;
        let unbuilt = binaries.iter().zip(&mut paths);
        for (binary, path) in unbuilt.filter(|(_, path)| path.as_os_str().is_empty()) {
            *path = binary.build(lookup, &go, progress)?;
        }
    } else {
        let advice = if otherwise.is_empty() { " --crossplane" } else { "" };
        ensure!(missing.is_empty(), "missing {missing}: run `cargo xtask setup{advice}`");
    }
    paths.iter().try_for_each(|path| check_others_can_run(path))?;
    Ok(paths)
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
fn copy_directory(from: &Path, to: &Path) -> Result<()> {
    create_open_directory(to)?;
    for entry in fs::read_dir(from).with_context(cannot("read", from))? {
        let entry = entry.with_context(cannot("read", from))?;
        let (path, copy) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type().with_context(cannot("read", &path))?.is_dir() {
            copy_directory(&path, &copy)?;
        } else {
            let text = fs::read(&path).with_context(cannot("read", &path))?;
            fs::write(&copy, text).with_context(cannot("write", &copy))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::tests::Machine;
    use crate::tools::{ETCD, KUBE_APISERVER, KUBE_CONTROLLER_MANAGER};

    const BINARIES: [&Binary; 3] = [&ETCD, &KUBE_APISERVER, &KUBE_CONTROLLER_MANAGER];

    /// Stands in for Go: `env` tells its version, `list` names the sources, `build` counts its runs and writes to the
    /// path after `-o`.
    const GO: &str = r#"case "$1" in
        env) exec echo go1.26.0 ;;
        list) cd "$(dirname "$0")/../sources" && exec pwd ;;
    esac
    echo run >> "$0.runs"; while [ "$1" != -o ]; do shift; done; echo binary > "$2""#;

    #[test]
    fn version_is_too_old_where_it_cannot_fetch_a_toolchain() {
        for (version, expected) in
            [("go1.19.8", true), ("go1.20", true), ("go1.21.0", false), ("devel", false)]
        {
            assert_eq!(is_too_old(version), expected, "{version}");
        }
    }

    #[test]
    fn versions_flags_and_keys_come_from_the_module_file() {
        assert!(ETCD.key().starts_with("etcd-3.6.8-"), "{}", ETCD.key());
        assert_ne!(KUBE_APISERVER.key(), KUBE_CONTROLLER_MANAGER.key());
        assert_eq!(ETCD.linker_flags(), "-s -w");
        assert!(KUBE_APISERVER.linker_flags().contains("version.gitVersion=v1.36.3 "));
        assert!(ETCD.built_from.go_mod.contains(&format!("\ngo {GO_VERSION}")));
    }

    #[test]
    fn assets_come_before_the_cache_and_what_neither_has_is_named() {
        let machine = Machine::new();
        let mut lookup = machine.lookup();
        let error = |lookup: &Lookup| check(lookup, BINARIES, ", or else").unwrap_err().to_string();
        let all = "etcd 3.6.8, kube-apiserver 1.36.3, kube-controller-manager 1.36.3";
        let built = "install Go 1.26 or newer to have them built, or else";
        assert_eq!(error(&lookup), format!("missing {all}: {built}"));
        machine.put_script("bin/go", "echo go1.19.8");
        assert!(error(&lookup).starts_with(&format!("missing {all}, and go1.19.8 is too old to")));
        let unbuilt = provide(&lookup, BINARIES, ", or else", None).unwrap_err().to_string();
        assert_eq!(unbuilt, format!("missing {all}: run `cargo xtask setup`"));

        machine.put("assets/etcd");
        machine.put("assets/kube-apiserver");
        lookup.kubebuilder_assets = Some(machine.path("assets"));
        assert!(error(&lookup).starts_with("missing kube-controller-manager 1.36.3, and"));
        for binary in [&ETCD, &KUBE_CONTROLLER_MANAGER] {
            machine.put(&format!("cache/{}/{}", binary.key(), binary.name));
        }
        let [etcd, api_server, manager] = provide(&lookup, BINARIES, "", None).unwrap();
        assert_eq!(
            [etcd, api_server],
            ["etcd", "kube-apiserver"].map(|it| machine.path("assets").join(it))
        );
        assert!(manager.starts_with(machine.path("cache")));
    }

    #[test]
    fn build_is_kept_with_its_documents_and_a_failed_one_leaves_nothing() {
        let sample = Binary {
            documents: &[("cluster/crds", "crds")],
            ..Binary::new(
                "sample",
                "example.org/sample",
                "/cmd",
                Module { go_mod: "example.org/sample v1.2.3", go_sum: "" },
            )
        };
        let machine = Machine::new();
        machine.put("sources/cluster/crds/inner/one.yaml");
        let lookup = machine.lookup();
        let build = || provide(&lookup, [&sample], "", Some(&|_| {}));
        machine.put_script("bin/go", "echo no such module; exit 1");
        let error = build().unwrap_err().to_string();
        let expected = "building sample 1.2.3 failed (exit status: 1); the whole output is in ";
        assert!(error.starts_with(expected), "{error}");
        assert!(!lookup.cache.artifact(&sample.key()).exists());

        machine.put_script("bin/go", GO);
        let [program] = build().unwrap();
        assert_eq!(build().unwrap()[0], program);
        assert!(program.with_file_name("crds").join("inner/one.yaml").is_file());
        fs::remove_dir_all(program.with_file_name("crds")).unwrap();
        assert_eq!(sample.find(&lookup), None, "half of it is nothing");
        build().unwrap();
        let runs = fs::read_to_string(machine.path("bin/go.runs")).unwrap();
        assert_eq!(runs.lines().count(), 2);
    }
}
