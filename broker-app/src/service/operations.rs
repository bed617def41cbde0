//! An operator's commands: pause, resume, reconcile now, redrive events, scrub the audit, abandon.

use broker_domain::{
    Error as DomainError, NotFound, Phase, ProvisionedResource, ProvisionedResourceId,
};
use broker_ports::{
    AccessScope, AuditAction, AuditEntry, ClaimRequest, ClaimTarget, DeadLetter, Due, Lease,
    PassOutcome, Redrive, RequestContext, Write, WriteKind, Written,
};

use super::Service;
use crate::config::BrokerConfig;
use crate::decide::Mode;
use crate::error::Error;
use crate::reconcile::failed_outcome;
use crate::telemetry::{self, traceparent};

impl Service {
    /// Pauses a resource: no pass claims it until it is resumed. A running pass finishes.
    ///
    /// # Errors
    ///
    /// `provisioned_resource_not_found`; `schedule_…`.
    #[tracing::instrument(name = "broker.pause", skip_all, fields(resource = %id, traceparent = traceparent(context)))]
    pub async fn pause(
        &self,
        context: &RequestContext,
        id: ProvisionedResourceId,
    ) -> Result<(), Error> {
        self.set_paused(context, id, true).await
    }

    /// Resumes a paused resource, which is due at once.
    ///
    /// # Errors
    ///
    /// `provisioned_resource_not_found`; `schedule_…`.
    #[tracing::instrument(name = "broker.resume", skip_all, fields(resource = %id, traceparent = traceparent(context)))]
    pub async fn resume(
        &self,
        context: &RequestContext,
        id: ProvisionedResourceId,
    ) -> Result<(), Error> {
        self.set_paused(context, id, false).await
    }

    /// Makes a resource due now, regardless of its back-off.
    ///
    /// # Errors
    ///
    /// `provisioned_resource_not_found`; `schedule_…`.
    #[tracing::instrument(name = "broker.reconcile_now", skip_all, fields(resource = %id, traceparent = traceparent(context)))]
    pub async fn reconcile_now(
        &self,
        context: &RequestContext,
        id: ProvisionedResourceId,
    ) -> Result<(), Error> {
        let resource = self.get(context, id).await?;
        self.record(context, &resource, AuditAction::ReconcileRequested).await?;
        let exists = self.ports.schedule.write(|it| it.schedule(id, Due::Now)).await?;
        if exists { Ok(()) } else { Err(id.not_found().into()) }
    }

    /// Redrives a resource's dead letter. Returns the dead letter, or `None` if the resource has none.
    ///
    /// # Errors
    ///
    /// `provisioned_resource_not_found`; `outbox_…`.
    #[tracing::instrument(name = "broker.redrive_events", skip_all, fields(resource = %id, traceparent = traceparent(context)))]
    pub async fn redrive_events(
        &self,
        context: &RequestContext,
        id: ProvisionedResourceId,
        how: Redrive,
    ) -> Result<Option<DeadLetter>, Error> {
        self.get(context, id).await?;
        self.ports.outbox.write(|it| it.redrive_events(id, how, context.attribution())).await
    }

    /// Blanks the free text in a resource's audit lines, also after a purge. Returns the number of lines.
    ///
    /// # Errors
    ///
    /// `invalid_input` unless the scope is all Projects; `repository_…`.
    #[tracing::instrument(name = "broker.scrub_audit", skip_all, fields(resource = %id, traceparent = traceparent(context)))]
    pub async fn scrub_audit(
        &self,
        context: &RequestContext,
        id: ProvisionedResourceId,
    ) -> Result<u64, Error> {
        require_all_scope(context)?;
        self.ports.repository.write(|it| it.scrub_audit(id, context.attribution())).await
    }

    /// Abandons a teardown: the resource becomes Deleted without proof that its objects are gone. Its tokens are
    /// closed first, so no Node can enrol from remaining objects.
    ///
    /// For platform operators only: no other operation leads to Deleted without proof. The broker no longer touches
    /// remaining objects. It also works on a paused resource and on one of another cluster.
    ///
    /// # Errors
    ///
    /// `invalid_input` unless the scope is all Projects, and in a dry run; `provisioned_resource_not_found`;
    /// `illegal_transition` unless a teardown is in progress; `stale_write` while a pass holds the resource; an error
    /// of a port. After an error the resource can be claimed at once.
    #[tracing::instrument(name = "broker.abandon", skip_all, fields(resource = %id, traceparent = traceparent(context)))]
    pub async fn abandon(
        &self,
        context: &RequestContext,
        id: ProvisionedResourceId,
        reason: &str,
    ) -> Result<ProvisionedResource, Error> {
        require_all_scope(context)?;
        if self.config.mode == Mode::DryRun {
            let problem =
                "is dry-run, in which tokens are not closed; run the broker live to abandon";
            return Err(DomainError::invalid("mode", problem).into());
        }
        let resource = self.get(context, id).await?;
        if !matches!(resource.phase(), Phase::Deregistering | Phase::Deprovisioning) {
            let from = resource.phase();
            return Err(DomainError::IllegalTransition { from, to: Phase::Deleted }.into());
        }
        let Some(lease) = self.claim(id).await? else { return Err(stale_write(&resource)) };
        let abandoned = self.abandon_teardown(context, &lease, reason).await;
        let (version, outcome) = match &abandoned {
            Ok(resource) => (resource.version(), PassOutcome::Succeeded { due_in: None }),
            Err(error) => (resource.version(), failed_outcome(error, self.config.backoff)),
        };
        // A failed release is ignored: the lease expires, and the caller needs the result of the abandonment.
        let _ = self.ports.schedule.write(|it| it.release(&lease, version, &outcome)).await;
        abandoned
    }

    async fn abandon_teardown(
        &self,
        context: &RequestContext,
        lease: &Lease,
        reason: &str,
    ) -> Result<ProvisionedResource, Error> {
        let mut resource = self.get(context, lease.resource).await?;
        if !resource.token_closed() {
            self.record(context, &resource, AuditAction::TokensClose).await?;
            self.ports.tokens.write(|it| it.close(resource.id())).await?;
            if let Some(change) = resource.record_closed(self.ports.clock.now())? {
                let write = Write::by_worker(&change, lease.epoch, context.attribution());
                self.commit(&resource, WriteKind::Closed, &write).await?;
                resource = change.into_resource();
            }
        }
        let change = resource.abandon(self.stamp())?;
        let write = Write::by_worker(&change, lease.epoch, context.attribution());
        let write = write.with_event_data(reason);
        self.commit(&resource, WriteKind::Phase, &write).await?;
        telemetry::phase_changed(&resource, change.resource());
        Ok(change.into_resource())
    }

    async fn commit(
        &self,
        resource: &ProvisionedResource,
        kind: WriteKind,
        write: &Write<'_>,
    ) -> Result<(), Error> {
        match self.ports.repository.write(|it| it.write(kind, write)).await? {
            Written::Committed => Ok(()),
            Written::Stale | Written::LeaseLost => Err(stale_write(resource)),
        }
    }

    /// Claims a resource for an operator, even if it is paused or bound to another cluster.
    async fn claim(&self, id: ProvisionedResourceId) -> Result<Option<Lease>, Error> {
        let BrokerConfig { worker, lease, .. } = &*self.config;
        let request = ClaimRequest::new(worker.clone(), ClaimTarget::EvenPaused(id), *lease);
        Ok(self.ports.schedule.write(|it| it.claim(&request)).await?.into_iter().next())
    }

    async fn set_paused(
        &self,
        context: &RequestContext,
        id: ProvisionedResourceId,
        paused: bool,
    ) -> Result<(), Error> {
        self.get(context, id).await?;
        let exists = self
            .ports
            .schedule
            .write(|it| it.set_paused(id, paused, context.attribution()))
            .await?;
        if let Some(probe) = &self.probe {
            probe.set_paused(id, paused && exists);
        }
        if exists { Ok(()) } else { Err(id.not_found().into()) }
    }

    async fn record(
        &self,
        context: &RequestContext,
        resource: &ProvisionedResource,
        action: AuditAction,
    ) -> Result<(), Error> {
        let entry = AuditEntry::new(action, context.attribution().clone())
            .in_project(resource.project_id())
            .for_resource(resource.id())
            .in_phase(resource.phase());
        self.ports.audit.write(|it| it.record(&entry)).await
    }
}

fn stale_write(resource: &ProvisionedResource) -> Error {
    DomainError::StaleWrite { resource: resource.id(), expected: resource.version() }.into()
}

pub(super) fn require_all_scope(context: &RequestContext) -> Result<(), Error> {
    match context.scope() {
        AccessScope::All => Ok(()),
        AccessScope::Project(_) => {
            let problem = "covers one project; this operation requires the scope of all projects";
            Err(DomainError::invalid("scope", problem).into())
        }
    }
}
