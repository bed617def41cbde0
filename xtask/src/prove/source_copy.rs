//! A copy of the sources for mutation patches, in the build directory, with a separate build directory.
//!
//! Several copies exist, so that one builds while another runs tests. A copy is kept between runs and only changed
//! files are written, so that cargo rebuilds little. A restored file gets a new modification time: cargo would
//! otherwise keep the mutated build.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use broker_test_servers::failure::{cannot, cannot_run};
use broker_test_servers::tools::hex;
use sha2::{Digest as _, Sha256};

use super::page;
use crate::workspace::{Workspace, files};

pub(super) struct SourceCopy {
    source: PathBuf,
    /// The root of the copy.
    pub(super) tree: PathBuf,
    /// The build directory of the copy.
    pub(super) target: PathBuf,
    /// Every file of the copy, relative to its root.
    files: Vec<String>,
}

impl SourceCopy {
    /// Creates or updates the copy with this number.
    pub(super) fn create(workspace: &Workspace, number: usize) -> Result<Self> {
        let directory = workspace.target().join("mutations").join(number.to_string());
        let source = workspace.root().to_owned();
        let (tree, target) = (directory.join("tree"), directory.join("target"));
        fs::create_dir_all(&tree).with_context(cannot("create", &tree))?;
        let source_copy = Self { files: files(&source)?, source, tree, target };
        source_copy.files.iter().try_for_each(|file| source_copy.restore(file))?;
        for removed in
            files(&source_copy.tree)?.iter().filter(|file| !source_copy.files.contains(file))
        {
            fs::remove_file(source_copy.tree.join(removed))
                .with_context(cannot("remove", removed))?;
        }
        Ok(source_copy)
    }

    /// Copies the build of another copy if this one has none. Cargo reuses its external crates, whose output does not
    /// depend on the path.
    pub(super) fn reuse_build_of(&self, other: &Self) -> Result<()> {
        if self.target.exists() {
            return Ok(());
        }
        let mut copy = Command::new("cp");
        copy.args(["--archive", "--reflink=auto"]).args([&other.target, &self.target]);
        let status = copy.status().with_context(cannot_run(&copy))?;
        ensure!(status.success(), "copying {} failed ({status})", other.target.display());
        Ok(())
    }

    /// A digest of every copied file except docs/proof.md, which other checks write.
    pub(super) fn digest(&self) -> Result<String> {
        let mut hasher = Sha256::new();
        for file in self.files.iter().filter(|file| *file != page::PATH) {
            let bytes = fs::read(self.source.join(file)).with_context(cannot("read", file))?;
            hasher.update(format!("{file} {}\n", bytes.len()));
            hasher.update(bytes);
        }
        Ok(hex(&hasher.finalize()))
    }

    /// The original text of a file.
    pub(super) fn original(&self, file: &str) -> Result<String> {
        fs::read_to_string(self.source.join(file)).with_context(cannot("read", file))
    }

    /// Overwrites a file of the copy.
    pub(super) fn replace(&self, file: &str, text: &str) -> Result<()> {
        fs::write(self.tree.join(file), text).with_context(cannot("write", file))
    }

    /// Restores a file with its permissions.
    pub(super) fn restore(&self, file: &str) -> Result<()> {
        let (from, to) = (self.source.join(file), self.tree.join(file));
        let bytes = fs::read(&from).with_context(cannot("read", &from))?;
        if fs::read(&to).is_ok_and(|copy| copy == bytes) {
            return Ok(());
        }
        if let Some(directory) = to.parent() {
            fs::create_dir_all(directory).with_context(cannot("create", directory))?;
        }
        fs::copy(&from, &to).with_context(cannot("write", &to))?;
        Ok(())
    }
}
