//! Stage 1, declare: everything is resolved and validated before anything is written.

use broker_domain::{Declaration, Error as DomainError, NotFound, ProvisionedResource, RequestId};
use broker_ports::{
    Admitted, AuditAction, AuditEntry, Created, PortName, ReconcilerPorts, RequestContext,
    RequestHash,
};

use super::Service;
use crate::call::{Kind, call};
use crate::error::Error;
use crate::views::{References, Resolvers};

impl Service {
    /// Accepts a declaration and answers the resource at Pending; the reconciler takes it from there.
    ///
    /// With a request id a retry is free: the same declaration answers the first resource, before anything
    /// else is looked at.
    ///
    /// # Errors
    ///
    /// `blueprint_not_found`, `credential_not_found`, `cloud_not_found`, `assignment_not_found`,
    /// `parameter_values_invalid`, `invalid_input`, `idempotency_conflict`; a port's own. Nothing is stored
    /// then, and the refusal is in the audit.
    pub async fn provision(
        &self,
        context: &RequestContext,
        declaration: &Declaration,
    ) -> Result<ProvisionedResource, Error> {
        if let Some(first) = self.replay(context, declaration).await? {
            return Ok(first);
        }
        let admitted = self.admit(context, declaration).await?;
        let created = self.ports.repository.create(&admitted);
        let patience = self.config.deadlines.store;
        match call(PortName::Repository, Kind::Write, patience, created).await? {
            Created::Stored => Ok(admitted.change().resource().clone()),
            Created::Replayed(first) => Ok(*first),
            Created::Conflict => Err(conflict(declaration, declaration.request_id.as_ref())),
        }
    }

    /// Resolves and validates a declaration, and writes nothing: for an embedder that stores what comes out
    /// in a transaction of its own.
    ///
    /// # Errors
    ///
    /// As [`provision`](Self::provision).
    pub async fn admit(
        &self,
        context: &RequestContext,
        declaration: &Declaration,
    ) -> Result<Admitted, Error> {
        match self.examine(context, declaration).await {
            Ok(admitted) => Ok(admitted),
            Err(error) => {
                if matches!(error, Error::Domain(_)) {
                    self.record_refusal(context, declaration).await?;
                }
                Err(error)
            }
        }
    }

    pub(crate) async fn examine(
        &self,
        context: &RequestContext,
        declaration: &Declaration,
    ) -> Result<Admitted, Error> {
        let project = declaration.project_id;
        if !context.scope().covers(project) {
            return Err(project.not_found().into());
        }
        let ports = ReconcilerPorts::from(&self.ports);
        let resolvers = Resolvers::of(&ports, self.config.deadlines.resolve);
        let blueprint = resolvers.blueprint(declaration.blueprint_version_id).await?;
        // Whether the namespace is ready is the reconciler's business; that there is one is admission's.
        resolvers.namespace_is_ready(project).await?;
        let parameters = blueprint.parameter_schema.validate(&declaration.parameters)?;
        let mesh_role = blueprint.mesh_role;
        let views = resolvers.views(References::in_declaration(declaration), blueprint).await?;

        let id = self.ports.ids.provisioned_resource_id();
        let change =
            ProvisionedResource::new(id, declaration, mesh_role, parameters, self.stamp())?;
        // What cannot be rendered now could never be applied: its author should hear of it at once.
        views.xr(change.resource())?;
        views.provider_config(change.resource(), &self.config.profiles)?;
        Ok(Admitted::new(change, declaration, context.attribution().clone()))
    }

    pub(crate) async fn replay(
        &self,
        context: &RequestContext,
        declaration: &Declaration,
    ) -> Result<Option<ProvisionedResource>, Error> {
        let project = declaration.project_id;
        let Some(request) = &declaration.request_id else { return Ok(None) };
        if !context.scope().covers(project) {
            return Err(project.not_found().into());
        }
        let found = self.ports.repository.get_by_request(project, request);
        let patience = self.config.deadlines.store;
        match call(PortName::Repository, Kind::Read, patience, found).await? {
            None => Ok(None),
            Some(stored) if stored.hash == RequestHash::of(declaration) => {
                Ok(Some(stored.resource))
            }
            Some(_) => Err(conflict(declaration, Some(request))),
        }
    }

    async fn record_refusal(
        &self,
        context: &RequestContext,
        declaration: &Declaration,
    ) -> Result<(), Error> {
        let entry = AuditEntry::new(AuditAction::DeclarationRefused, context.attribution().clone())
            .in_project(declaration.project_id);
        let recorded = self.ports.audit.record(&entry);
        call(PortName::AuditSink, Kind::Write, self.config.deadlines.store, recorded).await
    }
}

fn conflict(declaration: &Declaration, request: Option<&RequestId>) -> Error {
    match request {
        Some(request) => DomainError::IdempotencyConflict {
            project: declaration.project_id,
            request: request.clone(),
        },
        // A store cannot find a conflict where there is no request id.
        None => DomainError::invalid("request_id", "is missing, and yet it is in conflict"),
    }
    .into()
}
