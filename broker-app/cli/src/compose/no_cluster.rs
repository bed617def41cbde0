//! The cluster port of a command without a cluster: each call fails with the reason why there is none.

use async_trait::async_trait;
use broker_domain::ClusterId;
use broker_ports::{
    Applied, ApplyRequest, CachedXr, Cluster, DeleteRequest, Deleted, DryRun, Hints, Inspection,
    OwnedPage, OwnedQuery, PortError, Reading, Target, XrTarget,
};

use crate::failure::{Failure, in_one_line};

/// Refuses everything, for a reason.
pub(super) struct NoCluster(String);

impl NoCluster {
    /// Because it could not be set up.
    pub(super) fn because(failure: &Failure) -> Self {
        Self(in_one_line(failure))
    }

    fn refuse<T>(&self) -> Result<T, PortError> {
        Err(PortError::rejected(self.0.clone()))
    }
}

#[async_trait]
impl Cluster for NoCluster {
    async fn identity(&self) -> Result<ClusterId, PortError> {
        self.refuse()
    }

    async fn observe_many(
        &self,
        _: &[XrTarget],
    ) -> Result<Vec<Result<CachedXr, PortError>>, PortError> {
        self.refuse()
    }

    async fn read(&self, _: &Target) -> Result<Reading, PortError> {
        self.refuse()
    }

    async fn inspect(&self, _: &Target) -> Result<Inspection, PortError> {
        self.refuse()
    }

    async fn apply(&self, _: &ApplyRequest) -> Result<Applied, PortError> {
        self.refuse()
    }

    async fn dry_run(&self, _: &ApplyRequest) -> Result<DryRun, PortError> {
        self.refuse()
    }

    async fn delete(&self, _: &DeleteRequest<'_>) -> Result<Deleted, PortError> {
        self.refuse()
    }

    async fn list_owned(&self, _: &OwnedQuery) -> Result<OwnedPage, PortError> {
        self.refuse()
    }

    async fn hints(&self) -> Result<Hints, PortError> {
        self.refuse()
    }

    async fn watch(&self) {
        std::future::pending::<()>().await;
    }
}
