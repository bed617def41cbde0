//! Which variants were caught already, so that a run that was interrupted can go on where it was.
//!
//! A line is the digest of the sources, of the variant, and its name. It counts only while neither has changed: then
//! the same test would fail in the same way.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::PathBuf;

use sha2::{Digest as _, Sha256};

use super::scratch::Scratch;
use super::variant::Variant;
use crate::error::TaskError;
use crate::workspace::Workspace;
use broker_test_servers::tools::hex;

pub(super) struct Record {
    path: PathBuf,
    /// The digest of the sources.
    sources: String,
    lines: BTreeSet<String>,
}

impl Record {
    /// What the last runs left.
    pub(super) fn of(workspace: &Workspace, scratch: &Scratch) -> Result<Self, TaskError> {
        Self::read(Scratch::record(workspace), scratch.digest()?)
    }

    fn read(path: PathBuf, sources: String) -> Result<Self, TaskError> {
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(source) => return Err(TaskError::File { doing: "read", path, source }),
        };
        Ok(Self { path, sources, lines: text.lines().map(str::to_owned).collect() })
    }

    /// Whether it was caught, on these very sources.
    pub(super) fn has(&self, variant: &Variant) -> bool {
        self.lines.contains(&self.line(variant))
    }

    /// Notes that it was caught.
    pub(super) fn add(&mut self, variant: &Variant) -> Result<(), TaskError> {
        self.lines.insert(self.line(variant));
        self.write()
    }

    /// Everything is to be tried again.
    pub(super) fn forget(&mut self) -> Result<(), TaskError> {
        self.lines.clear();
        self.write()
    }

    fn line(&self, variant: &Variant) -> String {
        // Everything that was read of its patch.
        let own = hex(&Sha256::digest(format!("{variant:?}")));
        format!("{} {own} {}", self.sources, variant.name)
    }

    fn write(&self) -> Result<(), TaskError> {
        let text: String = self.lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect();
        let refused = |source| TaskError::File { doing: "write", path: self.path.clone(), source };
        fs::write(&self.path, text).map_err(refused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variant(new: &str) -> Variant {
        let head = "Breaks: Two.\nCaught by: proof counting::two\n--- a/a.rs\n+++ b/a.rs\n@@ @@\n";
        Variant::parse("act/two", &format!("{head}-two\n+{new}\n")).unwrap()
    }

    #[test]
    fn what_was_caught_counts_until_something_changes() {
        let directory = tempfile::tempdir().unwrap();
        let read = |sources: &str| {
            Record::read(directory.path().join("caught"), sources.to_owned()).unwrap()
        };
        let mut record = read("these");
        assert!(!record.has(&variant("three")));
        record.add(&variant("three")).unwrap();
        assert!(read("these").has(&variant("three")), "by the next run");
        assert!(!read("these").has(&variant("four")), "the variant is another");
        assert!(!read("others").has(&variant("three")), "the sources are others");
        record.forget().unwrap();
        assert!(!read("these").has(&variant("three")), "it was forgotten");
    }
}
