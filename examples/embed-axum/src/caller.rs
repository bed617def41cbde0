//! Who asks, for which request: from headers to the broker's [`RequestContext`].

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use broker_embed::{Error, ProjectId, RequestContext, TraceParent};

use crate::problem::Problem;

/// A customer. A real service authenticates here: the broker does not authorise.
pub(crate) struct Caller {
    pub(crate) customer: String,
    /// With an id, the same request makes one order, however often it comes.
    pub(crate) request_id: Option<String>,
    traceparent: Option<TraceParent>,
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let header = |name: &str| parts.headers.get(name)?.to_str().ok().map(str::to_owned);
        Ok(Self {
            customer: header("x-customer").ok_or(Problem::Unauthenticated)?,
            request_id: header("x-request-id"),
            // W3C Trace Context: a header that is malformed is ignored.
            traceparent: header("traceparent").and_then(|it| TraceParent::new(it).ok()),
        })
    }
}

impl Caller {
    /// The context of a call of the broker, which sees one Project and nothing else.
    pub(crate) fn context(&self, project: ProjectId) -> Result<RequestContext, Error> {
        let actor = format!("customer:{}", self.customer);
        let request_id = self.request_id.as_deref().unwrap_or("unnamed");
        let context = RequestContext::user(actor, project, request_id)?;
        Ok(match &self.traceparent {
            Some(traceparent) => context.with_traceparent(traceparent.clone()),
            None => context,
        })
    }
}
