//! What a path needs of the world that it is walked in.

use broker_app::{Error, Passed, Reconciler, Service, SweepReport, Work};
use broker_domain::{Declaration, Phase, ProvisionedResource, ProvisionedResourceId};
use broker_ports::ReconcilerPorts;
use broker_tests::real::Behaviour;
use broker_tests::world::operator;
use serde_json::Value;

/// Whether the Project's namespace takes objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Namespace {
    Ready,
    NotReady,
}

/// Whether the provider finishes the deletion of what it made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Deletions {
    Finished,
    Held,
}

/// A world in which the life of a resource is played.
pub(crate) trait Stage {
    fn service(&self) -> &Service;
    fn reconciler(&self) -> &Reconciler;
    fn ports(&self) -> ReconcilerPorts;
    fn declaration(&self, blueprint: u128) -> Declaration;

    /// One pass, and everybody else has a turn.
    async fn round(&self, id: ProvisionedResourceId) -> Result<Passed, Error>;
    /// Rounds until the resource is in a phase.
    async fn until(&self, id: ProvisionedResourceId, phase: Phase) -> ProvisionedResource;
    /// Declares a resource and brings it into a phase on the way up.
    async fn brought_to(&self, phase: Phase, declaration: &Declaration) -> ProvisionedResource;
    async fn sweep(&self) -> (Vec<Work>, SweepReport);

    /// What becomes of the resource's composite resource.
    fn behave(&self, id: ProvisionedResourceId, behaviour: Behaviour);
    fn deletions(&self, deletions: Deletions);
    async fn place(&self, namespace: Namespace);
    async fn withdraw_credential(&self);
    async fn let_tokens_expire(&self);
    /// Somebody deletes the composite resource, and what it composed goes with it.
    async fn delete_by_hand(&self, resource: &ProvisionedResource);
    /// Somebody changes the composite resource.
    async fn edit(&self, resource: &ProvisionedResource, changes: Value);

    /// The composite resource, if it stands.
    async fn xr(&self, resource: &ProvisionedResource) -> Option<Value>;
    /// What stands, each as its kind and its name.
    async fn standing(&self) -> Vec<String>;
    /// How many declarations were refused.
    async fn refusals(&self) -> usize;
    /// Looks for whatever must always hold and this world can tell.
    async fn check(&self, id: ProvisionedResourceId);

    async fn declare(&self, declaration: &Declaration) -> Result<ProvisionedResource, Error> {
        self.service().provision(&operator(), declaration).await
    }

    async fn get(&self, id: ProvisionedResourceId) -> ProvisionedResource {
        self.service().get(&operator(), id).await.unwrap()
    }

    async fn request_deletion(&self, id: ProvisionedResourceId) -> ProvisionedResource {
        self.service().deprovision(&operator(), id).await.unwrap()
    }

    /// Rounds until the resource is in a phase that it may be in already.
    async fn rounds_until(&self, id: ProvisionedResourceId, phase: Phase) {
        while self.get(id).await.phase() != phase {
            self.round(id).await.unwrap();
        }
    }

    /// What was done to a resource, in the audit's words.
    async fn story(&self, id: ProvisionedResourceId) -> Vec<&'static str> {
        let lines = self.ports().repository.history(id).await.unwrap();
        lines.into_iter().map(|line| line.entry.action.as_str()).collect()
    }

    /// How often something was done to it.
    async fn times(&self, id: ProvisionedResourceId, action: &str) -> usize {
        self.story(id).await.into_iter().filter(|done| *done == action).count()
    }
}
