//! What most cases begin with: a Project with its namespace, the kinds, and a resource in it.

use std::collections::BTreeSet;
use std::sync::Arc;

use broker_domain::{
    BootstrapTokenId, Error, MeshRole, ObjectReference, Parameters, ProjectId,
    ProvisionedResourceId,
};
use broker_render::catalog::ComposedKind;
use broker_render::{
    Agent, ApiUrl, Armed, Bootstrap, CloudTags, Identity, InjectionStrategy, Manifest,
    Precondition, Provider, ProviderConfigInput, ProviderProfile, SealedManifest, Xr, XrInput, Xrd,
    inject_bootstrap, namespace, preserve_injection, provider_config, xr,
};
use secrecy::SecretString;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{ClusterUnderTest, PlainKind, ServedKind};
use crate::cluster::{
    Applied, ApplyRequest, Cluster, DeleteRequest, Deleted, LiveXr, ObjectVersion, Reading, Target,
    XrReading, XrTarget,
};
use crate::error::PortError;
use crate::testing::Violation;

/// The result of a case.
pub(super) type Outcome = Result<(), Violation>;

/// Must never show anywhere.
pub(super) const CANARY: &str = "canary-5f1d7c-bootstrap-token";

/// Holds whatever a case wants to keep.
pub(super) const FINALIZER: &str = "contract.plexsphere.io/held";

/// How often a case asks again before it gives up.
pub(super) const ROUNDS: usize = 600;

const GROUP: &str = "contract.plexsphere.io";

/// The kinds of composite resources that the cases use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Blueprint {
    /// A machine in a namespace, which boots with cloud-init.
    Machine,
    /// Something outside of any namespace.
    Estate,
    /// A kind that a case may remove.
    Fleeting,
    /// A machine whose kind refuses every user data, and repeats it.
    Picky,
}

impl Blueprint {
    const fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Machine => ("Machine", "machines"),
            Self::Estate => ("Estate", "estates"),
            Self::Fleeting => ("Fleeting", "fleetings"),
            Self::Picky => ("Picky", "pickies"),
        }
    }

    /// The names of the kind.
    pub(super) fn kind(self) -> PlainKind {
        let (kind, plural) = self.names();
        plain(GROUP, "v1", kind, plural, self != Self::Estate)
    }

    fn document(self, spec: &Value) -> String {
        let (kind, plural) = self.names();
        json!({
            "apiVersion": "apiextensions.crossplane.io/v2",
            "kind": "CompositeResourceDefinition",
            "metadata": {"name": format!("{plural}.{GROUP}")},
            "spec": {
                "group": GROUP,
                "scope": if self == Self::Estate { "Cluster" } else { "Namespaced" },
                "names": {"kind": kind, "plural": plural},
                "versions": [{
                    "name": "v1", "served": true, "referenceable": true,
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
                }],
            },
        })
        .to_string()
    }

    /// What the platform installs.
    fn installed(self) -> String {
        let user_data = match self {
            Self::Picky => json!({"type": "string", "pattern": "^never$"}),
            Self::Machine | Self::Estate | Self::Fleeting => json!({"type": "string"}),
        };
        self.document(&json!({
            "type": "object",
            "properties": {
                "parameters": {"type": "object", "properties": {
                    "size": {"type": "string", "enum": ["small", "large"]},
                    "note": {"type": "string"},
                }},
                "userData": user_data,
            },
        }))
    }

    /// What the catalog claims: anything goes. It lets a case send what the platform's kind refuses.
    fn claimed(self) -> Result<Arc<Xrd>, Error> {
        let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        Xrd::parse(self.document(&anything).as_bytes()).map(Arc::new)
    }
}

/// The kind that composed objects are of.
pub(super) fn part() -> PlainKind {
    plain("parts.plexsphere.io", "v1", "Part", "parts", true)
}

/// The kind of ProviderConfigs.
pub(super) fn config() -> PlainKind {
    plain("contract.crossplane.io", "v1beta1", "ProviderConfig", "providerconfigs", true)
}

pub(super) fn core_namespace() -> PlainKind {
    PlainKind { api_version: "v1".into(), ..plain("", "v1", "Namespace", "namespaces", false) }
}

fn plain(group: &str, version: &str, kind: &str, plural: &str, namespaced: bool) -> PlainKind {
    let api_version = format!("{group}/{version}");
    PlainKind { api_version, kind: kind.to_owned(), plural: plural.to_owned(), namespaced }
}

/// A world in which the kinds are served and a Project has its namespace.
pub(super) struct Scene<'w> {
    pub(super) world: &'w dyn ClusterUnderTest,
    pub(super) cluster: Arc<dyn Cluster>,
    pub(super) project: ProjectId,
}

impl<'w> Scene<'w> {
    pub(super) async fn new(world: &'w dyn ClusterUnderTest) -> Result<Self, Violation> {
        for blueprint in
            [Blueprint::Machine, Blueprint::Estate, Blueprint::Fleeting, Blueprint::Picky]
        {
            world.install(&ServedKind::Composite(blueprint.installed())).await?;
        }
        world.install(&ServedKind::Plain(part())).await?;
        world.install(&ServedKind::Plain(config())).await?;
        let project = ProjectId::new(world.fresh_id())?;
        world.create_namespace(namespace(project).as_str()).await?;
        Ok(Self { world, cluster: world.cluster(), project })
    }

    /// A machine that nobody asked for yet.
    pub(super) fn machine(&self) -> Result<Subject, Violation> {
        self.resource(Blueprint::Machine)
    }

    pub(super) fn resource(&self, blueprint: Blueprint) -> Result<Subject, Violation> {
        let id = |uuid: Uuid| ProvisionedResourceId::new(uuid);
        Ok(Subject {
            identity: Identity {
                resource: id(self.world.fresh_id())?,
                project: self.project,
                blueprint_version: self.world.fresh_id().try_into()?,
            },
            xrd: blueprint.claimed()?,
            parameters: Parameters::from_canonical_json(r#"{"size":"small"}"#)?,
            mesh_role: MeshRole::Node,
            tags: CloudTags::default(),
            token_id: BootstrapTokenId::new(self.world.fresh_id())?,
        })
    }

    /// Applies something that holds no secret.
    pub(super) async fn apply(
        &self,
        manifest: Manifest,
        precondition: Precondition,
    ) -> Result<Applied, PortError> {
        self.cluster.apply(&ApplyRequest::open(self.project, manifest, precondition)).await
    }

    /// A shell of the subject, under epoch 1.
    pub(super) async fn shell(&self, subject: &Subject) -> Result<ObjectVersion, Violation> {
        done(self.apply(subject.shell(1)?, Precondition::Absent).await?)
    }

    /// Arms a shell with the canary token.
    pub(super) async fn arm(
        &self,
        subject: &Subject,
        shell: &ObjectVersion,
    ) -> Result<Applied, Violation> {
        let manifest = subject.sealed()?;
        let request = ApplyRequest::sealed(self.project, manifest, shell.unchanged());
        Ok(self.cluster.apply(&request).await?)
    }

    /// The subject, armed.
    pub(super) async fn armed(&self, subject: &Subject) -> Result<ObjectVersion, Violation> {
        let shell = self.shell(subject).await?;
        done(self.arm(subject, &shell).await?)
    }

    /// The subject as Crossplane leaves it: armed, with a composed object that its provider holds.
    pub(super) async fn composed(&self, subject: &Subject) -> Result<ObjectReference, Violation> {
        let version = self.armed(subject).await?;
        let owner = subject.reference()?;
        let name = format!("{}-part", owner.name());
        let part = subject.part(&name)?;
        self.create_part(
            subject,
            &part,
            json!([{
                "apiVersion": owner.api_version(), "kind": owner.kind(), "name": owner.name(),
                "uid": version.uid, "controller": true, "blockOwnerDeletion": true,
            }]),
        )
        .await?;
        let reference =
            json!({"apiVersion": part.api_version(), "kind": part.kind(), "name": part.name()});
        let references = json!({"spec": {"crossplane": {"resourceRefs": [reference]}}});
        self.world.patch("crossplane", &owner, &references).await?;
        Ok(part)
    }

    /// An object with the composite label of the subject.
    pub(super) async fn create_part(
        &self,
        subject: &Subject,
        part: &ObjectReference,
        owners: Value,
    ) -> Outcome {
        let object = json!({
            "apiVersion": part.api_version(),
            "kind": part.kind(),
            "metadata": {
                "name": part.name(),
                "namespace": part.namespace(),
                "labels": {"crossplane.io/composite": subject.reference()?.name()},
                "finalizers": [FINALIZER],
                "ownerReferences": owners,
            },
            "spec": {},
        });
        Ok(self.world.create(part, &object).await?)
    }

    /// Takes every finalizer from an object, as whoever held it.
    pub(super) async fn let_go(&self, target: &ObjectReference) -> Outcome {
        Ok(self.world.patch("holder", target, &json!({"metadata": {"finalizers": []}})).await?)
    }

    /// Holds an object.
    pub(super) async fn hold(&self, target: &ObjectReference) -> Outcome {
        let patch = json!({"metadata": {"finalizers": [FINALIZER]}});
        Ok(self.world.patch("holder", target, &patch).await?)
    }

    pub(super) async fn delete(
        &self,
        target: &ObjectReference,
        uid: &str,
    ) -> Result<Deleted, PortError> {
        self.cluster.delete(&DeleteRequest { project: self.project, target, uid }).await
    }

    pub(super) async fn read(&self, subject: &Subject) -> Result<Reading, Violation> {
        Ok(self.cluster.read(&subject.target()?).await?)
    }

    /// The composite resource, which has to stand.
    pub(super) async fn live(&self, subject: &Subject) -> Result<LiveXr, Violation> {
        match self.read(subject).await?.xr {
            XrReading::Present(live) => Ok(*live),
            absent @ (XrReading::Absent | XrReading::NamespaceAbsent | XrReading::KindAbsent) => {
                Err(Violation::new(format!(
                    "the composite resource stands, but is read as {absent:?}"
                )))
            }
        }
    }

    /// An object past the port, which has to stand.
    pub(super) async fn object(&self, target: &ObjectReference) -> Result<Value, Violation> {
        let object = self.world.object(target).await?;
        object.ok_or_else(|| Violation::new(format!("{target} is gone")))
    }

    /// Waits until an object is gone.
    pub(super) async fn until_gone(&self, target: &ObjectReference) -> Outcome {
        for _ in 0..ROUNDS {
            if self.world.object(target).await?.is_none() {
                return Ok(());
            }
            self.world.settle().await;
        }
        Err(Violation::new(format!("{target} never goes")))
    }

    /// Waits until an object is being deleted.
    pub(super) async fn until_deleting(&self, target: &ObjectReference) -> Outcome {
        for _ in 0..ROUNDS {
            let object = self.object(target).await?;
            if object["metadata"].get("deletionTimestamp").is_some() {
                return Ok(());
            }
            self.world.settle().await;
        }
        Err(Violation::new(format!("{target} is never deleted")))
    }

    /// Waits until the composite resource is read in another way than before.
    pub(super) async fn until_read(
        &self,
        subject: &Subject,
        wanted: impl Fn(&XrReading) -> bool + Send + Sync,
    ) -> Outcome {
        for _ in 0..ROUNDS {
            if wanted(&self.read(subject).await?.xr) {
                return Ok(());
            }
            self.world.settle().await;
        }
        let last = self.read(subject).await?.xr;
        Err(Violation::new(format!("the composite resource stays {last:?}")))
    }
}

/// One resource, and everything that is rendered for it.
pub(super) struct Subject {
    pub(super) identity: Identity,
    xrd: Arc<Xrd>,
    parameters: Parameters,
    mesh_role: MeshRole,
    tags: CloudTags,
    pub(super) token_id: BootstrapTokenId,
}

impl Subject {
    pub(super) fn standalone(mut self) -> Self {
        self.mesh_role = MeshRole::Standalone;
        self
    }

    /// With parameter values: canonical JSON.
    pub(super) fn with_parameters(mut self, json: &str) -> Result<Self, Violation> {
        self.parameters = Parameters::from_canonical_json(json)?;
        Ok(self)
    }

    /// The same name in another Project.
    pub(super) fn in_project(mut self, project: ProjectId) -> Self {
        self.identity.project = project;
        self
    }

    pub(super) fn xr_target(&self) -> XrTarget {
        let Identity { resource, project, .. } = self.identity;
        XrTarget { resource, project, xrd: Arc::clone(&self.xrd) }
    }

    pub(super) fn target(&self) -> Result<Target, Violation> {
        let part = part();
        let kind = ComposedKind { api_version: part.api_version, kind: part.kind };
        Ok(Target {
            xr: self.xr_target(),
            provider_config: self.provider_config()?.reference().clone(),
            composed_kinds: Arc::new([kind]),
            recorded: BTreeSet::new(),
        })
    }

    pub(super) fn reference(&self) -> Result<ObjectReference, Violation> {
        Ok(self.xr_target().reference()?)
    }

    pub(super) fn xrd(&self) -> Arc<Xrd> {
        Arc::clone(&self.xrd)
    }

    /// A composed object of that name, in the Project's namespace.
    pub(super) fn part(&self, name: &str) -> Result<ObjectReference, Violation> {
        let (part, home) = (part(), namespace(self.identity.project));
        Ok(ObjectReference::new(part.api_version, part.kind, name, Some(home.as_str()))?)
    }

    pub(super) fn xr(&self) -> Result<Xr<'_>, Violation> {
        Ok(xr(&XrInput {
            xrd: &self.xrd,
            injection_strategy: InjectionStrategy::CloudInitUserData,
            mesh_role: self.mesh_role,
            identity: self.identity,
            parameters: &self.parameters,
            tags: &self.tags,
        })?)
    }

    pub(super) fn shell(&self, epoch: u64) -> Result<Manifest, Violation> {
        Ok(self.xr()?.shell(epoch))
    }

    /// Armed, without the injection.
    pub(super) fn armed(&self) -> Result<Manifest, Violation> {
        let armed = match self.mesh_role {
            MeshRole::Node => Armed::Token(self.token_id),
            MeshRole::Standalone => Armed::Standalone,
        };
        Ok(self.xr()?.armed(&armed))
    }

    /// Armed with the canary token.
    pub(super) fn sealed(&self) -> Result<SealedManifest, Violation> {
        Ok(inject_bootstrap(
            &self.xr()?,
            &Bootstrap {
                token_id: self.token_id,
                token: &SecretString::from(CANARY),
                api_url: &ApiUrl::new("https://api.plexsphere.example")?,
                agent: &Agent::default(),
            },
        )?)
    }

    /// Armed with whatever stands.
    pub(super) fn preserved(&self, live: &Value) -> Result<SealedManifest, Violation> {
        Ok(preserve_injection(live, &self.xr()?, self.token_id))
    }

    pub(super) fn provider_config(&self) -> Result<Manifest, Violation> {
        Ok(provider_config(&ProviderConfigInput {
            profile: &ProviderProfile::of(&Provider::new("contract")?),
            identity: self.identity,
            endpoint: r#"{"region":"here"}"#,
            secret_name: "cloud-credentials-0000000000000000",
        })?)
    }
}

/// The version at which an apply was done.
pub(super) fn done(applied: Applied) -> Result<ObjectVersion, Violation> {
    match applied {
        Applied::Done(version) => Ok(version),
        lost @ (Applied::Conflict | Applied::NameTaken) => {
            Err(Violation::new(format!("an apply whose precondition holds is answered {lost:?}")))
        }
    }
}

/// What stands in an object at a path of keys.
pub(super) fn at<'a>(object: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(object, |value, key| value.get(key))
}
