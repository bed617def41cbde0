//! Every statement on the migrated schema: the server prepares it, and its types match those of the
//! code.

use std::collections::BTreeSet;

use broker_pg::{StatementDescription, statements};
use sqlx::postgres::{PgTypeInfo, PgTypeKind};
use sqlx::{Column, Either, Executor, PgConnection, SqlSafeStr, Statement, TypeInfo};

use super::fresh_database;

/// The server's description of a statement, or its error. No types are declared: the server infers
/// them.
async fn understood(
    connection: &mut PgConnection,
    statement: &StatementDescription,
) -> Result<(Vec<String>, Vec<(String, String)>), sqlx::Error> {
    let prepared = connection.prepare(statement.sql.into_sql_str()).await?;
    let takes = match prepared.parameters() {
        Some(Either::Left(types)) => types.iter().map(|taken| base(taken).to_owned()).collect(),
        Some(Either::Right(_)) | None => Vec::new(),
    };
    let gives = prepared
        .columns()
        .iter()
        .map(|column| (column.name().to_owned(), column.type_info().name().to_owned()))
        .collect();
    Ok((takes, gives))
}

/// The wire type of a type's values: a domain uses its base type.
fn base(taken: &PgTypeInfo) -> &str {
    if let PgTypeKind::Domain(beneath) = taken.kind() { base(beneath) } else { taken.name() }
}

#[tokio::test]
async fn statements_have_the_types_of_their_values_and_rows() {
    let database = fresh_database().await;
    let mut connection = database.pool().acquire().await.unwrap();
    let all = statements();
    let mut wrong = Vec::new();
    for statement in &all {
        let said = (statement.takes.clone(), statement.gives.clone());
        match understood(&mut connection, statement).await {
            Ok(found) if found == said => {}
            Ok(found) => wrong.push(format!("{}: {said:?} but is {found:?}", statement.name)),
            Err(error) => wrong.push(format!("{}: {error}", statement.name)),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let names: BTreeSet<_> = all.iter().map(|statement| statement.name).collect();
    assert_eq!(names.len(), all.len(), "two statements have one name");
}
