//! Retries a caller's write that conflicts with passes, each time from the row's new version.

use broker_domain::{Change, Error as DomainError, ProvisionedResource};
use broker_ports::{RequestContext, Write, WriteKind, Written};

use super::Service;
use crate::error::Error;
use crate::telemetry;

/// Attempts of a caller's write. After these it fails with `stale_write`.
const MAX_ATTEMPTS: usize = 16;

pub(super) struct WriteRetry<'a> {
    service: &'a Service,
    context: &'a RequestContext,
    resource: ProvisionedResource,
    attempts: usize,
}

impl Service {
    pub(super) const fn write_retry<'a>(
        &'a self,
        context: &'a RequestContext,
        resource: ProvisionedResource,
    ) -> WriteRetry<'a> {
        WriteRetry { service: self, context, resource, attempts: 0 }
    }
}

impl WriteRetry<'_> {
    pub(super) const fn resource(&self) -> &ProvisionedResource {
        &self.resource
    }

    /// Attempts a write. Returns the written resource, or `None` after a stale write and a new read.
    pub(super) async fn attempt(
        &mut self,
        kind: WriteKind,
        change: &Change,
    ) -> Result<Option<ProvisionedResource>, Error> {
        let write = Write::by_caller(change, self.context.attribution());
        match self.service.ports.repository.write(|it| it.write(kind, &write)).await? {
            Written::Committed => {
                telemetry::phase_changed(&self.resource, change.resource());
                Ok(Some(change.resource().clone()))
            }
            Written::Stale | Written::LeaseLost => self.read_again().await.map(|()| None),
        }
    }

    /// Reads the resource again after a stale write.
    ///
    /// The next attempt is safe: a stale write stored nothing, and the next change is based on the stored row.
    pub(super) async fn read_again(&mut self) -> Result<(), Error> {
        self.attempts += 1;
        let (resource, expected) = (self.resource.id(), self.resource.version());
        if self.attempts >= MAX_ATTEMPTS {
            return Err(DomainError::StaleWrite { resource, expected }.into());
        }
        self.resource = self.service.get(self.context, resource).await?;
        Ok(())
    }
}
