//! The distribution's Postgres package, unpacked into the cache without installing it.
//!
//! apt gets a state directory of its own and no hooks: the machine's package lists, caches and
//! services stay as they were. What comes out is a tree that mirrors the file system; Postgres
//! finds its other files relative to its binaries.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::postgres::newest;
use super::{Lookup, SetupError};
use crate::cache::io;
use crate::child::{append, run_logged};

/// Majors that the broker supports, in the order of preference: the one it is tested with most
/// first.
const MAJORS: std::ops::RangeInclusive<u32> = 15..=30;

/// Settings that a command line cannot make, because it cannot clear a list of hooks.
const APT_CONFIGURATION: &str = r#"
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
#clear DPkg::Pre-Invoke;
#clear DPkg::Post-Invoke;
APT::Sandbox::User "root";
Acquire::Retries "2";
Acquire::http::Timeout "20";
Acquire::https::Timeout "20";
"#;

/// The artifact's name. The libraries that the package links to belong to a release.
pub(super) fn key() -> String {
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let codename = release
        .lines()
        .find_map(|line| line.strip_prefix("VERSION_CODENAME="))
        .unwrap_or("unknown");
    format!("postgresql-{}-{}", codename.trim_matches('"'), std::env::consts::ARCH)
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
    for program in ["apt-get", "apt-cache", "dpkg-deb"] {
        if lookup.on_path(program).is_none() {
            return Err(unreachable(format!("there is no {program} on PATH")));
        }
    }
    lookup.cache.provide(&key(), progress, is_complete, |directory| {
        let apt = Apt::in_directory(lookup, &directory.join("apt"), progress)?;
        let unpacked = apt.fetch().and_then(|packages| apt.unpack(&packages, directory));
        unpacked.map_err(|error| unreachable(error.to_string()))?;
        fs::remove_dir_all(&apt.directory).map_err(io("remove", &apt.directory))?;
        without_jit(directory)
    })
}

/// apt with a state of its own.
struct Apt<'a> {
    directory: PathBuf,
    configuration: PathBuf,
    status: &'a Path,
    log: PathBuf,
    progress: &'a dyn Fn(&str),
}

impl<'a> Apt<'a> {
    fn in_directory(
        lookup: &'a Lookup,
        directory: &Path,
        progress: &'a dyn Fn(&str),
    ) -> Result<Self, SetupError> {
        for part in ["lists/partial", "cache/archives/partial", "packages"] {
            let path = directory.join(part);
            fs::create_dir_all(&path).map_err(io("create", &path))?;
        }
        let configuration = directory.join("apt.conf");
        let text = format!(
            "{APT_CONFIGURATION}Dir::State \"{0}\";\nDir::Cache \"{0}/cache\";\nDir::Log \"{0}\";\n\
             Dir::State::status \"{1}\";\n",
            directory.display(),
            lookup.dpkg_status.display(),
        );
        fs::write(&configuration, text).map_err(io("write", &configuration))?;
        Ok(Self {
            directory: directory.to_owned(),
            configuration,
            status: &lookup.dpkg_status,
            log: lookup.cache.log(&key())?,
            progress,
        })
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command
            .arg("-c")
            .arg(&self.configuration)
            .env("LC_ALL", "C")
            .env("DEBIAN_FRONTEND", "noninteractive");
        command
    }

    /// The package files, in a directory of their own.
    fn fetch(&self) -> Result<PathBuf, SetupError> {
        run_logged(
            self.progress,
            "fetching the package lists",
            self.command("apt-get").arg("update"),
            &self.log,
        )?;
        let major = self.offered_major()?;
        let mut packages =
            vec![format!("postgresql-{major}"), format!("postgresql-client-{major}")];
        packages.extend(self.missing_libraries(&packages)?);
        let into = self.directory.join("packages");
        run_logged(
            self.progress,
            &format!("fetching {}", packages.join(", ")),
            self.command("apt-get").current_dir(&into).arg("download").args(&packages),
            &self.log,
        )?;
        Ok(into)
    }

    fn offered_major(&self) -> Result<u32, SetupError> {
        let names = self.ask(&["pkgnames", "postgresql-"])?;
        let names: BTreeSet<&str> = names.lines().collect();
        MAJORS
            .into_iter()
            .find(|major| names.contains(format!("postgresql-{major}").as_str()))
            .ok_or_else(|| SetupError::StepFailed {
                what: "looking for a package `postgresql-15` or newer".to_owned(),
                how: "the distribution has none".to_owned(),
                log: self.log.clone(),
            })
    }

    /// The libraries that the packages need, and those that they need in turn, without what is
    /// installed already.
    fn missing_libraries(&self, packages: &[String]) -> Result<BTreeSet<String>, SetupError> {
        let status = fs::read_to_string(self.status).map_err(io("read", self.status))?;
        let installed: BTreeSet<&str> = installed(&status).collect();
        let mut missing = BTreeSet::new();
        let mut unread = packages.to_vec();
        while !unread.is_empty() {
            let mut question = vec!["depends", "-i"];
            question.extend(unread.iter().map(String::as_str));
            let answer = self.ask(&question)?;
            unread = libraries(&answer)
                .filter(|library| {
                    !installed.contains(library) && missing.insert((*library).to_owned())
                })
                .map(str::to_owned)
                .collect();
        }
        Ok(missing)
    }

    /// What `apt-cache` answers; what it complains about goes to the log.
    fn ask(&self, question: &[&str]) -> Result<String, SetupError> {
        let output = self
            .command("apt-cache")
            .args(question)
            .output()
            .map_err(io("ask apt for", &self.log))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        append(&self.log, &output.stderr).map_err(io("write", &self.log))?;
        Err(SetupError::StepFailed {
            what: "reading the package lists".to_owned(),
            how: output.status.to_string(),
            log: self.log.clone(),
        })
    }

    fn unpack(&self, packages: &Path, into: &Path) -> Result<(), SetupError> {
        for entry in fs::read_dir(packages).map_err(io("read", packages))? {
            let package = entry.map_err(io("read", packages))?.path();
            if package.extension() != Some(OsStr::new("deb")) {
                continue;
            }
            let name = package.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let mut command = Command::new("dpkg-deb");
            command.arg("-x").arg(&package).arg(into);
            run_logged(self.progress, &format!("unpacking {name}"), &mut command, &self.log)?;
        }
        Ok(())
    }
}

/// The names of the packages that a dpkg status file lists as installed.
fn installed(status: &str) -> impl Iterator<Item = &str> {
    status.split("\n\n").filter_map(|paragraph| {
        let is_installed = paragraph.lines().any(|line| line == "Status: install ok installed");
        let name = paragraph.lines().find_map(|line| line.strip_prefix("Package: "))?;
        is_installed.then_some(name)
    })
}

/// The libraries among the dependencies that `apt-cache depends` lists.
///
/// Without two: the C library is part of the machine, and LLVM is huge and only compiles queries.
fn libraries(answer: &str) -> impl Iterator<Item = &str> {
    answer
        .lines()
        .filter_map(|line| line.trim_start_matches([' ', '|']).split_once("Depends: "))
        .map(|(_, name)| name.split(':').next().unwrap_or(name))
        .filter(|name| name.starts_with("lib") || name.starts_with("zlib"))
        .filter(|name| *name != "libc6" && !name.starts_with("libllvm"))
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
    fn only_installed_packages_count_as_installed() {
        let status = "Package: libpq5\nStatus: install ok installed\n\n\
                      Package: libicu72\nStatus: deinstall ok config-files\n";
        assert_eq!(installed(status).collect::<Vec<_>>(), ["libpq5"]);
    }

    #[test]
    fn libraries_are_taken_from_the_dependencies() {
        let answer = "postgresql-15\n |Depends: locales\n  Depends: libc6\n  PreDepends: libpq5:any\n  \
                      Depends: libllvm14\n  Depends: <libvirtual>\n    libprovider\n  Depends: zlib1g\n";
        assert_eq!(libraries(answer).collect::<Vec<_>>(), ["libpq5", "zlib1g"]);
    }

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
