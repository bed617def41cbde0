//! Redrives the dead letters of many resources.

use broker_domain::{NotFound, ProjectId};
use broker_ports::{AccessScope, EventsOf, PageSize, Redrive, RequestContext, ResourceDeadLetter};

use super::Service;
use crate::error::Error;
use crate::telemetry::traceparent;

impl Service {
    /// Redrives every dead letter of one Project, or of all Projects within the scope. Returns the redriven events.
    ///
    /// Each resource has its own transaction and audit line. After an error, the earlier resources stay redriven: call
    /// the method again.
    ///
    /// # Errors
    ///
    /// `assignment_not_found` for a Project outside of the scope; `outbox_…`.
    #[tracing::instrument(name = "broker.redrive_all_events", skip_all, fields(traceparent = traceparent(context)))]
    pub async fn redrive_all_events(
        &self,
        context: &RequestContext,
        project: Option<ProjectId>,
        how: Redrive,
    ) -> Result<Vec<ResourceDeadLetter>, Error> {
        let events_of = match (context.scope(), project) {
            (AccessScope::All, None) => EventsOf::All,
            (AccessScope::Project(own), None) => EventsOf::Project(own),
            (scope, Some(project)) if scope.covers(project) => EventsOf::Project(project),
            (_, Some(project)) => return Err(project.not_found().into()),
        };
        let mut redriven = Vec::new();
        loop {
            let page = self
                .ports
                .outbox
                .read(|it| it.dead_letter_events(events_of, PageSize::MAX))
                .await?;
            let before = redriven.len();
            for ResourceDeadLetter { resource, .. } in &page {
                let event = self
                    .ports
                    .outbox
                    .write(|it| it.redrive_events(*resource, how, context.attribution()))
                    .await?;
                redriven.extend(event.map(|event| ResourceDeadLetter::new(*resource, event)));
            }
            // If no event of a page was redriven, the next read would return the same page.
            let is_last = page.len() < usize::from(PageSize::MAX.get());
            if is_last || redriven.len() == before {
                return Ok(redriven);
            }
        }
    }
}
