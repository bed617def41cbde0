//! The caller of a request: converts headers to the broker's [`RequestContext`].

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use broker_embed::{Error, ProjectId, RequestContext, TraceParent};

use crate::problem::Problem;

/// A customer. A real service authenticates here: the broker does not authorise.
pub(crate) struct Caller {
    pub(crate) customer: String,
    /// The idempotency key: a repeated request returns the first order.
    pub(crate) request_id: Option<String>,
    /// Connects the request with its audit lines: the request id, or a new id.
    correlation_id: String,
    traceparent: Option<TraceParent>,
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let header = |name: &str| parts.headers.get(name)?.to_str().ok().map(str::to_owned);
        let request_id = header("x-request-id");
        Ok(Self {
            customer: header("x-customer").ok_or(Problem::Unauthenticated)?,
            correlation_id: request_id.clone().unwrap_or_else(new_id),
            request_id,
            // W3C Trace Context requires that a malformed header is ignored.
            traceparent: header("traceparent").and_then(|text| TraceParent::new(text).ok()),
        })
    }
}

fn new_id() -> String {
    format!("{:032x}", rand::random::<u128>())
}

impl Caller {
    /// The context for a call to the broker, limited to one Project.
    pub(crate) fn context(&self, project: ProjectId) -> Result<RequestContext, Error> {
        let actor = format!("customer:{}", self.customer);
        let context = RequestContext::user(actor, project, self.correlation_id.as_str())?;
        Ok(match &self.traceparent {
            Some(traceparent) => context.with_traceparent(traceparent.clone()),
            None => context,
        })
    }
}
