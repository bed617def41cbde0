//! Postgres: an installed one, or the distribution's package unpacked into the cache.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Lookup, SetupError, debian, is_executable};

/// The oldest major version that the broker supports.
const OLDEST: u32 = 15;

/// A Postgres that can be started.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Postgres {
    /// The directory of its binaries.
    pub(super) bin: PathBuf,
    /// What they need in their environment.
    pub(super) env: Vec<(String, String)>,
}

/// An installed Postgres, or one that was unpacked before.
pub(super) fn find(lookup: &Lookup) -> Result<Option<Postgres>, SetupError> {
    if let Some(bin) = installed(lookup) {
        return Ok(Some(Postgres { bin, env: Vec::new() }));
    }
    let unpacked = lookup.cache.artifact(&debian::key());
    if !debian::is_complete(&unpacked) {
        return Ok(None);
    }
    open_unpacked(&unpacked).map(Some)
}

/// As [`find`], and unpacks the package if need be.
pub(super) fn find_or_unpack(
    lookup: &Lookup,
    progress: &dyn Fn(&str),
) -> Result<Postgres, SetupError> {
    if let Some(found) = find(lookup)? {
        return Ok(found);
    }
    let unpacked = debian::unpack(lookup, progress)?;
    open_unpacked(&unpacked)
}

fn installed(lookup: &Lookup) -> Option<PathBuf> {
    if lookup.postgres_from_package {
        return None;
    }
    std::env::split_paths(&lookup.path)
        .filter(|directory| has_server(directory))
        .map(|directory| home(&directory).unwrap_or(directory))
        .find(|directory| major_of(directory).is_some_and(|major| major >= OLDEST))
        .or_else(|| newest(&lookup.system_postgres))
}

/// Where the server really is. A search path may hold links to some of its programs; the others
/// stand beside what they point to.
fn home(directory: &Path) -> Option<PathBuf> {
    let real = directory.join("postgres").canonicalize().ok()?;
    real.parent().filter(|home| has_server(home)).map(Path::to_owned)
}

/// The `bin` of the highest version under a directory as Debian lays it out: `<major>/bin`.
pub(super) fn newest(versions: &Path) -> Option<PathBuf> {
    let majors = std::fs::read_dir(versions).ok()?.filter_map(|entry| {
        let entry = entry.ok()?;
        let major: u32 = entry.file_name().to_str()?.parse().ok()?;
        let bin = entry.path().join("bin");
        (major >= OLDEST && has_server(&bin)).then_some((major, bin))
    });
    majors.max().map(|(_, bin)| bin)
}

fn has_server(directory: &Path) -> bool {
    ["initdb", "postgres"].iter().all(|name| is_executable(&directory.join(name)))
}

/// The major version that the server itself states; one that does not start has none.
fn major_of(directory: &Path) -> Option<u32> {
    let output = Command::new(directory.join("postgres")).arg("--version").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    // `postgres (PostgreSQL) 15.18 (Debian …)`; a beta is `19beta1`.
    let version = text.strip_prefix("postgres (PostgreSQL) ")?;
    version.split(|letter: char| !letter.is_ascii_digit()).next()?.parse().ok()
}

/// Looks up the unpacked binaries and makes sure that the linker can start them.
fn open_unpacked(unpacked: &Path) -> Result<Postgres, SetupError> {
    let bin = newest(&debian::versions(unpacked))
        .ok_or_else(|| SetupError::NotSetUp { what: "Postgres".to_owned() })?;
    let env = debian::environment(unpacked);
    let libraries = missing_libraries(&bin, &env);
    if libraries.is_empty() {
        Ok(Postgres { bin, env })
    } else {
        Err(SetupError::MissingLibraries { libraries })
    }
}

/// What `ldd` cannot find, each name once. A machine without `ldd` learns it from the server
/// itself.
fn missing_libraries(bin: &Path, env: &[(String, String)]) -> Vec<String> {
    let output = Command::new("ldd")
        .args(["initdb", "postgres"].map(|name| bin.join(name)))
        .envs(env.iter().map(|(name, value)| (name, value)))
        .output();
    let text = output
        .map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
        .unwrap_or_default();
    let mut missing: Vec<String> = text.lines().filter_map(not_found).map(str::to_owned).collect();
    missing.sort();
    missing.dedup();
    missing
}

/// The library that a line of `ldd` says is missing.
fn not_found(line: &str) -> Option<&str> {
    line.trim().strip_suffix(" => not found")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::tests::Machine;

    fn put_server(machine: &Machine, bin: &str, version: &str) {
        machine.put(&format!("{bin}/initdb"));
        machine.put_script(
            &format!("{bin}/postgres"),
            &format!("echo 'postgres (PostgreSQL) {version}'"),
        );
    }

    fn found(lookup: &Lookup) -> Option<PathBuf> {
        find(lookup).unwrap().map(|postgres| postgres.bin)
    }

    #[test]
    fn the_search_path_comes_before_the_system_and_the_cache_last() {
        let machine = Machine::new();
        let cached = format!("cache/{}/usr/lib/postgresql/15/bin", debian::key());
        let lookup = machine.lookup();
        assert_eq!(found(&lookup), None);
        put_server(&machine, &cached, "15.1");
        assert_eq!(found(&lookup), Some(machine.path(&cached)));
        put_server(&machine, "system/16/bin", "16.1");
        assert_eq!(found(&lookup), Some(machine.path("system/16/bin")));
        put_server(&machine, "bin", "17.2 (Debian 17.2-1)");
        assert_eq!(found(&lookup), Some(machine.path("bin").canonicalize().unwrap()));
    }

    #[test]
    fn links_on_the_search_path_lead_to_where_the_server_is() {
        let machine = Machine::new();
        put_server(&machine, "opt/bin", "16.1");
        std::fs::create_dir(machine.path("bin")).unwrap();
        for name in ["initdb", "postgres"] {
            let link = machine.path(&format!("bin/{name}"));
            std::os::unix::fs::symlink(machine.path(&format!("opt/bin/{name}")), link).unwrap();
        }
        let home = machine.path("opt/bin").canonicalize().unwrap();
        assert_eq!(found(&machine.lookup()), Some(home));
    }

    #[test]
    fn an_old_one_on_the_search_path_is_passed_over() {
        let machine = Machine::new();
        put_server(&machine, "bin", "14.9");
        put_server(&machine, "system/15/bin", "15.1");
        assert_eq!(found(&machine.lookup()), Some(machine.path("system/15/bin")));
    }

    #[test]
    fn the_highest_version_is_a_number_and_not_a_word() {
        let machine = Machine::new();
        for version in ["9.6", "14", "15", "100", "common"] {
            put_server(&machine, &format!("system/{version}/bin"), version);
        }
        assert_eq!(newest(&machine.path("system")), Some(machine.path("system/100/bin")));
    }

    #[test]
    fn a_client_without_its_server_is_no_postgres() {
        let machine = Machine::new();
        machine.put("system/16/bin/psql");
        machine.put("bin/postgres");
        assert_eq!(found(&machine.lookup()), None);
    }

    #[test]
    fn asked_for_the_package_an_installed_one_is_ignored() {
        let machine = Machine::new();
        put_server(&machine, "bin", "15.1");
        let mut lookup = machine.lookup();
        lookup.postgres_from_package = true;
        assert_eq!(found(&lookup), None);
    }

    #[test]
    fn a_missing_library_is_read_from_the_linkers_words() {
        assert_eq!(not_found("\tlibpq.so.5 => not found"), Some("libpq.so.5"));
        assert_eq!(not_found("\tlibc.so.6 => /lib/libc.so.6 (0x00007f)"), None);
    }
}
