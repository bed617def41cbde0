//! The verbs over the service: each makes one request, prints the result and fails with one error.

mod brake;
mod explain;
mod history;
mod list;
mod plan;
mod provision;
mod operations;
#[cfg(test)]
mod tests;
mod wait;

use broker_app::Service;
use broker_domain::Error as DomainError;
use broker_ports::{AccessScope, CorrelationId, RequestContext};

pub(crate) use brake::brake;
pub(crate) use explain::explain;
pub(crate) use history::history;
pub(crate) use list::list;
pub(crate) use operations::{
    abandon, pause, reconcile_now, redrive_events, resume, retry, scrub_audit,
};
pub(crate) use plan::plan;
pub(crate) use provision::{deprovision, get, provision, replace};

use crate::cli::CommonArguments;
use crate::output::Output;

pub(crate) struct CommandContext<'a> {
    pub(crate) service: &'a Service,
    pub(crate) context: RequestContext,
    pub(crate) output: Output<'a>,
}

/// The request context of an operator: access to every Project.
///
/// # Errors
///
/// Never in practice: a UUID is a valid correlation id.
pub(crate) fn context(common: &CommonArguments) -> Result<RequestContext, DomainError> {
    let correlation_id = match &common.correlation_id {
        Some(given) => given.clone(),
        None => CorrelationId::new(format!("cli-{}", new_id()))?,
    };
    Ok(RequestContext::new(common.actor.clone(), AccessScope::All, correlation_id))
}

#[expect(clippy::disallowed_methods, reason = "the composition root mints its own correlation ids")]
fn new_id() -> uuid::Uuid {
    uuid::Uuid::now_v7()
}
