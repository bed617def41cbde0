//! Stage 2 in memory: pages of resources, in the order of their ids.

use std::ops::Bound;

use broker_domain::ProvisionedResourceId;

use super::state::{Row, State};
use crate::repository::{
    CompactRow, ListPage, ListQuery, PageSize, SweepPage, SweepQuery, Watermark,
};

impl State {
    pub(super) fn list(&self, query: &ListQuery) -> ListPage {
        let ListQuery { project, phase, updated_since, after, limit } = *query;
        let (resources, next) = self.page(after, limit, |row| {
            let resource = &row.resource;
            let wanted = project.is_none_or(|project| resource.project_id() == project)
                && phase.is_none_or(|phase| resource.phase() == phase)
                && updated_since.is_none_or(|since| resource.updated_at() >= since.at());
            wanted.then(|| resource.clone())
        });
        // Transactions end one after the other: whatever comes later is stamped with this moment or a
        // later one.
        ListPage { resources, next, watermark: Watermark::new(self.now) }
    }

    pub(super) fn sweep_page(&self, query: &SweepQuery) -> SweepPage {
        let SweepQuery { after, limit } = *query;
        let (rows, next) =
            self.page(after, limit, |row| (!row.resource.at_rest()).then(|| compact(row)));
        SweepPage { rows, next, now: self.now }
    }

    /// What `pick` makes of the rows after one, up to a limit, and the id to go on from if there are more.
    fn page<T>(
        &self,
        after: Option<ProvisionedResourceId>,
        limit: PageSize,
        pick: impl Fn(&Row) -> Option<T>,
    ) -> (Vec<T>, Option<ProvisionedResourceId>) {
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut picked = self
            .rows
            .range((start, Bound::Unbounded))
            .filter_map(|(id, row)| Some((*id, pick(row)?)));
        let page: Vec<_> = picked.by_ref().take(usize::from(limit.get())).collect();
        let last = page.last().map(|(id, _)| *id);
        let next = picked.next().and(last);
        (page.into_iter().map(|(_, row)| row).collect(), next)
    }
}

fn compact(row: &Row) -> CompactRow {
    CompactRow {
        due_at: row.slot.due_at,
        lease_until: row.slot.lease.as_ref().map(|(_, until)| *until),
        paused: row.slot.paused,
        ..CompactRow::of(&row.resource)
    }
}
