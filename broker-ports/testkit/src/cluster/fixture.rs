//! The fixture of most cluster cases: installed kinds, a Project with its namespace, and resources.

use std::sync::Arc;

use broker_domain::{ObjectReference, ProjectId};
use broker_ports::{
    Applied, ApplyRequest, Cluster, DeleteRequest, Deleted, LiveXr, ObjectVersion, Reading,
    XrReading,
};
use broker_render::{Identity, Manifest, Precondition, namespace};
use serde_json::{Value, json};

use super::kinds::{Blueprint, composed_kind, provider_config_kind};
use super::subject::Subject;
use super::{ClusterUnderTest, ServedKind};
use crate::prelude::*;

/// A token that must never appear in any output.
pub(super) const CANARY: &str = "canary-5f1d7c-bootstrap-token";

/// A finalizer that keeps an object until the case removes it.
pub(super) const FINALIZER: &str = "contract.plexsphere.io/held";

/// The maximum number of polls for one state.
const MAX_POLLS: usize = 600;

/// A world with installed kinds and a Project with its namespace.
pub(super) struct Fixture<'w> {
    pub(super) world: &'w dyn ClusterUnderTest,
    pub(super) cluster: Arc<dyn Cluster>,
    pub(super) project: ProjectId,
}

impl<'w> Fixture<'w> {
    pub(super) async fn new(world: &'w dyn ClusterUnderTest) -> Checked<Self> {
        for blueprint in [
            Blueprint::Machine,
            Blueprint::ClusterScoped,
            Blueprint::Removable,
            Blueprint::RejectsUserData,
        ] {
            world.install(&ServedKind::Composite(blueprint.installed_xrd())).await?;
        }
        world.install(&ServedKind::Plain(composed_kind())).await?;
        world.install(&ServedKind::Plain(provider_config_kind())).await?;
        let project = ProjectId::new(world.fresh_id())?;
        world.create_namespace(namespace(project).as_str()).await?;
        Ok(Self { world, cluster: world.cluster(), project })
    }

    /// A bounded number of polls; `failure` is the violation when they are used up.
    pub(super) fn polls(&self, failure: impl Into<String>) -> Polls<'w> {
        Polls { world: self.world, left: MAX_POLLS, failure: failure.into() }
    }

    /// A machine that is not declared yet.
    pub(super) fn machine(&self) -> Checked<Subject> {
        self.resource(Blueprint::Machine)
    }

    pub(super) fn resource(&self, blueprint: Blueprint) -> Checked<Subject> {
        let identity = Identity {
            resource: self.world.fresh_id().try_into()?,
            project: self.project,
            blueprint_version: self.world.fresh_id().try_into()?,
        };
        Subject::new(identity, blueprint.permissive_xrd()?, self.world.fresh_id().try_into()?)
    }

    /// Applies a manifest without a secret.
    pub(super) async fn apply(
        &self,
        manifest: Manifest,
        precondition: Precondition,
    ) -> Result<Applied, PortError> {
        self.cluster.apply(&ApplyRequest::open(self.project, manifest, precondition)).await
    }

    /// Applies a first shell of the subject, under epoch 1.
    pub(super) async fn apply_shell(&self, subject: &Subject) -> Checked<ObjectVersion> {
        applied_version(self.apply(subject.shell(1)?, Precondition::Absent).await?)
    }

    /// A machine with an applied shell under epoch 1, and its version.
    pub(super) async fn machine_with_shell(&self) -> Checked<(Subject, ObjectVersion)> {
        let subject = self.machine()?;
        let version = self.apply_shell(&subject).await?;
        Ok((subject, version))
    }

    /// Arms a shell with the canary token.
    pub(super) async fn arm(&self, subject: &Subject, shell: &ObjectVersion) -> Checked<Applied> {
        let manifest = subject.sealed()?;
        let request = ApplyRequest::sealed(self.project, manifest, shell.unchanged());
        Ok(self.cluster.apply(&request).await?)
    }

    /// Applies a shell of the subject and arms it.
    pub(super) async fn apply_armed(&self, subject: &Subject) -> Checked<ObjectVersion> {
        let shell = self.apply_shell(subject).await?;
        applied_version(self.arm(subject, &shell).await?)
    }

    /// Applies and arms the subject, and creates a composed object with a finalizer, as Crossplane does.
    pub(super) async fn apply_composed(&self, subject: &Subject) -> Checked<ObjectReference> {
        let version = self.apply_armed(subject).await?;
        let owner = subject.reference()?;
        let name = format!("{}-part", owner.name());
        let part = subject.composed_object(&name)?;
        self.create_composed(
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

    /// Replaces the subject's object by another object of the same name. Returns the versions of both.
    pub(super) async fn replace_by_namesake(
        &self,
        subject: &Subject,
    ) -> Checked<[ObjectVersion; 2]> {
        let replaced = self.apply_shell(subject).await?;
        let reference = subject.reference()?;
        self.world.delete_in_background(&reference).await?;
        self.until_removed(&reference).await?;
        Ok([replaced, self.apply_shell(subject).await?])
    }

    /// Creates a composed object with the subject's composite label.
    pub(super) async fn create_composed(
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

    /// Removes every finalizer of an object.
    pub(super) async fn remove_finalizer(&self, target: &ObjectReference) -> Outcome {
        Ok(self.world.patch("holder", target, &json!({"metadata": {"finalizers": []}})).await?)
    }

    /// Adds a finalizer to an object.
    pub(super) async fn add_finalizer(&self, target: &ObjectReference) -> Outcome {
        let patch = json!({"metadata": {"finalizers": [FINALIZER]}});
        Ok(self.world.patch("holder", target, &patch).await?)
    }

    pub(super) async fn delete(
        &self,
        target: &ObjectReference,
        uid: &str,
    ) -> Result<Deleted, PortError> {
        self.cluster.delete(&DeleteRequest::new(self.project, target, uid)).await
    }

    pub(super) async fn read(&self, subject: &Subject) -> Checked<Reading> {
        Ok(self.cluster.read(&subject.target()?).await?)
    }

    /// The composite resource, which must exist.
    pub(super) async fn live(&self, subject: &Subject) -> Checked<LiveXr> {
        match self.read(subject).await?.xr {
            XrReading::Present(live) => Ok(*live),
            absent @ (XrReading::Absent | XrReading::NamespaceAbsent | XrReading::KindAbsent) => {
                Err(Violation::new(format!("an existing composite resource is read as {absent:?}")))
            }
        }
    }

    /// An object, read through the hook. It must exist.
    pub(super) async fn object(&self, target: &ObjectReference) -> Checked<Value> {
        let object = self.world.object(target).await?;
        object.ok_or_else(|| Violation::new(format!("{target} does not exist")))
    }

    /// Whether an existing object is being deleted.
    pub(super) async fn is_being_deleted(&self, target: &ObjectReference) -> Checked<bool> {
        Ok(self.object(target).await?["metadata"].get("deletionTimestamp").is_some())
    }

    /// Waits until an object no longer exists.
    pub(super) async fn until_removed(&self, target: &ObjectReference) -> Outcome {
        let mut polls = self.polls(format!("{target} was never removed"));
        while self.world.object(target).await?.is_some() {
            polls.wait().await?;
        }
        Ok(())
    }

    /// A resource of a kind that the case removed.
    pub(super) async fn resource_of_removed_kind(&self) -> Checked<Subject> {
        let subject = self.resource(Blueprint::Removable)?;
        self.world.remove_kind(&Blueprint::Removable.kind()).await?;
        self.until_read(&subject, |xr| matches!(xr, XrReading::KindAbsent)).await?;
        Ok(subject)
    }

    /// Waits until an object is being deleted.
    pub(super) async fn until_deleting(&self, target: &ObjectReference) -> Outcome {
        let mut polls = self.polls(format!("the deletion of {target} never began"));
        while !self.is_being_deleted(target).await? {
            polls.wait().await?;
        }
        Ok(())
    }

    /// Waits until the composite resource is read in an expected state.
    pub(super) async fn until_read(
        &self,
        subject: &Subject,
        is_expected: impl Fn(&XrReading) -> bool + Send + Sync,
    ) -> Outcome {
        let mut polls = self.polls("the composite resource is never read in the expected state");
        while !is_expected(&self.read(subject).await?.xr) {
            polls.wait().await?;
        }
        Ok(())
    }
}

/// A bounded number of polls.
pub(super) struct Polls<'w> {
    world: &'w dyn ClusterUnderTest,
    left: usize,
    failure: String,
}

impl Polls<'_> {
    pub(super) async fn wait(&mut self) -> Outcome {
        require(self.left > 0, &self.failure)?;
        self.left -= 1;
        self.world.settle().await;
        Ok(())
    }
}

/// The version after a successful apply.
pub(super) fn applied_version(applied: Applied) -> Checked<ObjectVersion> {
    match applied {
        Applied::Done(version) => Ok(version),
        failed @ (Applied::Conflict | Applied::NameTaken) => {
            Err(Violation::new(format!("an apply whose precondition holds returned {failed:?}")))
        }
    }
}

/// The value of an object at a path of keys.
pub(super) fn field_at<'a>(object: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(object, |value, key| value.get(key))
}
