//! The contract of [`Cluster`].
//!
//! The hooks of [`ClusterUnderTest`] simulate the platform, Crossplane and people. So the suite needs an API server
//! and a garbage collector, but no Crossplane.

mod applying;
mod arming;
mod deleting;
mod drifting;
mod fixture;
mod home;
mod inspecting;
mod kinds;
mod listing;
mod outage;
mod owning;
mod prelude;
mod reading;
mod refusing;
mod sharing;
mod subject;

use std::sync::Arc;

use async_trait::async_trait;
use broker_domain::ObjectReference;
use broker_ports::{Cluster, ClusterEvent};
use serde_json::Value;
use uuid::Uuid;

use crate::prelude::*;

/// A cluster with the hooks that the suite needs.
///
/// Hooks have all permissions and bypass the port. They return when the API server has responded. Consequences, such as
/// garbage collection, may take longer: the suite polls after each [`settle`](Self::settle). An error of a hook is a
/// violation.
#[async_trait]
pub trait ClusterUnderTest: Send + Sync {
    /// The port.
    fn cluster(&self) -> Arc<dyn Cluster>;

    /// The port on the same cluster, for an identity with all rights on objects of these kinds only. The core kind
    /// `Namespace` is not included unless it is listed.
    ///
    /// # Errors
    ///
    /// Any error is a violation.
    async fn limited_to(&self, kinds: &[PlainKind]) -> Result<Arc<dyn Cluster>, PortError>;

    /// An id that is new on this cluster.
    fn fresh_id(&self) -> Uuid;

    /// The uid of the namespace `kube-system`.
    ///
    /// # Errors
    ///
    /// Any error is a violation.
    async fn kube_system_uid(&self) -> Result<String, PortError>;

    /// Serves a kind. Idempotent.
    ///
    /// # Errors
    ///
    /// Any error is a violation.
    async fn install(&self, kind: &ServedKind) -> Result<(), PortError>;

    /// Deletes a kind.
    ///
    /// # Errors
    ///
    /// Any error is a violation.
    async fn remove_kind(&self, kind: &PlainKind) -> Result<(), PortError>;

    /// Creates a namespace.
    ///
    /// # Errors
    ///
    /// Any error is a violation.
    async fn create_namespace(&self, name: &str) -> Result<(), PortError>;

    /// Deletes a namespace.
    ///
    /// # Errors
    ///
    /// Any error is a violation.
    async fn remove_namespace(&self, name: &str) -> Result<(), PortError>;

    /// Creates an object with its finalizers and owners. Returns when the garbage collector knows an owned object,
    /// because a foreground deletion waits only for known dependents.
    ///
    /// # Errors
    ///
    /// Any error is a violation.
    async fn create(&self, target: &ObjectReference, object: &Value) -> Result<(), PortError>;

    /// Applies a JSON merge patch under another field manager.
    ///
    /// # Errors
    ///
    /// Any error is a violation.
    async fn patch(
        &self,
        manager: &str,
        target: &ObjectReference,
        patch: &Value,
    ) -> Result<(), PortError>;

    /// Applies a JSON merge patch to the status of an object.
    ///
    /// # Errors
    ///
    /// Any error is a violation.
    async fn patch_status(&self, target: &ObjectReference, patch: &Value) -> Result<(), PortError>;

    /// Deletes an object in the background.
    ///
    /// # Errors
    ///
    /// Any error is a violation.
    async fn delete_in_background(&self, target: &ObjectReference) -> Result<(), PortError>;

    /// Records an event about an object, as a controller does.
    ///
    /// The default creates a core `Event` through [`create`](Self::create), which an API server accepts.
    ///
    /// # Errors
    ///
    /// Any error is a violation.
    async fn record_event(
        &self,
        about: &ObjectReference,
        event: &ClusterEvent,
    ) -> Result<(), PortError> {
        let live = self.object(about).await?.unwrap_or_default();
        let (reference, manifest) = inspecting::core_event(about, &live, event, self.fresh_id())?;
        self.create(&reference, &manifest).await
    }

    /// Vetoes the deletion of an object with a message, as a Usage does.
    ///
    /// # Errors
    ///
    /// Any error is a violation.
    async fn veto(&self, target: &ObjectReference, message: &str) -> Result<(), PortError>;

    /// An object as the API server stores it; `None` if it is absent.
    ///
    /// # Errors
    ///
    /// Any error is a violation.
    async fn object(&self, target: &ObjectReference) -> Result<Option<Value>, PortError>;

    /// Whether a namespace exists.
    ///
    /// # Errors
    ///
    /// Any error is a violation.
    async fn namespace_exists(&self, name: &str) -> Result<bool, PortError>;

    /// Stops the updates of every cache of the port, if the implementation can.
    ///
    /// # Errors
    ///
    /// Any error is a violation.
    async fn freeze_caches(&self) -> Result<(), PortError> {
        Ok(())
    }

    /// Makes the API server unreachable for every handle of the port, for the rest of the case. Hooks may fail, too.
    ///
    /// # Errors
    ///
    /// Any error is a violation.
    async fn cut_off(&self) -> Result<(), PortError>;

    /// Waits a moment for the controllers of the cluster.
    async fn settle(&self);
}

/// A kind to serve.
#[derive(Debug, Clone)]
pub enum ServedKind {
    /// The kind of an XRD, as JSON text, with Crossplane's own fields.
    Composite(String),
    /// A kind with arbitrary content and a status subresource.
    Plain(PlainKind),
}

/// The names of a kind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PlainKind {
    /// Group and version.
    pub api_version: String,
    /// The kind.
    pub kind: String,
    /// Its plural.
    pub plural: String,
    /// Whether its objects are namespaced.
    pub namespaced: bool,
}

/// The contract of [`Cluster`].
pub fn suite<W: ClusterUnderTest + 'static>() -> Suite<W> {
    let write_cases = [applying::cases(), arming::cases(), owning::cases(), drifting::cases()];
    let refusal_cases = [deleting::cases(), home::cases(), refusing::cases(), sharing::cases()];
    let read_cases = [reading::cases(), listing::cases(), inspecting::cases(), outage::cases()];
    Suite::new(write_cases.into_iter().chain(refusal_cases).chain(read_cases).flatten())
}
