//! Replace: tears a resource down and declares its replacement, in one transaction.

use broker_domain::{
    Declaration, Error as DomainError, ProvisionedResource, ProvisionedResourceId, RequestId,
};
use broker_ports::{Created, Replaced, Replacement, RequestContext};

use super::Service;
use crate::declare::conflict;
use crate::error::Error;
use crate::telemetry::{self, trace};

impl Service {
    /// Requests the deletion of a resource and declares its replacement, in one transaction. Returns the replacement
    /// at Pending, with the same Project, Resource, blueprint version, credential, parameters and failure policy.
    ///
    /// If the deletion is already in progress, it only declares the replacement. Both resources exist until the
    /// teardown is complete.
    ///
    /// Idempotent: without a caller's request id, the id of the old resource identifies the request, so a repeated
    /// call returns the first replacement.
    ///
    /// # Errors
    ///
    /// `provisioned_resource_not_found`; `invalid_input` for a Deleted resource, and for the request id that declared
    /// the old resource; `stale_write` if the old resource kept changing; as [`provision`](Self::provision). After an
    /// error nothing is stored.
    #[tracing::instrument(name = "broker.replace", skip_all, fields(resource = %id, traceparent = trace(context)))]
    pub async fn replace(
        &self,
        context: &RequestContext,
        id: ProvisionedResourceId,
        request: Option<RequestId>,
    ) -> Result<ProvisionedResource, Error> {
        let old = self.get(context, id).await?;
        let declaration = declared_again(&old, request)?;
        let replaced = self.accept_replacement(context, old, &declaration).await;
        self.audited(context, &declaration, replaced).await
    }

    async fn accept_replacement(
        &self,
        context: &RequestContext,
        old: ProvisionedResource,
        declaration: &Declaration,
    ) -> Result<ProvisionedResource, Error> {
        // Before the phase check: the old resource may be Deleted when the call is repeated.
        if let Some(first) = self.replay(context, declaration).await? {
            return self.replayed(context, old.id(), first, declaration).await;
        }
        let admitted = self.examine(context, declaration).await?;
        let mut race = self.race(context, old);
        loop {
            let old = race.resource();
            let replacement = Replacement::new(old, admitted.clone(), self.stamp())?;
            match self.ports.repository.write(|it| it.replace(&replacement)).await? {
                Replaced::Created(Created::Stored) => {
                    if let Some(deletion) = replacement.deletion() {
                        telemetry::changed(old, deletion.change.resource());
                    }
                    return Ok(admitted.change().resource().clone());
                }
                Replaced::Created(Created::Replayed(first)) => {
                    return self.replayed(context, old.id(), *first, declaration).await;
                }
                Replaced::Created(Created::Conflict) => {
                    return Err(conflict(declaration, declaration.request_id.as_ref()));
                }
                Replaced::Stale => race.read_again().await?,
            }
        }
    }

    /// The first answer to a repeated request. Replacement and deletion request are one transaction, so if the old
    /// resource is not in teardown, the request id belongs to another request.
    async fn replayed(
        &self,
        context: &RequestContext,
        old: ProvisionedResourceId,
        first: ProvisionedResource,
        declaration: &Declaration,
    ) -> Result<ProvisionedResource, Error> {
        let replaced = self.get(context, old).await?;
        if first.id() != old && replaced.phase().is_teardown() {
            return Ok(first);
        }
        let request = declaration.request_id.as_ref().map_or("it", RequestId::as_str);
        let problem = format!(
            "{request} was used for another resource; pass a different request id, or none"
        );
        Err(DomainError::invalid("request_id", problem).into())
    }
}

/// The declaration of the old resource, with its defaults filled in.
///
/// Admission validates the stored parameters again. [Validation](broker_render::ParameterSchema::validate) is
/// idempotent, so the values stay the same.
fn declared_again(
    old: &ProvisionedResource,
    request: Option<RequestId>,
) -> Result<Declaration, DomainError> {
    let request = match request {
        Some(given) => given,
        None => RequestId::new(format!("replace-{}", old.id()))?,
    };
    let again = Declaration::new(
        old.project_id(),
        old.resource_id(),
        old.blueprint_version_id(),
        old.cloud_credential_id(),
    );
    Ok(again
        .with_parameters(old.parameters().as_json())
        .on_failure(old.on_failure())
        .with_request_id(request))
}
