//! Stage 2 in memory: pages of resources, in the order of their ids.

use std::ops::Bound;

use broker_domain::ProvisionedResourceId;

use super::state::{Row, State};
use crate::error::PortError;
use crate::repository::{
    CompactRow, ListPage, ListQuery, PageSize, SweepPage, SweepQuery, UnreadableRow, Watermark,
};

impl State {
    pub(super) fn list(&self, query: &ListQuery) -> ListPage {
        let ListQuery { project, phase, updated_since, after, limit } = *query;
        let (rows, next) = self.page(after, limit, |row| {
            let resource = &row.resource;
            let wanted = project.is_none_or(|project| resource.project_id() == project)
                && phase.is_none_or(|phase| resource.phase() == phase)
                && updated_since.is_none_or(|since| resource.updated_at() >= since.at());
            wanted.then(|| row.read())
        });
        let (resources, unreadable) = apart(rows);
        // Transactions end one after the other: whatever comes later is stamped with this moment or a
        // later one.
        ListPage::new(resources, next, Watermark::new(self.now)).beside(unreadable)
    }

    pub(super) fn sweep_page(&self, query: &SweepQuery) -> SweepPage {
        let SweepQuery { after, limit } = *query;
        let (rows, next) = self.page(after, limit, |row| {
            (!row.resource.at_rest()).then(|| row.read().map(|_| compact(row)))
        });
        let (rows, unreadable) = apart(rows);
        SweepPage::new(rows, next, self.now).beside(unreadable)
    }

    /// What `pick` makes of the rows after one, up to a limit, and the id to go on from if there are more.
    fn page<T>(
        &self,
        after: Option<ProvisionedResourceId>,
        limit: PageSize,
        pick: impl Fn(&Row) -> Option<T>,
    ) -> (Vec<(ProvisionedResourceId, T)>, Option<ProvisionedResourceId>) {
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut picked = self
            .rows
            .range((start, Bound::Unbounded))
            .filter_map(|(id, row)| Some((*id, pick(row)?)));
        let page: Vec<_> = picked.by_ref().take(usize::from(limit.get())).collect();
        let last = page.last().map(|(id, _)| *id);
        let next = picked.next().and(last);
        (page, next)
    }
}

/// Those that can be read, and those that cannot.
fn apart<T>(
    rows: Vec<(ProvisionedResourceId, Result<T, PortError>)>,
) -> (Vec<T>, Vec<UnreadableRow>) {
    let (mut readable, mut unreadable) = (Vec::with_capacity(rows.len()), Vec::new());
    for (id, row) in rows {
        match row {
            Ok(row) => readable.push(row),
            Err(error) => unreadable.push(UnreadableRow::new(id, error)),
        }
    }
    (readable, unreadable)
}

fn compact(row: &Row) -> CompactRow {
    CompactRow {
        due_at: row.slot.due_at,
        lease_until: row.slot.lease.as_ref().map(|(_, until)| *until),
        paused: row.slot.paused,
        ..CompactRow::of(&row.resource)
    }
}
