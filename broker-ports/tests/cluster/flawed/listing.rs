//! Observations, listings and hints that break a promise each.

use std::future::ready;

use broker_ports::{
    CachedXr, Cluster, ConfigPresence, Hints, OwnedObject, OwnedPage, OwnedQuery, OwnedRole,
    PortError, ResourceIds, XrTarget,
};
use broker_render::references_digest;
use futures_util::StreamExt as _;

use super::{Flawed, is_forbidden, is_outage};
use crate::flaws::Flaw;

/// How many objects a page holds that was counted.
const COUNTED: usize = 3;

impl Flawed {
    pub(super) async fn flawed_observations(
        &self,
        targets: &[XrTarget],
    ) -> Result<Vec<Result<CachedXr, PortError>>, PortError> {
        let mut seen = self.inner.observe_many(targets).await?;
        match self.flaw {
            Flaw::ShufflesObservations => seen.reverse(),
            Flaw::EmptiesItsCacheInAnOutage if self.behind.identity().await.is_err() => {
                seen = targets.iter().map(|_| Ok(CachedXr::Absent)).collect();
            }
            Flaw::FailsObservationsTogether => {
                let all: Result<Vec<_>, _> = seen.into_iter().collect();
                return Ok(all?.into_iter().map(Ok).collect());
            }
            Flaw::MissesNoConfig => {
                let present = |seen: CachedXr| seen.with_config(ConfigPresence::Present);
                seen = seen.into_iter().map(|seen| seen.map(present)).collect();
            }
            Flaw::ObservesNoReferences | Flaw::RemembersTheFirstDigest => {
                let seen = seen.into_iter().map(|seen| seen.map(|seen| self.misjudged(seen)));
                return Ok(seen.collect());
            }
            _ => {}
        }
        Ok(seen)
    }

    fn misjudged(&self, seen: CachedXr) -> CachedXr {
        let CachedXr::Seen { version, status, armed, mut owned, mut references, .. } = seen else {
            return seen;
        };
        if self.flaw == Flaw::ObservesNoReferences {
            references = references_digest(&[].into());
        } else {
            owned = Self::first(&self.first_digest, version.uid.clone(), owned);
        }
        CachedXr::seen(version, status, armed, owned, references)
    }

    pub(super) async fn flawed_listing(&self, query: &OwnedQuery) -> Result<OwnedPage, PortError> {
        if self.flaw == Flaw::ListsByCounting {
            return self.counted(query).await;
        }
        let mut page = match (self.flaw, self.inner.list_owned(query).await) {
            (Flaw::ListsForbiddenAsNothing, Err(error)) if is_forbidden(&error) => {
                OwnedPage::default()
            }
            (Flaw::ListsNothingInAnOutage, Err(error)) if is_outage(&error) => OwnedPage::default(),
            (_, page) => page?,
        };
        match self.flaw {
            Flaw::ListsOnePageOnly => page.next = None,
            Flaw::ListsNamesOfOursOnly => page.objects.retain(|object| object.resource.is_some()),
            Flaw::ListsNothingBesideExceptions if query.except != ResourceIds::default() => {
                page.objects.retain(|it| it.resource.is_some_and(|id| query.except.contains(&id)));
            }
            Flaw::ListsWhatIsNotOurs => page.objects = self.everything(query),
            _ => {}
        }
        Ok(page)
    }

    /// A page that is found by counting what came before it.
    async fn counted(&self, query: &OwnedQuery) -> Result<OwnedPage, PortError> {
        let before: usize = query.after.as_ref().map_or(0, |count| count.parse().unwrap());
        let mut all = Vec::new();
        let mut from_the_start = OwnedQuery::new(query.kinds.clone());
        loop {
            let page = self.inner.list_owned(&from_the_start).await?;
            all.extend(page.objects);
            let Some(next) = page.next else { break };
            from_the_start = from_the_start.after(next);
        }
        let more = all.len() > before + COUNTED;
        let next = more.then(|| (before + COUNTED).to_string());
        Ok(OwnedPage::new(all.into_iter().skip(before).take(COUNTED).collect(), next))
    }

    /// Every object of the kinds that were asked for, on every page.
    fn everything(&self, query: &OwnedQuery) -> Vec<OwnedObject> {
        let kinds: Vec<_> = query.kinds.xrds.iter().map(|xrd| xrd.kind().to_owned()).collect();
        let objects = self.behind.objects().into_iter();
        objects
            .filter(|object| kinds.iter().any(|kind| kind == object.kind()))
            .map(|object| OwnedObject::new(object, "", OwnedRole::Xr))
            .collect()
    }

    pub(super) async fn flawed_hints(&self) -> Result<Hints, PortError> {
        let hints = self.inner.hints().await?;
        let behind = self.behind.clone();
        Ok(match self.flaw {
            Flaw::NeverHints => Box::pin(futures_util::stream::pending()),
            Flaw::HintsOfCompositesOnly => Box::pin(hints.filter(move |resource| {
                let name = resource.xr_name();
                let objects = behind.objects();
                ready(objects.iter().any(|object| {
                    object.name() == name.as_str() && object.kind() != "ProviderConfig"
                }))
            })),
            _ => hints,
        })
    }
}
