//! Persist on Postgres: pages of resources, in id order, and their watermark.

use broker_domain::{Phase, ProvisionedResourceId};
use broker_ports::{ListPage, ListQuery, PageBytes, PageSize, PortError, UnreadableRow, Watermark};
use time::OffsetDateTime;
use uuid::Uuid;

use super::row::{ResourceRow, resource_columns};
use crate::error::{Classified, drifted};
use crate::sql::{Statement, columns, params};
use crate::store::PgStore;

columns! {
    struct WatermarkRow {
        watermark: OffsetDateTime,
    }
}

params! {
    /// All filters; each statement below uses a subset.
    struct ListValues<'a> {
        after: Uuid,
        limit: i64,
        project_id: Option<Uuid>,
        status: Option<&'a str>,
        updated_since: Option<OffsetDateTime>,
        bytes: i64,
    }
}

/// The bytes of parameters in all rows before the previous one, in id order. A row is returned while they fit into
/// the page limit. So the result always includes the first two rows and, if one exists, at least one row after the
/// page. That row shows that there is a next page, even if the first row alone fills the page. Later rows stay in the
/// database.
macro_rules! held_before {
    () => {
        "coalesce(sum(octet_length(parameters::text)) OVER (
        ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND 2 PRECEDING), 0) AS held_before"
    };
}
pub(super) use held_before;

/// Read in a separate statement: the page's snapshot must start after it.
pub(crate) const WATERMARK: Statement<(), WatermarkRow> = Statement::new(
    "repository.watermark",
    "SELECT plexsphere.provisioned_resources_watermark() AS watermark",
);

/// One statement per set of filters, so that each has its own plan. An unused filter is still named, for its type.
macro_rules! list {
    ($name:literal, $project:literal, $status:literal) => {
        Statement::new(
            concat!("repository.list", $name),
            concat!(
                "SELECT ",
                resource_columns!(),
                "\nFROM (\n    SELECT *, ",
                held_before!(),
                "\n    FROM (
        SELECT * FROM plexsphere.provisioned_resources WHERE id > $1 AND ",
                $project,
                " AND ",
                $status,
                " AND $5::timestamptz IS NULL
        ORDER BY id LIMIT $2
    ) AS page
) AS page
WHERE held_before <= $6 ORDER BY id"
            ),
        )
    };
}

/// Reads the changes from their index first, because a planner that does not know how few there are would walk all
/// ids in order. Every page reads all changes, from the index alone, and only its own rows from the table. The range
/// has two ends so that the planner treats it as narrow: with one end it estimates a third of the table and reads all
/// of it.
macro_rules! list_changed {
    ($name:literal, $project:literal, $status:literal) => {
        Statement::new(
            concat!("repository.list", $name, ".since"),
            concat!(
                "WITH changed AS MATERIALIZED (
    SELECT id, project_id, status FROM plexsphere.provisioned_resources
    WHERE updated_at BETWEEN $5 AND 'infinity' AND id > $1
), page AS MATERIALIZED (
    SELECT id FROM changed WHERE ",
                $project,
                " AND ",
                $status,
                " ORDER BY id LIMIT $2
)
SELECT ",
                resource_columns!(),
                "\nFROM (\n    SELECT r.*, ",
                held_before!(),
                "\n    FROM page JOIN plexsphere.provisioned_resources AS r USING (id)
) AS page
WHERE held_before <= $6 ORDER BY id"
            ),
        )
    };
}

/// Both statements of a set of filters: all rows, and rows changed since.
macro_rules! lists {
    ($name:literal, $project:literal, $status:literal) => {
        [list!($name, $project, $status), list_changed!($name, $project, $status)]
    };
}

/// Indexed by the presence of the filters Project, phase and updated-since, in this order.
pub(crate) const LISTS: [[[Statement<ListValues<'_>, ResourceRow>; 2]; 2]; 2] = [
    [
        lists!("", "$3::uuid IS NULL", "$4::text IS NULL"),
        lists!(".phase", "$3::uuid IS NULL", "status = $4"),
    ],
    [
        lists!(".project", "project_id = $3", "$4::text IS NULL"),
        lists!(".project.phase", "project_id = $3", "status = $4"),
    ],
];

/// One row more than a page, to detect a next page.
pub(super) fn one_more(limit: PageSize) -> i64 {
    i64::from(limit.get()) + 1
}

pub(super) struct Cut<T> {
    pub(super) readable: Vec<T>,
    pub(super) unreadable: Vec<UnreadableRow>,
    pub(super) next: Option<ProvisionedResourceId>,
}

/// Truncates the rows to a page and converts them. An unreadable row is reported and blocks no other row.
pub(super) fn cut<R, T>(
    mut rows: Vec<R>,
    (limit, bytes): (PageSize, PageBytes),
    id: impl Fn(&R) -> Uuid,
    parameters: impl Fn(&R) -> usize,
    read: impl Fn(R) -> Result<T, PortError>,
) -> Result<Cut<T>, PortError> {
    let held = rows.iter().scan(0, |held, row| {
        *held += parameters(row);
        Some(*held)
    });
    let fits = held.take_while(|held| *held <= bytes.get() as usize).count().max(1);
    let limit = usize::from(limit.get()).min(fits);
    let more = rows.len() > limit;
    rows.truncate(limit);
    // Invariant: no page contains the nil id, after which the first page starts.
    let parsed = |id: Uuid| {
        ProvisionedResourceId::new(id).map_err(|error| drifted("provisioned_resources", id, error))
    };
    let next = rows.last().filter(|_| more).map(|row| parsed(id(row)));
    let (mut readable, mut unreadable) = (Vec::with_capacity(rows.len()), Vec::new());
    for row in rows {
        let id = parsed(id(&row))?;
        match read(row) {
            Ok(row) => readable.push(row),
            Err(error) => unreadable.push(UnreadableRow::new(id, error)),
        }
    }
    Ok(Cut { readable, unreadable, next: next.transpose()? })
}

/// No resource has the nil id, so every id is greater.
pub(super) fn start_after(after: Option<ProvisionedResourceId>) -> Uuid {
    after.map_or(Uuid::nil(), |id| id.as_uuid())
}

impl PgStore {
    pub(super) async fn select_page(&self, query: &ListQuery) -> Result<ListPage, PortError> {
        let by = |filtered: bool| usize::from(filtered);
        let statement = &LISTS[by(query.project.is_some())][by(query.phase.is_some())]
            [by(query.updated_since.is_some())];
        let values = ListValues {
            after: start_after(query.after),
            limit: one_more(query.limit),
            project_id: query.project.map(|project| project.as_uuid()),
            status: query.phase.map(Phase::as_str),
            updated_since: query.updated_since.map(Watermark::at),
            bytes: query.bytes.get().into(),
        };
        let mut connection = self.connection().await?;
        let WatermarkRow { watermark } = WATERMARK.one(&mut connection, ()).await.harmless()?;
        let rows = statement.all(&mut connection, values).await.harmless()?;
        let weight = |row: &ResourceRow| row.parameters.len();
        let Cut { readable, unreadable, next } = cut(
            rows,
            (query.limit, query.bytes),
            |row| row.id,
            weight,
            ResourceRow::into_resource,
        )?;
        Ok(ListPage::new(readable, next, Watermark::new(watermark)).with_unreadable(unreadable))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nil_id_of_a_row_is_drift_and_no_refusal() {
        let limits = (PageSize::MAX, PageBytes::MAX);
        let cut = cut(vec![Uuid::nil()], limits, |id| *id, |_| 0, Ok);
        let error = cut.map(drop).unwrap_err();
        assert!(!error.is_refusal() && error.domain().is_some(), "{error:?}");
        assert!(error.to_string().starts_with("plexsphere.provisioned_resources"), "{error}");
    }
}
