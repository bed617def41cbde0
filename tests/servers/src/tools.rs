//! Where the binaries of the real servers are: found on the machine, in the cache, or put there.
//!
//! Each binary is looked for by itself. Nothing here starts a server, and nothing outside the cache
//! is written.

mod apt;
mod cloud_init;
mod control_plane;
mod crossplane;
mod debian;
mod go;
mod postgres;
mod valgrind;

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

use crate::cache::Cache;

pub use cloud_init::cloud_init_schema;
pub use crossplane::CrossplaneTools;
pub use valgrind::Valgrind;

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
pub fn provide_documents(progress: &dyn Fn(&str)) -> Result<PathBuf, SetupError> {
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
    pub fn find_or_build(progress: &dyn Fn(&str)) -> Result<Self, SetupError> {
        let lookup = Lookup::from_environment()?;
        // The cheap question first: a stranger without Go learns so before anything is downloaded.
        control_plane::check(&lookup)?;
        let postgres = postgres::find_or_unpack(&lookup, progress)?;
        let control_plane = control_plane::find_or_build(&lookup, progress)?;
        Self::assemble(postgres, control_plane)
    }

    /// Finds every binary without building or unpacking any.
    ///
    /// # Errors
    ///
    /// When something is missing.
    pub fn find() -> Result<Self, SetupError> {
        let lookup = Lookup::from_environment()?;
        let postgres =
            postgres::find(&lookup)?.ok_or(SetupError::NotSetUp { what: "Postgres".to_owned() })?;
        let control_plane = control_plane::find(&lookup)?;
        Self::assemble(postgres, control_plane)
    }

    fn assemble(
        postgres: postgres::Postgres,
        control_plane: control_plane::ControlPlane,
    ) -> Result<Self, SetupError> {
        let tools = Self {
            postgres_bin: postgres.bin,
            postgres_env: postgres.env,
            etcd: control_plane.etcd,
            kube_apiserver: control_plane.kube_apiserver,
            kube_controller_manager: control_plane.kube_controller_manager,
        };
        if geteuid().is_root() {
            tools.check_others_can_run()?;
        }
        Ok(tools)
    }

    /// Servers that root starts run as another user, who must be able to get at them.
    fn check_others_can_run(&self) -> Result<(), SetupError> {
        let postgres = self.postgres_bin.join("postgres");
        let binaries = [&postgres, &self.etcd, &self.kube_apiserver, &self.kube_controller_manager];
        match binaries.into_iter().find(|binary| !others_can_run(binary)) {
            Some(binary) => Err(SetupError::OutOfReach { path: binary.clone() }),
            None => Ok(()),
        }
    }
}

/// Why the servers' binaries could not be provided.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// A variable has a value that means nothing.
    #[error("{variable} is {value:?}: {allowed}")]
    Variable {
        /// The variable's name.
        variable: &'static str,
        /// What it was set to.
        value: String,
        /// What it may be.
        allowed: &'static str,
    },
    /// There is no home directory to derive the cache from.
    #[error("no place for the cache: set BROKER_CACHE_DIR, XDG_CACHE_HOME or HOME")]
    NoCacheDir,
    /// A file or directory of the cache refused.
    #[error("cannot {doing} {}", path.display())]
    Io {
        /// The verb.
        doing: &'static str,
        /// What it was done to.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// [`Tools::find`] does not build, and something has not been built yet.
    #[error("{what} is missing: run `cargo xtask setup`")]
    NotSetUp {
        /// What is missing.
        what: String,
    },
    /// There are no binaries and no Go to build them with.
    #[error("missing {what}: install Go {go} or newer to have them built{otherwise}")]
    NoGo {
        /// The binaries that are missing, with their versions.
        what: String,
        /// The Go version that builds them.
        go: &'static str,
        /// What else would do.
        otherwise: &'static str,
    },
    /// There is a Go, but it is too old to build what is missing.
    #[error(
        "missing {what}, and {found} is too old to build them: install Go {go} or newer{otherwise}"
    )]
    OldGo {
        /// The binaries that are missing, with their versions.
        what: String,
        /// The version that was found.
        found: String,
        /// The Go version that builds them.
        go: &'static str,
        /// What else would do.
        otherwise: &'static str,
    },
    /// There is no Postgres and no package to unpack.
    #[error(
        "no Postgres 15 or newer on PATH or under {}, and Debian's package is out of reach ({why}): \
         install Postgres 15 or newer, or make `apt-get` work",
        system.display()
    )]
    NoPostgres {
        /// Where an installed one would be.
        system: PathBuf,
        /// Why the package could not be fetched or unpacked.
        why: String,
    },
    /// Something is neither installed nor can its package be unpacked.
    #[error(
        "no {package}, and Debian's package is out of reach ({why}): \
         install {package}, or make `apt-get` work"
    )]
    NoPackage {
        /// The package.
        package: &'static str,
        /// Why it could not be fetched or unpacked.
        why: String,
    },
    /// The unpacked Postgres needs libraries that the machine does not have.
    #[error("the unpacked Postgres needs shared libraries that are not installed: {}", libraries.join(", "))]
    MissingLibraries {
        /// Their names, as the linker knows them.
        libraries: Vec<String>,
    },
    /// A build ended with an error; its last lines were shown.
    #[error("{what} failed ({how}); the whole output is in {}", log.display())]
    StepFailed {
        /// The step.
        what: String,
        /// How the command ended.
        how: String,
        /// Where its output is.
        log: PathBuf,
    },
    /// Root found a binary, or has its cache, where only root gets at it.
    #[error(
        "{} is closed to other users, and root starts servers as another user: \
         open it and the directories above it, or move it", path.display()
    )]
    OutOfReach {
        /// The file or directory.
        path: PathBuf,
    },
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
    fn from_environment() -> Result<Self, SetupError> {
        let postgres_from_package = match std::env::var_os("BROKER_POSTGRES") {
            None => false,
            Some(value) if value == "package" => true,
            Some(value) => {
                return Err(SetupError::Variable {
                    variable: "BROKER_POSTGRES",
                    value: value.to_string_lossy().into_owned(),
                    allowed: "leave it unset, or set it to `package` to ignore an installed Postgres",
                });
            }
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

/// Whether a user who is neither owner nor in the group gets at the file and may run it, or at the
/// directory and may enter it.
pub(crate) fn others_can_run(path: &Path) -> bool {
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
