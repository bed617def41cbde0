//! The texts of the checkout, as input of the rules.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use broker_test_servers::failure::cannot;

use crate::workspace::files;

/// Extensions of hand-written text files. Files in `.ci` count as well.
const EXTENSIONS: [&str; 10] =
    ["md", "patch", "rs", "sh", "sql", "svg", "toml", "txt", "yaml", "yml"];

/// A checkout, read once.
pub(super) struct Tree {
    pub(super) files: Vec<SourceFile>,
}

pub(super) struct SourceFile {
    /// Relative to the root, with slashes.
    pub(super) path: String,
    pub(super) text: String,
}

impl Tree {
    pub(super) fn load(root: &Path) -> Result<Self> {
        let is_text = |path: &String| {
            path.starts_with(".ci/") || extension(path).is_some_and(|it| EXTENSIONS.contains(&it))
        };
        let read = |path: String| {
            let text = fs::read_to_string(root.join(&path)).with_context(cannot("read", &path))?;
            Ok(SourceFile { path, text })
        };
        let files = files(root)?.into_iter().filter(is_text).map(read).collect::<Result<_>>()?;
        Ok(Self { files })
    }

    #[cfg(test)]
    pub(super) fn of_files(files: &[(&str, &str)]) -> Self {
        let file = |(path, text): &(&str, &str)| SourceFile {
            path: (*path).to_owned(),
            text: (*text).to_owned(),
        };
        Self { files: files.iter().map(file).collect() }
    }

    pub(super) fn text(&self, path: &str) -> Option<&str> {
        self.files.iter().find(|file| file.path == path).map(|file| file.text.as_str())
    }

    pub(super) fn rust_files(&self) -> impl Iterator<Item = &SourceFile> {
        self.files.iter().filter(|file| extension(&file.path) == Some("rs"))
    }
}

/// The lines of a text with 1-based numbers.
pub(super) fn numbered(text: &str) -> impl Iterator<Item = (usize, &str)> {
    (1..).zip(text.lines())
}

pub(super) fn extension(path: &str) -> Option<&str> {
    Path::new(path).extension()?.to_str()
}
