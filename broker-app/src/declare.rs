//! Declare: resolves and validates a declaration, then stores it.

mod views;

use broker_domain::{
    Declaration, Error as DomainError, NotFound, ProjectId, ProvisionedResource, RequestId,
};
use broker_ports::{
    Admitted, AuditAction, AuditEntry, Cluster, Created, NamespaceObservation, PortError, PortName,
    RequestContext, RequestHash, SharedConfigRef,
};
use broker_render::ProviderConfigUse;

use crate::error::Error;
use crate::service::Service;
use crate::telemetry::traceparent;

pub(crate) use views::{References, Views, require_same_cluster};

/// The answer to a declaration: something new, or the resource of an earlier, equal declaration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Declared<T> {
    /// It was not made before.
    New(T),
    /// Its request id was used with an equal declaration, which made this resource.
    Replayed(Box<ProvisionedResource>),
}

impl Declared<ProvisionedResource> {
    /// The answer of a store that was asked to create an admitted resource.
    ///
    /// # Errors
    ///
    /// `idempotency_conflict`; `repository_…`.
    pub fn from_created(
        admitted: &Admitted,
        created: Result<Created, PortError>,
    ) -> Result<Self, Error> {
        let resource = admitted.change().resource();
        match created.map_err(|source| Error::Port { port: PortName::Repository, source })? {
            Created::Stored => Ok(Self::New(resource.clone())),
            Created::Replayed(first) => Ok(Self::Replayed(first)),
            Created::Conflict => {
                let request = admitted.request().map(|(request, _)| request);
                Err(request_id_conflict(resource.project_id(), request))
            }
        }
    }

    /// The resource, new or not.
    pub fn into_resource(self) -> ProvisionedResource {
        match self {
            Self::New(resource) => resource,
            Self::Replayed(first) => *first,
        }
    }
}

impl Service {
    /// Accepts a declaration and returns the resource at Pending; the reconciler continues from there.
    ///
    /// With a request id the call is idempotent: a repeated declaration returns the first resource before any other
    /// check.
    ///
    /// # Errors
    ///
    /// `blueprint_not_found`, `credential_not_found`, `cloud_not_found`, `resource_not_found` (also for a Resource of
    /// another Project), `assignment_not_found`, `cluster_mismatch`, `credential_expired`, `credential_revoked`,
    /// `credential_not_approved`, `blueprint_retired`, `parameter_values_invalid`, `invalid_input`,
    /// `idempotency_conflict`; `shared_config_held` when another resource uses the shared ProviderConfig with another
    /// credential; `platform_misconfigured` when blueprint, cloud or assignment cannot be used; an error
    /// of a port. After an error nothing is stored. A refusal is audited, unless the Project is outside of the scope.
    #[tracing::instrument(name = "broker.provision", skip_all, fields(traceparent = traceparent(context)))]
    pub async fn provision(
        &self,
        context: &RequestContext,
        declaration: &Declaration,
    ) -> Result<ProvisionedResource, Error> {
        let provisioned = self.accept(context, declaration).await;
        self.audit_refusal(context, declaration, provisioned).await
    }

    /// The first half of [`provision`](Self::provision): looks for an earlier, equal declaration, and otherwise resolves
    /// and validates this one, for an embedder that stores it in its own transaction.
    ///
    /// # Errors
    ///
    /// As [`provision`](Self::provision). A refusal is audited, and nothing else is written.
    #[tracing::instrument(name = "broker.admit", skip_all, fields(traceparent = traceparent(context)))]
    pub async fn admit(
        &self,
        context: &RequestContext,
        declaration: &Declaration,
    ) -> Result<Declared<Admitted>, Error> {
        let admitted = self.find_or_validate(context, declaration).await;
        self.audit_refusal(context, declaration, admitted).await
    }

    async fn accept(
        &self,
        context: &RequestContext,
        declaration: &Declaration,
    ) -> Result<ProvisionedResource, Error> {
        let admitted = match self.find_or_validate(context, declaration).await? {
            Declared::New(admitted) => admitted,
            Declared::Replayed(first) => return Ok(*first),
        };
        let created = self.ports().repository.write(|it| it.create(&admitted)).await?;
        Ok(Declared::from_created(&admitted, Ok(created))?.into_resource())
    }

    /// A repeated request returns the first resource before any other check: the platform may have changed since.
    async fn find_or_validate(
        &self,
        context: &RequestContext,
        declaration: &Declaration,
    ) -> Result<Declared<Admitted>, Error> {
        match self.find_replayed(context, declaration).await? {
            Some(first) => Ok(Declared::Replayed(Box::new(first))),
            None => Ok(Declared::New(self.validate(context, declaration).await?)),
        }
    }

    /// Audits a refusal and returns the outcome. A Project outside of the scope gets no audit line, because the request
    /// does not concern it.
    pub(crate) async fn audit_refusal<T>(
        &self,
        context: &RequestContext,
        declaration: &Declaration,
        outcome: Result<T, Error>,
    ) -> Result<T, Error> {
        let in_scope = context.scope().covers(declaration.project_id);
        if in_scope && outcome.as_ref().is_err_and(Error::is_refusal) {
            self.record_refusal(context, declaration).await?;
        }
        outcome
    }

    pub(crate) async fn validate(
        &self,
        context: &RequestContext,
        declaration: &Declaration,
    ) -> Result<Admitted, Error> {
        let project = declaration.project_id;
        if !context.scope().covers(project) {
            return Err(project.not_found().into());
        }
        let ports = self.ports();
        let blueprint = ports.blueprint(declaration.blueprint_version_id).await?;
        ports.require_active_blueprint(declaration.blueprint_version_id).await?;
        // Admission checks that a namespace is assigned; the reconciler waits until it is ready.
        let assignment = ports.assignment(project).await?;
        self.require_assigned_cluster(project, &assignment).await?;
        let parameters = blueprint.parameter_schema.validate(&declaration.parameters)?;
        let mesh_role = blueprint.mesh_role;
        let views = ports.views(References::of_declaration(declaration), blueprint).await?;
        views.require_usable_credential()?;

        let id = self.ports().ids.provisioned_resource_id();
        let by = context.attribution().clone();
        let mut admitted = Admitted::new(id, declaration, mesh_role, parameters, self.stamp(), by)?;
        if let Some(cluster) = assignment.cluster {
            admitted = admitted.on_cluster(cluster);
        }
        // Renders now, so that a rendering error refuses the declaration instead of failing the first pass.
        let resource = admitted.change().resource();
        views.xr(resource)?;
        let provider_config = views.provider_config(resource, &self.config().profiles)?;
        if let (Some(manifest), ProviderConfigUse::Shared(_)) =
            (provider_config, &views.blueprint.provider_config)
        {
            admitted = admitted.using(SharedConfigRef::new(project, manifest.reference().clone()));
        }
        Ok(admitted)
    }

    /// Refuses a Project that is assigned to another cluster.
    ///
    /// If the cluster does not answer, the declaration is accepted: the row is bound to the assigned cluster, and
    /// only that cluster's replicas claim it.
    async fn require_assigned_cluster(
        &self,
        project: ProjectId,
        assignment: &NamespaceObservation,
    ) -> Result<(), Error> {
        if assignment.cluster.is_none() {
            return Ok(());
        }
        match self.ports().cluster.read(Cluster::identity).await {
            Ok(cluster) => Ok(require_same_cluster(project, assignment, &cluster)?),
            Err(_) => Ok(()),
        }
    }

    pub(crate) async fn find_replayed(
        &self,
        context: &RequestContext,
        declaration: &Declaration,
    ) -> Result<Option<ProvisionedResource>, Error> {
        let project = declaration.project_id;
        let Some(request) = &declaration.request_id else { return Ok(None) };
        if !context.scope().covers(project) {
            return Err(project.not_found().into());
        }
        match self.ports().repository.read(|it| it.get_by_request(project, request)).await? {
            None => Ok(None),
            Some(stored) if stored.hash == RequestHash::of(declaration) => {
                Ok(Some(stored.resource))
            }
            Some(_) => Err(request_id_conflict(project, Some(request))),
        }
    }

    async fn record_refusal(
        &self,
        context: &RequestContext,
        declaration: &Declaration,
    ) -> Result<(), Error> {
        let entry = AuditEntry::new(AuditAction::DeclarationRefused, context.attribution().clone())
            .in_project(declaration.project_id);
        self.ports().audit.write(|it| it.record(&entry)).await
    }
}

pub(crate) fn request_id_conflict(project: ProjectId, request: Option<&RequestId>) -> Error {
    match request {
        Some(request) => {
            DomainError::IdempotencyConflict { project, request: request.clone() }.into()
        }
        // A store reports a conflict only for a request id.
        None => Error::Internal("the store reported a conflict without a request id"),
    }
}
