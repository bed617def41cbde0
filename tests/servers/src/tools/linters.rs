//! The linters of `cargo xtask lint` that the toolchain does not include: built at pinned versions, into the cache.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use super::go::{self, Binary, Module};
use super::{Missing, is_executable};
use crate::cache::{Cache, run_logged};
use crate::failure::cannot;

const ACTIONLINT: Binary = Binary::new(
    "actionlint",
    "github.com/rhysd/actionlint",
    "/cmd/actionlint",
    Module {
        go_mod: include_str!("../../modules/actionlint/go.mod"),
        go_sum: include_str!("../../modules/actionlint/go.sum"),
    },
);

const CARGO_DENY: &str = "0.20.2";

/// actionlint, which checks workflows.
///
/// # Errors
///
/// It is not cached and cannot be built.
pub fn actionlint() -> Result<PathBuf> {
    let [program] = go::provide([&ACTIONLINT], "cargo xtask lint", Missing::Build)?;
    Ok(program)
}

/// cargo-deny, which checks licences, bans and sources of dependencies.
///
/// # Errors
///
/// It is not cached and cannot be built.
pub fn cargo_deny() -> Result<PathBuf> {
    let cache = Cache::from_environment()?;
    let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
    let key = format!("cargo-deny-{CARGO_DENY}-{os}-{arch}");
    let program = Path::new("bin/cargo-deny");
    let is_complete = |artifact: &Path| is_executable(&artifact.join(program));
    let artifact = cache.provide(&key, is_complete, |directory| {
        let target = directory.join("target");
        // Unoptimised: it runs for seconds, and a release build takes minutes longer.
        let mut install = Command::new("cargo");
        install.args(["install", "--debug", "--locked", "--version", CARGO_DENY, "cargo-deny"]);
        install.arg("--root").arg(directory).arg("--target-dir").arg(&target);
        install.env("CARGO_PROFILE_DEV_DEBUG", "false");
        run_logged(&format!("building cargo-deny {CARGO_DENY}"), &mut install, &cache.log(&key)?)?;
        fs::remove_dir_all(&target).with_context(cannot("remove", &target))
    })?;
    Ok(artifact.join(program))
}
