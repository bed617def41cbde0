//! Replace: tears a resource down and declares a new one in its place, in one transaction.

use broker_domain::{
    Declaration, Error as DomainError, ProvisionedResource, ProvisionedResourceId, RequestId,
};
use broker_ports::{Created, Replaced, Replacement, RequestContext};

use super::Service;
use crate::declare::conflict;
use crate::error::Error;
use crate::telemetry::{self, trace};

impl Service {
    /// Accepts the deletion of a resource and declares a new one in its place, in one transaction. Answers the new one
    /// at Pending. It has the same Project, Resource, blueprint version, credential, parameters and failure policy.
    ///
    /// Of a resource whose deletion is under way only the new one is declared; the teardown goes on. Both stand beside
    /// each other until the teardown is over.
    ///
    /// A repeated call is free: without a request id of the caller's, the id of the old resource names the request, so
    /// the answer is the first replacement again.
    ///
    /// # Errors
    ///
    /// `provisioned_resource_not_found`; `invalid_input` for a resource that is Deleted, and for the request id that
    /// declared the old resource itself; `stale_write` if the old resource kept changing; as
    /// [`provision`](Self::provision). Nothing is stored then, and the old resource is left as it was.
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
        // Before the phase is looked at: the old resource may be Deleted by the time its replacement is asked for again.
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

    /// The first answer to a repeated request. A replacement and the deletion request of the old resource are one
    /// transaction, so a request that left the old resource alone was about another one.
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
        let problem = format!("{request} was used for another resource; give another one, or none");
        Err(DomainError::invalid("request_id", problem).into())
    }
}

/// The declaration that the old resource came from, with its defaults filled in.
///
/// Admission validates the stored parameters again. [Validation](broker_render::ParameterSchema::validate) is idempotent,
/// so the values stay the same.
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
