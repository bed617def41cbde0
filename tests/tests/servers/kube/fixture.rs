//! The fixture of the adapter's tests: a Project with its namespace, private kinds, the adapter,
//! and rendered manifests.

use std::sync::Arc;

use broker_domain::{
    BootstrapTokenId, MeshRole, ObjectReference, Parameters, ProjectId, ResourceHandle,
};
use broker_kube::KubeCluster;
use broker_ports::{
    Applied, ApplyRequest, Cluster, LiveXr, ObjectVersion, PortError, Target, XrReading, XrTarget,
};
use broker_render::catalog::ComposedKind;
use broker_render::{
    Agent, ApiUrl, Bootstrap, CloudTags, CompositionName, Identity, InjectionStrategy, Manifest,
    Precondition, Provider, ProviderConfigInput, ProviderProfile, SealedManifest, Xr, XrInput, Xrd,
    inject_bootstrap, namespace, provider_config, xr,
};
use broker_testkit::cluster::PlainKind;
use broker_tests::collector::create_and_wait_for_collector;
use broker_tests::documents::xrd;
use broker_tests::rights::blueprint;
use broker_tests::{HttpProxy, TestCluster, TestNamespace, crd};
use kube::Client;
use kube::api::{DeleteParams, Patch, PatchParams};
use secrecy::SecretString;
use serde_json::{Value, json};

use super::roles::{CatalogIdentity, uncached};
use super::world::{api, fresh_id, plain_definition};

/// The token of every armed resource.
pub(crate) const TOKEN: &str = "canary-9c41e7-bootstrap-token";

/// A finalizer that holds an object for a test.
pub(crate) const FINALIZER: &str = "facts.plexsphere.io/held";

const GROUP: &str = "facts.plexsphere.io";

const PROVIDER: &str = "facts";

pub(crate) const MACHINE: (&str, &str) = ("Machine", "machines");

/// A kind with several versions; its test installs it.
pub(crate) const VERSIONED: (&str, &str) = ("Versioned", "versioneds");

/// An XRD of a kind with these versions, all with the same schema.
pub(crate) fn document(kind: (&str, &str), versions: &[&str], spec: &Value) -> Value {
    xrd(GROUP, kind, versions, spec)
}

/// The schema of `spec` that the platform installs.
pub(crate) fn spec(user_data: &Value) -> Value {
    json!({"type": "object", "properties": {
        "parameters": {"type": "object", "properties": {
            "size": {"type": "string", "enum": ["small", "large"]}, "note": {"type": "string"},
        }},
        "userData": user_data,
    }})
}

pub(crate) fn part_kind() -> PlainKind {
    plain_kind(&format!("parts.{GROUP}/v1"), "Part", "parts")
}

pub(crate) fn config_kind() -> PlainKind {
    plain_kind(&format!("{PROVIDER}.crossplane.io/v1beta1"), "ProviderConfig", "providerconfigs")
}

fn plain_kind(api_version: &str, kind: &str, plural: &str) -> PlainKind {
    PlainKind {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        plural: plural.to_owned(),
        namespaced: true,
    }
}

/// A Project on a cluster, and the adapter with a broker's rights.
pub(crate) struct Fixture {
    pub(crate) cluster: TestCluster,
    /// The client of the test itself and of other parties.
    pub(crate) admin: Client,
    /// The adapter's identity: it has the roles for the kinds of this group in its Project.
    pub(crate) broker: CatalogIdentity,
    pub(crate) port: KubeCluster,
    pub(crate) project: ProjectId,
    pub(crate) group: String,
    /// The catalog's XRD of a machine. Its schema accepts everything, so that a test can send what the
    /// API server rejects.
    pub(crate) xrd: Arc<Xrd>,
    _namespace: TestNamespace,
}

impl Fixture {
    pub(crate) async fn new() -> Self {
        Self::of(&TestCluster::shared().await, GROUP).await
    }

    /// A fixture with an exclusive machine kind, so that a test can count its requests.
    pub(crate) async fn alone(cluster: &TestCluster) -> Self {
        Self::of(cluster, &format!("w{}.example.org", fresh_id().simple())).await
    }

    /// A fixture with machines of this group, in a new Project.
    pub(crate) async fn of(cluster: &TestCluster, group: &str) -> Self {
        let installed = spec(&json!({"type": "string"}));
        let machine = crd::from_xrd(&xrd(group, MACHINE, &["v1"], &installed));
        for definition in
            [machine, plain_definition(&part_kind()), plain_definition(&config_kind())]
        {
            cluster.install_crd(definition).await;
        }
        let project = ProjectId::new(fresh_id()).unwrap();
        let project_namespace = cluster.namespace_named(namespace(project).as_str()).await;
        let broker = CatalogIdentity::new(cluster).await;
        let PlainKind { api_version, kind, .. } = part_kind();
        let part = json!({"apiVersion": api_version, "kind": kind});
        let blueprints = [MACHINE, VERSIONED].map(|kind| {
            let document = xrd(group, kind, &["v1"], &installed);
            blueprint(kind.1, PROVIDER, &document, std::slice::from_ref(&part))
        });
        broker.add_blueprints(blueprints).await;
        broker.admit_to(project_namespace.name()).await;
        Self {
            cluster: cluster.clone(),
            admin: cluster.admin().await,
            port: uncached(broker.client.clone()),
            broker,
            project,
            group: group.to_owned(),
            xrd: permissive_xrd(group, MACHINE),
            _namespace: project_namespace,
        }
    }

    pub(crate) async fn proxied() -> (Self, HttpProxy) {
        let mut fixture = Self::new().await;
        let (proxy, client) = fixture.broker.proxied().await;
        fixture.port = uncached(client);
        (fixture, proxy)
    }

    pub(crate) fn machine(&self) -> Subject {
        Subject::new(self.project, Arc::clone(&self.xrd))
    }

    pub(crate) fn resource_of(&self, kind: (&str, &str)) -> Subject {
        Subject::new(self.project, permissive_xrd(&self.group, kind))
    }

    pub(crate) async fn apply(
        &self,
        manifest: Manifest,
        precondition: Precondition,
    ) -> Result<Applied, PortError> {
        self.port.apply(&ApplyRequest::open(self.project, manifest, precondition)).await
    }

    /// Creates a shell of the subject, under epoch 1.
    pub(crate) async fn shell(&self, subject: &Subject) -> ObjectVersion {
        expect_applied(self.apply(subject.xr().shell(1), Precondition::Absent).await)
    }

    /// The composite resource, which must exist.
    pub(crate) async fn live(&self, subject: &Subject) -> LiveXr {
        match self.port.read(&subject.target()).await.unwrap().xr {
            XrReading::Present(live) => *live,
            absent @ (XrReading::Absent | XrReading::NamespaceAbsent | XrReading::KindAbsent) => {
                panic!("the composite resource exists, but is read as {absent:?}")
            }
        }
    }

    pub(crate) async fn object(&self, target: &ObjectReference) -> Option<Value> {
        let found = api(&self.admin, target).get_opt(target.name()).await.unwrap();
        found.map(|object| serde_json::to_value(object).unwrap())
    }

    pub(crate) async fn patch(&self, manager: &str, target: &ObjectReference, patch: Value) {
        let parameters =
            PatchParams { field_manager: Some(manager.to_owned()), ..PatchParams::default() };
        api(&self.admin, target)
            .patch(target.name(), &parameters, &Patch::Merge(patch))
            .await
            .unwrap();
    }

    pub(crate) async fn delete_in_background(&self, target: &ObjectReference) {
        api(&self.admin, target).delete(target.name(), &DeleteParams::background()).await.unwrap();
    }

    /// A composed object, held by a provider's finalizer.
    pub(crate) async fn compose(&self, subject: &Subject, owner_uid: &str) -> ObjectReference {
        let (part, object) = subject.composed(owner_uid);
        let object = serde_json::from_value(object).unwrap();
        create_and_wait_for_collector(&api(&self.admin, &part), object).await;
        part
    }
}

/// A resource from which a test renders every manifest.
pub(crate) struct Subject {
    pub(crate) identity: Identity,
    pub(crate) token_id: BootstrapTokenId,
    xrd: Arc<Xrd>,
    parameters: Parameters,
    tags: CloudTags,
}

impl Subject {
    /// A resource that composes a part.
    fn new(project: ProjectId, xrd: Arc<Xrd>) -> Self {
        Self {
            identity: Identity {
                resource: fresh_id().try_into().unwrap(),
                project,
                blueprint_version: fresh_id().try_into().unwrap(),
            },
            token_id: fresh_id().try_into().unwrap(),
            xrd,
            parameters: Parameters::from_canonical_json(r#"{"size":"small"}"#).unwrap(),
            tags: CloudTags::default(),
        }
    }

    pub(crate) fn xr_target(&self) -> XrTarget {
        let Identity { resource, project, .. } = self.identity;
        XrTarget::new(resource, project, Arc::clone(&self.xrd))
    }

    pub(crate) fn target(&self) -> Target {
        let PlainKind { api_version, kind, .. } = part_kind();
        Target::new(self.xr_target(), self.provider_config().reference().clone())
            .composing([ComposedKind { api_version, kind }])
    }

    pub(crate) fn reference(&self) -> ObjectReference {
        self.xr_target().reference().unwrap()
    }

    /// Its composed object, as its provider holds it.
    pub(crate) fn composed(&self, owner_uid: &str) -> (ObjectReference, Value) {
        let (owner, kind) = (self.reference(), part_kind());
        let name = format!("{}-part", owner.name());
        let part =
            ObjectReference::new(kind.api_version, kind.kind, name, owner.namespace()).unwrap();
        let object = json!({
            "apiVersion": part.api_version(), "kind": part.kind(),
            "metadata": {
                "name": part.name(), "namespace": part.namespace(),
                "labels": {"crossplane.io/composite": owner.name()},
                "finalizers": [FINALIZER],
                "ownerReferences": [{
                    "apiVersion": owner.api_version(), "kind": owner.kind(), "name": owner.name(),
                    "uid": owner_uid, "controller": true, "blockOwnerDeletion": true,
                }],
            },
        });
        (part, object)
    }

    pub(crate) fn xr(&self) -> Xr<'_> {
        xr(&XrInput {
            xrd: &self.xrd,
            composition: CompositionName::new("machine").unwrap(),
            injection_strategy: InjectionStrategy::CloudInitUserData,
            mesh_role: MeshRole::Node,
            identity: self.identity,
            parameters: &self.parameters,
            tags: &self.tags,
        })
        .unwrap()
    }

    /// The armed manifest, with the canary token.
    pub(crate) fn sealed(&self) -> SealedManifest {
        let bootstrap = Bootstrap {
            token_id: self.token_id,
            token: &SecretString::from(TOKEN),
            api_url: &ApiUrl::new("https://api.plexsphere.example").unwrap(),
            agent: &Agent::default(),
            handle: &ResourceHandle::new("web-1").unwrap(),
        };
        inject_bootstrap(&self.xr(), &bootstrap).unwrap()
    }

    pub(crate) fn provider_config(&self) -> Manifest {
        provider_config(&ProviderConfigInput {
            profile: &ProviderProfile::of(&Provider::new(PROVIDER).unwrap()),
            identity: self.identity,
            endpoint: r#"{"region":"here"}"#,
            secret_name: "cloud-credentials-0000000000000000",
        })
        .unwrap()
    }

    pub(crate) fn shell(&self) -> Manifest {
        self.xr().shell(1)
    }

    pub(crate) fn request(&self, manifest: Manifest, precondition: Precondition) -> ApplyRequest {
        ApplyRequest::open(self.identity.project, manifest, precondition)
    }

    /// Applies the shell through an adapter.
    pub(crate) async fn start(&self, cluster: &KubeCluster) -> ObjectVersion {
        expect_applied(cluster.apply(&self.request(self.shell(), Precondition::Absent)).await)
    }
}

fn permissive_xrd(group: &str, kind: (&str, &str)) -> Arc<Xrd> {
    let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    Arc::new(Xrd::parse(xrd(group, kind, &["v1"], &anything).to_string().as_bytes()).unwrap())
}

#[track_caller]
pub(crate) fn expect_applied(applied: Result<Applied, PortError>) -> ObjectVersion {
    match applied.unwrap() {
        Applied::Done(version) => version,
        lost @ (Applied::Conflict | Applied::NameTaken) => {
            panic!("the precondition of an apply did not hold: {lost:?}")
        }
    }
}

#[track_caller]
pub(crate) fn cause<T: std::fmt::Debug>(
    result: Result<T, PortError>,
) -> (broker_kube::Cause, PortError) {
    let error = result.expect_err("the request succeeded");
    let cause = std::error::Error::source(&error).and_then(|source| source.downcast_ref());
    let cause: &broker_kube::Cause =
        cause.unwrap_or_else(|| panic!("the error has no `Cause`: {error}"));
    (cause.clone(), error)
}
