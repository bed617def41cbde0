//! The simulated cluster as the world of the contract suite.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use broker_domain::{ClusterId, ObjectReference};
use broker_memory::{KindScope, ManualClock, MemoryCluster};
use broker_ports::{Cluster, ClusterEvent, PortError};
use broker_render::Xrd;
use broker_testkit::cluster::{ClusterUnderTest, PlainKind, ServedKind};
use serde_json::Value;
use time::OffsetDateTime;
use uuid::Uuid;

/// The uid of the namespace `kube-system`.
pub(crate) const CLUSTER_UID: &str = "e3f5a1c2-0d4b-4c57-9f6e-1b2a3c4d5e6f";

/// An empty cluster at a fixed time.
pub(crate) fn empty_cluster() -> MemoryCluster {
    let clock = ManualClock::at(OffsetDateTime::from_unix_timestamp(1_790_000_000).unwrap());
    MemoryCluster::new(Arc::new(clock), ClusterId::new(CLUSTER_UID).unwrap())
}

/// The result of a hook of [`ClusterUnderTest`]; an error is a violation of the contract.
type HookResult<T> = Result<T, PortError>;

/// A cluster, and the number of the next id.
pub(crate) struct World {
    cluster: MemoryCluster,
    ids: AtomicU64,
}

impl World {
    pub(crate) fn fresh() -> Self {
        let cluster = empty_cluster();
        // Small pages, so that listings have several.
        cluster.set_page_size(3);
        Self { cluster, ids: AtomicU64::new(1) }
    }
}

#[async_trait]
impl ClusterUnderTest for World {
    fn cluster(&self) -> Arc<dyn Cluster> {
        Arc::new(self.cluster.clone())
    }

    /// The same cluster for an identity with rights on these kinds only.
    async fn limited_to(&self, kinds: &[PlainKind]) -> HookResult<Arc<dyn Cluster>> {
        let names: Vec<_> =
            kinds.iter().map(|kind| (kind.api_version.as_str(), kind.kind.as_str())).collect();
        Ok(Arc::new(self.cluster.limited_to(&names)))
    }

    fn fresh_id(&self) -> Uuid {
        Uuid::from_u64_pair(7, self.ids.fetch_add(1, Ordering::Relaxed))
    }

    async fn kube_system_uid(&self) -> HookResult<String> {
        Ok(CLUSTER_UID.to_owned())
    }

    async fn install(&self, kind: &ServedKind) -> HookResult<()> {
        match kind {
            ServedKind::Composite(document) => {
                self.cluster.install_xrd(&Arc::new(Xrd::parse(document.as_bytes())?));
            }
            ServedKind::Plain(PlainKind { api_version, kind, namespaced, .. }) => {
                let scope = if *namespaced { KindScope::Namespaced } else { KindScope::Cluster };
                self.cluster.install_kind(api_version, kind, scope);
            }
        }
        Ok(())
    }

    async fn remove_kind(&self, kind: &PlainKind) -> HookResult<()> {
        self.cluster.remove_kind(&kind.api_version, &kind.kind);
        Ok(())
    }

    async fn create_namespace(&self, name: &str) -> HookResult<()> {
        self.cluster.create_namespace(name);
        Ok(())
    }

    async fn remove_namespace(&self, name: &str) -> HookResult<()> {
        self.cluster.terminate_namespace(name);
        Ok(())
    }

    async fn create(&self, target: &ObjectReference, object: &Value) -> HookResult<()> {
        self.cluster.create_as("another-writer", target, object);
        Ok(())
    }

    async fn patch(
        &self,
        manager: &str,
        target: &ObjectReference,
        patch: &Value,
    ) -> HookResult<()> {
        self.cluster.patch_as(manager, target, patch);
        Ok(())
    }

    async fn patch_status(&self, target: &ObjectReference, patch: &Value) -> HookResult<()> {
        self.cluster.patch_as("crossplane", target, patch);
        Ok(())
    }

    async fn delete_in_background(&self, target: &ObjectReference) -> HookResult<()> {
        self.cluster.delete_in_background(target);
        Ok(())
    }

    async fn record_event(&self, about: &ObjectReference, event: &ClusterEvent) -> HookResult<()> {
        self.cluster.record_event(about, event.clone());
        Ok(())
    }

    async fn veto(&self, target: &ObjectReference, message: &str) -> HookResult<()> {
        self.cluster.veto(target, message);
        Ok(())
    }

    async fn object(&self, target: &ObjectReference) -> HookResult<Option<Value>> {
        Ok(self.cluster.object(target))
    }

    async fn namespace_exists(&self, name: &str) -> HookResult<bool> {
        Ok(self.cluster.namespace_exists(name))
    }

    async fn freeze_caches(&self) -> HookResult<()> {
        self.cluster.freeze_cache();
        Ok(())
    }

    async fn cut_off(&self) -> HookResult<()> {
        self.cluster.take_down();
        Ok(())
    }

    async fn settle(&self) {
        self.cluster.tick();
    }
}
