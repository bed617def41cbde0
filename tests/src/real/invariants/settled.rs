//! S12 and S13: in a settled world, another sweep and another pass change nothing.

use broker_domain::ProvisionedResourceId;

use crate::failure::OrFail;
use crate::real::RealWorld;

/// The number of writes, from the tables.
const WRITE_COUNTS: &str = "SELECT
    (SELECT coalesce(sum(version), 0)::bigint FROM plexsphere.provisioned_resources),
    (SELECT count(*) FROM plexsphere.provisioned_resource_audit),
    (SELECT count(*) FROM plexsphere.provisioning_outbox)";

impl RealWorld {
    /// Checks that a sweep and a pass over each of these resources are no-ops.
    ///
    /// # Panics
    ///
    /// When something was written, here or on the cluster.
    pub async fn assert_no_work(&self, ids: &[ProvisionedResourceId]) {
        let remaining_work = self.remaining_work(ids).await;
        assert!(remaining_work.is_empty(), "{}", remaining_work.join("\n"));
    }

    /// The work that a sweep finds, and the writes of the sweep and of a pass over each resource.
    pub async fn remaining_work(&self, ids: &[ProvisionedResourceId]) -> Vec<String> {
        let mut violations = Vec::new();
        let mark = self.cluster.audit_log().mark();
        let before = self.write_counts().await;
        let (work, report) = self.sweep().await;
        if !work.is_empty() || self.write_counts().await != before {
            violations.push(format!("S12: a sweep found {work:?}: {report:?}"));
        }
        for id in ids {
            if let Err(error) = self.reconciler.reconcile(*id).await {
                violations.push(format!("S13: another pass over {id} failed: {error}"));
            }
        }
        let after = self.write_counts().await;
        if after != before {
            violations.push(format!("S13: another pass wrote: {before:?} became {after:?}"));
        }
        let requests = self.cluster.audit_log().since(mark, &self.user).await;
        let writes = requests.iter().filter(|request| request.is_write());
        violations.extend(writes.map(|request| format!("S12: {request:?}")));
        violations
    }

    /// Row versions, audit lines, events.
    async fn write_counts(&self) -> (i64, i64, i64) {
        sqlx::query_as(WRITE_COUNTS).fetch_one(self.pool()).await.or_fail("nothing can be counted")
    }
}
