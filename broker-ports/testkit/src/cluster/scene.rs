//! The fixture of most cluster cases: a Project with its namespace, the kinds, and a resource.

use std::sync::Arc;

use broker_domain::{ObjectReference, ProjectId};
use broker_ports::{
    Applied, ApplyRequest, Cluster, DeleteRequest, Deleted, LiveXr, ObjectVersion, Reading,
    XrReading,
};
use broker_render::{Identity, Manifest, Precondition, namespace};
use serde_json::{Value, json};

use super::kinds::{Blueprint, config, part};
use super::subject::Subject;
use super::{ClusterUnderTest, ServedKind};
use crate::prelude::*;

/// A token that must never appear in any output.
pub(super) const CANARY: &str = "canary-5f1d7c-bootstrap-token";

/// Keeps an object until the case removes it.
pub(super) const FINALIZER: &str = "contract.plexsphere.io/held";

/// The maximum number of polls of a case.
const ROUNDS: usize = 600;

/// A world with served kinds and a Project with its namespace.
pub(super) struct Scene<'w> {
    pub(super) world: &'w dyn ClusterUnderTest,
    pub(super) cluster: Arc<dyn Cluster>,
    pub(super) project: ProjectId,
}

impl<'w> Scene<'w> {
    pub(super) async fn new(world: &'w dyn ClusterUnderTest) -> Checked<Self> {
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

    /// Polls for a state that may take time.
    pub(super) fn rounds(&self, otherwise: impl Into<String>) -> Rounds<'w> {
        Rounds { world: self.world, left: ROUNDS, otherwise: otherwise.into() }
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
        Subject::new(identity, blueprint.claimed()?, self.world.fresh_id().try_into()?)
    }

    /// Applies a manifest without a secret.
    pub(super) async fn apply(
        &self,
        manifest: Manifest,
        precondition: Precondition,
    ) -> Result<Applied, PortError> {
        self.cluster.apply(&ApplyRequest::open(self.project, manifest, precondition)).await
    }

    /// Applies a shell of the subject under epoch 1.
    pub(super) async fn shell(&self, subject: &Subject) -> Checked<ObjectVersion> {
        done(self.apply(subject.shell(1)?, Precondition::Absent).await?)
    }

    /// A machine with an applied shell under epoch 1, and its version.
    pub(super) async fn existing_objects(&self) -> Checked<(Subject, ObjectVersion)> {
        let subject = self.machine()?;
        let version = self.shell(&subject).await?;
        Ok((subject, version))
    }

    /// Arms a shell with the canary token.
    pub(super) async fn arm(&self, subject: &Subject, shell: &ObjectVersion) -> Checked<Applied> {
        let manifest = subject.sealed()?;
        let request = ApplyRequest::sealed(self.project, manifest, shell.unchanged());
        Ok(self.cluster.apply(&request).await?)
    }

    /// Applies and arms the subject.
    pub(super) async fn armed(&self, subject: &Subject) -> Checked<ObjectVersion> {
        let shell = self.shell(subject).await?;
        done(self.arm(subject, &shell).await?)
    }

    /// The subject as Crossplane leaves it: armed, with a composed object that a finalizer keeps.
    pub(super) async fn composed(&self, subject: &Subject) -> Checked<ObjectReference> {
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

    /// Replaces the subject's object by another one of that name. Returns the versions of both.
    pub(super) async fn replaced(&self, subject: &Subject) -> Checked<[ObjectVersion; 2]> {
        let before = self.shell(subject).await?;
        let reference = subject.reference()?;
        self.world.delete_in_background(&reference).await?;
        self.until_gone(&reference).await?;
        Ok([before, self.shell(subject).await?])
    }

    /// An object with the subject's composite label.
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

    /// Removes every finalizer of an object, as its holder.
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
                Err(Violation::new(format!(
                    "the composite resource exists, but is read as {absent:?}"
                )))
            }
        }
    }

    /// An object read past the port, which must exist.
    pub(super) async fn object(&self, target: &ObjectReference) -> Checked<Value> {
        let object = self.world.object(target).await?;
        object.ok_or_else(|| Violation::new(format!("{target} is gone")))
    }

    /// Whether an existing object is being deleted.
    pub(super) async fn is_being_deleted(&self, target: &ObjectReference) -> Checked<bool> {
        Ok(self.object(target).await?["metadata"].get("deletionTimestamp").is_some())
    }

    /// Waits until an object is gone.
    pub(super) async fn until_gone(&self, target: &ObjectReference) -> Outcome {
        let mut rounds = self.rounds(format!("{target} is never gone"));
        while self.world.object(target).await?.is_some() {
            rounds.wait().await?;
        }
        Ok(())
    }

    /// A resource of a kind that is no longer served.
    pub(super) async fn of_an_absent_kind(&self) -> Checked<Subject> {
        let subject = self.resource(Blueprint::Fleeting)?;
        self.world.remove_kind(&Blueprint::Fleeting.kind()).await?;
        self.until_read(&subject, |xr| matches!(xr, XrReading::KindAbsent)).await?;
        Ok(subject)
    }

    /// Waits until an object is being deleted.
    pub(super) async fn until_deleting(&self, target: &ObjectReference) -> Outcome {
        let mut rounds = self.rounds(format!("{target} is never deleted"));
        while !self.is_being_deleted(target).await? {
            rounds.wait().await?;
        }
        Ok(())
    }

    /// Waits until the reading of the composite resource changes.
    pub(super) async fn until_read(
        &self,
        subject: &Subject,
        wanted: impl Fn(&XrReading) -> bool + Send + Sync,
    ) -> Outcome {
        let mut rounds = self.rounds("the composite resource stays as it is read");
        while !wanted(&self.read(subject).await?.xr) {
            rounds.wait().await?;
        }
        Ok(())
    }
}

/// A bounded number of polls.
pub(super) struct Rounds<'w> {
    world: &'w dyn ClusterUnderTest,
    left: usize,
    otherwise: String,
}

impl Rounds<'_> {
    pub(super) async fn wait(&mut self) -> Outcome {
        require(self.left > 0, &self.otherwise)?;
        self.left -= 1;
        self.world.settle().await;
        Ok(())
    }
}

/// The version of a successful apply.
pub(super) fn done(applied: Applied) -> Checked<ObjectVersion> {
    match applied {
        Applied::Done(version) => Ok(version),
        lost @ (Applied::Conflict | Applied::NameTaken) => {
            Err(Violation::new(format!("an apply whose precondition holds returned {lost:?}")))
        }
    }
}

/// The value of an object at a path of keys.
pub(super) fn at<'a>(object: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(object, |value, key| value.get(key))
}
