//! etcd, kube-apiserver and kube-controller-manager, built with Go from the module files beside
//! this crate unless the machine has them.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest, Sha256};

use super::{Lookup, SetupError, is_executable};
use crate::cache::{io, open_to_all};
use crate::child::{run_logged, show_tail};

/// Compiled in, so that a build reads nothing from the checkout and its key cannot differ from
/// what is built.
const GO_MOD: &str = include_str!("../../servers/control-plane/go.mod");
const GO_SUM: &str = include_str!("../../servers/control-plane/go.sum");

/// Stripped: nobody debugs these, and they shrink by a third.
const LINKER_FLAGS: &str = "-s -w";
/// What `go.mod` asks for.
const GO_VERSION: &str = "1.26";

struct Binary {
    name: &'static str,
    package: &'static str,
    module: &'static str,
    /// Where the linker writes the version, which the sources do not know.
    version_variables: Option<&'static str>,
}

const ETCD: Binary = Binary {
    name: "etcd",
    package: "go.etcd.io/etcd/server/v3",
    module: "go.etcd.io/etcd/server/v3",
    version_variables: None,
};
const KUBE_APISERVER: Binary = Binary {
    name: "kube-apiserver",
    package: "k8s.io/kubernetes/cmd/kube-apiserver",
    module: "k8s.io/kubernetes",
    version_variables: Some("k8s.io/component-base/version"),
};
const KUBE_CONTROLLER_MANAGER: Binary = Binary {
    name: "kube-controller-manager",
    package: "k8s.io/kubernetes/cmd/kube-controller-manager",
    module: "k8s.io/kubernetes",
    version_variables: Some("k8s.io/component-base/version"),
};

/// The three, wherever they were found.
pub(super) struct ControlPlane {
    pub(super) etcd: PathBuf,
    pub(super) kube_apiserver: PathBuf,
    pub(super) kube_controller_manager: PathBuf,
}

/// Fails early, with everything that is missing in one line, when [`find_or_build`] would fail.
pub(super) fn check(lookup: &Lookup) -> Result<(), SetupError> {
    let missing: Vec<String> = [&ETCD, &KUBE_APISERVER, &KUBE_CONTROLLER_MANAGER]
        .into_iter()
        .filter(|binary| binary.find(lookup).is_none())
        .map(Binary::title)
        .collect();
    match lookup.on_path("go") {
        _ if missing.is_empty() => Ok(()),
        None => Err(no_go(missing.join(", "))),
        Some(go) => match too_old(&go) {
            Some(found) => {
                Err(SetupError::OldGo { what: missing.join(", "), found, go: GO_VERSION })
            }
            None => Ok(()),
        },
    }
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

/// The three, whatever is missing built.
pub(super) fn find_or_build(
    lookup: &Lookup,
    progress: &dyn Fn(&str),
) -> Result<ControlPlane, SetupError> {
    each(|binary| {
        if let Some(found) = binary.find(lookup) {
            return Ok(found);
        }
        let go = lookup.on_path("go").ok_or_else(|| no_go(binary.title()))?;
        binary.build(lookup, &go, progress)
    })
}

/// The three as they are, nothing built.
pub(super) fn find(lookup: &Lookup) -> Result<ControlPlane, SetupError> {
    each(|binary| binary.find(lookup).ok_or_else(|| SetupError::NotSetUp { what: binary.title() }))
}

fn each(
    mut path_of: impl FnMut(&Binary) -> Result<PathBuf, SetupError>,
) -> Result<ControlPlane, SetupError> {
    Ok(ControlPlane {
        etcd: path_of(&ETCD)?,
        kube_apiserver: path_of(&KUBE_APISERVER)?,
        kube_controller_manager: path_of(&KUBE_CONTROLLER_MANAGER)?,
    })
}

impl Binary {
    /// `KUBEBUILDER_ASSETS` first: who sets it wants those, whatever else there is.
    fn find(&self, lookup: &Lookup) -> Option<PathBuf> {
        let assets = lookup.kubebuilder_assets.iter().map(|directory| directory.join(self.name));
        let cached = lookup.cache.artifact(&self.key()).join(self.name);
        assets.chain([cached]).find(|candidate| is_executable(candidate))
    }

    fn build(
        &self,
        lookup: &Lookup,
        go: &Path,
        progress: &dyn Fn(&str),
    ) -> Result<PathBuf, SetupError> {
        let key = self.key();
        let is_complete = |artifact: &Path| is_executable(&artifact.join(self.name));
        let artifact = lookup.cache.provide(&key, progress, is_complete, |directory| {
            let log = lookup.cache.log(&key)?;
            let binary = directory.join(self.name);
            let module = directory.join("module");
            write_module(&module)?;
            let mut build = Command::new(go);
            build
                .current_dir(&module)
                .env("CGO_ENABLED", "0")
                .env("GOFLAGS", "-mod=readonly")
                .env("GOWORK", "off")
                .args(["build", "-trimpath", "-ldflags", &self.linker_flags(), "-o"])
                .arg(&binary)
                .arg(self.package);
            run_logged(progress, &format!("building {}", self.title()), &mut build, &log)
                .inspect_err(|_| show_tail(progress, &log))?;
            std::fs::remove_dir_all(&module).map_err(io("remove", &module))?;
            open_to_all(&binary)
        })?;
        Ok(artifact.join(self.name))
    }

    fn linker_flags(&self) -> String {
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

    fn title(&self) -> String {
        format!("{} {}", self.name, self.version())
    }

    /// The required version of the module, without its `v`.
    fn version(&self) -> &'static str {
        GO_MOD
            .lines()
            .find_map(|line| {
                line.trim().strip_prefix(self.module)?.strip_prefix(" v")?.split(' ').next()
            })
            .unwrap_or("unknown")
    }

    /// The version says to people what it is; the digest covers all that the result depends on, so
    /// that a changed dependency or flag never meets an old binary.
    fn key(&self) -> String {
        let mut digest = Sha256::new();
        for part in [GO_MOD, GO_SUM, &self.linker_flags()] {
            digest.update(part.as_bytes());
            digest.update([0]);
        }
        let digest = digest.finalize()[..6].iter().fold(String::new(), |mut hex, byte| {
            let _ = write!(hex, "{byte:02x}");
            hex
        });
        let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
        format!("{}-{}-{os}-{arch}-{digest}", self.name, self.version())
    }
}

fn no_go(what: String) -> SetupError {
    SetupError::NoGo { what, go: GO_VERSION }
}

fn write_module(directory: &Path) -> Result<(), SetupError> {
    std::fs::create_dir(directory).map_err(io("create", directory))?;
    for (name, text) in [("go.mod", GO_MOD), ("go.sum", GO_SUM)] {
        let path = directory.join(name);
        std::fs::write(&path, text).map_err(io("write", &path))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::tests::Machine;

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
    fn versions_and_flags_come_from_the_module_file() {
        assert_eq!(ETCD.title(), "etcd 3.6.8");
        assert_eq!(KUBE_APISERVER.title(), "kube-apiserver 1.36.3");
        assert_eq!(ETCD.linker_flags(), "-s -w");
        assert!(KUBE_APISERVER.linker_flags().contains("version.gitVersion=v1.36.3 "));
        assert!(GO_MOD.contains(&format!("\ngo {GO_VERSION}")));
    }

    #[test]
    fn the_key_names_the_version_and_differs_between_binaries() {
        assert!(ETCD.key().starts_with("etcd-3.6.8-"), "{}", ETCD.key());
        assert_ne!(KUBE_APISERVER.key(), KUBE_CONTROLLER_MANAGER.key());
    }

    #[test]
    fn each_is_looked_for_by_itself_and_assets_come_first() {
        let machine = Machine::new();
        machine.put("assets/etcd");
        machine.put("assets/kube-apiserver");
        for binary in [&ETCD, &KUBE_CONTROLLER_MANAGER] {
            machine.put(&format!("cache/{}/{}", binary.key(), binary.name));
        }
        let mut lookup = machine.lookup();
        lookup.kubebuilder_assets = Some(machine.path("assets"));

        let found = find(&lookup).ok().unwrap();

        assert_eq!(found.etcd, machine.path("assets/etcd"));
        assert_eq!(found.kube_apiserver, machine.path("assets/kube-apiserver"));
        assert!(found.kube_controller_manager.starts_with(machine.path("cache")));
    }

    #[test]
    fn without_go_the_one_line_names_what_is_missing_and_both_ways_out() {
        let machine = Machine::new();
        machine.put("assets/etcd");
        machine.put("assets/kube-apiserver");
        let mut lookup = machine.lookup();

        let all = check(&lookup).err().unwrap().to_string();
        lookup.kubebuilder_assets = Some(machine.path("assets"));
        let one = check(&lookup).err().unwrap().to_string();

        assert_eq!(
            all,
            "missing etcd 3.6.8, kube-apiserver 1.36.3, kube-controller-manager 1.36.3: install Go 1.26 or newer to \
             have them built, or set KUBEBUILDER_ASSETS to a directory that holds them"
        );
        assert!(one.starts_with("missing kube-controller-manager 1.36.3: install Go"), "{one}");
    }

    #[test]
    fn a_build_is_kept_and_not_repeated() {
        let machine = Machine::new();
        // Stands in for the compiler: writes to the path after `-o`, and counts its runs.
        machine.put_script(
            "bin/go",
            r#"echo run >> "$(dirname "$0")/runs"; while [ "$1" != -o ]; do shift; done; echo binary > "$2""#,
        );
        let lookup = machine.lookup();
        for _ in 0..2 {
            let built = find_or_build(&lookup, &|_| {}).ok().unwrap();
            assert!(is_executable(&built.kube_controller_manager));
        }
        let runs = std::fs::read_to_string(machine.path("bin/runs")).unwrap();
        assert_eq!(runs.lines().count(), 3);
    }

    #[test]
    fn a_failed_build_says_which_and_leaves_nothing() {
        let machine = Machine::new();
        machine.put_script("bin/go", "echo no such module; exit 1");
        let lookup = machine.lookup();
        let error = find_or_build(&lookup, &|_| {}).err().unwrap().to_string();
        assert!(
            error.starts_with(
                "building etcd 3.6.8 failed (exit status: 1); the whole output is in "
            ),
            "{error}"
        );
        assert!(!lookup.cache.artifact(&ETCD.key()).exists());
    }
}
