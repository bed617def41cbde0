//! No plaintext of a token stands in any table, whatever became of the token.

use broker_ports::{IssuedToken, TokenIssuer};
use secrecy::ExposeSecret;
use sqlx::{AssertSqlSafe, Executor, PgPool};

use super::world::World;

/// Every table that is not Postgres' own, with the rows in which a text is found.
async fn found(pool: &PgPool, text: &str) -> Vec<String> {
    let tables: Vec<String> = sqlx::query_scalar(
        "SELECT format('%I.%I', nspname, relname) FROM pg_class \
         JOIN pg_namespace ON pg_namespace.oid = relnamespace \
         WHERE relkind IN ('r', 'p', 'm') AND nspname NOT IN ('pg_catalog', 'information_schema')",
    )
    .fetch_all(pool)
    .await
    .unwrap();
    assert!(tables.len() > 10, "{tables:?}");
    let mut found = Vec::new();
    for table in tables {
        let search = format!("SELECT count(*) FROM {table} AS r WHERE position($1 in r::text) > 0");
        let rows: i64 =
            sqlx::query_scalar(AssertSqlSafe(search)).bind(text).fetch_one(pool).await.unwrap();
        found.extend((rows > 0).then_some(table));
    }
    found
}

/// As it is, and as a column of bytes prints it.
fn forms(text: &str) -> [String; 2] {
    let hex: Vec<String> = text.bytes().map(|byte| format!("{byte:02x}")).collect();
    [text.to_owned(), hex.concat()]
}

/// A quarter of a plaintext is already too much, and nothing else looks like it.
fn pieces(plaintext: &str) -> impl Iterator<Item = &str> {
    const CHARS: usize = 16;
    (0..plaintext.len() / CHARS).map(|piece| &plaintext[piece * CHARS..][..CHARS])
}

#[tokio::test]
async fn the_plaintext_of_a_token_is_in_no_table() {
    let world = World::fresh().await;
    let [replaced, consumed, closed, open]: [IssuedToken; 4] = {
        let [one, two, three] = [(); 3].map(|()| World::new_resource());
        let replaced = world.issue(one).await.unwrap();
        let consumed = world.issue(one).await.unwrap();
        let node = world.mesh.enrol(consumed.plaintext.secret()).await.unwrap();
        world.mesh.join(node).await.unwrap();
        world.mesh.enrol(replaced.plaintext.secret()).await.unwrap_err();
        let closed = world.issue(two).await.unwrap();
        world.tokens.close(two).await.unwrap();
        [replaced, consumed, closed, world.issue(three).await.unwrap()]
    };
    for token in [&replaced, &consumed, &closed, &open] {
        for form in pieces(token.plaintext.secret().expose_secret()).flat_map(forms) {
            assert_eq!(found(world.pool(), &form).await, [""; 0], "token {}", token.id);
        }
    }
    let id = open.id.to_string();
    assert_eq!(found(world.pool(), &id).await, ["plexsphere.bootstrap_tokens"], "the search sees");
}

#[tokio::test]
async fn the_search_finds_a_plaintext_as_text_and_as_bytes() {
    let world = World::fresh().await;
    let leaks = "CREATE SCHEMA leak; CREATE TABLE leak.texts AS SELECT 'a canary' AS leaked; \
                 CREATE TABLE leak.bytes AS SELECT 'a canary'::bytea AS leaked";
    world.pool().execute(leaks).await.unwrap();
    let [text, bytes] = forms("canary");
    assert_eq!(found(world.pool(), &text).await, ["leak.texts"]);
    assert_eq!(found(world.pool(), &bytes).await, ["leak.bytes"]);
}
