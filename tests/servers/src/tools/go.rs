//! Builds programs with Go from the module files of this crate, into the cache.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use sha2::{Digest, Sha256};

use super::{Missing, check_others_can_run, is_executable, on_path};
use crate::cache::{Cache, make_accessible, run_logged};
use crate::failure::cannot;

/// A module file and its checksums. They are compiled in, so that build and cache key use the same content.
pub(super) struct Module {
    pub(super) go_mod: &'static str,
    pub(super) go_sum: &'static str,
}

/// A program of a required module.
pub(super) struct Binary {
    pub(super) name: &'static str,
    /// The required module that contains it.
    pub(super) module: &'static str,
    /// Its path within that module.
    pub(super) package: &'static str,
    /// The variables into which the linker writes the version, which the sources do not contain.
    pub(super) version_variables: Option<&'static str>,
    pub(super) built_from: Module,
    /// Source directories to keep with the program: source path and name.
    pub(super) documents: &'static [(&'static str, &'static str)],
}

impl Binary {
    pub(super) const fn new(
        name: &'static str,
        module: &'static str,
        package: &'static str,
        built_from: Module,
    ) -> Self {
        Self { name, module, package, version_variables: None, built_from, documents: &[] }
    }

    /// The path of an existing binary. `KUBEBUILDER_ASSETS` has precedence.
    fn find(&self, cache: &Cache) -> Option<PathBuf> {
        let assets = std::env::var_os("KUBEBUILDER_ASSETS").filter(|value| !value.is_empty());
        // Absolute, because the user of a binary may have another working directory.
        let assets = assets.and_then(|value| std::path::absolute(value).ok());
        let mut directories = assets.into_iter().chain([cache.artifact(&self.key())]);
        directories
            .find(|directory| self.is_complete(directory))
            .map(|directory| directory.join(self.name))
    }

    fn build(&self, cache: &Cache, go: &Path) -> Result<PathBuf> {
        let key = self.key();
        let is_complete = |artifact: &Path| self.is_complete(artifact);
        let artifact = cache.provide(&key, is_complete, |directory| {
            let log = cache.log(&key)?;
            let (binary, module) = (directory.join(self.name), directory.join("module"));
            fs::create_dir(&module).with_context(cannot("create", &module))?;
            let Module { go_mod, go_sum } = self.built_from;
            for (name, text) in [("go.mod", go_mod), ("go.sum", go_sum)] {
                fs::write(module.join(name), text).with_context(cannot("write", name))?;
            }
            let mut build = command(go, &module);
            build.env("CGO_ENABLED", "0");
            build.args(["build", "-trimpath", "-ldflags", &self.linker_flags(), "-o"]).arg(&binary);
            build.arg(format!("{}{}", self.module, self.package));
            run_logged(&format!("building {}", self.title()), &mut build, &log)?;
            for (from, name) in self.documents {
                self.copy_document(go, &module, from, &directory.join(name), &log)?;
            }
            fs::remove_dir_all(&module).with_context(cannot("remove", &module))?;
            make_accessible(&binary)
        })?;
        Ok(artifact.join(self.name))
    }

    fn is_complete(&self, artifact: &Path) -> bool {
        is_executable(&artifact.join(self.name))
            && self.documents.iter().all(|(_, name)| artifact.join(name).is_dir())
    }

    /// Copies files from Go's module cache, which is read-only and may be cleaned. All users may read the copies.
    fn copy_document(
        &self,
        go: &Path,
        module: &Path,
        from: &str,
        to: &Path,
        log: &Path,
    ) -> Result<()> {
        let mut list = command(go, module);
        let output = list.args(["list", "-m", "-f", "{{.Dir}}", self.module]).output();
        let source = String::from_utf8(output.with_context(cannot("run", go))?.stdout)?;
        let from = Path::new(source.trim()).join(from);
        let what = format!("copying documents of {}", self.title());
        run_logged(&what, Command::new("cp").arg("-r").arg(from).arg(to), log)?;
        run_logged(&what, Command::new("chmod").args(["-R", "u+w,a+rX"]).arg(to), log)
    }

    /// Strips debug information, which saves a third of the size.
    fn linker_flags(&self) -> String {
        let Some(package) = self.version_variables else { return "-s -w".to_owned() };
        let version = self.version();
        let mut parts = version.split('.');
        let [major, minor] = [(); 2].map(|()| parts.next().unwrap_or_default());
        format!(
            "-s -w -X {package}.gitVersion=v{version} -X {package}.gitMajor={major} -X {package}.gitMinor={minor}"
        )
    }

    fn title(&self) -> String {
        format!("{} {}", self.name, self.version())
    }

    /// The required version of the module, without its `v`.
    fn version(&self) -> &'static str {
        let version = |line: &'static str| {
            line.trim().strip_prefix(self.module)?.strip_prefix(" v")?.split(' ').next()
        };
        self.built_from.go_mod.lines().find_map(version).unwrap_or("unknown")
    }

    /// The version is informative. The digest covers every input of the build: a changed dependency or flag gets a new
    /// binary.
    fn key(&self) -> String {
        let mut digest = Sha256::new();
        for part in [self.built_from.go_mod, self.built_from.go_sum, &self.linker_flags()] {
            digest.update(part.as_bytes());
            digest.update([0]);
        }
        let digest = super::hex(&digest.finalize()[..6]);
        let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
        format!("{}-{}-{os}-{arch}-{digest}", self.name, self.version())
    }
}

/// Finds the programs. Builds missing ones if `missing` allows it; otherwise the error names `setup`.
pub(super) fn provide<const N: usize>(
    binaries: [&Binary; N],
    setup: &str,
    missing: Missing,
) -> Result<[PathBuf; N]> {
    let cache = Cache::from_environment()?;
    let mut paths = binaries.map(|binary| binary.find(&cache).unwrap_or_default());
    let unbuilt = || binaries.iter().zip(&paths).filter(|(_, path)| path.as_os_str().is_empty());
    let names: Vec<_> = unbuilt().map(|(binary, _)| binary.title()).collect();
    if !names.is_empty() {
        let names = names.join(", ");
        ensure!(missing == Missing::Build, "missing {names}: run `{setup}`");
        let go = on_path("go").with_context(|| {
            format!(
                "missing {names}: install Go 1.26 or newer to build them, or set KUBEBUILDER_ASSETS to a \
                 directory with them"
            )
        })?;
        for (binary, path) in binaries.iter().zip(&mut paths) {
            if path.as_os_str().is_empty() {
                *path = binary.build(&cache, &go)?;
            }
        }
    }
    paths.iter().try_for_each(|path| check_others_can_run(path))?;
    Ok(paths)
}

/// Ignores the user's Go settings for their own modules.
fn command(go: &Path, module: &Path) -> Command {
    let mut command = Command::new(go);
    command.current_dir(module).env("GOFLAGS", "-mod=readonly").env("GOWORK", "off");
    command
}
