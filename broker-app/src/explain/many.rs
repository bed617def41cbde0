//! Explaining many at once, for no more than a sweep costs: what is well is answered from rows and the cache.
//!
//! Only what is not Ready and settled is looked at closely, as [`Service::explain`] does it: composite resources and
//! ProviderConfigs by the page, composed objects and events one by one.

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
use crate::error::{Error, in_words};
use crate::service::Service;
use crate::sweep::settled;

/// A page of explanations.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExplainedPage {
    /// One for each resource that is not at rest, in the order of their ids.
    pub explanations: Vec<Explanation>,
    /// Where the next page begins; `None` when this was the last.
    pub next: Option<ProvisionedResourceId>,
}

impl Service {
    /// Explains everything that is not at rest, a page at a time.
    ///
    /// Within one Project's scope only that Project's rows are read, and the pages are told apart by its own ids.
    ///
    /// A resource that is Ready and well costs nothing beyond what a sweep costs. It is explained by its row
    /// and the cache, and its facts say so; every other one is explained as [`explain`](Self::explain) does it.
    ///
    /// # Errors
    ///
    /// `repository_…` when the rows cannot be read. A cluster that does not answer is in the explanations.
    pub async fn explain_all(
        &self,
        context: &RequestContext,
        after: Option<ProvisionedResourceId>,
        limit: PageSize,
    ) -> Result<ExplainedPage, Error> {
        let page = self.rows(context.scope(), after, limit).await?;
        let next = page.next;
        // What cannot be learnt at once is asked for one by one, and each says why it is not known.
        let profiles = &self.config().profiles;
        let well = settled(self.ports(), profiles, &page).await.unwrap_or_default();
        let aside = self.aside().await;
        let is_well = |row: &CompactRow| {
            well.contains(&row.id) && !row.paused && has_no_event_aside(aside.as_ref(), row)
        };
        let mut explained: BTreeMap<_, _> =
            page.rows.iter().filter(|row| is_well(row)).map(|row| (row.id, of_row(row))).collect();
        for UnreadableRow { id, error: source, .. } in page.unreadable {
            let error = Error::Port { port: PortName::Repository, source };
            explained.insert(id, without_row(id, &in_words(&error)));
        }
        let mut blocked = Vec::new();
        for row in page.rows.iter().filter(|row| !is_well(row)) {
            match self.get(context, row.id).await {
                Ok(resource) => blocked.push(resource),
                // It was purged since the page was read.
                Err(Error::Domain(broker_domain::Error::ProvisionedResourceNotFound(_))) => {}
                Err(error @ Error::Port { .. }) => {
                    explained.insert(row.id, without_row(row.id, &in_words(&error)));
                }
                Err(error) => return Err(error),
            }
        }
        for facts in self.facts_of_many(blocked).await {
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

    /// Whose events were set aside; `None` if that is not known of everybody.
    async fn aside(&self) -> Option<BTreeMap<ProvisionedResourceId, ResourceDeadLetter>> {
        let of = EventsOf::All;
        let events =
            self.ports().outbox.read(|it| it.dead_letter_events(of, PageSize::MAX)).await.ok()?;
        // A full page may not be all of them.
        let all = events.len() < usize::from(PageSize::MAX.get());
        all.then(|| events.into_iter().map(|event| (event.resource, event)).collect())
    }
}

fn has_no_event_aside(
    aside: Option<&BTreeMap<ProvisionedResourceId, ResourceDeadLetter>>,
    row: &CompactRow,
) -> bool {
    aside.is_some_and(|aside| !aside.contains_key(&row.id))
}

fn of_row(row: &CompactRow) -> Explanation {
    let line =
        |source, text: &str| FactLine { source, text: text.to_owned(), status: FactStatus::Known };
    let cached = FactLine {
        source: "composite resource",
        text: "ready, in sync, with what was recorded".to_owned(),
        status: FactStatus::Stale("it is what the cache shows".to_owned()),
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
            line("outbox", "nothing was set aside"),
        ],
        transitions: Vec::new(),
    }
}
