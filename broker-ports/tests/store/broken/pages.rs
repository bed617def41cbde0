//! Listings that break one promise each.

use std::time::Duration;

use async_trait::async_trait;
use broker_domain::{ProvisionedResource, ProvisionedResourceId, Version};
use broker_ports::testing::builders::{id, resource};
use broker_ports::testing::store::OpenTransaction;
use broker_ports::{
    Admitted, ListPage, ListQuery, PageBytes, PageSize, PortError, Repository, SweepPage,
    SweepQuery, UnreadableRow, Watermark,
};

use super::Broken;
use super::flaws::Flaw;

/// Lets one row that cannot be read fail the page.
fn fail_with(unreadable: &mut Vec<UnreadableRow>) -> Result<(), PortError> {
    unreadable.pop().map_or(Ok(()), |row| Err(row.error))
}

impl Broken {
    pub(super) async fn flawed_list(&self, query: &ListQuery) -> Result<ListPage, PortError> {
        match self.flaw {
            Flaw::PagesByCounting => return self.counted(query).await,
            Flaw::ListsWhateverItsBytes => {
                return self.world.store.list(&query.clone().within(PageBytes::MAX)).await;
            }
            // Time passes between two looks, as it does.
            Flaw::WatermarkForgetsOpenTransactions => {
                self.world.clock.advance(Duration::from_secs(1));
            }
            _ => {}
        }
        let mut page = self.world.store.list(query).await?;
        match self.flaw {
            Flaw::UnreadableRowEndsTheListing => fail_with(&mut page.unreadable)?,
            Flaw::UnreadableRowIsNotListed => page.unreadable.clear(),
            Flaw::SkipsARowBetweenPages => {
                page.next = page.next.map(|next| id(next.as_uuid().as_u128() + 1));
            }
            Flaw::WatermarkTooNew => {
                page.watermark = Watermark::new(page.watermark.at() + Duration::from_secs(1));
            }
            Flaw::ListsAGhost if page.resources.is_empty() => {
                page.resources.push(resource().build());
            }
            Flaw::WatermarkNeverMoves => {
                page.watermark = Watermark::new(time::OffsetDateTime::UNIX_EPOCH);
            }
            Flaw::WatermarkForgetsOpenTransactions => {
                let open = self.note(|notes| notes.open.clone());
                page.resources.retain(|resource| !open.contains(&resource.id()));
            }
            _ => {}
        }
        Ok(page)
    }

    pub(super) async fn flawed_sweep(&self, query: &SweepQuery) -> Result<SweepPage, PortError> {
        if self.flaw == Flaw::SweepsWhateverItsBytes {
            return self.world.store.sweep_page(&query.within(PageBytes::MAX)).await;
        }
        let counting = self.flaw == Flaw::SweepsByCounting;
        let everything = SweepQuery::new(PageSize::MAX);
        let mut asked = if counting { everything } else { *query };
        if self.flaw == Flaw::SweepsEveryProject {
            asked.project = None;
        }
        let mut page = self.world.store.sweep_page(&asked).await?;
        match self.flaw {
            Flaw::UnreadableRowEndsTheSweep => fail_with(&mut page.unreadable)?,
            Flaw::UnreadableRowIsNotSwept => page.unreadable.clear(),
            Flaw::SweepsByCounting => {
                let rows = self.uncounted(page.rows, query.after, query.limit);
                page.next = rows.1.then(|| rows.0.last().map(|row| row.id)).flatten();
                page.rows = rows.0;
            }
            Flaw::EndsWithTheFirstPage => page.next = None,
            Flaw::SweepsWithoutVersions => {
                page.rows.iter_mut().for_each(|row| row.version = Version::FIRST);
            }
            Flaw::SweepsWithoutRollbacks => {
                page.rows.retain(|row| row.phase != broker_domain::Phase::Failed);
            }
            _ => {}
        }
        Ok(page)
    }

    /// A page that is found by counting what came before it.
    async fn counted(&self, query: &ListQuery) -> Result<ListPage, PortError> {
        let mut everything = query.clone();
        everything.after = None;
        everything.limit = PageSize::MAX;
        let page = self.world.store.list(&everything).await?;
        let (rows, more) = self.uncounted(page.resources, query.after, query.limit);
        let next = more.then(|| rows.last().map(ProvisionedResource::id)).flatten();
        Ok(ListPage::new(rows, next, page.watermark))
    }

    /// The rows that were not counted yet, up to a limit, and whether there are more.
    fn uncounted<T>(
        &self,
        all: Vec<T>,
        after: Option<ProvisionedResourceId>,
        limit: PageSize,
    ) -> (Vec<T>, bool) {
        let (total, limit) = (all.len(), usize::from(limit.get()));
        let before = self.note(|notes| if after.is_none() { 0 } else { notes.visited });
        let rows: Vec<_> = all.into_iter().skip(before).take(limit).collect();
        let counted = before + rows.len();
        self.note(|notes| notes.visited = counted);
        (rows, counted < total)
    }

    /// Writes at once, with the time of now, and shows it later.
    pub(super) async fn begin<'a>(
        &'a self,
        admitted: &Admitted,
    ) -> Result<Box<dyn OpenTransaction + 'a>, PortError> {
        let id = admitted.change().resource().id();
        let _ = self.world.store.create(admitted).await?;
        self.note(|notes| notes.open.insert(id));
        Ok(Box::new(Unseen { store: self, id }))
    }
}

/// A row that nobody sees before it is committed.
struct Unseen<'a> {
    store: &'a Broken,
    id: ProvisionedResourceId,
}

#[async_trait]
impl OpenTransaction for Unseen<'_> {
    async fn commit(self: Box<Self>) -> Result<(), PortError> {
        self.store.note(|notes| notes.open.remove(&self.id));
        Ok(())
    }
}
