//! Gathers the facts of an explanation by read-only I/O. A failed read makes only its own fact unknown.

use std::sync::Arc;

use broker_domain::{
    BootstrapTokenId, ClusterId, Error as DomainError, MeshRole, ObjectReference,
    ProvisionedResource, ProvisionedResourceId,
};
use broker_ports::{
    AuditRecord, BlueprintState, BlueprintVersionView, CredentialView, EventsOf, FailureClass,
    Inspection, NamespacePhase, ObjectReport, PageSize, PortError, RequestContext, Target,
    TokenState, Withdrawal,
};
use broker_render::Armed;
use futures_util::FutureExt as _;
use time::OffsetDateTime;

use super::facts::{
    ClusterFacts, ExplainInput, Gathered, Outage, Reference, ReferenceKind, Transition,
};
use super::{Explanation, explain, without_row};
use crate::declare::{References, Views};
use crate::error::{Error, error_message};
use crate::observe::{is_listed, leaving_config, target};
use crate::service::Service;
use crate::service::enrolment::refusals;
use crate::telemetry::traceparent;

/// Replaces a message that could not be scrubbed.
pub(crate) const WITHHELD: &str =
    "(withheld: the injected values are unknown, so they cannot be removed)";

impl Service {
    /// Explains one resource: what blocks it and since when, which party has to act, and the next action.
    ///
    /// Reads the row, its schedule and history, its references, its token and Node, and its objects on the cluster
    /// with their events. Writes nothing. A fact that cannot be read appears in the explanation with the reason, also if
    /// the store does not answer.
    ///
    /// # Errors
    ///
    /// `provisioned_resource_not_found` when the scope has no resource of this id; `repository_rejected` when
    /// its row is invalid.
    #[tracing::instrument(name = "broker.explain", skip_all, fields(resource = %id, traceparent = traceparent(context)))]
    pub async fn explain(
        &self,
        context: &RequestContext,
        id: ProvisionedResourceId,
    ) -> Result<Explanation, Error> {
        match self.get(context, id).await {
            Ok(resource) => Ok(explain(&self.facts(resource).await)),
            Err(error) if error.is_infrastructure() => Ok(without_row(id, &error_message(&error))),
            Err(error) => Err(error),
        }
    }

    async fn facts(&self, resource: ProvisionedResource) -> ExplainInput {
        let references = self.resolve_target(&resource).await;
        let inspection = match &references.target {
            Ok(target) => Some(self.inspection(target).await),
            Err(_) => None,
        };
        self.gather_facts(resource, references, inspection).await
    }

    /// The facts of many resources, with one batch request to the cluster.
    pub(super) async fn facts_of_many(
        &self,
        resources: Vec<ProvisionedResource>,
    ) -> Vec<ExplainInput> {
        let mut resolved = Vec::with_capacity(resources.len());
        for resource in &resources {
            resolved.push(self.resolve_target(resource).await);
        }
        let targets: Vec<_> = resolved.iter().filter_map(|it| it.target.clone().ok()).collect();
        let mut inspections = self.inspections(&targets).await.into_iter();
        let mut all = Vec::with_capacity(resources.len());
        for (resource, references) in resources.into_iter().zip(resolved) {
            let inspection = match references.target {
                Ok(_) => inspections.next(),
                Err(_) => None,
            };
            all.push(self.gather_facts(resource, references, inspection).await);
        }
        all
    }

    async fn inspection(&self, target: &Target) -> Result<Inspection, Error> {
        self.ports().cluster.read(|it| it.inspect(target)).await
    }

    /// One result per target; the deadline scales with their number. If the batch request fails, each target is
    /// inspected alone, so an unreadable target does not affect the others.
    async fn inspections(&self, targets: &[Target]) -> Vec<Result<Inspection, Error>> {
        let count = u32::try_from(targets.len()).unwrap_or(u32::MAX);
        let cluster = self.ports().cluster.for_batch(count);
        let results = cluster.read(|it| it.inspect_many(targets).map(Ok)).await.unwrap_or_default();
        if results.len() == targets.len() {
            let to_error = |result: Result<_, _>| result.map_err(cluster.to_error());
            return results.into_iter().map(to_error).collect();
        }
        tracing::warn!(
            targets = targets.len(),
            "the batch inspection failed; resources are inspected one by one"
        );
        let mut results = Vec::with_capacity(targets.len());
        for target in targets {
            results.push(self.inspection(target).await);
        }
        results
    }

    /// Resolves the blueprint, and the objects to inspect, which depend on it.
    async fn resolve_target(&self, resource: &ProvisionedResource) -> ResolvedTarget {
        let mut references = Vec::new();
        let blueprint = self.ports().blueprint(resource.blueprint_version_id()).await;
        let blueprint = record_reference(&mut references, ReferenceKind::Blueprint, blueprint);
        let target = match &blueprint {
            Some(blueprint) => Ok(target(resource, blueprint)),
            None => Err("the kind is unknown without the blueprint".to_owned()),
        };
        ResolvedTarget { blueprint, references, target }
    }

    async fn gather_facts(
        &self,
        resource: ProvisionedResource,
        ResolvedTarget { blueprint, mut references, target }: ResolvedTarget,
        inspection: Option<Result<Inspection, Error>>,
    ) -> ExplainInput {
        let gatherer = Gatherer { service: self, resource: &resource };
        let cluster = gatherer.cluster(target, inspection);
        // Only an apply needs the other references, and a teardown applies nothing.
        let unlisted = blueprint.as_deref().map(|it| unlisted(&resource, it)).unwrap_or_default();
        let leaving_config = match &blueprint {
            Some(blueprint) => to_fact(leaving_config(self.ports(), &resource, blueprint).await)
                .map(|config| config.map(|config| config.name.object)),
            None => Gathered::Known(None),
        };
        let applied = blueprint.filter(|_| resource.phase().is_converging());
        let (views, withdrawal) = match applied {
            Some(blueprint) => gatherer.views(blueprint, &mut references).await,
            None => (None, None),
        };
        let blueprint_state = if resource.phase().is_converging() {
            Some(gatherer.blueprint_state().await)
        } else {
            None
        };
        let brake = gatherer.brake(&cluster.identity).await;
        let (token, node) = match resource.bootstrap_token_id() {
            Some(token) => (Some(gatherer.token(token).await), Some(gatherer.node(token).await)),
            None => (None, None),
        };
        let desired = views.as_ref().map(|views| {
            let xr = views.xr(&resource).map_err(|error| error.to_string())?;
            let armed = Armed::of(resource.mesh_role(), resource.bootstrap_token_id());
            let digest = armed.map(|armed| xr.armed(&armed).digest());
            Ok((digest, xr.skipped_tags().to_vec()))
        });
        let skipped_tags = desired.iter().flatten().flat_map(|(_, tags)| tags.clone()).collect();
        let history = gatherer.history().await;
        ExplainInput {
            now: self.ports().clock.now(),
            mode: self.config().mode,
            budgets: self.config().budgets(),
            schedule: gatherer.schedule().await,
            dead_letter: gatherer.dead_letter().await,
            enrolment_refusal: history.known().and_then(|lines| last_refusal(lines)),
            transitions: history.map(|lines| transitions(&lines)),
            references,
            withdrawal,
            blueprint_state,
            assignment: if resource.phase().is_converging() {
                gatherer.assignment().await
            } else {
                Reference::NotQueried
            },
            desired: desired.map(|rendered| rendered.map(|(digest, _)| digest)),
            composition: views.as_ref().map(|views| views.blueprint.composition.clone()),
            skipped_tags,
            token,
            node,
            brake,
            unlisted,
            leaving_config,
            cluster,
            resource,
        }
    }
}

/// The blueprint, and the objects to inspect, which depend on it.
struct ResolvedTarget {
    blueprint: Option<Arc<BlueprintVersionView>>,
    references: Vec<(ReferenceKind, Reference)>,
    /// The objects to inspect, or why they are unknown.
    target: Result<Target, String>,
}

struct Gatherer<'a> {
    service: &'a Service,
    resource: &'a ProvisionedResource,
}

/// Facts of the store.
impl Gatherer<'_> {
    async fn schedule(&self) -> Gathered<Option<broker_ports::ScheduleEntry>> {
        to_fact(self.service.ports().schedule.read(|it| it.entry(self.resource.id())).await)
    }

    async fn dead_letter(&self) -> Gathered<Option<broker_ports::DeadLetter>> {
        let of = EventsOf::Resource(self.resource.id());
        let events =
            self.service.ports().outbox.read(|it| it.dead_letter_events(of, PageSize::MAX)).await;
        match to_fact(events) {
            Gathered::Known(events) => {
                Gathered::Known(events.into_iter().next().map(|dead_letter| dead_letter.event))
            }
            Gathered::Unknown(because) => Gathered::Unknown(because),
        }
    }

    async fn history(&self) -> Gathered<Vec<AuditRecord>> {
        let repository = &self.service.ports().repository;
        to_fact(repository.read(|it| it.history(self.resource.id())).await)
    }

    async fn brake(&self, cluster: &Gathered<ClusterId>) -> Gathered<Option<broker_ports::Brake>> {
        match cluster {
            Gathered::Known(cluster) => {
                let schedule = &self.service.ports().schedule;
                let was_applied = self.resource.substrate().applied().is_some();
                let project = self.resource.project_id();
                let holds = |brake: &broker_ports::Brake| brake.holds(project, was_applied);
                let brakes = to_fact(schedule.read(|it| it.brakes(cluster)).await);
                brakes.map(|brakes| brakes.into_iter().find(holds))
            }
            Gathered::Unknown(because) => Gathered::Unknown(because.clone()),
        }
    }
}

/// The phase changes, newest first.
fn transitions(lines: &[AuditRecord]) -> Vec<Transition> {
    let changes = lines.iter().rev().filter_map(|line| {
        let (from, to) = (line.entry.previous_phase, line.entry.new_phase?);
        (from != Some(to)).then(|| Transition::new(line.at, from, to))
    });
    changes.collect()
}

/// A line without its text was scrubbed.
fn last_refusal(lines: &[AuditRecord]) -> Option<(OffsetDateTime, String)> {
    refusals(lines).find_map(|line| Some((line.at, line.entry.event_data.clone()?)))
}

/// Facts of the platform's other contexts.
impl Gatherer<'_> {
    /// Resolves the references of an apply in the order of a pass; the first failure ends it, as in a pass.
    async fn views(
        &self,
        blueprint: Arc<BlueprintVersionView>,
        known: &mut Vec<(ReferenceKind, Reference)>,
    ) -> (Option<Views>, Option<Gathered<Option<Withdrawal>>>) {
        let references = References::of_resource(self.resource);
        let credential =
            self.service.ports().credential(references.project, references.credential).await;
        let withdrawal = match &credential {
            Ok(credential) => Gathered::Known(credential.withdrawal()),
            Err(Error::Domain(_)) => Gathered::Known(None),
            Err(error) => Gathered::Unknown(error_message(error)),
        };
        let credential = record_reference(known, ReferenceKind::Credential, credential);
        let views = match credential {
            Some(credential) => self.views_with(blueprint, credential, known).await,
            None => None,
        };
        (views, Some(withdrawal))
    }

    async fn views_with(
        &self,
        blueprint: Arc<BlueprintVersionView>,
        credential: CredentialView,
        known: &mut Vec<(ReferenceKind, Reference)>,
    ) -> Option<Views> {
        let references = References::of_resource(self.resource);
        let cloud = self.service.ports().cloud(credential.cloud_id).await;
        let cloud = record_reference(known, ReferenceKind::Cloud, cloud)?;
        let resource = self.service.ports().resource(references.project, references.resource).await;
        let resource = record_reference(known, ReferenceKind::Resource, resource)?;
        Some(Views::new(blueprint, credential, cloud, Some(&resource)))
    }

    async fn blueprint_state(&self) -> Gathered<BlueprintState> {
        let id = self.resource.blueprint_version_id();
        to_fact(self.service.ports().blueprint_state(id).await)
    }

    async fn assignment(&self) -> Reference<NamespacePhase> {
        let assignment = self.service.ports().assignment(self.resource.project_id()).await;
        to_reference(assignment.map(|assignment| assignment.phase))
    }

    async fn token(&self, token: BootstrapTokenId) -> Gathered<Option<TokenState>> {
        to_fact(self.service.ports().tokens.read(|it| it.state(token)).await)
    }

    async fn node(&self, token: BootstrapTokenId) -> Reference<bool> {
        to_reference(self.service.ports().nodes.read(|it| it.node_registered(token)).await)
    }
}

/// Facts of the cluster.
impl Gatherer<'_> {
    fn cluster(
        &self,
        target: Result<Target, String>,
        inspection: Option<Result<Inspection, Error>>,
    ) -> ClusterFacts {
        let target = match target {
            Ok(target) => target,
            Err(because) => return ClusterFacts::unknown(&because),
        };
        let mut cluster = match inspection {
            Some(Ok(inspection)) => from_inspection(inspection, self.resource),
            Some(Err(error)) => facts_of_outage(&error),
            None => ClusterFacts::unknown("not queried"),
        };
        cluster.xr_reference = target.xr.reference().ok();
        cluster.provider_config_reference = target.provider_config;
        cluster
    }
}

fn unlisted(
    resource: &ProvisionedResource,
    blueprint: &BlueprintVersionView,
) -> Vec<ObjectReference> {
    let is_unlisted = |it: &&ObjectReference| !it.is_plain_data() && !is_listed(it, blueprint);
    resource.substrate().composed().iter().filter(is_unlisted).cloned().collect()
}

fn from_inspection(inspection: Inspection, resource: &ProvisionedResource) -> ClusterFacts {
    let mut cluster = ClusterFacts::unknown("not queried");
    let Inspection {
        cluster: identity,
        namespace,
        kind_installed,
        xr,
        provider_config,
        composed,
        events,
        ..
    } = inspection;
    cluster.outage = outage_of_all(&identity);
    cluster.identity = known_or_reason(identity);
    cluster.namespace = known_or_reason(namespace);
    cluster.kind_installed = known_or_reason(kind_installed);
    cluster.xr = known_or_reason(xr);
    cluster.provider_config = known_or_reason(provider_config);
    cluster.composed =
        composed.into_iter().map(|(name, report)| (name, known_or_reason(report))).collect();
    cluster.events = known_or_reason(events);
    // The adapter scrubs with the values of the live composite resource. Without that object, a provider's message
    // may repeat an injected value.
    let xr_was_read = matches!(cluster.xr, Gathered::Known(Some(_)));
    if !xr_was_read && resource.mesh_role() == MeshRole::Node {
        withhold_messages(&mut cluster);
    }
    cluster
}

/// A cluster that rejects the broker's credentials rejects every request.
fn outage_of_all(identity: &Result<ClusterId, PortError>) -> Option<Outage> {
    let error = identity.as_ref().err()?;
    let refusal = error.refusal().filter(|it| *it == broker_ports::Refusal::Unauthenticated)?;
    Some(Outage::new(true, Some(refusal), error.to_string()))
}

fn withhold_messages(cluster: &mut ClusterFacts) {
    let reports = cluster.composed.iter_mut().filter_map(|(_, report)| match report {
        Gathered::Known(Some(report)) => Some(report),
        Gathered::Known(None) | Gathered::Unknown(_) => None,
    });
    for ObjectReport { conditions, .. } in reports {
        for condition in conditions.iter_mut().filter(|it| !it.message.is_empty()) {
            WITHHELD.clone_into(&mut condition.message);
        }
    }
    if let Gathered::Known(events) = &mut cluster.events {
        for event in events.iter_mut().filter(|event| !event.message.is_empty()) {
            WITHHELD.clone_into(&mut event.message);
        }
    }
}

fn facts_of_outage(error: &Error) -> ClusterFacts {
    let because = error_message(error);
    let mut cluster = ClusterFacts::unknown(&because);
    let refusal = match error {
        Error::Port { source, .. } => source.refusal(),
        Error::Domain(_) | Error::Platform(_) | Error::LeaseRanOut | Error::Internal(_) => None,
    };
    cluster.outage = Some(Outage::new(error.is_infrastructure(), refusal, because));
    cluster
}

fn known_or_reason<T>(fact: Result<T, PortError>) -> Gathered<T> {
    match fact {
        Ok(fact) => Gathered::Known(fact),
        Err(error) => Gathered::Unknown(crate::error::one_line(&error)),
    }
}

fn to_fact<T>(result: Result<T, Error>) -> Gathered<T> {
    match result {
        Ok(fact) => Gathered::Known(fact),
        Err(error) => Gathered::Unknown(error_message(&error)),
    }
}

fn to_reference<T>(result: Result<T, Error>) -> Reference<T> {
    match result {
        Ok(found) => Reference::Found(found),
        Err(Error::Domain(error)) if is_not_found(&error) => Reference::Missing,
        Err(Error::Port { ref source, .. }) if source.class() != FailureClass::Rejected => {
            Reference::Unanswered(source.to_string())
        }
        Err(error) => Reference::Unreadable(error_message(&error)),
    }
}

const fn is_not_found(error: &DomainError) -> bool {
    matches!(
        error,
        DomainError::BlueprintNotFound(_)
            | DomainError::CloudNotFound(_)
            | DomainError::CredentialNotFound(_)
            | DomainError::AssignmentNotFound(_)
            | DomainError::ResourceNotFound(_)
    )
}

/// Records the state of a reference and returns its value.
fn record_reference<T>(
    known: &mut Vec<(ReferenceKind, Reference)>,
    kind: ReferenceKind,
    result: Result<T, Error>,
) -> Option<T> {
    let (found, state) = match to_reference(result) {
        Reference::Found(found) => (Some(found), Reference::Found(())),
        Reference::Missing => (None, Reference::Missing),
        Reference::Unreadable(message) => (None, Reference::Unreadable(message)),
        Reference::Unanswered(message) => (None, Reference::Unanswered(message)),
        Reference::NotQueried => (None, Reference::NotQueried),
    };
    known.push((kind, state));
    found
}
