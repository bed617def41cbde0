//! S12 and S13: in a settled world, another sweep and another pass change nothing.

use broker_domain::ProvisionedResourceId;

use crate::failure::OrFail;
use crate::real::RealWorld;

/// The number of writes, from the tables.
const WRITTEN: &str = "SELECT
    (SELECT coalesce(sum(version), 0)::bigint FROM plexsphere.provisioned_resources),
    (SELECT count(*) FROM plexsphere.provisioned_resource_audit),
    (SELECT count(*) FROM plexsphere.provisioning_outbox)";

impl RealWorld {
    /// Checks that a sweep and a pass over each of these resources are no-ops.
    ///
    /// # Panics
    ///
    /// When something was written, here or on the cluster.
    pub async fn assert_still(&self, ids: &[ProvisionedResourceId]) {
        let stirred = self.stirred(ids).await;
        assert!(stirred.is_empty(), "{}", stirred.join("\n"));
    }

    /// The writes of such a sweep and such passes.
    pub async fn stirred(&self, ids: &[ProvisionedResourceId]) -> Vec<String> {
        let mut objections = Vec::new();
        let mark = self.cluster.audit_log().mark();
        let before = self.written().await;
        let (work, report) = self.sweep().await;
        if !work.is_empty() || self.written().await != before {
            objections.push(format!("S12: a sweep found {work:?}: {report:?}"));
        }
        for id in ids {
            if let Err(error) = self.reconciler.reconcile(*id).await {
                objections.push(format!("S13: another pass over {id} failed: {error}"));
            }
        }
        let after = self.written().await;
        if after != before {
            objections.push(format!("S13: another pass wrote: {before:?} became {after:?}"));
        }
        let asked = self.cluster.audit_log().since(mark, &self.user).await;
        let writes = asked.iter().filter(|request| request.is_write());
        objections.extend(writes.map(|request| format!("S12: {request:?}")));
        objections
    }

    /// Row versions, audit lines, events.
    async fn written(&self) -> (i64, i64, i64) {
        sqlx::query_as(WRITTEN).fetch_one(self.pool()).await.or_fail("nothing can be counted")
    }
}
