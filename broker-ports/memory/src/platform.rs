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

use super::{
    Behaviour, BlueprintDocuments, KindScope, ManualClock, MemoryCluster, MemoryMesh,
    MemoryNeighbours, MemoryStore, MemoryTokens, SequentialIds,
};
use broker_ports::{CloudView, CredentialView, NamespaceObservation, ServicePorts};

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
/// Nothing happens by itself: [`turn`](Self::turn) lets everybody but the broker go on.
///
/// ```
/// use broker_memory::MemoryPlatform;
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let platform = MemoryPlatform::new()?;
/// let wanted = platform.declaration();
/// let blueprint = platform.ports().blueprints.resolve(wanted.blueprint_version_id).await?;
/// assert_eq!(blueprint.unwrap().xrd.kind(), "Machine");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct MemoryPlatform {
    /// Its clock, which a turn moves.
    pub clock: ManualClock,
    /// The store.
    pub store: MemoryStore,
    /// The cluster.
    pub cluster: MemoryCluster,
    /// The token issuer.
    pub tokens: MemoryTokens,
    /// The mesh that Nodes join.
    pub mesh: MemoryMesh,
    /// What the neighbours know.
    pub neighbours: MemoryNeighbours,
    wanted: Declaration,
}

impl MemoryPlatform {
    /// A platform on which nobody has declared anything.
    ///
    /// # Errors
    ///
    /// None: everything that it is furnished with is sound.
    pub fn new() -> Result<Self, Error> {
        let clock = ManualClock::at(OffsetDateTime::UNIX_EPOCH + BEGINNING);
        let shared = Arc::new(clock.clone());
        let tokens = MemoryTokens::seeded(1, shared.clone());
        let cluster = MemoryCluster::new(shared.clone(), ClusterId::new("kube-system-uid")?);
        let number = |number: u128| Uuid::from_u128(number);
        let wanted = Declaration::new(
            number(1).try_into()?,
            number(2).try_into()?,
            number(3).try_into()?,
            number(4).try_into()?,
        );
        let platform = Self {
            store: MemoryStore::new(shared),
            mesh: MemoryMesh::of(&tokens),
            neighbours: MemoryNeighbours::default(),
            clock,
            cluster,
            tokens,
            wanted,
        };
        platform.furnish()?;
        Ok(platform)
    }

    fn furnish(&self) -> Result<(), Error> {
        let Self { cluster, neighbours, wanted, .. } = self;
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
    pub fn ports(&self) -> ServicePorts {
        let store = Arc::new(self.store.clone());
        let neighbours = Arc::new(self.neighbours.clone());
        ServicePorts {
            repository: store.clone(),
            schedule: store.clone(),
            outbox: store.clone(),
            audit: store,
            cluster: Arc::new(self.cluster.clone()),
            tokens: Arc::new(self.tokens.clone()),
            nodes: Arc::new(self.mesh.deregistrar()),
            blueprints: neighbours.clone(),
            clouds: neighbours.clone(),
            credentials: neighbours.clone(),
            assignments: neighbours.clone(),
            labels: neighbours,
            clock: Arc::new(self.clock.clone()),
            ids: Arc::new(SequentialIds::seeded(1)),
        }
    }

    /// What can be declared here: a machine of the one blueprint, for the one Project.
    pub fn declaration(&self) -> Declaration {
        self.wanted.clone()
    }

    /// A second goes by: Crossplane has a turn, and every machine that booted tries to enrol.
    pub fn turn(&self) {
        self.clock.advance(TURN);
        self.cluster.tick();
        for machine in self.cluster.agent_documents().into_iter().filter(|it| it.booted) {
            // One that was told to leave meanwhile is not let in; that is the mesh's business.
            if let Ok(node) = self.mesh.enrol(machine.token.secret().expose_secret()) {
                let _ = self.mesh.join(node);
            }
        }
    }
}
