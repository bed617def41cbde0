//! The schema as text lines, from the server's own catalog. Compared with `broker-pg/schema.txt`,
//! so that a changed or incomplete migration is noticed.

use std::fs;
use std::path::Path;

use sqlx::PgPool;

const DUMP: &str = include_str!("dump.sql");

/// The schema `plexsphere`, one line per object, sorted.
pub(crate) async fn dump(pool: &PgPool) -> String {
    let mut lines: Vec<String> = sqlx::query_scalar(DUMP).fetch_all(pool).await.unwrap();
    lines.sort_unstable();
    lines.join("\n") + "\n"
}

/// Fails with the path of the new text if it differs from the committed one.
pub(super) fn compare(found: &str) {
    let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../broker-pg/schema.txt");
    if fs::read_to_string(&committed).unwrap_or_default() == found {
        return;
    }
    let new = Path::new(env!("CARGO_TARGET_TMPDIR")).join("schema.txt");
    fs::write(&new, found).unwrap();
    panic!(
        "the schema differs from the committed one; if the change is intended, copy {} to broker-pg/schema.txt",
        new.display()
    );
}
