//! Explains many resources at the cost of a sweep. For a Ready, settled resource the row and the watch cache are enough.
//!
//! The others are inspected as in [`Service::explain`]: composite resources and ProviderConfigs in batches, composed
//! objects and events one by one.

use std::collections::BTreeMap;

use broker_domain::{Phase, ProvisionedResourceId};
use broker_ports::{
    AccessScope, CompactRow, EventsOf, PageSize, PortName, RequestContext, ResourceDeadLetter,
    SweepPage, SweepQuery, UnreadableRow,
};

use super::chain::{FactLine, FactStatus};
use super::remedy::Remedy;
use super::verdict::Verdict;
use super::{Explanation, NextAttempt, explain, without_row};
use crate::error::{Error, error_message};
use crate::service::Service;
use crate::sweep::settled;
use crate::telemetry::traceparent;

/// A page of explanations.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExplainedPage {
    /// One per resource that is not terminal, sorted by id.
    pub explanations: Vec<Explanation>,
    /// The start of the next page; `None` after the last.
    pub next: Option<ProvisionedResourceId>,
}

impl Service {
    /// Explains every resource that is not terminal, one page at a time.
    ///
    /// The scope of one Project reads only that Project's rows, and pages by their ids.
    ///
    /// A Ready, settled resource is explained from its row and the watch cache, and its facts say so. Every other one
    /// is explained as by [`explain`](Self::explain).
    ///
    /// # Errors
    ///
    /// `repository_…` when the rows cannot be read. If the cluster does not answer, the explanations say so.
    #[tracing::instrument(name = "broker.explain_all", skip_all, fields(traceparent = traceparent(context)))]
    pub async fn explain_all(
        &self,
        context: &RequestContext,
        after: Option<ProvisionedResourceId>,
        limit: PageSize,
    ) -> Result<ExplainedPage, Error> {
        let page = self.rows(context.scope(), after, limit).await?;
        let next = page.next;
        // If the batch check fails, each resource is explained alone and reports its own unknown facts.
        let profiles = &self.config().profiles;
        let settled_rows = settled(self.ports(), profiles, &page).await.unwrap_or_default();
        let dead_letters = self.dead_letters().await;
        let is_healthy = |row: &CompactRow| {
            settled_rows.contains(&row.id)
                && !row.paused
                && has_no_dead_letter(dead_letters.as_ref(), row)
        };
        let mut explained: BTreeMap<_, _> = page
            .rows
            .iter()
            .filter(|row| is_healthy(row))
            .map(|row| (row.id, explain_settled(row)))
            .collect();
        for UnreadableRow { id, error: source, .. } in page.unreadable {
            let error = Error::Port { port: PortName::Repository, source };
            explained.insert(id, without_row(id, &error_message(&error)));
        }
        let mut to_inspect = Vec::new();
        for row in page.rows.iter().filter(|row| !is_healthy(row)) {
            match self.get(context, row.id).await {
                Ok(resource) => to_inspect.push(resource),
                // It was purged after the page was read.
                Err(Error::Domain(broker_domain::Error::ProvisionedResourceNotFound(_))) => {}
                Err(error @ Error::Port { .. }) => {
                    explained.insert(row.id, without_row(row.id, &error_message(&error)));
                }
                Err(error) => return Err(error),
            }
        }
        for facts in self.facts_of_many(to_inspect).await {
            explained.insert(facts.resource.id(), explain(&facts));
        }
        Ok(ExplainedPage { explanations: explained.into_values().collect(), next })
    }

    async fn rows(
        &self,
        scope: AccessScope,
        after: Option<ProvisionedResourceId>,
        limit: PageSize,
    ) -> Result<SweepPage, Error> {
        let mut query = SweepQuery::new(limit);
        query.after = after;
        query.project = match scope {
            AccessScope::Project(own) => Some(own),
            AccessScope::All => None,
        };
        self.ports().repository.read(|it| it.sweep_page(&query)).await
    }

    /// The dead letters by resource; `None` if the list may be incomplete.
    async fn dead_letters(&self) -> Option<BTreeMap<ProvisionedResourceId, ResourceDeadLetter>> {
        let scope = EventsOf::All;
        let events = self
            .ports()
            .outbox
            .read(|it| it.dead_letter_events(scope, PageSize::MAX))
            .await
            .ok()?;
        // A full page may be incomplete.
        let is_complete = events.len() < usize::from(PageSize::MAX.get());
        is_complete.then(|| events.into_iter().map(|event| (event.resource, event)).collect())
    }
}

fn has_no_dead_letter(
    dead_letters: Option<&BTreeMap<ProvisionedResourceId, ResourceDeadLetter>>,
    row: &CompactRow,
) -> bool {
    dead_letters.is_some_and(|dead_letters| !dead_letters.contains_key(&row.id))
}

fn explain_settled(row: &CompactRow) -> Explanation {
    let line =
        |source, text: &str| FactLine { source, text: text.to_owned(), status: FactStatus::Known };
    let cached = FactLine {
        source: "composite resource",
        text: "ready, in sync, as recorded".to_owned(),
        status: FactStatus::Stale("it is from the watch cache".to_owned()),
    };
    Explanation {
        resource: row.id,
        phase: Some(Phase::Ready),
        verdict: Verdict::Ready,
        blocker: None,
        party: Verdict::Ready.party(),
        since: None,
        budget: None,
        next_attempt: NextAttempt::OnChange,
        action: Remedy::Wait,
        facts: vec![
            line("row", &format!("Ready, version {}", row.version)),
            cached,
            line("outbox", "no dead letter"),
        ],
        transitions: Vec::new(),
    }
}
