//! The invariants of every resource, checked afterwards from database, cluster and their logs.
//!
//! | guarantee | checked in |
//! |---|---|
//! | S1, S2, S3, S11, S16 | [rows](rows): audit and outbox |
//! | S4, S5, S15 | [tokens](tokens) |
//! | S6, S7, S10 | [objects](objects) |
//! | S8, S14 | [requests](requests): the API server's own log |
//! | S12, S13 | [stillness](stillness): another sweep and another pass |
//!
//! S9 concerns late requests, so it has its own test, which delays a request. Every objection
//! begins with the name of the violated guarantee; a test violates each once and expects its name.

mod objects;
mod requests;
mod rows;
mod stillness;
mod tokens;

use std::sync::{MutexGuard, PoisonError};

use broker_domain::ProvisionedResourceId;

use super::RealWorld;
use crate::cluster::Mark;
use rows::{Line, Told};

impl RealWorld {
    /// Checks a resource.
    ///
    /// # Panics
    ///
    /// When something does not hold.
    pub async fn assert_sound(&self, id: ProvisionedResourceId) {
        self.assert_all_sound(&[id]).await;
    }

    /// Checks many.
    ///
    /// # Panics
    ///
    /// When something does not hold.
    pub async fn assert_all_sound(&self, ids: &[ProvisionedResourceId]) {
        let objections = self.objections(ids).await;
        assert!(objections.is_empty(), "{}", objections.join("\n"));
    }

    /// Every violation by these resources, and by the requests since
    /// [`forget_requests`](Self::forget_requests).
    pub async fn objections(&self, ids: &[ProvisionedResourceId]) -> Vec<String> {
        let mut objections = Vec::new();
        let standing = self.crossplane.everything().await;
        for id in ids {
            let resource = self.get(*id).await;
            let lines = Line::of(self.pool(), *id).await;
            let told = Told::of(self.pool(), *id).await;
            let mut found = rows::objections(&resource, &lines, &told);
            found.extend(rows::unready(&lines, &self.crossplane.ready_since(*id)));
            found.extend(tokens::objections(self.pool(), &resource).await);
            found.extend(objects::objections(&resource, &standing));
            objections.extend(found.into_iter().map(|objection| format!("{objection} ({id})")));
        }
        objections.extend(tokens::leaks(self.pool(), self.plaintexts()).await);
        objections.extend(self.requests_not_allowed(ids).await);
        objections
    }

    async fn requests_not_allowed(&self, ids: &[ProvisionedResourceId]) -> Vec<String> {
        let mark = *self.asked_since();
        let asked = self.cluster.audit_log().since(mark, &self.user).await;
        let mut objections = requests::elsewhere(&asked, &self.home());
        objections.extend(requests::unfounded(&asked));
        for id in ids {
            objections.extend(requests::unproven(&asked, &self.get(*id).await));
        }
        objections
    }

    fn asked_since(&self) -> MutexGuard<'_, Mark> {
        self.asked_since.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Excludes the requests so far from later checks.
    pub fn forget_requests(&self) {
        *self.asked_since() = self.cluster.audit_log().mark();
    }
}
