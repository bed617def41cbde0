//! What operators do by hand: pause, resume, look again, take up events, give up.

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
use crate::error::{Error, for_schedule};
use crate::telemetry::{self, trace};

impl Service {
    /// Lets a resource be: no pass looks at it until it is resumed. A pass under way goes on.
    ///
    /// # Errors
    ///
    /// `provisioned_resource_not_found`; `schedule_…`.
    pub async fn pause(
        &self,
        context: &RequestContext,
        id: ProvisionedResourceId,
    ) -> Result<(), Error> {
        self.set_paused(context, id, true).await
    }

    /// Takes a paused resource up again, at once.
    ///
    /// # Errors
    ///
    /// `provisioned_resource_not_found`; `schedule_…`.
    pub async fn resume(
        &self,
        context: &RequestContext,
        id: ProvisionedResourceId,
    ) -> Result<(), Error> {
        self.set_paused(context, id, false).await
    }

    /// Has a resource looked at at once, whatever its back-off says.
    ///
    /// # Errors
    ///
    /// `provisioned_resource_not_found`; `schedule_…`.
    pub async fn reconcile_now(
        &self,
        context: &RequestContext,
        id: ProvisionedResourceId,
    ) -> Result<(), Error> {
        let resource = self.get(context, id).await?;
        self.record(context, &resource, AuditAction::ReconcileRequested).await?;
        let known = self.ports.schedule.write(|it| it.schedule(id, Due::Now)).await?;
        if known { Ok(()) } else { Err(id.not_found().into()) }
    }

    /// Takes up a resource's event that was set aside; answers which, if there was one.
    ///
    /// # Errors
    ///
    /// `provisioned_resource_not_found`; `outbox_…`.
    pub async fn redrive_events(
        &self,
        context: &RequestContext,
        id: ProvisionedResourceId,
        how: Redrive,
    ) -> Result<Option<DeadLetter>, Error> {
        self.get(context, id).await?;
        self.ports.outbox.write(|it| it.redrive_events(id, how, context.attribution())).await
    }

    /// Blanks what people wrote in a resource's audit; answers in how many lines. The resource may be purged
    /// already.
    ///
    /// # Errors
    ///
    /// `invalid_input` unless the scope is everybody's; `repository_…`.
    pub async fn scrub_audit(
        &self,
        context: &RequestContext,
        id: ProvisionedResourceId,
    ) -> Result<u64, Error> {
        for_everybody(context)?;
        self.ports.repository.write(|it| it.scrub_audit(id, context.attribution())).await
    }

    /// Gives up a teardown: the resource is Deleted although nobody proved that everything is gone. Its
    /// tokens are closed first, so that at least no Node can come of what is left.
    ///
    /// The only way to Deleted without proof, for operators of the platform alone. What is left on the
    /// cluster is not touched any more. It works on a paused resource, too, and on one of a cluster that this
    /// replica does not serve.
    ///
    /// # Errors
    ///
    /// `invalid_input` unless the scope is everybody's, and in a dry run; `provisioned_resource_not_found`;
    /// `illegal_transition` unless a teardown is under way; `stale_write` while a pass holds the resource;
    /// a port's own. The resource can be claimed again at once then.
    #[tracing::instrument(name = "broker.abandon", skip_all, fields(resource = %id, traceparent = trace(context)))]
    pub async fn abandon(
        &self,
        context: &RequestContext,
        id: ProvisionedResourceId,
        reason: &str,
    ) -> Result<ProvisionedResource, Error> {
        for_everybody(context)?;
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
        let Some(lease) = self.claim(id).await? else { return Err(held(&resource)) };
        let abandoned = self.abandon_teardown(context, &lease, reason).await;
        let (seen, outcome) = match &abandoned {
            Ok(resource) => (resource.version(), PassOutcome::Succeeded { due_in: None }),
            Err(error) => (resource.version(), failed(error)),
        };
        // A lease that is not given back ends by itself; the caller hears of the abandonment itself.
        let _ = self.ports.schedule.write(|it| it.release(&lease, seen, &outcome)).await;
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
        telemetry::changed(&resource, change.resource());
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
            Written::Stale | Written::LeaseLost => Err(held(resource)),
        }
    }

    /// Claims it for a person: paused or not, and whichever cluster it is bound to.
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
        let known = self
            .ports
            .schedule
            .write(|it| it.set_paused(id, paused, context.attribution()))
            .await?;
        if known { Ok(()) } else { Err(id.not_found().into()) }
    }

    async fn record(
        &self,
        context: &RequestContext,
        resource: &ProvisionedResource,
        action: AuditAction,
    ) -> Result<(), Error> {
        let entry = AuditEntry::new(action, context.attribution().clone())
            .in_project(resource.project_id())
            .about(resource.id())
            .in_phase(resource.phase());
        self.ports.audit.write(|it| it.record(&entry)).await
    }
}

fn failed(error: &Error) -> PassOutcome {
    PassOutcome::Failed {
        reason: error.reason().to_owned(),
        message: for_schedule(error),
        retry_after: error.retry_after(),
    }
}

fn held(resource: &ProvisionedResource) -> Error {
    DomainError::StaleWrite { resource: resource.id(), expected: resource.version() }.into()
}

pub(super) fn for_everybody(context: &RequestContext) -> Result<(), Error> {
    match context.scope() {
        AccessScope::All => Ok(()),
        AccessScope::Project(_) => {
            let problem =
                "is one project's; this is for operators of the platform, whose scope is all";
            Err(DomainError::invalid("scope", problem).into())
        }
    }
}
