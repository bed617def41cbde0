//! What the rules look at: the texts of the checkout and the members of the workspace.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use broker_test_servers::failure::cannot;
use cargo_metadata::Package;

use super::reach::Reach;
use crate::workspace::{Workspace, files};

/// What is text and written by people. Anything in `.ci` is as well.
const EXTENSIONS: [&str; 9] = ["md", "patch", "rs", "sh", "sql", "svg", "toml", "yaml", "yml"];

/// A checkout, read once.
#[derive(Debug, Default)]
pub(super) struct Tree {
    pub(super) files: Vec<SourceFile>,
    pub(super) members: Vec<Package>,
    pub(super) reach: Reach,
}

/// A text file.
#[derive(Debug)]
pub(super) struct SourceFile {
    /// From the root, with slashes.
    pub(super) path: String,
    pub(super) text: String,
}

impl Tree {
    pub(super) fn load(workspace: &Workspace) -> Result<Self> {
        let reach = Reach::load(workspace)?;
        let members = workspace.packages().cloned().collect();
        Ok(Self { members, reach, ..Self::texts(workspace.root())? })
    }

    /// The texts below a root, and nothing that cargo would have to be asked for.
    pub(super) fn texts(root: &Path) -> Result<Self> {
        let read = |path: String| {
            let text = fs::read_to_string(root.join(&path)).with_context(cannot("read", &path))?;
            Ok(SourceFile { path, text })
        };
        let texts = files(root)?.into_iter().filter(|path| is_text(path)).map(read);
        Ok(Self { files: texts.collect::<Result<_>>()?, ..Self::default() })
    }

    /// A tree of texts alone.
    #[cfg(test)]
    pub(super) fn of_files(files: &[(&str, &str)]) -> Self {
        let files = files
            .iter()
            .map(|(path, text)| SourceFile { path: (*path).to_owned(), text: (*text).to_owned() });
        Self { files: files.collect(), ..Self::default() }
    }

    pub(super) fn file(&self, path: &str) -> Option<&SourceFile> {
        self.files.iter().find(|file| file.path == path)
    }

    pub(super) fn rust_files(&self) -> impl Iterator<Item = &SourceFile> {
        self.files.iter().filter(|file| extension(&file.path) == Some("rs"))
    }
}

impl SourceFile {
    /// The lines with their numbers, counted from 1.
    pub(super) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.text.lines())
    }
}

pub(super) fn extension(path: &str) -> Option<&str> {
    Path::new(path).extension()?.to_str()
}

fn is_text(path: &str) -> bool {
    path.starts_with(".ci/") || extension(path).is_some_and(|it| EXTENSIONS.contains(&it))
}
