//! The broker of this checkout, which sets up what is its own by its own command line.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::error::{UpError, spawn_error};

/// The binary, built.
pub(super) struct Broker<'a> {
    /// Makes a command that runs it.
    program: &'a (dyn Fn() -> Command + Sync),
    catalog: &'a Path,
}

impl<'a> Broker<'a> {
    pub(super) fn new(program: &'a (dyn Fn() -> Command + Sync), catalog: &'a Path) -> Self {
        Self { program, catalog }
    }

    /// Where the sample blueprints are.
    pub(super) fn catalog(&self) -> &Path {
        self.catalog
    }

    /// Makes its tables, and those of the neighbours, who have none here.
    pub(super) fn migrate(&self, environment: &[(String, String)]) -> Result<(), UpError> {
        self.command(&["migrate", "up", "--reference"], environment).map(drop)
    }

    /// The roles that it needs for the sample blueprints, as YAML.
    pub(super) fn roles(&self) -> Result<String, UpError> {
        let catalog = self.catalog.to_string_lossy();
        self.command(&["rbac", "--catalog", &catalog], &[])
    }

    /// Publishes the sample blueprints; answers a variable for the id of each.
    pub(super) fn publish(
        &self,
        environment: &[(String, String)],
    ) -> Result<Vec<(String, String)>, UpError> {
        let catalog = self.catalog.to_string_lossy();
        let import = ["catalog", "import", &catalog, "--output", "json"];
        let answer = self.command(&import, environment)?;
        let answer: Value = serde_json::from_str(&answer).unwrap_or_default();
        let blueprints = answer["blueprints"].as_array().into_iter().flatten();
        let variables = blueprints.filter_map(|blueprint| {
            let id = blueprint["blueprint_version_id"].as_str()?;
            Some((variable(blueprint["slug"].as_str()?), id.to_owned()))
        });
        Ok(variables.collect())
    }

    fn command(
        &self,
        arguments: &[&str],
        environment: &[(String, String)],
    ) -> Result<String, UpError> {
        let mut command = (self.program)();
        command.args(arguments);
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        let output = command.output().map_err(spawn_error(&command))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let what = format!("`provisioning-broker {}`", arguments.join(" "));
        let how = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Err(UpError::Command { what, how })
    }
}

/// `sample-machine` becomes `BLUEPRINT_SAMPLE_MACHINE`.
fn variable(slug: &str) -> String {
    let letters = slug.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' });
    format!("BLUEPRINT_{}", letters.collect::<String>().to_uppercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blueprint_has_a_variable() {
        assert_eq!(variable("sample-machine.v2"), "BLUEPRINT_SAMPLE_MACHINE_V2");
    }
}
