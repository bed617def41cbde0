//! Many events that were set aside are resumed at once.

use broker_domain::{NotFound, ProjectId};
use broker_ports::{AccessScope, EventsOf, PageSize, Redrive, RequestContext, ResourceDeadLetter};

use super::Service;
use crate::error::Error;

impl Service {
    /// Resumes every event that was set aside, of one Project or of every Project within the scope; answers which.
    ///
    /// Each resource is resumed by itself, with its own audit line. What was resumed stays resumed when a later one
    /// fails: call it again.
    ///
    /// # Errors
    ///
    /// `assignment_not_found` for a Project outside of the scope; `outbox_…`.
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
            // A page of which nothing could be resumed is an old one, and would come again.
            let last = page.len() < usize::from(PageSize::MAX.get());
            if last || resumed.len() == before {
                return Ok(resumed);
            }
        }
    }
}
