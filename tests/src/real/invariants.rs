//! The guarantees of `docs/guarantees.md` for every resource, checked afterwards from database, cluster and their logs.
//!
//! | guarantee | checked in |
//! |---|---|
//! | S1, S2, S3, S11, S16 | [rows](rows): audit and outbox |
//! | S4, S5, S15 | [tokens](tokens) |
//! | S6, S7, S10 | [objects](objects) |
//! | S8, S14 | [requests](requests): the API server's own log |
//! | S12, S13 | [settled](settled): another sweep and another pass |
//!
//! S9 has its own test, which delays a request. The text of a violation begins with the name of the guarantee;
//! a test violates each guarantee once and expects its name.

mod objects;
mod requests;
mod rows;
mod settled;
mod tokens;

use std::sync::{MutexGuard, PoisonError};

use broker_domain::ProvisionedResourceId;

use super::RealWorld;
use crate::cluster::LogPosition;
use rows::{AuditLine, EventRows};

impl RealWorld {
    /// Checks the invariants of a resource.
    ///
    /// # Panics
    ///
    /// When one is violated.
    pub async fn assert_invariants(&self, id: ProvisionedResourceId) {
        self.assert_all_invariants(&[id]).await;
    }

    /// Checks the invariants of many resources.
    ///
    /// # Panics
    ///
    /// When one is violated.
    pub async fn assert_all_invariants(&self, ids: &[ProvisionedResourceId]) {
        let violations = self.violations(ids).await;
        assert!(violations.is_empty(), "{}", violations.join("\n"));
    }

    /// Every violation by these resources, and by the requests since
    /// [`forget_requests`](Self::forget_requests).
    pub async fn violations(&self, ids: &[ProvisionedResourceId]) -> Vec<String> {
        let mut violations = Vec::new();
        let objects = self.crossplane.all_objects().await;
        for id in ids {
            let resource = self.get(*id).await;
            let lines = AuditLine::read(self.pool(), *id).await;
            let events = EventRows::read(self.pool(), *id).await;
            let mut found = rows::violations(&resource, &lines, &events);
            found.extend(rows::changes_without_ready(&lines, &self.crossplane.ready_since(*id)));
            found.extend(tokens::violations(self.pool(), &resource).await);
            found.extend(objects::violations(&resource, &objects));
            violations.extend(found.into_iter().map(|violation| format!("{violation} ({id})")));
        }
        violations.extend(tokens::leaks(self.pool(), self.plaintexts()).await);
        violations.extend(self.request_violations(ids).await);
        violations
    }

    async fn request_violations(&self, ids: &[ProvisionedResourceId]) -> Vec<String> {
        let position = *self.audit_position();
        let requests = self.cluster.audit_log().since(position, &self.user).await;
        let mut violations = requests::foreign_writes(&requests, &self.namespace());
        violations.extend(requests::writes_without_read(&requests));
        for id in ids {
            violations.extend(requests::deletions_without_proof(&requests, &self.get(*id).await));
        }
        violations
    }

    fn audit_position(&self) -> MutexGuard<'_, LogPosition> {
        self.audit_position.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Excludes the requests so far from later checks.
    pub fn forget_requests(&self) {
        *self.audit_position() = self.cluster.audit_log().mark();
    }
}
