//! A wrapper that changes one method: it counts the tokens of another issuer.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use broker_embed::TokenIssuer;
use broker_embed::ports::{Issue, IssueRequest, PortError, TokenIssuerWrapper};

/// Counts issued tokens. The caller shares the count and can read it.
pub struct CountingIssuer {
    pub inner: Arc<dyn TokenIssuer>,
    pub count: Arc<AtomicUsize>,
}

#[async_trait]
impl TokenIssuerWrapper for CountingIssuer {
    fn inner(&self) -> &dyn TokenIssuer {
        &*self.inner
    }

    async fn issue(&self, request: &IssueRequest) -> Result<Issue, PortError> {
        let issue = self.inner.issue(request).await?;
        if matches!(issue, Issue::Issued(_)) {
            self.count.fetch_add(1, Ordering::Relaxed);
        }
        Ok(issue)
    }
}
