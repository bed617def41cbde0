//! Prepares the broker's objects through its own command line.

use serde_json::Value;

use anyhow::{Context as _, Result, ensure};

use super::Checkout;
use crate::failure::cannot_run;

/// Commands of the built binary.
impl Checkout<'_> {
    /// Creates the broker's tables and the minimal tables of the platform.
    pub(super) fn migrate(&self, environment: &[(String, String)]) -> Result<()> {
        self.command(&["migrate", "up", "--reference"], environment).map(drop)
    }

    /// The roles for the sample blueprints, as YAML.
    pub(super) fn roles(&self) -> Result<String> {
        let catalog = self.catalog.to_string_lossy();
        self.command(&["rbac", "--catalog", &catalog], &[])
    }

    /// Publishes the sample blueprints; returns an environment variable per id.
    pub(super) fn publish(
        &self,
        environment: &[(String, String)],
    ) -> Result<Vec<(String, String)>> {
        let catalog = self.catalog.to_string_lossy();
        let import = ["catalog", "import", &catalog, "--output", "json"];
        let output = self.command(&import, environment)?;
        let output: Value = serde_json::from_str(&output).unwrap_or_default();
        let blueprints = output["blueprints"].as_array().into_iter().flatten();
        let variables = blueprints.filter_map(|blueprint| {
            let id = blueprint["blueprint_version_id"].as_str()?;
            Some((variable(blueprint["slug"].as_str()?), id.to_owned()))
        });
        Ok(variables.collect())
    }

    fn command(&self, arguments: &[&str], environment: &[(String, String)]) -> Result<String> {
        let mut command = (self.program)();
        command.args(arguments);
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        let output = command.output().with_context(cannot_run(&command))?;
        let (words, errors) = (arguments.join(" "), String::from_utf8_lossy(&output.stderr));
        ensure!(
            output.status.success(),
            "`provisioning-broker {words}` failed ({})",
            errors.trim()
        );
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

/// `sample-machine` becomes `BLUEPRINT_SAMPLE_MACHINE`.
fn variable(slug: &str) -> String {
    let letters =
        slug.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '_' });
    format!("BLUEPRINT_{}", letters.collect::<String>().to_uppercase())
}
