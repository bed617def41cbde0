//! The broker of this checkout, which sets up what is its own by its own command line.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::error::TaskError;
use crate::workspace::{Workspace, run, spawn_error};

/// The binary, built.
pub(super) struct Broker<'a> {
    workspace: &'a Workspace,
    catalog: PathBuf,
}

impl<'a> Broker<'a> {
    /// Builds it, in everybody's sight: the first time takes minutes.
    pub(super) fn build(workspace: &'a Workspace) -> Result<Self, TaskError> {
        let what = "building the broker";
        let mut command = workspace.cargo(&["build", "--quiet", "--bin", "provisioning-broker"]);
        let status = run(what, &mut command)?;
        if !status.success() {
            let how = status.to_string();
            return Err(TaskError::Command { what: what.to_owned(), how });
        }
        Ok(Self { workspace, catalog: workspace.root().join("examples/catalog") })
    }

    /// Where the sample blueprints are.
    pub(super) fn catalog(&self) -> &Path {
        &self.catalog
    }

    /// Makes its tables, and those of the neighbours, who have none here.
    pub(super) fn migrate(&self, environment: &[(String, String)]) -> Result<(), TaskError> {
        self.command(&["migrate", "up", "--reference"], environment).map(drop)
    }

    /// The roles that it needs for the sample blueprints, as YAML.
    pub(super) fn roles(&self) -> Result<String, TaskError> {
        let catalog = self.catalog.to_string_lossy();
        self.command(&["rbac", "--catalog", &catalog], &[])
    }

    /// Publishes the sample blueprints; answers a variable for the id of each.
    pub(super) fn publish(
        &self,
        environment: &[(String, String)],
    ) -> Result<Vec<(String, String)>, TaskError> {
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
    ) -> Result<String, TaskError> {
        let mut command = self.workspace.cargo(&["run", "--quiet", "--bin", "provisioning-broker"]);
        command.arg("--").args(arguments);
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        let output = command.output().map_err(spawn_error(&command))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let what = format!("`provisioning-broker {}`", arguments.join(" "));
        let how = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Err(TaskError::Command { what, how })
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
