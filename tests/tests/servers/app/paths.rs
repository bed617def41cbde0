//! Every path of a resource's life on real Postgres and a real API server.

use std::sync::atomic::Ordering;

use broker_app::{Error, Passed, Reconciler, Service, SweepReport, Work};
use broker_domain::{Declaration, Phase, ProvisionedResource, ProvisionedResourceId};
use broker_ports::ReconcilerPorts;
use broker_tests::real::{Behaviour, RealWorld};
use serde_json::Value;

use crate::paths::{Deletions, Namespace, Stage, every_path};

impl Stage for RealWorld {
    fn service(&self) -> &Service {
        &self.service
    }

    fn reconciler(&self) -> &Reconciler {
        &self.reconciler
    }

    fn ports(&self) -> ReconcilerPorts {
        ReconcilerPorts::from(&self.ports)
    }

    fn declaration(&self, blueprint: u128) -> Declaration {
        Self::declaration(self, blueprint)
    }

    async fn round(&self, id: ProvisionedResourceId) -> Result<Passed, Error> {
        Self::round(self, id).await
    }

    async fn until(&self, id: ProvisionedResourceId, phase: Phase) -> ProvisionedResource {
        Self::until(self, id, phase).await
    }

    async fn brought_to(&self, phase: Phase, declaration: &Declaration) -> ProvisionedResource {
        Self::brought_to(self, phase, declaration).await
    }

    async fn sweep(&self) -> (Vec<Work>, SweepReport) {
        Self::sweep(self).await
    }

    fn behave(&self, id: ProvisionedResourceId, behaviour: Behaviour) {
        self.crossplane.behave_for(id, behaviour);
    }

    fn deletions(&self, deletions: Deletions) {
        self.crossplane.deletes.store(deletions == Deletions::Finished, Ordering::Relaxed);
    }

    async fn place(&self, namespace: Namespace) {
        Self::place(self, namespace == Namespace::Ready).await;
    }

    async fn withdraw_credential(&self) {
        Self::withdraw_credential(self).await;
    }

    async fn let_tokens_expire(&self) {
        Self::let_tokens_expire(self).await;
    }

    async fn delete_by_hand(&self, resource: &ProvisionedResource) {
        self.crossplane.delete_by_hand(resource.id()).await;
    }

    async fn edit(&self, resource: &ProvisionedResource, changes: Value) {
        self.crossplane.patch(resource.id(), changes).await;
    }

    async fn xr(&self, resource: &ProvisionedResource) -> Option<Value> {
        let xr = self.crossplane.composite(resource.id()).await;
        xr.map(|xr| serde_json::to_value(xr).unwrap())
    }

    async fn standing(&self) -> Vec<String> {
        self.crossplane.standing().await
    }

    async fn refusals(&self) -> usize {
        let count: i64 = sqlx::query_scalar(
            "SELECT count(*) FROM plexsphere.provisioned_resource_audit
            WHERE action = 'declaration_refused'",
        )
        .fetch_one(self.pool())
        .await
        .unwrap();
        usize::try_from(count).unwrap()
    }

    async fn check(&self, id: ProvisionedResourceId) {
        self.assert_sound(id).await;
    }
}

every_path!(RealWorld::new().await);
