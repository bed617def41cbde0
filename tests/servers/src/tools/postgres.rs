//! Provides Postgres: an installed one, or the distribution's package unpacked into the cache.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};

use super::{Missing, apt, is_executable};
use crate::cache::Cache;
use crate::failure::cannot;

/// The oldest major version that the broker supports.
const MIN_MAJOR: u32 = 15;

/// A package that depends on the distribution's version.
const PACKAGE: &str = "postgresql";

/// Debian's directory of Postgres versions, each with a `bin`. Postgres locates its other files relative to its
/// binaries.
const VERSIONS: &str = "usr/lib/postgresql";

/// The `bin` directory and its environment variables: the dynamic linker needs the path of unpacked libraries.
type PostgresTools = (PathBuf, Vec<(String, String)>);

/// An installed Postgres, or the distribution's package.
pub(super) fn provide(missing: Missing) -> Result<PostgresTools> {
    let from_package = match std::env::var_os("BROKER_POSTGRES") {
        None => false,
        Some(value) if value == "package" => true,
        Some(value) => bail!(
            "BROKER_POSTGRES is \"{}\": leave it unset, or set it to `package` to ignore an \
             installed Postgres",
            value.display()
        ),
    };
    if let Some(bin) = installed().filter(|_| !from_package) {
        return Ok((bin, Vec::new()));
    }
    let is_complete = |artifact: &Path| newest(&artifact.join(VERSIONS)).is_some();
    let cached = Cache::from_environment()?.artifact(&apt::key(PACKAGE));
    let is_available = is_complete(&cached) || missing == Missing::Build;
    ensure!(is_available, "missing Postgres {MIN_MAJOR} or newer: run `cargo xtask setup`");
    let artifact = apt::provide(PACKAGE, is_complete)?;
    let bin = newest(&artifact.join(VERSIONS));
    let bin =
        bin.with_context(|| format!("the package contains no Postgres {MIN_MAJOR} or newer"))?;
    // The package lacks LLVM. With this library, the first expensive query would fail; without it, Postgres does not
    // compile queries.
    let compiler = bin.with_file_name("lib").join("llvmjit.so");
    if compiler.exists() {
        fs::remove_file(&compiler).with_context(cannot("remove", &compiler))?;
    }
    let libraries = ["usr/lib", "lib"].map(|parent| fs::read_dir(artifact.join(parent)));
    let libraries = libraries.into_iter().flatten().flatten().flatten();
    let libraries = libraries.map(|entry| entry.path().to_string_lossy().into_owned());
    let libraries: Vec<_> = libraries.filter(|path| path.ends_with("-linux-gnu")).collect();
    Ok((bin, vec![("LD_LIBRARY_PATH".to_owned(), libraries.join(":"))]))
}

fn installed() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .filter(|directory| has_server(directory))
        .map(|directory| real_directory(&directory).unwrap_or(directory))
        .find(|directory| major_of(directory).is_some_and(|major| major >= MIN_MAJOR))
        .or_else(|| newest(&Path::new("/").join(VERSIONS)))
}

/// The server's real directory. A search path may contain links to some of its programs only.
fn real_directory(directory: &Path) -> Option<PathBuf> {
    let real = directory.join("postgres").canonicalize().ok()?;
    real.parent().filter(|directory| has_server(directory)).map(Path::to_owned)
}

/// The `bin` of the highest version in a Debian layout: `<major>/bin`.
fn newest(versions: &Path) -> Option<PathBuf> {
    let majors = fs::read_dir(versions).ok()?.filter_map(|entry| {
        let entry = entry.ok()?;
        let major: u32 = entry.file_name().to_str()?.parse().ok()?;
        let bin = entry.path().join("bin");
        (major >= MIN_MAJOR && has_server(&bin)).then_some((major, bin))
    });
    majors.max().map(|(_, bin)| bin)
}

fn has_server(directory: &Path) -> bool {
    ["initdb", "postgres", "psql"].iter().all(|name| is_executable(&directory.join(name)))
}

/// The major version that the server reports; `None` if it does not start.
fn major_of(directory: &Path) -> Option<u32> {
    let output = Command::new(directory.join("postgres")).arg("--version").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    // `postgres (PostgreSQL) 15.18 (Debian …)`; a beta is `19beta1`.
    let version = text.strip_prefix("postgres (PostgreSQL) ")?;
    version.split(|letter: char| !letter.is_ascii_digit()).next()?.parse().ok()
}
