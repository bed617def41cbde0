//! Observe: the bootstrap document of a machine, read from the composed object only.

use broker_domain::{ObjectReference, ProvisionedResourceId, XrName};
use serde_json::Value;

use super::crossplane::{COMPOSITE_LABEL, is_ready};
use super::state::State;
use broker_ports::BootstrapToken;

/// The token's path on a machine that booted with cloud-init.
const TOKEN_PATH: &str = "/etc/plexd/bootstrap-token";

/// A machine and its bootstrap token. The token is never printed, and the document cannot be cloned or serialised.
///
/// ```compile_fail,E0277
/// # use broker_memory::AgentDocument;
/// fn copies<T: Clone>() {}
/// copies::<AgentDocument>();
/// ```
///
/// ```compile_fail,E0277
/// # use broker_memory::AgentDocument;
/// fn keep(document: &AgentDocument) -> serde_json::Result<String> {
///     serde_json::to_string(document)
/// }
/// ```
///
/// The variants that compile:
///
/// ```
/// # use broker_memory::AgentDocument;
/// fn copies<T: Send>() {}
/// copies::<AgentDocument>();
/// ```
///
/// ```
/// # use broker_memory::AgentDocument;
/// fn keep(document: &AgentDocument) -> serde_json::Result<String> {
///     serde_json::to_string(document.machine.name())
/// }
/// ```
#[derive(Debug)]
pub struct AgentDocument {
    /// The machine's resource.
    pub resource: ProvisionedResourceId,
    /// The composed object of the machine.
    pub machine: ObjectReference,
    /// Whether its provider reports it as running.
    pub booted: bool,
    /// The injected token.
    pub token: BootstrapToken,
}

impl State {
    /// All machines with a document that are not being deleted.
    pub(super) fn agent_documents(&self) -> Vec<AgentDocument> {
        let document = |(reference, object): (&ObjectReference, &super::object::Object)| {
            let fields = object.spec()?.get("forProvider")?.get("fields")?;
            Some(AgentDocument {
                resource: XrName::id_of(object.label(COMPOSITE_LABEL)?)?,
                machine: reference.clone(),
                booted: is_ready(object),
                token: BootstrapToken::new(token_in(fields)?),
            })
        };
        let existing = self.objects.iter().filter(|(_, object)| object.deleting.is_none());
        existing.filter_map(document).collect()
    }
}

/// The token at any of the three injection sites.
fn token_in(fields: &Value) -> Option<String> {
    let token_at =
        |site: &str| fields.get("parameters")?.get(site)?.get("bootstrapToken")?.as_str();
    let in_user_data = || fields.get("userData")?.as_str().and_then(file_content);
    let bare = token_at("helmValues").or_else(|| token_at("providerSecret")).map(str::to_owned);
    in_user_data().or(bare).filter(|token| !token.is_empty())
}

/// The content of the token file that cloud-init writes for the agent.
fn file_content(document: &str) -> Option<String> {
    let document = document.strip_prefix("#cloud-config\n")?;
    let document = broker_render::read_document("user data", document.as_bytes()).ok()?;
    let files = document.get("write_files")?.as_array()?;
    let file =
        files.iter().find(|file| file.get("path").and_then(Value::as_str) == Some(TOKEN_PATH))?;
    file.get("content")?.as_str().map(str::to_owned)
}
