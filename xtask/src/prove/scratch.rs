//! A copy of the sources that may be broken, inside the build directory, with a build directory of its own.
//!
//! There are several, so that one is built while another is tried.
//! It is kept from one run to the next, and only what differs is written, so that cargo builds no more than it has
//! to. Whatever is put back is written again: cargo has to see that it changed, or it would run what was broken.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use broker_test_servers::failure::{cannot, cannot_run};
use broker_test_servers::tools::hex;
use sha2::{Digest as _, Sha256};

use super::page;
use crate::workspace::{Workspace, files};

pub(super) struct Scratch {
    source: PathBuf,
    /// The root of the copy.
    pub(super) tree: PathBuf,
    /// Where the copy is built.
    pub(super) target: PathBuf,
    /// Every file of the copy, from its root.
    files: Vec<String>,
}

impl Scratch {
    /// The sources as they are, in the copy of this number.
    pub(super) fn of(workspace: &Workspace, number: usize) -> Result<Self> {
        let place = workspace.target().join("mutations").join(number.to_string());
        let source = workspace.root().to_owned();
        let (tree, target) = (place.join("tree"), place.join("target"));
        fs::create_dir_all(&tree).with_context(cannot("create", &tree))?;
        let scratch = Self { files: files(&source)?, source, tree, target };
        scratch.files.iter().try_for_each(|file| scratch.restore(file))?;
        for gone in files(&scratch.tree)?.iter().filter(|it| !scratch.files.contains(it)) {
            fs::remove_file(scratch.tree.join(gone)).with_context(cannot("remove", gone))?;
        }
        Ok(scratch)
    }

    /// Takes over what another copy has compiled, if nothing was compiled here yet. Of that, cargo uses what does not
    /// depend on where the copy stands: the crates of others.
    pub(super) fn learn_from(&self, other: &Self) -> Result<()> {
        if self.target.exists() {
            return Ok(());
        }
        let mut copy = Command::new("cp");
        copy.args(["--archive", "--reflink=auto"]).args([&other.target, &self.target]);
        let status = copy.status().with_context(cannot_run(&copy))?;
        ensure!(status.success(), "copying {} failed ({status})", other.target.display());
        Ok(())
    }

    /// A digest of every file that is copied, but for the page that other ways write to meanwhile.
    pub(super) fn digest(&self) -> Result<String> {
        let mut hasher = Sha256::new();
        for file in self.files.iter().filter(|file| *file != page::PATH) {
            let bytes = fs::read(self.source.join(file)).with_context(cannot("read", file))?;
            hasher.update(format!("{file} {}\n", bytes.len()));
            hasher.update(bytes);
        }
        Ok(hex(&hasher.finalize()))
    }

    /// A file of the sources, as it is.
    pub(super) fn original(&self, file: &str) -> Result<String> {
        fs::read_to_string(self.source.join(file)).with_context(cannot("read", file))
    }

    /// Puts another text into the place of a file.
    pub(super) fn replace(&self, file: &str, text: &str) -> Result<()> {
        fs::write(self.tree.join(file), text).with_context(cannot("write", file))
    }

    /// Makes a file what it is in the sources, its permissions included.
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
