//! Observe: the bootstrap document of a machine, read from the composed object only.

use broker_domain::{ObjectReference, ProvisionedResourceId, XrName};
use broker_render::token_in;
use secrecy::ExposeSecret as _;
use serde_json::Value;

use super::crossplane::{COMPOSITE_LABEL, is_ready};
use super::state::State;
use broker_ports::BootstrapToken;

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
                token: BootstrapToken::new(token_of(fields)?),
            })
        };
        let existing = self.objects.iter().filter(|(_, object)| object.deleting.is_none());
        existing.filter_map(document).collect()
    }
}

/// The token at any of the three injection sites.
fn token_of(fields: &Value) -> Option<String> {
    let token_at =
        |site: &str| fields.get("parameters")?.get(site)?.get("bootstrapToken")?.as_str();
    let user_data = fields.get("userData").and_then(Value::as_str);
    let in_user_data = user_data.and_then(token_in).map(|token| token.expose_secret().to_owned());
    let bare = token_at("helmValues").or_else(|| token_at("providerSecret")).map(str::to_owned);
    in_user_data.or(bare).filter(|token| !token.is_empty())
}
