//! Provides valgrind, which counts instructions: an installed one, or the distribution's package unpacked into the
//! cache.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use super::{apt, is_executable, on_path};

/// A valgrind that can be run.
#[derive(Debug)]
pub struct Valgrind {
    program: PathBuf,
    /// The tools directory of an unpacked valgrind; `None` for an installed one.
    tools: Option<PathBuf>,
}

impl Valgrind {
    /// Finds or unpacks valgrind.
    ///
    /// # Errors
    ///
    /// It is not installed, and the package cannot be fetched.
    pub fn find_or_unpack() -> Result<Self> {
        if let Some(program) = on_path("valgrind") {
            return Ok(Self { program, tools: None });
        }
        let artifact = apt::provide("valgrind", |artifact| {
            is_executable(&artifact.join("usr/bin/valgrind")) && tools(artifact).is_some()
        })?;
        Ok(Self { program: artifact.join("usr/bin/valgrind"), tools: tools(&artifact) })
    }

    /// A command that runs a program under a valgrind tool.
    pub fn command(&self, tool: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.arg(format!("--tool={tool}"));
        if let Some(tools) = &self.tools {
            command.env("VALGRIND_LIB", tools);
        }
        command
    }
}

/// The tools directory; its path differs between releases of the distribution.
fn tools(artifact: &Path) -> Option<PathBuf> {
    let directories =
        ["usr/libexec/valgrind", "usr/lib/valgrind", "usr/lib/x86_64-linux-gnu/valgrind"];
    directories.iter().map(|path| artifact.join(path)).find(|directory| directory.is_dir())
}
