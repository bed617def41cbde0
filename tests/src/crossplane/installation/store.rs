//! Direct reads of the store, without the binary.

use sqlx::AssertSqlSafe;

use super::{DeclaredResource, Installation};
use crate::failure::OrFail;

impl Installation {
    /// How often a worker claimed a resource.
    pub async fn claim_count(&self, resource: &DeclaredResource) -> i64 {
        let epoch = "SELECT lease_epoch::text FROM plexsphere.provisioned_resource_schedule
            WHERE provisioned_resource_id = $1";
        self.query_strings(epoch, resource)
            .await
            .remove(0)
            .parse()
            .or_fail("the epoch is not a number")
    }

    /// The error of the last pass over a resource; empty if there is none.
    pub async fn last_error(&self, resource: &DeclaredResource) -> String {
        let error = "SELECT concat_ws(' ', last_reason, last_error)
            FROM plexsphere.provisioned_resource_schedule WHERE provisioned_resource_id = $1";
        self.query_strings(error, resource).await.remove(0)
    }

    /// The audit of a resource, one line per entry.
    pub async fn audit(&self, resource: &DeclaredResource) -> Vec<String> {
        let lines = "SELECT concat_ws(' ', action, previous_phase, new_phase)
            FROM plexsphere.provisioned_resource_audit
            WHERE provisioned_resource_id = $1 ORDER BY sequence";
        self.query_strings(lines, resource).await
    }

    /// The phases of a resource, in order.
    pub async fn phases(&self, resource: &DeclaredResource) -> Vec<String> {
        let lines = "SELECT new_phase FROM plexsphere.provisioned_resource_audit
            WHERE provisioned_resource_id = $1 AND new_phase IS NOT NULL
                AND new_phase IS DISTINCT FROM previous_phase ORDER BY sequence";
        self.query_strings(lines, resource).await
    }

    /// The phase changes of a resource, from and to, in order.
    pub async fn phase_changes(&self, resource: &DeclaredResource) -> Vec<(String, String)> {
        let lines = "SELECT previous_phase || ' ' || new_phase
            FROM plexsphere.provisioned_resource_audit
            WHERE provisioned_resource_id = $1 AND new_phase <> previous_phase ORDER BY sequence";
        let lines = self.query_strings(lines, resource).await.into_iter();
        let change = |line: String| {
            let (from, to) = line.split_once(' ').unwrap_or_default();
            (from.to_owned(), to.to_owned())
        };
        lines.map(change).collect()
    }

    /// The types of a resource's events, in order.
    pub async fn events(&self, resource: &DeclaredResource) -> Vec<String> {
        let types = "SELECT event_type FROM plexsphere.provisioning_outbox
            WHERE provisioned_resource_id = $1 ORDER BY sequence";
        self.query_strings(types, resource).await
    }

    pub(super) async fn query_strings(
        &self,
        statement: &'static str,
        resource: &DeclaredResource,
    ) -> Vec<String> {
        sqlx::query_scalar(AssertSqlSafe(statement))
            .bind(resource.id.as_uuid())
            .fetch_all(self.pool())
            .await
            .or_fail("cannot query the database")
    }

    /// Moves all times of a resource one hour into the past.
    pub async fn age_by_one_hour(&self, resource: &DeclaredResource) {
        let earlier = "UPDATE plexsphere.provisioned_resources
            SET created_at = created_at - interval '1 hour',
                first_ready_at = first_ready_at - interval '1 hour',
                deletion_requested_at = deletion_requested_at - interval '1 hour',
                phase_entered_at = phase_entered_at - interval '1 hour'
            WHERE id = $1 RETURNING id::text";
        assert_eq!(self.query_strings(earlier, resource).await.len(), 1);
    }
}
