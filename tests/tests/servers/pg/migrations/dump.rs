//! The schema in lines, from the server's own catalog: what `broker-pg/schema.txt` holds and a migration that
//! was changed, or forgot something, cannot hide from.

use std::fs;
use std::path::Path;

use sqlx::PgPool;

/// Tables with columns, then constraints, domains, indexes, triggers and functions, as the server spells them. Of
/// constraints those that later servers list beside the columns are left out.
const DUMP: &str = "
SELECT format('column %s.%s %s%s%s', c.relname, a.attname, format_type(a.atttypid, a.atttypmod),
    CASE WHEN a.attnotnull THEN ' not null' ELSE '' END,
    CASE WHEN a.attidentity <> '' THEN ' identity'
         ELSE coalesce(' default ' || pg_get_expr(d.adbin, d.adrelid), '') END)
FROM pg_class AS c
    JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    LEFT JOIN pg_attrdef AS d ON d.adrelid = c.oid AND d.adnum = a.attnum
WHERE c.relnamespace = 'plexsphere'::regnamespace AND c.relkind = 'r'
UNION ALL
SELECT format('constraint %s %s %s', c.relname, o.conname, pg_get_constraintdef(o.oid))
FROM pg_constraint AS o JOIN pg_class AS c ON c.oid = o.conrelid
WHERE o.connamespace = 'plexsphere'::regnamespace AND o.contype <> 'n'
UNION ALL
SELECT format('domain %s %s %s', t.typname, format_type(t.typbasetype, t.typtypmod),
    (SELECT string_agg(o.conname || ' ' || pg_get_constraintdef(o.oid), ' ' ORDER BY o.conname)
     FROM pg_constraint AS o WHERE o.contypid = t.oid))
FROM pg_type AS t WHERE t.typnamespace = 'plexsphere'::regnamespace AND t.typtype = 'd'
UNION ALL
SELECT format('index %s', indexdef) FROM pg_indexes WHERE schemaname = 'plexsphere'
UNION ALL
SELECT format('trigger %s', pg_get_triggerdef(t.oid))
FROM pg_trigger AS t JOIN pg_class AS c ON c.oid = t.tgrelid
WHERE c.relnamespace = 'plexsphere'::regnamespace AND NOT t.tgisinternal
UNION ALL
SELECT format('function %s', regexp_replace(pg_get_functiondef(p.oid), '\\s*\\n\\s*', ' ', 'g'))
FROM pg_proc AS p WHERE p.pronamespace = 'plexsphere'::regnamespace";

/// The schema `plexsphere`, one line per thing, sorted.
pub(crate) async fn dump(pool: &PgPool) -> String {
    let mut lines: Vec<String> = sqlx::query_scalar(DUMP).fetch_all(pool).await.unwrap();
    lines.sort_unstable();
    lines.join("\n") + "\n"
}

/// Fails with where the new text lies if it is not the committed one.
pub(super) fn compare(found: &str) {
    let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../broker-pg/schema.txt");
    if fs::read_to_string(&committed).unwrap_or_default() == found {
        return;
    }
    let new = Path::new(env!("CARGO_TARGET_TMPDIR")).join("schema.txt");
    fs::write(&new, found).unwrap();
    panic!(
        "the schema is not the committed one; if it is meant to change, copy {} to broker-pg/schema.txt",
        new.display()
    );
}
