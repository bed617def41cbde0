//! Persist on Postgres: list pages, in id order, and their watermark.

use broker_domain::{Phase, ProvisionedResourceId};
use broker_ports::{ListPage, ListQuery, PageBytes, PageSize, PortError, UnreadableRow, Watermark};
use time::OffsetDateTime;
use uuid::Uuid;

use super::row::{ResourceRow, resource_columns};
use crate::error::{ClassifyError, invalid_row};
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

params! {
    struct ListOfCredentialValues<'a> {
        after: Uuid,
        limit: i64,
        project_id: Option<Uuid>,
        status: Option<&'a str>,
        updated_since: Option<OffsetDateTime>,
        bytes: i64,
        cloud_credential_id: Uuid,
    }
}

/// Column `held_before`: the parameter bytes of all rows before the previous one, in id order. The query returns a row
/// while they fit into the page limit. The result therefore includes the first two rows, and one row after the page if
/// one exists, which shows that a next page exists. Later rows stay in the database.
macro_rules! bytes_before_column {
    () => {
        "coalesce(sum(octet_length(parameters::text)) OVER (
        ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND 2 PRECEDING), 0) AS held_before"
    };
}
pub(super) use bytes_before_column;

/// A separate statement: the snapshot of the page must start after this one.
pub(crate) const READ_WATERMARK: Statement<(), WatermarkRow> = Statement::new(
    "repository.watermark",
    "SELECT plexsphere.provisioned_resources_watermark() AS watermark",
);

/// One statement per set of filters, so that each has its own plan. An unused filter still appears, so that its
/// parameter has a type.
macro_rules! list {
    ($name:literal, $project:literal, $status:literal) => {
        Statement::new(
            concat!("repository.list", $name),
            concat!(
                "SELECT ",
                resource_columns!(),
                "\nFROM (\n    SELECT *, ",
                bytes_before_column!(),
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

/// Reads the changes from their index first: a planner that cannot estimate their number would scan all ids in order.
/// Every page reads all changes, from the index alone, and only its own rows from the table. The range has two ends so
/// that the planner treats it as narrow: with one end it estimates a third of the table and reads all of it.
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
                bytes_before_column!(),
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
pub(crate) const LIST_STATEMENTS: [[[Statement<ListValues<'_>, ResourceRow>; 2]; 2]; 2] = [
    [
        lists!("", "$3::uuid IS NULL", "$4::text IS NULL"),
        lists!(".phase", "$3::uuid IS NULL", "status = $4"),
    ],
    [
        lists!(".project", "project_id = $3", "$4::text IS NULL"),
        lists!(".project.phase", "project_id = $3", "status = $4"),
    ],
];

/// The rows of one credential, with every other filter optional. One plan over the credential's index serves all of them.
/// Postgres assumes that a `CASE` keeps half of the rows, but that a comparison keeps very few: then it would read every
/// row of the credential and sort.
pub(crate) const LIST_OF_CREDENTIAL: Statement<ListOfCredentialValues<'_>, ResourceRow> =
    Statement::new(
        "repository.list.credential",
        concat!(
            "SELECT ",
            resource_columns!(),
            "\nFROM (\n    SELECT *, ",
            bytes_before_column!(),
            "\n    FROM (
        SELECT * FROM plexsphere.provisioned_resources
        WHERE cloud_credential_id = $7 AND id > $1
            AND CASE WHEN $3::uuid IS NULL THEN true ELSE project_id = $3 END
            AND CASE WHEN $4::text IS NULL THEN true ELSE status = $4 END
            AND CASE WHEN $5::timestamptz IS NULL THEN true ELSE updated_at >= $5 END
        ORDER BY id LIMIT $2
    ) AS page
) AS page
WHERE held_before <= $6 ORDER BY id"
        ),
    );

/// One row more than a page, to detect a next page.
pub(super) fn limit_with_lookahead(limit: PageSize) -> i64 {
    i64::from(limit.get()) + 1
}

pub(super) struct CutPage<T> {
    pub(super) readable: Vec<T>,
    pub(super) unreadable: Vec<UnreadableRow>,
    pub(super) next: Option<ProvisionedResourceId>,
}

/// Truncates the rows to a page and converts them. An unreadable row is reported and blocks no other row.
pub(super) fn cut_to_page<R, T>(
    mut rows: Vec<R>,
    (limit, bytes): (PageSize, PageBytes),
    id: impl Fn(&R) -> Uuid,
    parameter_bytes: impl Fn(&R) -> usize,
    convert: impl Fn(R) -> Result<T, PortError>,
) -> Result<CutPage<T>, PortError> {
    let totals = rows.iter().scan(0, |total, row| {
        *total += parameter_bytes(row);
        Some(*total)
    });
    let fitting_rows = totals.take_while(|total| *total <= bytes.get() as usize).count().max(1);
    let limit = usize::from(limit.get()).min(fitting_rows);
    let has_next = rows.len() > limit;
    rows.truncate(limit);
    // Invariant: no page contains the nil id, after which the first page starts.
    let parse_id = |id: Uuid| {
        ProvisionedResourceId::new(id)
            .map_err(|error| invalid_row("provisioned_resources", id, error))
    };
    let next = rows.last().filter(|_| has_next).map(|row| parse_id(id(row)));
    let (mut readable, mut unreadable) = (Vec::with_capacity(rows.len()), Vec::new());
    for row in rows {
        let id = parse_id(id(&row))?;
        match convert(row) {
            Ok(row) => readable.push(row),
            Err(error) => unreadable.push(UnreadableRow::new(id, error)),
        }
    }
    Ok(CutPage { readable, unreadable, next: next.transpose()? })
}

/// No resource has the nil id, so every id is greater.
pub(super) fn start_after(after: Option<ProvisionedResourceId>) -> Uuid {
    after.map_or(Uuid::nil(), |id| id.as_uuid())
}

impl PgStore {
    pub(super) async fn select_page(&self, query: &ListQuery) -> Result<ListPage, PortError> {
        let filter_index = |filtered: bool| usize::from(filtered);
        let statement = &LIST_STATEMENTS[filter_index(query.project.is_some())]
            [filter_index(query.phase.is_some())][filter_index(query.updated_since.is_some())];
        let values = ListValues {
            after: start_after(query.after),
            limit: limit_with_lookahead(query.limit),
            project_id: query.project.map(|project| project.as_uuid()),
            status: query.phase.map(Phase::as_str),
            updated_since: query.updated_since.map(Watermark::at),
            bytes: query.bytes.get().into(),
        };
        let mut connection = self.connection().await?;
        let WatermarkRow { watermark } =
            READ_WATERMARK.one(&mut connection, ()).await.map_uncommitted_error()?;
        let rows = match query.credential {
            None => statement.all(&mut connection, values).await,
            Some(credential) => {
                let ListValues { after, limit, project_id, status, updated_since, bytes } = values;
                let values = ListOfCredentialValues {
                    after,
                    limit,
                    project_id,
                    status,
                    updated_since,
                    bytes,
                    cloud_credential_id: credential.as_uuid(),
                };
                LIST_OF_CREDENTIAL.all(&mut connection, values).await
            }
        };
        let rows = rows.map_uncommitted_error()?;
        let parameter_bytes = |row: &ResourceRow| row.parameters.len();
        let CutPage { readable, unreadable, next } = cut_to_page(
            rows,
            (query.limit, query.bytes),
            |row| row.id,
            parameter_bytes,
            ResourceRow::into_resource,
        )?;
        Ok(ListPage::new(readable, next, Watermark::new(watermark)).with_unreadable(unreadable))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nil_id_in_a_row_is_not_a_refusal() {
        let limits = (PageSize::MAX, PageBytes::MAX);
        let page = cut_to_page(vec![Uuid::nil()], limits, |id| *id, |_| 0, Ok);
        let error = page.map(drop).unwrap_err();
        assert!(!error.is_refusal() && error.domain().is_some(), "{error:?}");
        assert!(error.to_string().starts_with("plexsphere.provisioned_resources"), "{error}");
    }
}
