//! What a machine finds when it boots: the injected document, read out of the composed object and from
//! nowhere else.

use broker_domain::{ObjectReference, ProvisionedResourceId, XrName};
use serde_json::Value;

use super::crossplane::{COMPOSITE_LABEL, is_ready};
use super::state::State;
use broker_ports::BootstrapToken;

/// Where the agent looks for its token on a machine that booted with cloud-init.
const TOKEN_PATH: &str = "/etc/plexd/bootstrap-token";

/// A machine and what it was given. The token shows in no output; the document is neither copied nor
/// serialised.
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
/// The twins that do compile:
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
    /// The resource that it was made for.
    pub resource: ProvisionedResourceId,
    /// The composed object that stands for the machine.
    pub machine: ObjectReference,
    /// Its provider says that it runs.
    pub booted: bool,
    /// The token that it finds.
    pub token: BootstrapToken,
}

impl State {
    /// Every machine that was given a document, and is not being deleted.
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
        let living = self.objects.iter().filter(|(_, object)| object.deleting.is_none());
        living.filter_map(document).collect()
    }
}

/// The token at any of the three sites.
fn token_in(fields: &Value) -> Option<String> {
    let below = |site: &str| fields.get("parameters")?.get(site)?.get("bootstrapToken")?.as_str();
    let written = || fields.get("userData")?.as_str().and_then(written_file);
    let bare = below("helmValues").or_else(|| below("providerSecret")).map(str::to_owned);
    written().or(bare).filter(|token| !token.is_empty())
}

/// The file that cloud-init would write for the agent.
fn written_file(document: &str) -> Option<String> {
    let document = document.strip_prefix("#cloud-config\n")?;
    let document = broker_render::read_document("user data", document.as_bytes()).ok()?;
    let files = document.get("write_files")?.as_array()?;
    let file =
        files.iter().find(|file| file.get("path").and_then(Value::as_str) == Some(TOKEN_PATH))?;
    file.get("content")?.as_str().map(str::to_owned)
}
