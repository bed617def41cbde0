//! Packages of the distribution, unpacked into the cache without installing them.
//!
//! apt gets a state directory of its own and no hooks: the machine's package lists, caches and
//! services stay as they were. What comes out is a tree that mirrors the file system.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, anyhow, bail};

use super::Lookup;
use crate::child::{append, run_logged};
use crate::failure::{cannot, cannot_run};

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

/// What is needed and neither installed nor unpacked.
pub(super) struct Wanted<'a> {
    /// What the artifact is called.
    pub(super) name: &'static str,
    /// What an installed one would be.
    pub(super) what: &'a str,
    /// What a person would install.
    pub(super) install: &'a str,
}

/// A package in the cache that is called like the program in it.
pub(super) fn provide_one(
    lookup: &Lookup,
    name: &'static str,
    progress: &dyn Fn(&str),
    is_complete: impl Fn(&Path) -> bool,
) -> Result<PathBuf> {
    let wanted = Wanted { name, what: name, install: name };
    provide(lookup, &wanted, progress, is_complete, |_| Ok(vec![name.to_owned()]))
}

/// Packages in the cache, fetched and unpacked unless `is_complete` likes what is there. `choose` names them.
pub(super) fn provide(
    lookup: &Lookup,
    wanted: &Wanted<'_>,
    progress: &dyn Fn(&str),
    is_complete: impl Fn(&Path) -> bool,
    choose: impl Fn(&Apt<'_>) -> Result<Vec<String>>,
) -> Result<PathBuf> {
    let Wanted { name, what, install } = wanted;
    let unreachable = |why: &str| {
        anyhow!(
            "no {what}, and Debian's package is out of reach ({why}): install {install}, or make \
             `apt-get` work"
        )
    };
    let key = key(name);
    let artifact = lookup.cache.artifact(&key);
    if is_complete(&artifact) {
        return Ok(artifact);
    }
    let mut programs = ["apt-get", "apt-cache", "dpkg-deb"].into_iter();
    if let Some(program) = programs.find(|program| lookup.on_path(program).is_none()) {
        return Err(unreachable(&format!("there is no {program} on PATH")));
    }
    lookup.cache.provide(&key, progress, is_complete, |directory| {
        let apt = Apt::in_directory(lookup, &directory.join("apt"), &key, progress)?;
        let unpacked = apt
            .update()
            .and_then(|()| apt.download(&choose(&apt)?))
            .and_then(|packages| apt.unpack(&packages, directory));
        unpacked.map_err(|error| unreachable(&error.to_string()))?;
        fs::remove_dir_all(&apt.directory).with_context(cannot("remove", &apt.directory))
    })
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
    fn in_directory(
        lookup: &'a Lookup,
        directory: &Path,
        key: &str,
        progress: &'a dyn Fn(&str),
    ) -> Result<Self> {
        for part in ["lists/partial", "cache/archives/partial", "packages"] {
            let path = directory.join(part);
            fs::create_dir_all(&path).with_context(cannot("create", &path))?;
        }
        let configuration = directory.join("apt.conf");
        let text = format!(
            "{APT_CONFIGURATION}Dir::State \"{0}\";\nDir::Cache \"{0}/cache\";\nDir::Log \"{0}\";\n\
             Dir::State::status \"{1}\";\n",
            directory.display(),
            lookup.dpkg_status.display(),
        );
        fs::write(&configuration, text).with_context(cannot("write", &configuration))?;
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
    fn update(&self) -> Result<()> {
        let what = "fetching the package lists";
        run_logged(self.progress, what, self.command("apt-get").arg("update"), &self.log)
    }

    /// Fetches the package files into a directory of their own.
    fn download(&self, packages: &[String]) -> Result<PathBuf> {
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
    pub(super) fn names(&self, prefix: &str) -> Result<BTreeSet<String>> {
        let names = self.ask(&["pkgnames", prefix])?;
        Ok(names.lines().map(str::to_owned).collect())
    }

    /// The libraries that the packages need, and those that they need in turn, without what is
    /// installed already.
    pub(super) fn missing_libraries(&self, packages: &[String]) -> Result<BTreeSet<String>> {
        let status = fs::read_to_string(self.status).with_context(cannot("read", self.status))?;
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
    fn ask(&self, question: &[&str]) -> Result<String> {
        let mut command = self.command("apt-cache");
        let output = command.args(question).output().with_context(cannot_run(&command))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        append(&self.log, &output.stderr).with_context(cannot("write", &self.log))?;
        let (how, log) = (output.status, self.log.display());
        bail!("reading the package lists failed ({how}); the whole output is in {log}")
    }

    fn unpack(&self, packages: &Path, into: &Path) -> Result<()> {
        for entry in fs::read_dir(packages).with_context(cannot("read", packages))? {
            let package = entry.with_context(cannot("read", packages))?.path();
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
    fn artifact_needs_no_apt_and_its_absence_is_one_line_that_says_what_to_do() {
        let machine = Machine::new();
        let lookup = machine.lookup();
        let provide = |is_complete| provide_one(&lookup, "valgrind", &|_| {}, |_| is_complete);
        assert_eq!(provide(true).unwrap(), machine.path("cache").join(key("valgrind")));
        let refused = |why: &str| {
            format!(
                "no valgrind, and Debian's package is out of reach ({why}): install valgrind, or \
                 make `apt-get` work"
            )
        };
        let error = || provide(false).unwrap_err().to_string();
        assert_eq!(error(), refused("there is no apt-get on PATH"));
    }
}
