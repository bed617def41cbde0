//! The contract of [`Cluster`].
//!
//! A case plays everybody but the broker through the hooks of [`ClusterUnderTest`]: the platform that
//! installs kinds and namespaces, Crossplane that composes, people who patch. So it needs an API server and
//! a garbage collector, and no Crossplane.

mod applying;
mod arming;
mod deleting;
mod drifting;
mod home;
mod inspecting;
mod kinds;
mod listing;
mod outage;
mod owning;
mod prelude;
mod reading;
mod refusing;
mod scene;
mod subject;

use std::sync::Arc;

use async_trait::async_trait;
use broker_domain::ObjectReference;
use broker_ports::{Cluster, ClusterEvent};
use serde_json::Value;
use uuid::Uuid;

use crate::prelude::*;

/// A cluster, and the world around it that the suite needs.
///
/// Hooks act with every right and past the port. They return when the API server has answered; whatever
/// follows from that (collected garbage, finished namespaces) may take its time, and the suite asks again
/// after each [`settle`](Self::settle). An error of a hook ends the case as a violation.
#[async_trait]
pub trait ClusterUnderTest: Send + Sync {
    /// The port.
    fn cluster(&self) -> Arc<dyn Cluster>;

    /// The port on the same cluster, for an identity that may do everything with objects of these kinds and
    /// nothing else. The core kind `Namespace` counts like any other.
    ///
    /// # Errors
    ///
    /// Any ends the case as a violation.
    async fn limited_to(&self, kinds: &[PlainKind]) -> Result<Arc<dyn Cluster>, PortError>;

    /// An id that nobody used on this cluster before.
    fn fresh_id(&self) -> Uuid;

    /// The uid of the namespace `kube-system`.
    ///
    /// # Errors
    ///
    /// Any ends the case as a violation.
    async fn kube_system_uid(&self) -> Result<String, PortError>;

    /// Serves a kind. One that is there already stays.
    ///
    /// # Errors
    ///
    /// Any ends the case as a violation.
    async fn install(&self, kind: &ServedKind) -> Result<(), PortError>;

    /// Deletes a kind.
    ///
    /// # Errors
    ///
    /// Any ends the case as a violation.
    async fn remove_kind(&self, kind: &PlainKind) -> Result<(), PortError>;

    /// Creates a namespace.
    ///
    /// # Errors
    ///
    /// Any ends the case as a violation.
    async fn create_namespace(&self, name: &str) -> Result<(), PortError>;

    /// Deletes a namespace.
    ///
    /// # Errors
    ///
    /// Any ends the case as a violation.
    async fn remove_namespace(&self, name: &str) -> Result<(), PortError>;

    /// Creates an object; finalizers and owners included. Returns when the garbage collector knows of an object that
    /// has an owner: a foreground deletion of the owner waits for no other.
    ///
    /// # Errors
    ///
    /// Any ends the case as a violation.
    async fn create(&self, target: &ObjectReference, object: &Value) -> Result<(), PortError>;

    /// Changes an object by a JSON merge patch under another field manager.
    ///
    /// # Errors
    ///
    /// Any ends the case as a violation.
    async fn patch(
        &self,
        manager: &str,
        target: &ObjectReference,
        patch: &Value,
    ) -> Result<(), PortError>;

    /// Changes the status of an object by a JSON merge patch.
    ///
    /// # Errors
    ///
    /// Any ends the case as a violation.
    async fn patch_status(&self, target: &ObjectReference, patch: &Value) -> Result<(), PortError>;

    /// Deletes an object in the background.
    ///
    /// # Errors
    ///
    /// Any ends the case as a violation.
    async fn delete_in_background(&self, target: &ObjectReference) -> Result<(), PortError>;

    /// Says something about an object, as its controllers do.
    ///
    /// The default creates a core `Event` through [`create`](Self::create), which an API server takes.
    ///
    /// # Errors
    ///
    /// Any ends the case as a violation.
    async fn say(&self, about: &ObjectReference, said: &ClusterEvent) -> Result<(), PortError> {
        let live = self.object(about).await?.unwrap_or_default();
        let (reference, event) = inspecting::core_event(about, &live, said, self.fresh_id())?;
        self.create(&reference, &event).await
    }

    /// Vetoes the deletion of this one object from now on, as a Usage does, in these words.
    ///
    /// # Errors
    ///
    /// Any ends the case as a violation.
    async fn veto(&self, target: &ObjectReference, words: &str) -> Result<(), PortError>;

    /// An object as the API server has it now; `None` if there is none.
    ///
    /// # Errors
    ///
    /// Any ends the case as a violation.
    async fn object(&self, target: &ObjectReference) -> Result<Option<Value>, PortError>;

    /// Whether a namespace exists.
    ///
    /// # Errors
    ///
    /// Any ends the case as a violation.
    async fn namespace_exists(&self, name: &str) -> Result<bool, PortError>;

    /// Lets every cache lag from now on, where that is in somebody's hands.
    ///
    /// # Errors
    ///
    /// Any ends the case as a violation.
    async fn freeze_caches(&self) -> Result<(), PortError> {
        Ok(())
    }

    /// Cuts the port off from its API server for the rest of the case, also where it was handed out before:
    /// nobody listens there any more. Hooks need not get through either.
    ///
    /// # Errors
    ///
    /// Any ends the case as a violation.
    async fn cut_off(&self) -> Result<(), PortError>;

    /// Gives the cluster a moment to get on with what it has to do.
    async fn settle(&self);
}

/// A kind to be served.
#[derive(Debug, Clone)]
pub enum ServedKind {
    /// The kind of an XRD, here as its JSON text; with the fields that Crossplane adds to it.
    Composite(String),
    /// A kind whose objects may hold anything, with a status of its own.
    Plain(PlainKind),
}

/// The names of a kind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PlainKind {
    /// Group and version.
    pub api_version: String,
    /// The kind.
    pub kind: String,
    /// The plural by which it is served.
    pub plural: String,
    /// Its objects stand in namespaces.
    pub namespaced: bool,
}

/// Every promise of [`Cluster`].
pub fn suite<W: ClusterUnderTest + 'static>() -> Suite<W> {
    let applied = [applying::cases(), arming::cases(), owning::cases(), drifting::cases()];
    let refused = [deleting::cases(), home::cases(), refusing::cases()];
    let looked_at = [reading::cases(), listing::cases(), inspecting::cases(), outage::cases()];
    Suite::new(applied.into_iter().chain(refused).chain(looked_at).flatten())
}
