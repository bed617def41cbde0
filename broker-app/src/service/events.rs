//! Redrives dead letters in bulk.

use broker_domain::{NotFound, ProjectId};
use broker_ports::{AccessScope, EventsOf, PageSize, Redrive, RequestContext, ResourceDeadLetter};

use super::Service;
use crate::error::Error;
use crate::telemetry::trace;

impl Service {
    /// Redrives every dead letter of one Project, or of all Projects within the scope. Returns the redriven events.
    ///
    /// Each resource is redriven alone, with its own audit line. If one fails, the earlier ones stay redriven: call
    /// it again.
    ///
    /// # Errors
    ///
    /// `assignment_not_found` for a Project outside of the scope; `outbox_…`.
    #[tracing::instrument(name = "broker.redrive_all_events", skip_all, fields(traceparent = trace(context)))]
    pub async fn redrive_all_events(
        &self,
        context: &RequestContext,
        project: Option<ProjectId>,
        how: Redrive,
    ) -> Result<Vec<ResourceDeadLetter>, Error> {
        let of = match (context.scope(), project) {
            (AccessScope::All, None) => EventsOf::All,
            (AccessScope::Project(own), None) => EventsOf::Project(own),
            (scope, Some(project)) if scope.covers(project) => EventsOf::Project(project),
            (_, Some(project)) => return Err(project.not_found().into()),
        };
        let mut resumed = Vec::new();
        loop {
            let page =
                self.ports.outbox.read(|it| it.dead_letter_events(of, PageSize::MAX)).await?;
            let before = resumed.len();
            for ResourceDeadLetter { resource, .. } in &page {
                let one = self
                    .ports
                    .outbox
                    .write(|it| it.redrive_events(*resource, how, context.attribution()))
                    .await?;
                resumed.extend(one.map(|event| ResourceDeadLetter::new(*resource, event)));
            }
            // A page without progress is stale and would repeat.
            let last = page.len() < usize::from(PageSize::MAX.get());
            if last || resumed.len() == before {
                return Ok(resumed);
            }
        }
    }
}
