//! Persist: pages of resources in memory, ordered by id.

use std::ops::Bound;

use broker_domain::ProvisionedResourceId;

use super::state::{Row, State};
use crate::PortResult;
use broker_ports::{
    CompactRow, ListPage, ListQuery, PageBytes, PageSize, SweepPage, SweepQuery, UnreadableRow,
    Watermark,
};

impl State {
    pub(super) fn list(&self, query: &ListQuery) -> ListPage {
        let ListQuery { project, phase, updated_since, after, limit, bytes, .. } = *query;
        let size_of = |row: &Row| row.resource.parameters().as_json().len();
        let (rows, next) = self.page(after, (limit, bytes), size_of, |row| {
            let resource = &row.resource;
            let is_listed = project.is_none_or(|project| resource.project_id() == project)
                && phase.is_none_or(|phase| resource.phase() == phase)
                && updated_since.is_none_or(|since| resource.updated_at() >= since.at());
            is_listed.then(|| row.read())
        });
        let (resources, unreadable) = split_unreadable(rows);
        // Transactions are sequential: no later one has an earlier timestamp.
        ListPage::new(resources, next, Watermark::new(self.now)).with_unreadable(unreadable)
    }

    pub(super) fn sweep_page(&self, query: &SweepQuery) -> SweepPage {
        let SweepQuery { project, after, limit, bytes, .. } = *query;
        let size_of = |row: &Row| {
            CompactRow::of(&row.resource).parameters.map_or(0, |text| text.as_json().len())
        };
        let (rows, next) = self.page(after, (limit, bytes), size_of, |row| {
            let in_scope = project.is_none_or(|project| row.resource.project_id() == project);
            (in_scope && !row.resource.is_terminal()).then(|| row.read().map(|_| compact(row)))
        });
        let (rows, unreadable) = split_unreadable(rows);
        SweepPage::new(rows, next, self.now).with_unreadable(unreadable)
    }

    /// Maps the rows after `after` with `pick`, within the bounds of a page. Returns the next cursor if rows are left.
    fn page<T>(
        &self,
        after: Option<ProvisionedResourceId>,
        (limit, bytes): (PageSize, PageBytes),
        size_of: impl Fn(&Row) -> usize,
        pick: impl Fn(&Row) -> Option<T>,
    ) -> (Vec<(ProvisionedResourceId, T)>, Option<ProvisionedResourceId>) {
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        let (mut page, mut page_bytes) = (Vec::new(), 0);
        for (id, row) in self.rows.range((start, Bound::Unbounded)) {
            let Some(picked) = pick(row) else { continue };
            page_bytes += size_of(row);
            let is_full = page_bytes > bytes.get() as usize && !page.is_empty();
            if page.len() == usize::from(limit.get()) || is_full {
                let next = page.last().map(|(id, _)| *id);
                return (page, next);
            }
            page.push((*id, picked));
        }
        (page, None)
    }
}

/// Splits readable rows from unreadable ones.
fn split_unreadable<T>(
    rows: Vec<(ProvisionedResourceId, PortResult<T>)>,
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
    let mut compact = CompactRow::of(&row.resource);
    compact.due_at = row.schedule.due_at;
    compact.lease_until = row.schedule.lease.as_ref().map(|(_, until)| *until);
    compact.paused = row.schedule.paused;
    compact
}
