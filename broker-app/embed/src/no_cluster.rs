//! The cluster port of a process without a cluster: each call fails with the reason.

use async_trait::async_trait;
use broker_app::domain::ClusterId;
use broker_app::ports::{
    Applied, ApplyRequest, CachedXr, Cluster, DeleteRequest, Deleted, DryRun, Hints, Inspection,
    OwnedPage, OwnedQuery, PortError, Reading, Target, XrTarget,
};

/// Rejects every call with this message.
pub(crate) struct NoCluster(pub(crate) String);

impl NoCluster {
    fn reject<T>(&self) -> Result<T, PortError> {
        Err(PortError::rejected(self.0.clone()))
    }
}

#[async_trait]
impl Cluster for NoCluster {
    async fn identity(&self) -> Result<ClusterId, PortError> {
        self.reject()
    }

    async fn observe_many(
        &self,
        _: &[XrTarget],
    ) -> Result<Vec<Result<CachedXr, PortError>>, PortError> {
        self.reject()
    }

    async fn read(&self, _: &Target) -> Result<Reading, PortError> {
        self.reject()
    }

    async fn inspect(&self, _: &Target) -> Result<Inspection, PortError> {
        self.reject()
    }

    async fn apply(&self, _: &ApplyRequest) -> Result<Applied, PortError> {
        self.reject()
    }

    async fn dry_run(&self, _: &ApplyRequest) -> Result<DryRun, PortError> {
        self.reject()
    }

    async fn delete(&self, _: &DeleteRequest<'_>) -> Result<Deleted, PortError> {
        self.reject()
    }

    async fn list_owned(&self, _: &OwnedQuery) -> Result<OwnedPage, PortError> {
        self.reject()
    }

    async fn hints(&self) -> Result<Hints, PortError> {
        self.reject()
    }

    async fn watch(&self) {
        std::future::pending::<()>().await;
    }
}
