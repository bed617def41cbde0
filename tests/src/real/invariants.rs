//! What must hold of every resource at any time, as far as database, cluster and their logs can tell afterwards.
//!
//! | guarantee | looked for in |
//! |---|---|
//! | S1, S2, S3, S11, S16 | [the rows](rows): audit and outbox |
//! | S4, S5, S15 | [the tokens](tokens) |
//! | S6, S7, S10 | [the objects](objects) |
//! | S8, S14 | [the requests](requests): the API server's own log |
//! | S12, S13 | [stillness](stillness): another sweep and another pass |
//!
//! S9 is about what arrives late, so a test of its own has to hold something up. Every objection begins with the
//! name of what does not hold; a test breaks each of them once and waits for its name.

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

    /// Everything that does not hold of these resources, and of what was asked for since requests were last
    /// [forgotten](Self::forget_requests).
    ///
    /// # Panics
    ///
    /// When a server does not answer.
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

    /// What was asked for until now is not looked at again.
    ///
    /// # Panics
    ///
    /// When the log cannot be read.
    pub fn forget_requests(&self) {
        *self.asked_since() = self.cluster.audit_log().mark();
    }
}
