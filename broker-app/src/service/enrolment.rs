//! Refusals of agents, reported by the control plane and shown by explanations.

use broker_domain::{BootstrapTokenId, Error as DomainError, ProvisionedResource};
use broker_ports::{AuditAction, AuditEntry, AuditRecord, RequestContext, XrReading};
use broker_render::{injected, scrub};
use secrecy::ExposeSecret;

use super::Service;
use crate::error::Error;
use crate::explain::WITHHELD;
use crate::observe::read_xr_if_applied;
use crate::telemetry::traceparent;

/// How many different reasons are kept per token. An agent repeats its request, and the audit keeps each line.
const MAX_REASONS: usize = 8;

impl Service {
    /// Tells the broker why the control plane refused an agent. [`explain`](Self::explain) shows the last reason while
    /// the Node has not enrolled; the audit keeps it.
    ///
    /// The reason is text for people, such as `403 token_expired`. The broker removes the injected values from it, cuts it
    /// to [`MAX_MESSAGE_BYTES`](broker_render::MAX_MESSAGE_BYTES), and puts it on one line. A reason that it cannot scrub,
    /// because the composite resource does not exist, is replaced by a notice. A reason that was reported before for the
    /// same token changes nothing, and neither does a ninth one.
    ///
    /// # Errors
    ///
    /// `invalid_input` when the reason is empty, or when no resource in the scope has this token; `repository_…`,
    /// `cluster_…`, `audit_…`: nothing was stored, or a repeated call is a no-op.
    #[tracing::instrument(name = "broker.report_enrolment_refusal", skip_all, fields(%token, traceparent = traceparent(context)))]
    pub async fn report_enrolment_refusal(
        &self,
        context: &RequestContext,
        token: BootstrapTokenId,
        reason: &str,
    ) -> Result<(), Error> {
        if reason.trim().is_empty() {
            return Err(DomainError::invalid("reason", "is empty; give one").into());
        }
        let found = self.ports.repository.read(|it| it.get_by_token(token)).await?;
        let found = found.filter(|resource| context.scope().covers(resource.project_id()));
        let Some(resource) = found else {
            let problem = "belongs to no resource; give the id of a resource's current token";
            return Err(DomainError::invalid("bootstrap_token_id", problem).into());
        };
        let reason = self.scrubbed(&resource, reason).await?;
        let lines = self.ports.repository.read(|it| it.history(resource.id())).await?;
        let known: Vec<_> = refusals(&lines).filter_map(|line| reason_of(line)).collect();
        if known.contains(&reason.as_str()) || known.len() >= MAX_REASONS {
            return Ok(());
        }
        let entry = AuditEntry::new(AuditAction::EnrolmentRefused, context.attribution().clone())
            .in_project(resource.project_id())
            .for_resource(resource.id())
            .in_phase(resource.phase())
            .with_event_data(reason);
        self.ports.audit.write(|it| it.record(&entry)).await
    }

    /// The reason without the injected values. They are known only from the live composite resource.
    async fn scrubbed(
        &self,
        resource: &ProvisionedResource,
        reason: &str,
    ) -> Result<String, Error> {
        let Some((_, XrReading::Present(xr))) =
            read_xr_if_applied(&self.ports, resource.id()).await?
        else {
            return Ok(WITHHELD.to_owned());
        };
        let injected = injected(xr.object.expose());
        if injected.is_empty() {
            return Ok(WITHHELD.to_owned());
        }
        let injected: Vec<_> = injected.iter().map(ExposeSecret::expose_secret).collect();
        let scrubbed = scrub(reason, &injected);
        let words = scrubbed.split(|c: char| c.is_whitespace() || c.is_control());
        let one_line: Vec<_> = words.filter(|word| !word.is_empty()).collect();
        Ok(one_line.join(" "))
    }
}

/// The refusals of the current token, newest first: those after the line that records it.
pub(crate) fn refusals(lines: &[AuditRecord]) -> impl Iterator<Item = &AuditRecord> {
    let since_token =
        lines.iter().rev().take_while(|line| line.entry.action != AuditAction::TokenRecorded);
    since_token.filter(|line| line.entry.action == AuditAction::EnrolmentRefused)
}

fn reason_of(line: &AuditRecord) -> Option<&str> {
    line.entry.event_data.as_deref()
}
