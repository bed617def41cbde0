//! Where the binaries of the real servers are: found on the machine, in the cache, or put there.
//!
//! Each binary is looked for by itself. Nothing here starts a server, and nothing outside the cache
//! is written.

mod apt;
mod cloud_init;
mod crossplane;
mod go;
mod postgres;
mod valgrind;

use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail, ensure};
use rustix::process::geteuid;

use crate::cache::Cache;
use go::{Binary, Module};

pub use cloud_init::cloud_init_schema;
pub use crossplane::CrossplaneTools;
pub use valgrind::Valgrind;

const CONTROL_PLANE: Module = Module {
    go_mod: include_str!("../modules/control-plane/go.mod"),
    go_sum: include_str!("../modules/control-plane/go.sum"),
};

/// What a person may do who has no Go.
const OTHERWISE: &str = ", or set KUBEBUILDER_ASSETS to a directory that holds them";

const ETCD: Binary = Binary::new("etcd", "go.etcd.io/etcd/server/v3", "", CONTROL_PLANE);
const KUBE_APISERVER: Binary = kubernetes("kube-apiserver", "/cmd/kube-apiserver");
const KUBE_CONTROLLER_MANAGER: Binary =
    kubernetes("kube-controller-manager", "/cmd/kube-controller-manager");

const fn kubernetes(name: &'static str, package: &'static str) -> Binary {
    let version_variables = Some("k8s.io/component-base/version");
    Binary { version_variables, ..Binary::new(name, "k8s.io/kubernetes", package, CONTROL_PLANE) }
}

/// Where the binaries of the real servers are.
#[derive(Clone, Debug)]
pub struct Tools {
    /// The directory with `initdb`, `postgres` and their companions.
    pub postgres_bin: PathBuf,
    /// What has to stand in the environment of everything from [`Self::postgres_bin`]; empty for an
    /// installed Postgres.
    pub postgres_env: Vec<(String, String)>,
    /// etcd.
    pub etcd: PathBuf,
    /// The Kubernetes API server.
    pub kube_apiserver: PathBuf,
    /// The Kubernetes controllers, of which the tests need garbage collection and namespaces.
    pub kube_controller_manager: PathBuf,
}

/// What tests need beside the servers, provided ahead of them so that no test has to fetch anything.
///
/// # Errors
///
/// As [`cloud_init_schema`].
pub fn provide_documents(progress: &dyn Fn(&str)) -> Result<PathBuf> {
    cloud_init_schema(progress)
}

impl Tools {
    /// Finds every binary, and builds or unpacks into the cache what the machine does not have.
    ///
    /// `progress` is given one line at a time, for every step that takes longer than a second.
    ///
    /// # Errors
    ///
    /// When something is missing and cannot be provided; the message says what would provide it.
    pub fn find_or_build(progress: &dyn Fn(&str)) -> Result<Self> {
        Self::provide(Some(progress))
    }

    /// Finds every binary without building or unpacking any.
    ///
    /// # Errors
    ///
    /// When something is missing.
    pub fn find() -> Result<Self> {
        Self::provide(None)
    }

    fn provide(progress: Option<&dyn Fn(&str)>) -> Result<Self> {
        let lookup = Lookup::from_environment()?;
        let binaries = [&ETCD, &KUBE_APISERVER, &KUBE_CONTROLLER_MANAGER];
        // The cheap question first: a stranger without Go learns so before anything is downloaded.
        if progress.is_some() {
            go::check(&lookup, binaries, OTHERWISE)?;
        }
        let (postgres_bin, postgres_env) = postgres::provide(&lookup, progress)?;
        let [etcd, kube_apiserver, kube_controller_manager] =
            go::provide(&lookup, binaries, OTHERWISE, progress)?;
        check_others_can_run(&postgres_bin.join("postgres"))?;
        Ok(Self { postgres_bin, postgres_env, etcd, kube_apiserver, kube_controller_manager })
    }
}

/// Everything that the search depends on, so that a test can search a machine of its own making.
#[derive(Clone, Debug)]
struct Lookup {
    path: OsString,
    kubebuilder_assets: Option<PathBuf>,
    /// Where Debian keeps the versions of an installed Postgres.
    system_postgres: PathBuf,
    /// What dpkg says is installed.
    dpkg_status: PathBuf,
    postgres_from_package: bool,
    cache: Cache,
}

impl Lookup {
    fn from_environment() -> Result<Self> {
        let postgres_from_package = match std::env::var_os("BROKER_POSTGRES") {
            None => false,
            Some(value) if value == "package" => true,
            Some(value) => bail!(
                "BROKER_POSTGRES is \"{}\": leave it unset, or set it to `package` to ignore an \
                 installed Postgres",
                value.display()
            ),
        };
        // Absolute, because who uses a binary may stand in another directory.
        let kubebuilder_assets = std::env::var_os("KUBEBUILDER_ASSETS")
            .filter(|value| !value.is_empty())
            .and_then(|value| std::path::absolute(value).ok());
        Ok(Self {
            path: std::env::var_os("PATH").unwrap_or_default(),
            kubebuilder_assets,
            system_postgres: PathBuf::from("/usr/lib/postgresql"),
            dpkg_status: PathBuf::from("/var/lib/dpkg/status"),
            postgres_from_package,
            cache: Cache::from_environment()?,
        })
    }

    /// The first file called `name` in the search path that may be executed.
    fn on_path(&self, name: &str) -> Option<PathBuf> {
        std::env::split_paths(&self.path)
            .map(|directory| directory.join(name))
            .find(|candidate| is_executable(candidate))
    }
}

fn is_executable(path: &Path) -> bool {
    rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok() && path.is_file()
}

/// Servers that root starts run as another user, who must be able to get at a program, or at the
/// directory that it is in.
pub(crate) fn check_others_can_run(path: &Path) -> Result<()> {
    ensure!(
        !geteuid().is_root() || others_can_run(path),
        "{} is closed to other users, and root starts servers as another user: open it and the \
         directories above it, or move it",
        path.display()
    );
    Ok(())
}

/// Whether a user who is neither owner nor in the group gets at the file and may run it, or at the
/// directory and may enter it.
fn others_can_run(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;

    let Ok(real) = path.canonicalize() else { return false };
    real.ancestors().all(|part| {
        part.metadata().is_ok_and(|metadata| metadata.permissions().mode() & 0o001 != 0)
    })
}

/// Bytes in hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing into a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;
    use std::process::Command;

    /// A machine of a test's own making: a search path of `bin`, an empty system and an empty
    /// cache.
    pub(super) struct Machine {
        root: tempfile::TempDir,
    }

    impl Machine {
        pub(super) fn new() -> Self {
            let root = tempfile::tempdir().unwrap();
            // Temporary directories are closed to others, and root's cache may not be.
            fs::set_permissions(root.path(), Permissions::from_mode(0o755)).unwrap();
            Self { root }
        }

        pub(super) fn path(&self, relative: &str) -> PathBuf {
            self.root.path().join(relative)
        }

        pub(super) fn put(&self, relative: &str) {
            self.put_script(relative, "true");
        }

        pub(super) fn put_script(&self, relative: &str, script: &str) {
            // A shell writes it: a file that this process has open for writing cannot be executed,
            // and a test beside this one may have just forked with it.
            let written = Command::new("sh")
                .args(["-c", r#"mkdir -p "$(dirname "$0")" && printf '#!/bin/sh\n%s\n' "$1" > "$0" && chmod 755 "$0""#])
                .arg(self.path(relative))
                .arg(script)
                .status()
                .unwrap();
            assert!(written.success());
        }

        pub(super) fn lookup(&self) -> Lookup {
            Lookup {
                path: self.path("bin").into(),
                kubebuilder_assets: None,
                system_postgres: self.path("system"),
                dpkg_status: self.path("status"),
                postgres_from_package: false,
                cache: Cache::at(self.path("cache")),
            }
        }
    }

    #[test]
    fn a_closed_directory_keeps_others_out() {
        let machine = Machine::new();
        machine.put("closed/open/server");
        let server = machine.path("closed/open/server");
        assert!(others_can_run(&server));
        fs::set_permissions(machine.path("closed"), Permissions::from_mode(0o700)).unwrap();
        assert!(!others_can_run(&server));
    }
}
