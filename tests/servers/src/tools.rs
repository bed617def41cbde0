//! Locates the binaries of the real servers: on the machine, in the cache, or built into it.
//!
//! Each binary is located separately. This module starts no server and writes only to the cache.

mod apt;
mod cloud_init;
mod crossplane;
mod go;
mod linters;
mod postgres;
mod valgrind;

use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use rustix::process::geteuid;

use go::{Binary, Module};

pub use cloud_init::cloud_init_schema;
pub use crossplane::CrossplaneTools;
pub use linters::{actionlint, cargo_deny};
pub use valgrind::Valgrind;

const CONTROL_PLANE: Module = Module {
    go_mod: include_str!("../modules/control-plane/go.mod"),
    go_sum: include_str!("../modules/control-plane/go.sum"),
};

const ETCD: Binary = Binary::new("etcd", "go.etcd.io/etcd/server/v3", "", CONTROL_PLANE);
const KUBE_APISERVER: Binary = kubernetes("kube-apiserver", "/cmd/kube-apiserver");
const KUBE_CONTROLLER_MANAGER: Binary =
    kubernetes("kube-controller-manager", "/cmd/kube-controller-manager");

const fn kubernetes(name: &'static str, package: &'static str) -> Binary {
    let version_variables = Some("k8s.io/component-base/version");
    Binary { version_variables, ..Binary::new(name, "k8s.io/kubernetes", package, CONTROL_PLANE) }
}

/// The paths of the server binaries.
#[derive(Clone, Debug)]
pub struct Tools {
    /// The directory with `initdb`, `postgres` and `psql`.
    pub postgres_bin: PathBuf,
    /// Environment variables for everything in [`Self::postgres_bin`]; empty for an installed Postgres.
    pub postgres_env: Vec<(String, String)>,
    /// etcd.
    pub etcd: PathBuf,
    /// The Kubernetes API server.
    pub kube_apiserver: PathBuf,
    /// The Kubernetes controllers; the tests need garbage collection and namespace deletion.
    pub kube_controller_manager: PathBuf,
}

/// What happens to a missing binary.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Missing {
    Build,
    Fail,
}

impl Tools {
    /// Finds every binary; builds or unpacks missing ones into the cache.
    ///
    /// # Errors
    ///
    /// A binary is missing and cannot be provided; the message names the remedy.
    pub fn find_or_build() -> Result<Self> {
        Self::provide(Missing::Build)
    }

    /// Finds every binary; builds and unpacks nothing.
    ///
    /// # Errors
    ///
    /// A binary is missing.
    pub fn find() -> Result<Self> {
        Self::provide(Missing::Fail)
    }

    fn provide(missing: Missing) -> Result<Self> {
        let binaries = [&ETCD, &KUBE_APISERVER, &KUBE_CONTROLLER_MANAGER];
        let [etcd, kube_apiserver, kube_controller_manager] =
            go::provide(binaries, "cargo xtask setup", missing)?;
        let (postgres_bin, postgres_env) = postgres::provide(missing)?;
        check_others_can_run(&postgres_bin.join("postgres"))?;
        Ok(Self { postgres_bin, postgres_env, etcd, kube_apiserver, kube_controller_manager })
    }
}

/// The first executable file `name` in the search path.
fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|directory| directory.join(name))
        .find(|file| is_executable(file))
}

fn is_executable(path: &Path) -> bool {
    rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok() && path.is_file()
}

/// Root starts servers as another user, which must be able to reach a program or its directory.
pub(crate) fn check_others_can_run(path: &Path) -> Result<()> {
    let canonical = path.canonicalize()?;
    let is_open = |part: &Path| {
        part.metadata().is_ok_and(|metadata| metadata.permissions().mode() & 0o001 != 0)
    };
    ensure!(
        !geteuid().is_root() || canonical.ancestors().all(is_open),
        "{} is closed to other users, and root starts servers as another user: open it and the \
         directories above it, or move it",
        path.display()
    );
    Ok(())
}

/// Bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
