//! Every statement is valid on the migrated schema, and the types that the server infers match those of the code.

use std::collections::BTreeSet;

use broker_pg::{StatementDescription, statements};
use sqlx::postgres::{PgTypeInfo, PgTypeKind};
use sqlx::{Column, Either, Executor, PgConnection, SqlSafeStr, Statement, TypeInfo};

use super::fresh_database;

/// The server's description of a statement, or its error. No types are declared: the server infers
/// them.
async fn describe(
    connection: &mut PgConnection,
    statement: &StatementDescription,
) -> Result<(Vec<String>, Vec<(String, String)>), sqlx::Error> {
    let prepared = connection.prepare(statement.sql.into_sql_str()).await?;
    let parameters = match prepared.parameters() {
        Some(Either::Left(types)) => {
            types.iter().map(|parameter| wire_type(parameter).to_owned()).collect()
        }
        Some(Either::Right(_)) | None => Vec::new(),
    };
    let columns = prepared
        .columns()
        .iter()
        .map(|column| (column.name().to_owned(), column.type_info().name().to_owned()))
        .collect();
    Ok((parameters, columns))
}

/// The name of the type that a value has on the wire: for a domain, its base type.
fn wire_type(value_type: &PgTypeInfo) -> &str {
    if let PgTypeKind::Domain(base_type) = value_type.kind() {
        wire_type(base_type)
    } else {
        value_type.name()
    }
}

#[tokio::test]
async fn statements_have_the_types_of_their_values_and_rows() {
    let database = fresh_database().await;
    let mut connection = database.pool().acquire().await.unwrap();
    let all = statements();
    let mut mismatches = Vec::new();
    for statement in &all {
        let declared = (statement.parameters.clone(), statement.columns.clone());
        match describe(&mut connection, statement).await {
            Ok(found) if found == declared => {}
            Ok(found) => {
                mismatches.push(format!(
                    "{}: the code declares {declared:?}, the server infers {found:?}",
                    statement.name
                ));
            }
            Err(error) => mismatches.push(format!("{}: {error}", statement.name)),
        }
    }
    assert!(mismatches.is_empty(), "{}", mismatches.join("\n"));
    let names: BTreeSet<_> = all.iter().map(|statement| statement.name).collect();
    assert_eq!(names.len(), all.len(), "two statements have one name");
}
