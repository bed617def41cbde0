//! Every foreign key, CHECK and unique index of the broker's own tables, and every rule of a column's type, broken for
//! real. One that is added without a way to break it here fails the test, for nobody has seen it refuse anything.

use std::collections::BTreeSet;

use sqlx::{AssertSqlSafe, Executor, PgPool};

use super::own_tables;
use crate::servers::pg::fresh_database;

/// One row in each of the broker's tables. The Project of the resource owns nothing else.
const SCENE: &str = "
INSERT INTO plexsphere.projects (id) VALUES (lpad('1', 32, '0')::uuid), (lpad('2', 32, '0')::uuid);
INSERT INTO plexsphere.resources (id, project_id) VALUES (lpad('3', 32, '0')::uuid, lpad('2', 32, '0')::uuid);
INSERT INTO plexsphere.blueprint_versions (id, slug, version, display_name, description, provider_kinds,
    injection_strategy, parameter_schema, metadata, xrd, composition)
VALUES (lpad('4', 32, '0')::uuid, 'vm', 'v1', '', '', '{}', 'helm-values', '{}', '', '', '');
INSERT INTO plexsphere.clouds (id, provider) VALUES (lpad('5', 32, '0')::uuid, 'test');
INSERT INTO plexsphere.cloud_credentials (id, cloud_id, kv_mount, kv_path)
VALUES (lpad('6', 32, '0')::uuid, lpad('5', 32, '0')::uuid, 'kv', 'path');
INSERT INTO plexsphere.provisioned_resources
    (id, resource_id, project_id, blueprint_version_id, cloud_credential_id, status, xr_name)
VALUES (lpad('7', 32, '0')::uuid, lpad('3', 32, '0')::uuid, lpad('1', 32, '0')::uuid,
    lpad('4', 32, '0')::uuid, lpad('6', 32, '0')::uuid, 'Pending', 'pr-7');
INSERT INTO plexsphere.provisioned_resource_outbox_token (provisioned_resource_id, event_type, version)
SELECT id, 'broker.ProvisionedResourceRequested', 1 FROM plexsphere.provisioned_resources;
INSERT INTO plexsphere.provisioning_outbox
    (event_id, provisioned_resource_id, sequence, event_type, occurred_at, payload)
SELECT lpad('8', 32, '0')::uuid, id, 1, 'broker.ProvisionedResourceRequested', now(), '{}'
FROM plexsphere.provisioned_resources;
INSERT INTO plexsphere.provisioned_resource_audit (action, actor, correlation_id)
VALUES ('declared', 'user:1', 'req-1');
INSERT INTO plexsphere.provisioning_turns (lane, project_id, served_at)
VALUES ('converge', lpad('1', 32, '0')::uuid, now());
INSERT INTO plexsphere.provisioning_brake (cluster_id, absent, expected, since) VALUES ('c', 9, 10, now());
INSERT INTO plexsphere.provisioning_permits
SELECT id, 'xr:1', 'c', now(), false FROM plexsphere.provisioned_resources;
";

/// Changes of a table's only row, each with the rule that it breaks.
const CHANGES: &[(&str, &[(&str, &str)])] = &[
    (
        "provisioned_resources",
        &[
            ("provisioned_resources_project_id_fkey", "project_id = gen_random_uuid()"),
            ("provisioned_resources_resource_id_fkey", "resource_id = gen_random_uuid()"),
            (
                "provisioned_resources_blueprint_version_id_fkey",
                "blueprint_version_id = gen_random_uuid()",
            ),
            (
                "provisioned_resources_cloud_credential_id_fkey",
                "cloud_credential_id = gen_random_uuid()",
            ),
            ("provisioned_resources_status_check", "status = 'Odd'"),
            ("provisioned_resources_xr_name_check", "xr_name = '  '"),
            ("provisioning_parameters_check", "parameters = '[]'"),
            ("provisioning_mesh_role_check", "mesh_role = 'guest'"),
            ("provisioning_on_failure_check", "on_failure = 'panic'"),
            (
                "provisioning_failure_step_check",
                "failure_step = 'Deleted', failure_reason = 'quota'",
            ),
            ("provisioned_resources_failure_check", "failure_step = 'Ready'"),
            ("provisioning_token_ordinal_check", "token_ordinal = 0"),
            ("provisioning_substrate_check", "substrate = '[]'"),
            ("provisioning_digest_check", "references_digest = ''"),
            ("provisioning_digest_check", "request_id = 'r', request_hash = ''"),
            ("provisioned_resources_request_check", "request_id = 'r'"),
            ("provisioning_ordinal_check", "event_sequence = 0"),
        ],
    ),
    (
        "provisioned_resource_schedule",
        &[
            (
                "provisioned_resource_schedule_provisioned_resource_id_fkey",
                "provisioned_resource_id = gen_random_uuid()",
            ),
            ("provisioning_lane_name_check", "lane = 'fast'"),
            ("provisioning_attempts_check", "attempts = -1"),
            ("provisioning_count_check", "lease_epoch = -1"),
            ("provisioned_resource_schedule_last_error_check", "last_error = 'without a reason'"),
            ("provisioned_resource_schedule_lease_check", "lease_owner = 'without an end'"),
        ],
    ),
    ("provisioning_turns", &[("provisioning_lane_name_check", "lane = 'fast'")]),
    (
        "provisioned_resource_outbox_token",
        &[
            (
                "provisioned_resource_outbox_token_provisioned_resource_id_fkey",
                "provisioned_resource_id = gen_random_uuid()",
            ),
            ("provisioned_resource_outbox_token_event_type_check", "event_type = 'broker.Odd'"),
            ("provisioning_event_version_check", "version = -1"),
        ],
    ),
    (
        "provisioning_outbox",
        &[
            ("provisioning_ordinal_check", "sequence = 0"),
            ("provisioning_event_type_check", "event_type = 'broker.Odd'"),
            ("provisioning_count_check", "claims = -1"),
            ("provisioning_attempts_check", "attempts = -1"),
            ("provisioning_outbox_claim_check", "claimed_by = 'without an end'"),
            (
                "provisioning_outbox_set_aside_check",
                "set_aside_reason = 'poison', held_until = now()",
            ),
        ],
    ),
];

/// What takes another statement.
const STATEMENTS: &[(&str, &str)] = &[
    (
        "provisioned_resources_pkey",
        "INSERT INTO plexsphere.provisioned_resources SELECT * FROM plexsphere.provisioned_resources",
    ),
    (
        "provisioned_resources_project_id_request_id_key",
        "INSERT INTO plexsphere.provisioned_resources (id, resource_id, project_id, blueprint_version_id,
            cloud_credential_id, status, xr_name, request_id, request_hash)
        SELECT gen_random_uuid(), resource_id, project_id, blueprint_version_id, cloud_credential_id,
            'Pending', 'pr-' || n, 'again', sha256('')
        FROM plexsphere.provisioned_resources, generate_series(1, 2) AS n",
    ),
    (
        "provisioned_resources_project_id_fkey",
        "DELETE FROM plexsphere.projects WHERE id = lpad('1', 32, '0')::uuid",
    ),
    (
        "provisioned_resources_resource_id_fkey",
        "DELETE FROM plexsphere.resources",
    ),
    (
        "provisioned_resources_blueprint_version_id_fkey",
        "DELETE FROM plexsphere.blueprint_versions",
    ),
    (
        "provisioned_resources_cloud_credential_id_fkey",
        "DELETE FROM plexsphere.cloud_credentials",
    ),
    (
        "provisioning_ordinal_check",
        "UPDATE plexsphere.provisioned_resources SET version = 0",
    ),
    (
        "provisioned_resource_schedule_pkey",
        "INSERT INTO plexsphere.provisioned_resource_schedule
        SELECT * FROM plexsphere.provisioned_resource_schedule",
    ),
    (
        "provisioning_turns_pkey",
        "INSERT INTO plexsphere.provisioning_turns SELECT * FROM plexsphere.provisioning_turns",
    ),
    (
        "provisioning_brake_key",
        "INSERT INTO plexsphere.provisioning_brake SELECT * FROM plexsphere.provisioning_brake",
    ),
    (
        "provisioning_permits_pkey",
        "INSERT INTO plexsphere.provisioning_permits SELECT * FROM plexsphere.provisioning_permits",
    ),
    (
        "provisioned_resource_outbox_token_pkey",
        "INSERT INTO plexsphere.provisioned_resource_outbox_token
        SELECT * FROM plexsphere.provisioned_resource_outbox_token",
    ),
    (
        "provisioning_outbox_pkey",
        "INSERT INTO plexsphere.provisioning_outbox
            (event_id, provisioned_resource_id, sequence, event_type, occurred_at, payload)
        SELECT event_id, gen_random_uuid(), 1, event_type, occurred_at, payload
        FROM plexsphere.provisioning_outbox",
    ),
    (
        "provisioning_outbox_provisioned_resource_id_sequence_key",
        "INSERT INTO plexsphere.provisioning_outbox
            (event_id, provisioned_resource_id, sequence, event_type, occurred_at, payload)
        SELECT gen_random_uuid(), provisioned_resource_id, sequence, event_type, occurred_at, payload
        FROM plexsphere.provisioning_outbox",
    ),
    (
        "provisioned_resource_audit_pkey",
        "INSERT INTO plexsphere.provisioned_resource_audit (sequence, action, actor, correlation_id)
        OVERRIDING SYSTEM VALUE
        SELECT sequence, action, actor, correlation_id FROM plexsphere.provisioned_resource_audit",
    ),
    (
        "provisioning_audit_action_check",
        "INSERT INTO plexsphere.provisioned_resource_audit (action, actor, correlation_id)
        VALUES ('guessed', 'user:1', 'req-1')",
    ),
    (
        "provisioning_actor_check",
        "INSERT INTO plexsphere.provisioned_resource_audit (action, actor, correlation_id)
        VALUES ('declared', 'jo@example.org', 'req-1')",
    ),
    (
        "provisioning_actor_check",
        "INSERT INTO plexsphere.provisioned_resource_audit (action, actor, correlation_id)
        VALUES ('declared', 'Jo Doe', 'req-1')",
    ),
    (
        "provisioning_phase_check",
        "INSERT INTO plexsphere.provisioned_resource_audit (action, actor, correlation_id, previous_phase)
        VALUES ('declared', 'user:1', 'req-1', 'Odd')",
    ),
    (
        "provisioning_phase_check",
        "INSERT INTO plexsphere.provisioned_resource_audit (action, actor, correlation_id, new_phase)
        VALUES ('declared', 'user:1', 'req-1', 'Odd')",
    ),
    (
        "provisioning_phase_check",
        "INSERT INTO plexsphere.provisioned_resource_audit (action, actor, correlation_id, failed_step)
        VALUES ('declared', 'user:1', 'req-1', 'Odd')",
    ),
];

/// Refused by a trigger, which has no name that an error could carry.
const OF_THE_AUDIT_S_GUARD: &[&str] = &[
    "UPDATE plexsphere.provisioned_resource_audit SET actor = 'user:2'",
    "UPDATE plexsphere.provisioned_resource_audit SET event_data = 'added later'",
    "DELETE FROM plexsphere.provisioned_resource_audit",
    "TRUNCATE plexsphere.provisioned_resource_audit",
];

/// Each rule with a statement that breaks it. A resource is changed with its version.
fn provocations() -> Vec<(&'static str, String)> {
    let changes = CHANGES.iter().flat_map(|(table, rules)| {
        let version = if *table == "provisioned_resources" { "version = 2, " } else { "" };
        rules.iter().map(move |(rule, set)| {
            (*rule, format!("UPDATE plexsphere.{table} SET {version}{set}"))
        })
    });
    let statements = STATEMENTS.iter().map(|(rule, statement)| (*rule, (*statement).to_owned()));
    changes.chain(statements).collect()
}

/// What the server says when a rule is broken, by what the rule is.
fn sqlstate_of(rule: &str) -> &'static str {
    match rule.rsplit('_').next() {
        Some("fkey") => "23503",
        Some("check") => "23514",
        _ => "23505",
    }
}

/// Every rule of the broker's own tables: constraints, those of their columns' types, and unique indexes that are none.
async fn rules(pool: &PgPool) -> BTreeSet<String> {
    let own: Vec<String> = own_tables(pool).await.into_iter().collect();
    let select = "WITH own AS (
            SELECT oid FROM pg_class
            WHERE relnamespace = 'plexsphere'::regnamespace AND relname = ANY ($1)
        )
        SELECT conname::text FROM pg_constraint
        WHERE conrelid IN (SELECT oid FROM own) AND contype IN ('c', 'f', 'p', 'u', 'x')
        UNION
        SELECT conname::text FROM pg_constraint JOIN pg_attribute ON atttypid = contypid
        WHERE attrelid IN (SELECT oid FROM own)
        UNION
        SELECT relname::text FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
        WHERE indrelid IN (SELECT oid FROM own) AND indisunique";
    sqlx::query_scalar(select).bind(own).fetch_all(pool).await.unwrap().into_iter().collect()
}

/// SQLSTATE and constraint of the refusal; what it changed is gone afterwards.
async fn refusal(pool: &PgPool, statement: &str) -> (String, Option<String>) {
    let mut transaction = pool.begin().await.unwrap();
    let refused = transaction.execute(AssertSqlSafe(statement)).await;
    let refused = refused.expect_err(statement);
    let said = refused.as_database_error().unwrap_or_else(|| panic!("{statement}: {refused}"));
    (said.code().unwrap_or_default().into_owned(), said.constraint().map(str::to_owned))
}

#[tokio::test]
async fn every_rule_of_the_broker_s_tables_refuses_what_breaks_it() {
    let database = fresh_database().await;
    database.pool().execute(SCENE).await.unwrap();
    let mut provoked = BTreeSet::new();
    for (rule, statement) in provocations() {
        let refused = refusal(database.pool(), &statement).await;
        let expected = (sqlstate_of(rule).to_owned(), Some(rule.to_owned()));
        assert_eq!(refused, expected, "{statement}");
        provoked.insert(rule.to_owned());
    }
    assert_eq!(
        rules(database.pool()).await,
        provoked,
        "each rule needs a statement that breaks it"
    );
}

#[tokio::test]
async fn the_audit_is_only_added_to() {
    let database = fresh_database().await;
    database.pool().execute(SCENE).await.unwrap();
    for statement in OF_THE_AUDIT_S_GUARD {
        let (sqlstate, _) = refusal(database.pool(), statement).await;
        assert_eq!(sqlstate, "23001", "{statement}");
    }
    let blanking = "UPDATE plexsphere.provisioned_resource_audit SET event_data = NULL";
    assert_eq!(database.pool().execute(blanking).await.unwrap().rows_affected(), 1);
}
