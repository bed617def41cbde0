//! The distribution's Postgres package, unpacked into the cache without installing it. Postgres finds
//! its other files relative to its binaries.

use std::fs;
use std::path::{Path, PathBuf};

use super::apt::{self, Apt};
use super::postgres::newest;
use super::{Lookup, SetupError};
use crate::cache::io;

/// Majors that the broker supports, in the order of preference: the one it is tested with most
/// first.
const MAJORS: std::ops::RangeInclusive<u32> = 15..=30;

/// The artifact's name.
pub(super) fn key() -> String {
    apt::key("postgresql")
}

/// Where the artifact keeps its versions, each with a `bin`.
pub(super) fn versions(artifact: &Path) -> PathBuf {
    artifact.join("usr/lib/postgresql")
}

/// Whether a server was unpacked there.
pub(super) fn is_complete(artifact: &Path) -> bool {
    newest(&versions(artifact)).is_some()
}

/// Shows the linker the libraries that were unpacked beside the server, if any were.
pub(super) fn environment(artifact: &Path) -> Vec<(String, String)> {
    let directories: Vec<String> = ["usr/lib", "lib"]
        .iter()
        .filter_map(|parent| fs::read_dir(artifact.join(parent)).ok())
        .flatten()
        .filter_map(|entry| entry.ok()?.path().into_os_string().into_string().ok())
        .filter(|path| path.ends_with("-linux-gnu"))
        .collect();
    if directories.is_empty() {
        return Vec::new();
    }
    vec![("LD_LIBRARY_PATH".to_owned(), directories.join(":"))]
}

/// Downloads and unpacks the package, with the libraries that it needs and the machine lacks.
pub(super) fn unpack(lookup: &Lookup, progress: &dyn Fn(&str)) -> Result<PathBuf, SetupError> {
    let unreachable =
        |why: String| SetupError::NoPostgres { system: lookup.system_postgres.clone(), why };
    apt::check(lookup).map_err(unreachable)?;
    lookup.cache.provide(&key(), progress, is_complete, |directory| {
        let apt = Apt::in_directory(lookup, &directory.join("apt"), &key(), progress)?;
        let unpacked = fetch(&apt).and_then(|packages| apt.unpack(&packages, directory));
        unpacked.map_err(|error| unreachable(error.to_string()))?;
        apt.clean()?;
        without_jit(directory)
    })
}

/// The package files, in a directory of their own.
fn fetch(apt: &Apt<'_>) -> Result<PathBuf, SetupError> {
    apt.update()?;
    let names = apt.names("postgresql-")?;
    let major = MAJORS
        .into_iter()
        .find(|major| names.contains(&format!("postgresql-{major}")))
        .ok_or_else(|| {
            let what = "looking for a package `postgresql-15` or newer";
            apt.failed(what, "the distribution has none")
        })?;
    let mut packages = vec![format!("postgresql-{major}"), format!("postgresql-client-{major}")];
    packages.extend(apt.missing_libraries(&packages)?);
    apt.download(&packages)
}

/// Takes the query compiler away. Without its library Postgres interprets; with it but without LLVM
/// the first expensive query would fail.
fn without_jit(artifact: &Path) -> Result<(), SetupError> {
    let Some(bin) = newest(&versions(artifact)) else { return Ok(()) };
    let compiler = bin.with_file_name("lib").join("llvmjit.so");
    match fs::remove_file(&compiler) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(io("remove", &compiler)(error))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::tests::Machine;

    #[test]
    fn without_apt_the_one_line_says_so_and_what_to_install() {
        let machine = Machine::new();
        let error = unpack(&machine.lookup(), &|_| {}).unwrap_err().to_string();
        assert_eq!(
            error,
            format!(
                "no Postgres 15 or newer on PATH or under {}, and Debian's package is out of reach (there is no \
                 apt-get on PATH): install Postgres 15 or newer, or make `apt-get` work",
                machine.path("system").display()
            )
        );
    }

    #[test]
    fn the_linker_is_shown_unpacked_libraries_only_where_there_are_some() {
        let machine = Machine::new();
        machine.put("artifact/usr/lib/postgresql/15/bin/postgres");
        let artifact = machine.path("artifact");
        assert_eq!(environment(&artifact), []);
        machine.put("artifact/usr/lib/x86_64-linux-gnu/libpq.so.5");
        let directory = machine.path("artifact/usr/lib/x86_64-linux-gnu").display().to_string();
        assert_eq!(environment(&artifact), [("LD_LIBRARY_PATH".to_owned(), directory)]);
    }
}
