//! Postgres: an installed one, or the distribution's package unpacked into the cache.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use super::apt::{self, Apt, Wanted};
use super::{Lookup, is_executable};

/// The oldest major version that the broker supports.
const OLDEST: u32 = 15;

/// Majors that the broker supports, in the order of preference: the one it is tested with most
/// first.
const MAJORS: std::ops::RangeInclusive<u32> = OLDEST..=30;

/// The artifact's name.
const PACKAGE: &str = "postgresql";

/// The directory of its binaries, and what they need in their environment.
type Found = (PathBuf, Vec<(String, String)>);

/// An installed Postgres, or the distribution's package, which is unpacked if there is somebody to tell of it.
pub(super) fn provide(lookup: &Lookup, progress: Option<&dyn Fn(&str)>) -> Result<Found> {
    if let Some(bin) = installed(lookup) {
        return Ok((bin, Vec::new()));
    }
    let is_complete = |artifact: &Path| newest(&versions(artifact)).is_some();
    let mut artifact = lookup.cache.artifact(&apt::key(PACKAGE));
    if !is_complete(&artifact) {
        let progress = progress.context("missing Postgres: run `cargo xtask setup`")?;
        let system = lookup.system_postgres.display();
        let install = format!("Postgres {OLDEST} or newer");
        let what = format!("{install} on PATH or under {system}");
        let wanted = Wanted { name: PACKAGE, what: &what, install: &install };
        artifact = apt::provide(lookup, &wanted, progress, is_complete, packages)?;
    }
    open_unpacked(&artifact)
}

/// Where the artifact keeps its versions, each with a `bin`. Postgres finds its other files relative to its binaries.
fn versions(artifact: &Path) -> PathBuf {
    artifact.join("usr/lib/postgresql")
}

/// The newest server that is supported, with the libraries that it needs and the machine lacks.
fn packages(apt: &Apt<'_>) -> Result<Vec<String>> {
    let names = apt.names("postgresql-")?;
    let major = MAJORS.into_iter().find(|major| names.contains(&format!("postgresql-{major}")));
    let major = major.context("the distribution has no package `postgresql-15` or newer")?;
    let mut packages = vec![format!("postgresql-{major}"), format!("postgresql-client-{major}")];
    packages.extend(apt.missing_libraries(&packages)?);
    Ok(packages)
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
fn newest(versions: &Path) -> Option<PathBuf> {
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
fn open_unpacked(artifact: &Path) -> Result<Found> {
    let bin = newest(&versions(artifact)).context("the package holds no Postgres")?;
    // Without its library the query compiler is not used; with it but without LLVM the first expensive query would fail.
    let compiler = bin.with_file_name("lib").join("llvmjit.so");
    if std::fs::remove_file(&compiler).is_err() {
        ensure!(!compiler.exists(), "cannot remove {}", compiler.display());
    }
    let env = environment(artifact);
    let libraries = missing_libraries(&bin, &env).join(", ");
    let what = "the unpacked Postgres needs shared libraries that are not installed";
    ensure!(libraries.is_empty(), "{what}: {libraries}");
    Ok((bin, env))
}

/// Shows the linker the libraries that were unpacked beside the server, if any were.
fn environment(artifact: &Path) -> Vec<(String, String)> {
    let directories: Vec<String> = ["usr/lib", "lib"]
        .iter()
        .filter_map(|parent| std::fs::read_dir(artifact.join(parent)).ok())
        .flatten()
        .filter_map(|entry| entry.ok()?.path().into_os_string().into_string().ok())
        .filter(|path| path.ends_with("-linux-gnu"))
        .collect();
    let path = ("LD_LIBRARY_PATH".to_owned(), directories.join(":"));
    Vec::from_iter((!directories.is_empty()).then_some(path))
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
        let script = format!("echo 'postgres (PostgreSQL) {version}'");
        machine.put_script(&format!("{bin}/postgres"), &script);
    }

    fn found(lookup: &Lookup) -> Option<PathBuf> {
        provide(lookup, None).ok().map(|(bin, _)| bin)
    }

    #[test]
    fn search_path_comes_before_the_system_and_the_cache_last() {
        let machine = Machine::new();
        let cached = format!("cache/{}/usr/lib/postgresql/15/bin", apt::key(PACKAGE));
        let mut lookup = machine.lookup();
        let error = provide(&lookup, Some(&|_| {})).unwrap_err().to_string();
        let expected = format!(
            "no Postgres 15 or newer on PATH or under {}, and Debian's package is out of reach (there is no \
             apt-get on PATH): install Postgres 15 or newer, or make `apt-get` work",
            machine.path("system").display()
        );
        assert_eq!(error, expected);
        machine.put("system/16/bin/psql");
        machine.put("bin/postgres");
        assert_eq!(found(&lookup), None, "a client without its server");
        put_server(&machine, &cached, "15.1");
        assert_eq!(found(&lookup), Some(machine.path(&cached)));
        put_server(&machine, "bin", "14.9");
        for version in ["9.6", "14", "15", "100", "common"] {
            put_server(&machine, &format!("system/{version}/bin"), version);
        }
        let highest = machine.path("system/100/bin");
        assert_eq!(found(&lookup), Some(highest), "too old on the path; a number and not a word");
        put_server(&machine, "bin", "17.2 (Debian 17.2-1)");
        assert_eq!(found(&lookup), Some(machine.path("bin").canonicalize().unwrap()));
        lookup.postgres_from_package = true;
        assert_eq!(found(&lookup), Some(machine.path(&cached)), "an installed one is ignored");
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
    fn libraries_are_shown_to_the_linker_and_missing_ones_read_from_its_words() {
        let machine = Machine::new();
        machine.put("artifact/usr/lib/postgresql/15/bin/postgres");
        let artifact = machine.path("artifact");
        assert_eq!(environment(&artifact), []);
        machine.put("artifact/usr/lib/x86_64-linux-gnu/libpq.so.5");
        let directory = machine.path("artifact/usr/lib/x86_64-linux-gnu").display().to_string();
        assert_eq!(environment(&artifact), [("LD_LIBRARY_PATH".to_owned(), directory)]);
        assert_eq!(not_found("\tlibpq.so.5 => not found"), Some("libpq.so.5"));
        assert_eq!(not_found("\tlibc.so.6 => /lib/libc.so.6 (0x00007f)"), None);
    }
}
