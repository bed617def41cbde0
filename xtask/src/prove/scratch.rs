//! A copy of the sources that may be broken, inside the build directory, with a build directory of its own.
//!
//! There are several, so that one is built while another is tried.
//! It is kept from one run to the next, and only what differs is written, so that cargo builds no more than it has
//! to. Whatever is put back is written anew: cargo has to see that it changed, or it would run what was broken.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest as _, Sha256};

use super::page;
use super::variant::DIRECTORY;
use crate::error::TaskError;
use crate::workspace::{Workspace, spawn_error};
use broker_test_servers::tools::hex;

pub(super) struct Scratch {
    source: PathBuf,
    tree: PathBuf,
    target: PathBuf,
    /// Every file of the copy, from its root.
    files: BTreeSet<PathBuf>,
}

impl Scratch {
    /// The sources as they are, in the copy of this number.
    pub(super) fn of(workspace: &Workspace, number: usize) -> Result<Self, TaskError> {
        let place = workspace.target().join("sabotage").join(number.to_string());
        let source = workspace.root().to_owned();
        let mut files = BTreeSet::new();
        collect(&source, Path::new(""), &mut files).map_err(refused("read", &source))?;
        let (tree, target) = (place.join("tree"), place.join("target"));
        let scratch = Self { source, tree, target, files };
        for file in &scratch.files {
            scratch.restore(file)?;
        }
        let mut copies = BTreeSet::new();
        collect(&scratch.tree, Path::new(""), &mut copies)
            .map_err(refused("read", &scratch.tree))?;
        for gone in copies.difference(&scratch.files) {
            let gone = scratch.tree.join(gone);
            fs::remove_file(&gone).map_err(refused("remove", &gone))?;
        }
        Ok(scratch)
    }

    /// The root of the copy.
    pub(super) fn root(&self) -> &Path {
        &self.tree
    }

    /// Where the copy is built.
    pub(super) fn target(&self) -> &Path {
        &self.target
    }

    /// Where it is noted what was caught, in whichever copy.
    pub(super) fn record(workspace: &Workspace) -> PathBuf {
        workspace.target().join("sabotage/caught")
    }

    /// Takes over what another copy has compiled, if nothing was compiled here yet. Of that, cargo uses what does not
    /// depend on where the copy stands: the crates of others.
    pub(super) fn learn_from(&self, other: &Self) -> Result<(), TaskError> {
        if self.target.exists() {
            return Ok(());
        }
        let mut copy = Command::new("cp");
        copy.args(["--archive", "--reflink=auto"]).args([&other.target, &self.target]);
        let status = copy.status().map_err(spawn_error(&copy))?;
        if status.success() {
            return Ok(());
        }
        let what = format!("copying {}", other.target.display());
        Err(TaskError::Command { what, how: status.to_string() })
    }

    /// A digest of every file that is copied, but for the variants and for the page that other ways write to meanwhile.
    pub(super) fn digest(&self) -> Result<String, TaskError> {
        let counts = |file: &Path| !file.starts_with(DIRECTORY) && file != Path::new(page::PATH);
        let mut hasher = Sha256::new();
        for file in self.files.iter().filter(|file| counts(file)) {
            let path = self.source.join(file);
            let bytes = fs::read(&path).map_err(refused("read", &path))?;
            hasher.update(file.to_string_lossy().as_bytes());
            hasher.update([0]);
            hasher.update((bytes.len() as u64).to_be_bytes());
            hasher.update(bytes);
        }
        Ok(hex(&hasher.finalize()))
    }

    /// A file of the sources, as it is.
    pub(super) fn original(&self, file: &str) -> Result<String, TaskError> {
        let path = self.source.join(file);
        fs::read_to_string(&path).map_err(refused("read", &path))
    }

    /// Puts another text into the place of a file.
    pub(super) fn replace(&self, file: &str, text: &str) -> Result<(), TaskError> {
        let path = self.tree.join(file);
        fs::write(&path, text).map_err(refused("write", &path))
    }

    /// Makes a file what it is in the sources.
    pub(super) fn restore(&self, file: impl AsRef<Path>) -> Result<(), TaskError> {
        let (from, to) = (self.source.join(&file), self.tree.join(&file));
        let bytes = fs::read(&from).map_err(refused("read", &from))?;
        if fs::read(&to).is_ok_and(|copy| copy == bytes) {
            return Ok(());
        }
        if let Some(directory) = to.parent() {
            fs::create_dir_all(directory).map_err(refused("create", directory))?;
        }
        fs::write(&to, bytes).map_err(refused("write", &to))?;
        let permissions = fs::metadata(&from).map_err(refused("read", &from))?.permissions();
        fs::set_permissions(&to, permissions).map_err(refused("write", &to))
    }
}

/// Every file below a root but those that cargo and others make.
fn collect(root: &Path, directory: &Path, files: &mut BTreeSet<PathBuf>) -> io::Result<()> {
    let place = root.join(directory);
    if !place.exists() {
        return Ok(());
    }
    for entry in fs::read_dir(place)? {
        let entry = entry?;
        let name = entry.file_name();
        let path = directory.join(&name);
        let kind = entry.file_type()?;
        if kind.is_dir() {
            let is_foreign = name == ".git" || (name == "target" && directory == Path::new(""));
            if !is_foreign {
                collect(root, &path, files)?;
            }
        } else if kind.is_file() && name != ".git" {
            files.insert(path);
        }
    }
    Ok(())
}

fn refused(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> TaskError {
    let path = path.to_owned();
    move |source| TaskError::File { doing, path, source }
}
