//! The rules that the schema itself holds: each is provoked for real, those that adapters put into words come
//! back in those words, and no column is made for what must not be stored.

mod columns;
mod mapped;
mod rules;
mod sets;
mod sqlstates;

use std::collections::BTreeSet;

use broker_pg::migrate;
use sqlx::PgPool;

/// The tables of the neighbours, which belong to others.
fn tables_of_neighbours() -> Vec<String> {
    let lines = migrate::REFERENCE.iter().flat_map(|migration| migration.up.lines());
    let table = |line: &str| {
        let created = line.strip_prefix("CREATE TABLE plexsphere.")?;
        Some(created.split_whitespace().next()?.to_owned())
    };
    let tables: Vec<String> = lines.filter_map(table).collect();
    assert!(tables.contains(&"nodes".to_owned()), "{tables:?}");
    tables
}

/// The tables that are the broker's own, by the live catalog: everything else in the schema, but for what the
/// migrator keeps its history in.
async fn own_tables(pool: &PgPool) -> BTreeSet<String> {
    let select = "SELECT relname FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace \
                  WHERE nspname = 'plexsphere' AND relkind IN ('r', 'p') \
                  AND relname <> ALL ($1) AND relname NOT LIKE 'provisioning_broker%migrations'";
    let tables: Vec<String> =
        sqlx::query_scalar(select).bind(tables_of_neighbours()).fetch_all(pool).await.unwrap();
    assert!(tables.contains(&"provisioned_resources".to_owned()), "{tables:?}");
    tables.into_iter().collect()
}
