//! valgrind, which counts instructions: an installed one, or the distribution's package unpacked into
//! the cache.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use super::{Lookup, apt, is_executable};

/// A valgrind that can be run.
#[derive(Debug, PartialEq, Eq)]
pub struct Valgrind {
    program: PathBuf,
    /// Where an unpacked one finds its tools; an installed one knows.
    tools: Option<PathBuf>,
}

impl Valgrind {
    /// Finds it, or unpacks it.
    ///
    /// # Errors
    ///
    /// It is not installed, and the package cannot be fetched.
    pub fn find_or_unpack(progress: &dyn Fn(&str)) -> Result<Self> {
        Self::in_lookup(&Lookup::from_environment()?, progress)
    }

    fn in_lookup(lookup: &Lookup, progress: &dyn Fn(&str)) -> Result<Self> {
        if let Some(program) = lookup.on_path("valgrind") {
            return Ok(Self { program, tools: None });
        }
        let is_complete = |artifact: &Path| {
            is_executable(&artifact.join("usr/bin/valgrind")) && tools(artifact).is_some()
        };
        let artifact = apt::provide_one(lookup, "valgrind", progress, is_complete)?;
        Ok(Self { program: artifact.join("usr/bin/valgrind"), tools: tools(&artifact) })
    }

    /// A command that runs a program under a tool of valgrind's.
    pub fn command(&self, tool: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.arg(format!("--tool={tool}"));
        if let Some(tools) = &self.tools {
            command.env("VALGRIND_LIB", tools);
        }
        command
    }
}

/// Where releases of the distribution have kept the tools.
fn tools(artifact: &Path) -> Option<PathBuf> {
    let places = ["usr/libexec/valgrind", "usr/lib/valgrind", "usr/lib/x86_64-linux-gnu/valgrind"];
    places.iter().map(|place| artifact.join(place)).find(|place| place.is_dir())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::tests::Machine;

    #[test]
    fn an_installed_one_comes_before_an_unpacked_one() {
        let machine = Machine::new();
        let unpacked = format!("cache/{}", apt::key("valgrind"));
        machine.put(&format!("{unpacked}/usr/bin/valgrind"));
        machine.put(&format!("{unpacked}/usr/libexec/valgrind/callgrind"));
        let found = Valgrind::in_lookup(&machine.lookup(), &|_| {}).unwrap();
        assert_eq!(found.program, machine.path(&unpacked).join("usr/bin/valgrind"));
        assert_eq!(found.tools, Some(machine.path(&unpacked).join("usr/libexec/valgrind")));

        machine.put("bin/valgrind");
        let found = Valgrind::in_lookup(&machine.lookup(), &|_| {}).unwrap();
        assert_eq!(found, Valgrind { program: machine.path("bin/valgrind"), tools: None });
    }
}
