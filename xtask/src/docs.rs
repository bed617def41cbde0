//! The list of generated, committed files: `docs` writes it, `tidy` compares it.

mod broker;
mod metrics;
mod mutations;
mod state_machine;

use std::fs;

use anyhow::{Context as _, Result};
use broker_test_servers::failure::cannot;

use crate::surface;
use crate::workspace::Workspace;

/// A file that is generated from the code.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct GeneratedFile {
    /// Relative to the workspace's root.
    pub(crate) path: &'static str,
    pub(crate) content: String,
}

/// Every generated file.
pub(crate) fn generated(workspace: &Workspace) -> Result<Vec<GeneratedFile>> {
    let mut all = broker::pages(workspace)?;
    let mutations = mutations::page(workspace.root())?;
    all.extend([metrics::page(), mutations, state_machine::page()]);
    Ok(all)
}

/// Writes the stale files.
pub(crate) fn write() -> Result<()> {
    let workspace = Workspace::load()?;
    let pages = generated(&workspace)?.into_iter().map(|file| (file.path.to_owned(), file.content));
    for (path, content) in pages.chain(surface::listings(&workspace)?) {
        let file = workspace.root().join(&path);
        let is_current = fs::read_to_string(&file).is_ok_and(|text| text == content);
        if !is_current {
            fs::write(&file, content).with_context(cannot("write", &path))?;
        }
        println!("{path}: {}", if is_current { "unchanged" } else { "written" });
    }
    Ok(())
}
