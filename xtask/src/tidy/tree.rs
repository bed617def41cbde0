//! What the rules look at: the texts of the checkout and the members of the workspace.

use std::fs;
use std::path::Path;

use cargo_metadata::DependencyKind;

use super::reach::Reach;
use crate::error::TaskError;
use crate::workspace::Workspace;

/// Hidden directories are somebody's tools, except these.
const OWN_HIDDEN_DIRECTORIES: [&str; 3] = [".cargo", ".ci", ".github"];
/// What is text and written by people. Anything in `.ci` is as well.
const EXTENSIONS: [&str; 9] = ["md", "patch", "rs", "sh", "sql", "svg", "toml", "yaml", "yml"];

/// A checkout, read once.
#[derive(Debug, Default)]
pub(super) struct Tree {
    pub(super) files: Vec<SourceFile>,
    pub(super) members: Vec<Member>,
    pub(super) reach: Reach,
}

/// A text file.
#[derive(Debug)]
pub(super) struct SourceFile {
    /// From the root, with slashes.
    pub(super) path: String,
    pub(super) text: String,
}

/// A crate of the workspace.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) name: String,
    /// The path of its manifest, from the root.
    pub(super) manifest: String,
    pub(super) dependencies: Vec<Dependency>,
}

/// A dependency that a manifest names.
#[derive(Clone, Debug)]
pub(super) struct Dependency {
    /// The crate's name.
    pub(super) name: String,
    /// What the manifest calls it.
    pub(super) key: String,
    pub(super) kind: DependencyKind,
    pub(super) optional: bool,
    pub(super) features: Vec<String>,
}

impl Tree {
    pub(super) fn load(workspace: &Workspace) -> Result<Self, TaskError> {
        let mut tree = Self { reach: Reach::load(workspace)?, ..Self::texts(workspace.root())? };
        for package in workspace.packages() {
            let manifest = package.manifest_path.as_std_path();
            let manifest = manifest.strip_prefix(workspace.root()).unwrap_or(manifest);
            tree.members.push(Member {
                name: package.name.to_string(),
                manifest: manifest.to_string_lossy().into_owned(),
                dependencies: package.dependencies.iter().map(Dependency::from).collect(),
            });
        }
        Ok(tree)
    }

    /// The texts below a root, and nothing that cargo would have to be asked for.
    pub(super) fn texts(root: &Path) -> Result<Self, TaskError> {
        let mut tree = Self::default();
        tree.read_directory(root, "")?;
        tree.files.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(tree)
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
        self.files.iter().filter(|file| file.extension() == Some("rs"))
    }

    fn read_directory(&mut self, directory: &Path, prefix: &str) -> Result<(), TaskError> {
        let refused =
            |source| TaskError::File { doing: "read", path: directory.to_owned(), source };
        for entry in fs::read_dir(directory).map_err(refused)? {
            let entry = entry.map_err(refused)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = format!("{prefix}{name}");
            if entry.file_type().map_err(refused)?.is_dir() {
                let is_foreign =
                    name.starts_with('.') && !OWN_HIDDEN_DIRECTORIES.contains(&name.as_str());
                if !is_foreign && path != "target" {
                    self.read_directory(&entry.path(), &format!("{path}/"))?;
                }
            } else if is_text(&path) {
                let text = fs::read_to_string(entry.path()).map_err(|source| TaskError::File {
                    doing: "read",
                    path: entry.path(),
                    source,
                })?;
                self.files.push(SourceFile { path, text });
            }
        }
        Ok(())
    }
}

impl SourceFile {
    pub(super) fn extension(&self) -> Option<&str> {
        Path::new(&self.path).extension()?.to_str()
    }

    /// The lines with their numbers, counted from 1.
    pub(super) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(index, line)| (index + 1, line))
    }
}

impl From<&cargo_metadata::Dependency> for Dependency {
    fn from(dependency: &cargo_metadata::Dependency) -> Self {
        Self {
            name: dependency.name.clone(),
            key: dependency.rename.clone().unwrap_or_else(|| dependency.name.clone()),
            kind: dependency.kind,
            optional: dependency.optional,
            features: dependency.features.clone(),
        }
    }
}

fn is_text(path: &str) -> bool {
    let extension = Path::new(path).extension().and_then(|extension| extension.to_str());
    path.starts_with(".ci/") || extension.is_some_and(|extension| EXTENSIONS.contains(&extension))
}
