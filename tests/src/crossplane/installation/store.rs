//! Direct reads of the store, without the binary.

use sqlx::AssertSqlSafe;

use super::{Installation, Life};
use crate::failure::OrFail;

impl Installation {
    /// How often a worker claimed a resource.
    pub async fn passes(&self, life: &Life) -> i64 {
        let taken = "SELECT lease_epoch::text FROM plexsphere.provisioned_resource_schedule
            WHERE provisioned_resource_id = $1";
        self.ask(taken, life).await.remove(0).parse().or_fail("a number")
    }

    /// The error of the last pass over a resource; empty if there is none.
    pub async fn last_error(&self, life: &Life) -> String {
        let error = "SELECT concat_ws(' ', last_reason, last_error)
            FROM plexsphere.provisioned_resource_schedule WHERE provisioned_resource_id = $1";
        self.ask(error, life).await.remove(0)
    }

    /// The audit of a resource, one line per entry.
    pub async fn audit(&self, life: &Life) -> Vec<String> {
        let lines = "SELECT concat_ws(' ', action, previous_phase, new_phase)
            FROM plexsphere.provisioned_resource_audit
            WHERE provisioned_resource_id = $1 ORDER BY sequence";
        self.ask(lines, life).await
    }

    /// The phases of a resource, in order.
    pub async fn phases(&self, life: &Life) -> Vec<String> {
        let lines = "SELECT new_phase FROM plexsphere.provisioned_resource_audit
            WHERE provisioned_resource_id = $1 AND new_phase IS NOT NULL
                AND new_phase IS DISTINCT FROM previous_phase ORDER BY sequence";
        self.ask(lines, life).await
    }

    /// Its phase changes, from and to, in order.
    pub async fn steps(&self, life: &Life) -> Vec<(String, String)> {
        let lines = "SELECT previous_phase || ' ' || new_phase
            FROM plexsphere.provisioned_resource_audit
            WHERE provisioned_resource_id = $1 AND new_phase <> previous_phase ORDER BY sequence";
        let lines = self.ask(lines, life).await.into_iter();
        let step = |line: String| {
            let (from, to) = line.split_once(' ').unwrap_or_default();
            (from.to_owned(), to.to_owned())
        };
        lines.map(step).collect()
    }

    /// The types of its events, in order.
    pub async fn events(&self, life: &Life) -> Vec<String> {
        let types = "SELECT event_type FROM plexsphere.provisioning_outbox
            WHERE provisioned_resource_id = $1 ORDER BY sequence";
        self.ask(types, life).await
    }

    pub(super) async fn ask(&self, statement: &'static str, life: &Life) -> Vec<String> {
        sqlx::query_scalar(AssertSqlSafe(statement))
            .bind(life.id.as_uuid())
            .fetch_all(self.pool())
            .await
            .or_fail("the database does not answer")
    }

    /// Moves all times of a resource one hour into the past.
    pub async fn let_an_hour_pass(&self, life: &Life) {
        let earlier = "UPDATE plexsphere.provisioned_resources
            SET created_at = created_at - interval '1 hour',
                first_ready_at = first_ready_at - interval '1 hour',
                deletion_requested_at = deletion_requested_at - interval '1 hour',
                phase_entered_at = phase_entered_at - interval '1 hour'
            WHERE id = $1 RETURNING id::text";
        assert_eq!(self.ask(earlier, life).await.len(), 1);
    }
}
