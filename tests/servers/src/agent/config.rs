//! The configuration of a current `plexd`: a file, or without one the environment.

use std::collections::BTreeMap;

use broker_app::render::read_document;
use serde_json::Value;

use super::{AgentError, Host};

const TOKEN_FILE: &str = "/etc/plexd/bootstrap-token";
const DATA_DIR: &str = "/var/lib/plexd";

#[derive(Debug)]
pub(super) struct Config {
    pub(super) base_url: String,
    /// Only a fresh registration needs it.
    pub(super) project_id: Option<String>,
    /// Only a fresh registration needs it.
    pub(super) resource_handle: Option<String>,
    pub(super) token_file: String,
    /// The token itself, from the environment.
    pub(super) token: Option<String>,
    pub(super) data_dir: String,
}

impl Config {
    pub(super) fn read(
        host: &Host,
        path: Option<&str>,
        environment: &BTreeMap<String, String>,
    ) -> Result<Self, AgentError> {
        let Some(path) = path else {
            let variable =
                |name: &str| environment.get(name).filter(|value| !value.is_empty()).cloned();
            let missing = || AgentError::Setting("PLEXD_API is required".to_owned());
            return Ok(Self {
                base_url: variable("PLEXD_API").ok_or_else(missing)?,
                project_id: variable("PLEXD_PROJECT_ID"),
                resource_handle: variable("PLEXD_RESOURCE_HANDLE"),
                token_file: TOKEN_FILE.to_owned(),
                token: variable("PLEXD_BOOTSTRAP_TOKEN"),
                data_dir: DATA_DIR.to_owned(),
            });
        };
        let content = host.read(path)?;
        let invalid = |problem: &str| AgentError::file(path, &problem);
        let document = read_document("config", content.as_bytes())
            .map_err(|_| invalid("is empty or not YAML"))?;
        if document.as_object().is_none_or(serde_json::Map::is_empty) {
            return Err(invalid("is empty or not YAML"));
        }
        let text = |field: &str| match document.pointer(field) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) if !text.is_empty() => Ok(Some(text.clone())),
            Some(_) => Err(invalid(&format!("{} is not a text", name_of(field)))),
        };
        let base_url = text("/api/base_url")?.ok_or_else(|| invalid("api.base_url is required"))?;
        Ok(Self {
            base_url,
            project_id: text("/registration/project_id")?,
            resource_handle: text("/registration/resource_handle")?,
            token_file: text("/registration/token_file")?.unwrap_or_else(|| TOKEN_FILE.to_owned()),
            token: None,
            data_dir: text("/data_dir")?.unwrap_or_else(|| DATA_DIR.to_owned()),
        })
    }
}

fn name_of(pointer: &str) -> String {
    pointer.trim_start_matches('/').replace('/', ".")
}
