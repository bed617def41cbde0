//! S4, S5 and S15: tokens, their holders, and where they must not appear.

use broker_domain::{ProvisionedResource, ProvisionedResourceId};
use sqlx::{AssertSqlSafe, PgPool};

use crate::failure::OrFail;

const OPEN_TOKENS: &str = "SELECT count(*) FROM plexsphere.bootstrap_tokens
    WHERE provisioned_resource_id = $1 AND consumed_at IS NULL AND invalidated_at IS NULL";

/// Nodes that were alive when their substrate was first deleted. A Node that enrolled after the
/// deletion of an older composite resource belongs to a newer one.
const ALIVE_AT_DELETION: &str = "SELECT count(*)
    FROM plexsphere.bootstrap_tokens AS token
    JOIN plexsphere.nodes AS node ON node.id = token.consumed_by_node_id
    CROSS JOIN (
        SELECT min(at) AS at FROM plexsphere.provisioned_resource_audit
        WHERE provisioned_resource_id = $1 AND action = 'substrate_delete'
    ) AS deletion
    WHERE token.provisioned_resource_id = $1 AND token.consumed_at < deletion.at
        AND (node.deregistered_at IS NULL OR node.deregistered_at > deletion.at)";

/// Every place where a stored plaintext would appear.
const SEARCHED_TABLES: [&str; 4] = [
    "provisioned_resources",
    "provisioned_resource_schedule",
    "provisioned_resource_audit",
    "provisioning_outbox",
];

/// S4, S5: at most one live token, none once closed, and no live Node on deleted substrate.
pub(super) async fn violations(pool: &PgPool, resource: &ProvisionedResource) -> Vec<String> {
    let mut violations = Vec::new();
    let open = count(pool, OPEN_TOKENS, resource.id()).await;
    if open > 1 || (open > 0 && resource.token_closed()) {
        violations.push(format!("S4: {open} live tokens; closed: {}", resource.token_closed()));
    }
    let alive = count(pool, ALIVE_AT_DELETION, resource.id()).await;
    if alive > 0 {
        violations.push(format!("S5: {alive} Nodes were alive when the substrate was deleted"));
    }
    violations
}

async fn count(pool: &PgPool, sql: &'static str, id: ProvisionedResourceId) -> i64 {
    sqlx::query_scalar(sql).bind(id.as_uuid()).fetch_one(pool).await.or_fail("no count")
}

/// S15: no row contains a plaintext that an agent found.
pub(super) async fn leaks(pool: &PgPool, plaintexts: Vec<String>) -> Vec<String> {
    let mut violations = Vec::new();
    for table in SEARCHED_TABLES {
        let sql = format!(
            "SELECT count(*) FROM plexsphere.{table} AS written
            JOIN unnest($1::text[]) AS plaintext ON position(plaintext IN written::text) > 0"
        );
        let leaks: i64 = sqlx::query_scalar(AssertSqlSafe(sql))
            .bind(&plaintexts)
            .fetch_one(pool)
            .await
            .or_fail("a table cannot be searched");
        if leaks > 0 {
            violations.push(format!("S15: {table} holds a token"));
        }
    }
    violations
}
