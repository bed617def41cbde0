//! Throughout: a complete in-memory platform with one declarable resource, for examples and first experiments.

use std::sync::Arc;
use std::time::Duration;

use broker_domain::{ClusterId, Declaration, Error, MeshRole};
use broker_render::catalog::ComposedKind;
use broker_render::{InjectionStrategy, Provider, Xrd, namespace};
use secrecy::ExposeSecret;
use time::OffsetDateTime;
use uuid::Uuid;

use super::{Behaviour, BlueprintDocuments, KindScope, MemoryAdapters};
use broker_ports::{CloudView, CredentialView, NamespaceObservation, Ports};

/// The start of its clock: after 1970, because a declaration requires a later time.
const BEGINNING: Duration = Duration::from_hours(24 * 365);

/// The duration of a turn.
const TURN: Duration = Duration::from_secs(1);

/// The kind that the blueprint composes.
const COMPOSED: (&str, &str) = ("nop.crossplane.io/v1alpha1", "NopResource");

const XRD: &str = include_str!("platform/machine.json");

/// A platform in memory: store, simulated cluster with Crossplane, mesh and neighbouring contexts. It has one Project
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
/// let wanted = platform.declaration();
/// let blueprint = platform.ports().blueprints.resolve(wanted.blueprint_version_id).await?;
/// assert_eq!(blueprint.unwrap().xrd.kind(), "Machine");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct MemoryPlatform {
    /// The adapters, whose state a test can change.
    pub adapters: MemoryAdapters,
    wanted: Declaration,
}

impl MemoryPlatform {
    /// A platform without resources.
    ///
    /// # Panics
    ///
    /// Never: the built-in data is valid.
    pub fn new() -> Self {
        Self::prepared().expect("valid built-in data")
    }

    fn prepared() -> Result<Self, Error> {
        let number = |number: u128| Uuid::from_u128(number);
        let wanted = Declaration::new(
            number(1).try_into()?,
            number(2).try_into()?,
            number(3).try_into()?,
            number(4).try_into()?,
        );
        let beginning = OffsetDateTime::UNIX_EPOCH + BEGINNING;
        let adapters = MemoryAdapters::new(1, beginning, ClusterId::new("kube-system-uid")?);
        let platform = Self { adapters, wanted };
        platform.prepare()?;
        Ok(platform)
    }

    fn prepare(&self) -> Result<(), Error> {
        let Self { adapters: MemoryAdapters { cluster, neighbours, .. }, wanted } = self;
        let (cloud, credential) = (Uuid::from_u128(5).try_into()?, wanted.cloud_credential_id);
        let home = namespace(wanted.project_id).as_str().to_owned();
        let xrd = Arc::new(Xrd::parse(XRD.as_bytes())?);
        cluster.create_namespace(&home);
        cluster.install_kind(COMPOSED.0, COMPOSED.1, KindScope::Namespaced);
        cluster.install_kind(
            "hetzner.crossplane.io/v1beta1",
            "ProviderConfig",
            KindScope::Namespaced,
        );
        cluster.install_xrd(&xrd);
        cluster.behave(&xrd, Behaviour::ready_after(1));
        neighbours.add_cloud(CloudView::new(cloud, Provider::new("hetzner")?, "{}"));
        neighbours.add_credential(CredentialView::new(credential, cloud, "kv", "team/hetzner"));
        neighbours.add_resource(wanted.project_id, wanted.resource_id);
        neighbours.assign(wanted.project_id, credential);
        neighbours.place(wanted.project_id, NamespaceObservation::new(home, true));
        let (api_version, kind) = (COMPOSED.0.to_owned(), COMPOSED.1.to_owned());
        let documents = BlueprintDocuments {
            xrd: XRD.as_bytes().to_vec(),
            composition: BlueprintDocuments::composition_named("machine"),
            parameter_schema: br#"{"parameters":[]}"#.to_vec(),
            injection_strategy: InjectionStrategy::CloudInitUserData,
            mesh_role: MeshRole::Node,
            composed_kinds: vec![ComposedKind { api_version, kind }],
        };
        neighbours.publish(wanted.blueprint_version_id, documents);
        Ok(())
    }

    /// Every port, for a broker over this platform.
    pub fn ports(&self) -> Ports {
        self.adapters.ports()
    }

    /// As [`ports`](Self::ports), over a cluster that takes a turn every 20 ms while a runner watches it.
    pub fn living_ports(&self) -> Ports {
        let platform = self.clone();
        let cluster = self.adapters.cluster.with_background(move || platform.turn());
        Ports { cluster: Arc::new(cluster), ..self.ports() }
    }

    /// A declaration of a machine of the blueprint in the Project.
    pub fn declaration(&self) -> Declaration {
        self.wanted.clone()
    }

    /// Advances one second: Crossplane runs, and every booted machine tries to enrol.
    pub fn turn(&self) {
        let MemoryAdapters { clock, cluster, mesh, .. } = &self.adapters;
        clock.advance(TURN);
        cluster.tick();
        for machine in cluster.agent_documents().into_iter().filter(|it| it.booted) {
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
