//! Everything around the broker at once, with one of each to declare: for examples, and for whoever wants to see
//! it work before anything is wired.

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

/// When its clock begins to run: at some time after 1970, which a resource has to be declared after.
const BEGINNING: Duration = Duration::from_hours(24 * 365);

/// How much time goes by in a turn.
const TURN: Duration = Duration::from_secs(1);

/// What the blueprint's composite resources compose.
const COMPOSED: (&str, &str) = ("nop.crossplane.io/v1alpha1", "NopResource");

const XRD: &str = include_str!("platform/machine.json");

/// A platform in memory: a store, a simulated cluster with Crossplane, a mesh, and neighbours who know one Project
/// with its namespace, one cloud with a credential, and one blueprint, of a machine that becomes a Node.
///
/// With [`ports`](Self::ports) nothing happens by itself: [`turn`](Self::turn) lets everything but the broker go on. With
/// [`living_ports`](Self::living_ports) the platform takes turns while a runner watches its cluster.
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
    /// The adapters: a test moves their state by hand.
    pub adapters: MemoryAdapters,
    wanted: Declaration,
}

impl MemoryPlatform {
    /// A platform without resources.
    ///
    /// # Panics
    ///
    /// Never: everything that it is furnished with is valid.
    pub fn new() -> Self {
        Self::furnished().expect("valid furniture")
    }

    fn furnished() -> Result<Self, Error> {
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
        platform.furnish()?;
        Ok(platform)
    }

    fn furnish(&self) -> Result<(), Error> {
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

    /// The same, over a cluster that lets the platform take a turn every 20 ms for as long as a runner watches it.
    pub fn living_ports(&self) -> Ports {
        let platform = self.clone();
        let cluster = self.adapters.cluster.with_life(move || platform.turn());
        Ports { cluster: Arc::new(cluster), ..self.ports() }
    }

    /// What can be declared here: a machine of the one blueprint, for the one Project.
    pub fn declaration(&self) -> Declaration {
        self.wanted.clone()
    }

    /// A second goes by: Crossplane has a turn, and every machine that booted tries to enrol.
    pub fn turn(&self) {
        let MemoryAdapters { clock, cluster, mesh, .. } = &self.adapters;
        clock.advance(TURN);
        cluster.tick();
        for machine in cluster.agent_documents().into_iter().filter(|it| it.booted) {
            // One that was told to leave meanwhile is not let in; that is the mesh's business.
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
