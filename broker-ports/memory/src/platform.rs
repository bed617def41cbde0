//! A complete in-memory platform with one declarable resource, for examples and first experiments.

use std::sync::Arc;
use std::time::Duration;

use broker_domain::{ClusterId, Declaration, Error, MeshRole, ResourceHandle};
use broker_render::catalog::ComposedKind;
use broker_render::{InjectionStrategy, Provider, ProviderConfigUse, Xrd, namespace};
use secrecy::ExposeSecret;
use time::OffsetDateTime;
use uuid::Uuid;

use super::{Behaviour, BlueprintDocuments, KindScope, MemoryAdapters};
use broker_ports::{CloudView, CredentialView, NamespaceObservation, NamespacePhase, Ports};

/// The start of the clock, after the Unix epoch: a declaration requires a later time.
const START: Duration = Duration::from_hours(24 * 365);

/// The time that passes per turn.
const TURN_DURATION: Duration = Duration::from_secs(1);

/// The kind that the blueprint composes.
const COMPOSED_KIND: (&str, &str) = ("nop.crossplane.io/v1alpha1", "NopResource");

const XRD: &str = include_str!("platform/machine.json");

/// A platform in memory: store, simulated cluster with Crossplane, mesh and the other platform contexts. It has one Project
/// with its namespace, one cloud with a credential, and one blueprint of a machine that becomes a Node.
///
/// With [`ports`](Self::ports), time passes only in [`turn`](Self::turn). With [`living_ports`](Self::living_ports),
/// the platform takes turns while a runner watches its cluster.
///
/// ```
/// use broker_memory::MemoryPlatform;
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let platform = MemoryPlatform::new();
/// let declaration = platform.declaration();
/// let blueprint = platform.ports().blueprints.resolve(declaration.blueprint_version_id).await?;
/// assert_eq!(blueprint.unwrap().xrd.kind(), "Machine");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct MemoryPlatform {
    /// The adapters, whose state a test can change.
    pub adapters: MemoryAdapters,
    declaration: Declaration,
}

impl MemoryPlatform {
    /// A platform without resources.
    ///
    /// # Panics
    ///
    /// Never: the built-in data is valid.
    pub fn new() -> Self {
        Self::build().expect("valid built-in data")
    }

    fn build() -> Result<Self, Error> {
        let id = |number: u128| Uuid::from_u128(number);
        let declaration = Declaration::new(
            id(1).try_into()?,
            id(2).try_into()?,
            id(3).try_into()?,
            id(4).try_into()?,
        );
        let start = OffsetDateTime::UNIX_EPOCH + START;
        let adapters = MemoryAdapters::new(1, start, ClusterId::new("kube-system-uid")?);
        let platform = Self { adapters, declaration };
        platform.prepare()?;
        Ok(platform)
    }

    fn prepare(&self) -> Result<(), Error> {
        let Self { adapters: MemoryAdapters { cluster, platform, .. }, declaration } = self;
        let (cloud, credential) = (Uuid::from_u128(5).try_into()?, declaration.cloud_credential_id);
        let namespace_name = namespace(declaration.project_id).as_str().to_owned();
        let xrd = Arc::new(Xrd::parse(XRD.as_bytes())?);
        cluster.create_namespace(&namespace_name);
        cluster.install_kind(COMPOSED_KIND.0, COMPOSED_KIND.1, KindScope::Namespaced);
        cluster.install_kind(
            "hetzner.crossplane.io/v1beta1",
            "ProviderConfig",
            KindScope::Namespaced,
        );
        cluster.install_xrd(&xrd);
        cluster.behave(&xrd, Behaviour::ready_after(1));
        platform.add_cloud(CloudView::new(cloud, Provider::new("hetzner")?, "{}"));
        platform.add_credential(CredentialView::new(credential, cloud, "kv", "team/hetzner"));
        let handle = ResourceHandle::new("machine")?;
        platform.add_resource(declaration.project_id, declaration.resource_id, handle);
        platform.assign(declaration.project_id, credential);
        platform.place(
            declaration.project_id,
            NamespaceObservation::new(namespace_name, NamespacePhase::Ready),
        );
        let (api_version, kind) = (COMPOSED_KIND.0.to_owned(), COMPOSED_KIND.1.to_owned());
        let documents = BlueprintDocuments {
            xrd: XRD.as_bytes().to_vec(),
            composition: BlueprintDocuments::composition_named("machine"),
            parameter_schema: br#"{"parameters":[]}"#.to_vec(),
            injection_strategy: InjectionStrategy::CloudInitUserData,
            mesh_role: MeshRole::Node,
            composed_kinds: vec![ComposedKind { api_version, kind }],
            provider_config: ProviderConfigUse::PerResource,
        };
        platform.publish(declaration.blueprint_version_id, documents);
        Ok(())
    }

    /// All ports, for a broker over this platform.
    pub fn ports(&self) -> Ports {
        self.adapters.ports()
    }

    /// As [`ports`](Self::ports), but the platform takes a turn every 20 ms while a runner watches its cluster.
    pub fn living_ports(&self) -> Ports {
        let platform = self.clone();
        let cluster = self.adapters.cluster.with_background(move || platform.turn());
        Ports { cluster: Arc::new(cluster), ..self.ports() }
    }

    /// A declaration of a machine in the Project.
    pub fn declaration(&self) -> Declaration {
        self.declaration.clone()
    }

    /// Advances one second: Crossplane runs, and every booted machine tries to enrol.
    pub fn turn(&self) {
        let MemoryAdapters { clock, cluster, mesh, .. } = &self.adapters;
        clock.advance(TURN_DURATION);
        cluster.tick();
        for machine in cluster.agent_documents().into_iter().filter(|machine| machine.booted) {
            // The mesh may refuse a machine whose token was invalidated.
            if let Ok(node) = mesh.enrol(machine.token.secret().expose_secret()) {
                let _ = mesh.join(node);
            }
        }
    }
}

impl Default for MemoryPlatform {
    fn default() -> Self {
        Self::new()
    }
}
