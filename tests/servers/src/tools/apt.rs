//! Packages of the distribution, unpacked into the cache without installing them.
//!
//! apt gets a state directory of its own and no hooks: the machine's package lists, caches and
//! services stay as they were. What comes out is a tree that mirrors the file system.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Lookup, SetupError};
use crate::cache::io;
use crate::child::{append, run_logged};

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

/// The name of an artifact that was unpacked from packages. What they link to belongs to a release.
pub(super) fn key(name: &str) -> String {
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let codename = release
        .lines()
        .find_map(|line| line.strip_prefix("VERSION_CODENAME="))
        .unwrap_or("unknown");
    format!("{name}-{}-{}", codename.trim_matches('"'), std::env::consts::ARCH)
}

/// A package in the cache, fetched and unpacked unless `is_complete` likes what is there.
pub(super) fn provide(
    lookup: &Lookup,
    package: &'static str,
    progress: &dyn Fn(&str),
    is_complete: impl Fn(&Path) -> bool,
) -> Result<PathBuf, SetupError> {
    let unreachable = |why: String| SetupError::NoPackage { package, why };
    let key = key(package);
    if !is_complete(&lookup.cache.artifact(&key)) {
        check(lookup).map_err(unreachable)?;
    }
    lookup.cache.provide(&key, progress, is_complete, |directory| {
        let apt = Apt::in_directory(lookup, &directory.join("apt"), &key, progress)?;
        let unpacked = apt
            .update()
            .and_then(|()| apt.download(&[package.to_owned()]))
            .and_then(|packages| apt.unpack(&packages, directory));
        unpacked.map_err(|error| unreachable(error.to_string()))?;
        apt.clean()
    })
}

/// Whether the programs are there that this needs; otherwise what is missing.
pub(super) fn check(lookup: &Lookup) -> Result<(), String> {
    let mut programs = ["apt-get", "apt-cache", "dpkg-deb"].into_iter();
    match programs.find(|program| lookup.on_path(program).is_none()) {
        Some(program) => Err(format!("there is no {program} on PATH")),
        None => Ok(()),
    }
}

/// apt with a state of its own.
pub(super) struct Apt<'a> {
    directory: PathBuf,
    configuration: PathBuf,
    status: &'a Path,
    log: PathBuf,
    progress: &'a dyn Fn(&str),
}

impl<'a> Apt<'a> {
    pub(super) fn in_directory(
        lookup: &'a Lookup,
        directory: &Path,
        key: &str,
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
            log: lookup.cache.log(key)?,
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

    /// Reads the package lists anew.
    pub(super) fn update(&self) -> Result<(), SetupError> {
        let what = "fetching the package lists";
        run_logged(self.progress, what, self.command("apt-get").arg("update"), &self.log)
    }

    /// Fetches the package files into a directory of their own.
    pub(super) fn download(&self, packages: &[String]) -> Result<PathBuf, SetupError> {
        let into = self.directory.join("packages");
        run_logged(
            self.progress,
            &format!("fetching {}", packages.join(", ")),
            self.command("apt-get").current_dir(&into).arg("download").args(packages),
            &self.log,
        )?;
        Ok(into)
    }

    /// The names of all packages that begin so.
    pub(super) fn names(&self, prefix: &str) -> Result<BTreeSet<String>, SetupError> {
        let names = self.ask(&["pkgnames", prefix])?;
        Ok(names.lines().map(str::to_owned).collect())
    }

    /// The libraries that the packages need, and those that they need in turn, without what is
    /// installed already.
    pub(super) fn missing_libraries(
        &self,
        packages: &[String],
    ) -> Result<BTreeSet<String>, SetupError> {
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

    pub(super) fn unpack(&self, packages: &Path, into: &Path) -> Result<(), SetupError> {
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

    /// Removes what was only needed for fetching.
    pub(super) fn clean(&self) -> Result<(), SetupError> {
        fs::remove_dir_all(&self.directory).map_err(io("remove", &self.directory))
    }

    /// The failure of a question that apt answered, but not as hoped.
    pub(super) fn failed(&self, what: &str, how: &str) -> SetupError {
        SetupError::StepFailed { what: what.to_owned(), how: how.to_owned(), log: self.log.clone() }
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
    fn without_apt_the_one_line_says_so_and_what_to_do() {
        let machine = Machine::new();
        let error = provide(&machine.lookup(), "valgrind", &|_| {}, |_| false).unwrap_err();
        assert_eq!(
            error.to_string(),
            "no valgrind, and Debian's package is out of reach (there is no apt-get on PATH): \
             install valgrind, or make `apt-get` work"
        );
    }

    #[test]
    fn what_was_unpacked_before_needs_no_apt() {
        let machine = Machine::new();
        let found = provide(&machine.lookup(), "valgrind", &|_| {}, |_| true).unwrap();
        assert_eq!(found, machine.path("cache").join(key("valgrind")));
    }
}
