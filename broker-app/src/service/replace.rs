//! Replace: requests the deletion of a resource and declares its replacement, in one transaction.

use broker_domain::{
    Declaration, Error as DomainError, ProvisionedResource, ProvisionedResourceId, RequestId,
};
use broker_ports::{Created, Replaced, Replacement, RequestContext};

use super::Service;
use crate::declare::request_id_conflict;
use crate::error::Error;
use crate::telemetry::{self, traceparent};

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
    /// the old resource; `stale_write` if other writes won every attempt; as [`provision`](Self::provision). After an
    /// error nothing is stored.
    #[tracing::instrument(name = "broker.replace", skip_all, fields(resource = %id, traceparent = traceparent(context)))]
    pub async fn replace(
        &self,
        context: &RequestContext,
        id: ProvisionedResourceId,
        request: Option<RequestId>,
    ) -> Result<ProvisionedResource, Error> {
        let old = self.get(context, id).await?;
        let declaration = replacement_declaration(&old, request)?;
        let replaced = self.accept_replacement(context, old, &declaration).await;
        self.audit_refusal(context, &declaration, replaced).await
    }

    async fn accept_replacement(
        &self,
        context: &RequestContext,
        old: ProvisionedResource,
        declaration: &Declaration,
    ) -> Result<ProvisionedResource, Error> {
        // Before the phase check: in a repeated call the old resource may already be Deleted.
        if let Some(first) = self.find_replayed(context, declaration).await? {
            return self.check_replayed(context, old.id(), first, declaration).await;
        }
        let admitted = self.validate(context, declaration).await?;
        let mut retry = self.write_retry(context, old);
        loop {
            let old = retry.resource();
            let replacement = Replacement::new(old, admitted.clone(), self.stamp())?;
            match self.ports.repository.write(|it| it.replace(&replacement)).await? {
                Replaced::Created(Created::Stored) => {
                    if let Some(deletion) = replacement.deletion() {
                        telemetry::phase_changed(old, deletion.change.resource());
                    }
                    return Ok(admitted.change().resource().clone());
                }
                Replaced::Created(Created::Replayed(first)) => {
                    return self.check_replayed(context, old.id(), *first, declaration).await;
                }
                Replaced::Created(Created::Conflict) => {
                    let request = declaration.request_id.as_ref();
                    return Err(request_id_conflict(declaration.project_id, request));
                }
                Replaced::Stale => retry.read_again().await?,
            }
        }
    }

    /// The replacement of a repeated request. Replacement and deletion request are one transaction, so if the old
    /// resource is not in teardown, the request id belongs to another request.
    async fn check_replayed(
        &self,
        context: &RequestContext,
        old: ProvisionedResourceId,
        first: ProvisionedResource,
        declaration: &Declaration,
    ) -> Result<ProvisionedResource, Error> {
        let old_resource = self.get(context, old).await?;
        if first.id() != old && old_resource.phase().is_teardown() {
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
fn replacement_declaration(
    old: &ProvisionedResource,
    request: Option<RequestId>,
) -> Result<Declaration, DomainError> {
    let request = match request {
        Some(given) => given,
        None => RequestId::new(format!("replace-{}", old.id()))?,
    };
    let declaration = Declaration::new(
        old.project_id(),
        old.resource_id(),
        old.blueprint_version_id(),
        old.cloud_credential_id(),
    );
    Ok(declaration
        .with_parameters(old.parameters().as_json())
        .on_failure(old.on_failure())
        .with_request_id(request))
}
