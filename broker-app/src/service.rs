//! Service: the facade for embedders, to declare, delete, read and operate resources.
//!
//! **The broker does not authorise.** The code that builds a [`RequestContext`] has authorised its actor. The service
//! only checks the scope: for the caller, a resource outside of the scope does not exist.
//!
//! Every call returns at once with the current resource. The reconciler does the work; a declaration or deletion
//! wakes it up.

mod brake;
mod events;
mod history;
mod write_retry;
mod replace;
mod retry;
mod status;
mod operations;

use std::sync::Arc;
use std::time::Duration;

use broker_domain::Stamp;
use broker_domain::{NotFound, Phase, ProvisionedResource, ProvisionedResourceId};
use broker_ports::{AccessScope, ListPage, ListQuery, Ports, RequestContext, WriteKind};
use tokio::time::Instant;

use crate::config::BrokerConfig;
use crate::deadline::TimedPorts;
use crate::error::Error;
use crate::runner::Probe;
use crate::telemetry::traceparent;

pub use brake::{Absence, BrakeLosses, BrakeStatus, UnreadResource};
pub use status::{Basis, HoldUp, Status};

/// The broker's API for callers.
#[derive(Clone)]
pub struct Service {
    ports: TimedPorts,
    config: Arc<BrokerConfig>,
    probe: Option<Probe>,
}

/// The result of a wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WaitOutcome {
    /// The resource reached the phase.
    Reached(ProvisionedResource),
    /// It cannot reach the phase: it failed, or is being deleted.
    Never(ProvisionedResource),
    /// The time limit expired; this is the current resource.
    TimedOut(ProvisionedResource),
}

impl Service {
    /// Creates a service over its ports.
    pub fn new(ports: Ports, config: impl Into<Arc<BrokerConfig>>) -> Self {
        let config = config.into();
        Self { ports: TimedPorts::new(ports, &config.deadlines), config, probe: None }
    }

    /// For a process that also runs the broker: [`status`](Self::status) uses the data of the runner's probe.
    #[must_use]
    pub fn with_probe(mut self, probe: Probe) -> Self {
        self.probe = Some(probe);
        self
    }

    /// The resource of an id.
    ///
    /// # Errors
    ///
    /// `provisioned_resource_not_found` when the scope has no resource of this id, even if another Project has an
    /// unreadable row of that id; `repository_…`.
    #[tracing::instrument(name = "broker.get", skip_all, fields(resource = %id, traceparent = traceparent(context)))]
    pub async fn get(
        &self,
        context: &RequestContext,
        id: ProvisionedResourceId,
    ) -> Result<ProvisionedResource, Error> {
        let get = self.ports.repository.read(|it| match context.scope() {
            AccessScope::Project(own) => it.get_in_project(own, id),
            AccessScope::All => it.get_by_id(id),
        });
        get.await?.ok_or_else(|| id.not_found().into())
    }

    /// A page of resources within the scope. A caller that follows events uses `updated_since` to find missed changes:
    /// see [`Repository::list`](broker_ports::Repository::list).
    ///
    /// [`unreadable`](ListPage::unreadable) has each resource whose row cannot be read, with the error. Show these
    /// resources too; otherwise they look deleted.
    ///
    /// # Errors
    ///
    /// `assignment_not_found` when the query names a Project outside of the scope; `repository_…`.
    #[tracing::instrument(name = "broker.list", skip_all, fields(traceparent = traceparent(context)))]
    pub async fn list(
        &self,
        context: &RequestContext,
        query: &ListQuery,
    ) -> Result<ListPage, Error> {
        let mut query = query.clone();
        if let AccessScope::Project(own) = context.scope() {
            match query.project {
                Some(other) if other != own => return Err(other.not_found().into()),
                Some(_) | None => query.project = Some(own),
            }
        }
        self.ports.repository.read(|it| it.list(&query)).await
    }

    /// Requests the deletion of a resource. Idempotent, also for a Deleted one.
    ///
    /// # Errors
    ///
    /// `provisioned_resource_not_found`; `stale_write` if other writes won every attempt; `repository_…`.
    #[tracing::instrument(name = "broker.deprovision", skip_all, fields(resource = %id, traceparent = traceparent(context)))]
    pub async fn deprovision(
        &self,
        context: &RequestContext,
        id: ProvisionedResourceId,
    ) -> Result<ProvisionedResource, Error> {
        let mut retry = self.write_retry(context, self.get(context, id).await?);
        loop {
            let Some(change) = retry.resource().request_deletion(self.stamp()) else {
                return Ok(retry.resource().clone());
            };
            if let Some(written) = retry.attempt(WriteKind::DeletionIntent, &change).await? {
                return Ok(written);
            }
        }
    }

    /// Waits until a resource is in a phase or cannot reach it any more, for at most `at_most`.
    ///
    /// # Errors
    ///
    /// `provisioned_resource_not_found`, also when the resource is purged during the wait; `repository_…`.
    #[tracing::instrument(name = "broker.wait_for", skip_all, fields(resource = %id, traceparent = traceparent(context)))]
    pub async fn wait_for(
        &self,
        context: &RequestContext,
        id: ProvisionedResourceId,
        phase: Phase,
        at_most: Duration,
    ) -> Result<WaitOutcome, Error> {
        let started = Instant::now();
        loop {
            let resource = self.get(context, id).await?;
            if resource.phase() == phase {
                return Ok(WaitOutcome::Reached(resource));
            }
            if !can_still_reach(&resource, phase) {
                return Ok(WaitOutcome::Never(resource));
            }
            match at_most.checked_sub(started.elapsed()) {
                Some(left) if !left.is_zero() => {
                    tokio::time::sleep(self.config.wait_interval.min(left)).await;
                }
                Some(_) | None => return Ok(WaitOutcome::TimedOut(resource)),
            }
        }
    }

    pub(crate) const fn ports(&self) -> &TimedPorts {
        &self.ports
    }

    pub(crate) const fn probe(&self) -> Option<&Probe> {
        self.probe.as_ref()
    }

    pub(crate) fn config(&self) -> &BrokerConfig {
        &self.config
    }

    pub(crate) fn stamp(&self) -> Stamp {
        Stamp::new(self.ports.ids.event_id(), self.ports.clock.now())
    }
}

/// Whether the reconciler alone can bring a resource into a phase, without a deletion request of a caller.
fn can_still_reach(resource: &ProvisionedResource, phase: Phase) -> bool {
    if resource.is_terminal() {
        return false;
    }
    let is_leaving = resource.phase().is_teardown() || resource.phase() == Phase::Failed;
    !is_leaving || phase.is_teardown()
}
