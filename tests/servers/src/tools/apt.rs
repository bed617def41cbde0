//! Unpacks packages of the distribution into the cache without installing them.
//!
//! apt gets its own state directory and no hooks, so the machine's package lists, caches and services do not change.
//! The result is a tree with the layout of the file system.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::cache::{Cache, run_logged};
use crate::failure::{cannot, cannot_run};

/// Settings that the command line cannot express: it cannot clear a list of hooks.
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

/// dpkg's list of installed packages.
const STATUS: &str = "/var/lib/dpkg/status";

/// The cache key of an unpacked package. Its libraries depend on the distribution's release.
pub(super) fn key(package: &str) -> String {
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let codename = release.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    let codename = codename.unwrap_or("unknown").trim_matches('"');
    format!("{package}-{codename}-{}", std::env::consts::ARCH)
}

/// Returns a package with the libraries that the machine lacks; fetches and unpacks them unless `is_complete` accepts
/// the cached tree.
pub(super) fn provide(package: &str, is_complete: impl Fn(&Path) -> bool) -> Result<PathBuf> {
    let (key, cache) = (key(package), Cache::from_environment()?);
    cache.provide(&key, is_complete, |directory| {
        let apt = Apt::in_directory(&directory.join("apt"), cache.log(&key)?)?;
        apt.unpack(package, directory).with_context(|| {
            format!(
                "{package} is not installed, and `apt-get` cannot fetch it: install it, or repair `apt-get`"
            )
        })?;
        fs::remove_dir_all(&apt.directory).with_context(cannot("remove", &apt.directory))
    })
}

/// apt with its own state directory.
struct Apt {
    directory: PathBuf,
    log: PathBuf,
}

impl Apt {
    fn in_directory(directory: &Path, log: PathBuf) -> Result<Self> {
        for part in ["lists/partial", "cache/archives/partial", "packages"] {
            let path = directory.join(part);
            fs::create_dir_all(&path).with_context(cannot("create", &path))?;
        }
        let configuration = directory.join("apt.conf");
        let text = format!(
            "{APT_CONFIGURATION}Dir::State \"{0}\";\nDir::Cache \"{0}/cache\";\nDir::Log \"{0}\";\n\
             Dir::State::status \"{STATUS}\";\n",
            directory.display(),
        );
        fs::write(&configuration, text).with_context(cannot("write", &configuration))?;
        Ok(Self { directory: directory.to_owned(), log })
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.arg("-c").arg(self.directory.join("apt.conf")).env("LC_ALL", "C");
        command.env("DEBIAN_FRONTEND", "noninteractive");
        command
    }

    fn unpack(&self, package: &str, into: &Path) -> Result<()> {
        let update = &mut self.command("apt-get");
        run_logged("fetching the package lists", update.arg("update"), &self.log)?;
        let (packages, directory) =
            (self.with_libraries(package)?, self.directory.join("packages"));
        let mut download = self.command("apt-get");
        download.current_dir(&directory).arg("download").args(&packages);
        let names: Vec<_> = packages.iter().map(String::as_str).collect();
        run_logged(&format!("fetching {}", names.join(", ")), &mut download, &self.log)?;
        for entry in fs::read_dir(&directory).with_context(cannot("read", &directory))? {
            let file = entry.with_context(cannot("read", &directory))?.path();
            if file.extension() == Some(OsStr::new("deb")) {
                let what = format!("unpacking {}", file.display());
                let mut command = Command::new("dpkg-deb");
                run_logged(&what, command.arg("-x").arg(&file).arg(into), &self.log)?;
            }
        }
        Ok(())
    }

    /// The package, the versions that it depends on, and their libraries, transitively, without installed ones.
    fn with_libraries(&self, package: &str) -> Result<BTreeSet<String>> {
        let status = fs::read_to_string(STATUS).with_context(cannot("read", STATUS))?;
        // An installed version of the package itself does not count: the caller has already rejected it.
        let installed = installed(&status).filter(|name| !name.starts_with(package));
        let installed: BTreeSet<_> = installed.collect();
        let mut packages = BTreeSet::from([package.to_owned()]);
        let mut unread = vec![package.to_owned()];
        while !unread.is_empty() {
            let mut command = self.command("apt-cache");
            command.args(["depends", "-i"]).args(&unread);
            let output = command.output().with_context(cannot_run(&command))?;
            let errors = String::from_utf8_lossy(&output.stderr);
            ensure!(output.status.success(), "reading the package lists failed ({errors})");
            let output = String::from_utf8_lossy(&output.stdout);
            let needed = dependencies(&output, package).filter(|name| !installed.contains(name));
            unread = needed
                .filter(|name| packages.insert((*name).to_owned()))
                .map(str::to_owned)
                .collect();
        }
        Ok(packages)
    }
}

/// The names of the installed packages in a dpkg status file.
fn installed(status: &str) -> impl Iterator<Item = &str> {
    status.split("\n\n").filter_map(|paragraph| {
        let is_installed = paragraph.lines().any(|line| line == "Status: install ok installed");
        let name = paragraph.lines().find_map(|line| line.strip_prefix("Package: "))?;
        is_installed.then_some(name)
    })
}

/// The libraries in the output of `apt-cache depends`, and the versioned packages: `postgresql` needs `postgresql-15`,
/// which needs `postgresql-client-15`.
///
/// Excludes the C library, which is part of the machine, and LLVM, which is large and only compiles queries.
fn dependencies<'a>(output: &'a str, package: &str) -> impl Iterator<Item = &'a str> {
    let versions = [format!("{package}-"), format!("{package}-client-")];
    let is_version = move |name: &str| {
        let digits = versions.iter().filter_map(|version| name.strip_prefix(version.as_str()));
        digits.into_iter().any(|rest| rest.parse::<u32>().is_ok())
    };
    let is_excluded = |name: &str| name.starts_with("libc6") || name.starts_with("libllvm");
    let dependencies = output.lines().filter_map(|line| line.split_once("Depends: "));
    let names = dependencies.map(|(_, name)| name.split(':').next().unwrap_or(name));
    names.filter(move |name| {
        is_version(name)
            || ((name.starts_with("lib") || name.starts_with("zlib")) && !is_excluded(name))
    })
}
