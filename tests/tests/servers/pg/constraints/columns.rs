//! The deny-list: no column is made for a secret, and none but `event_data` for personal data.
//!
//! Two rules. A column's name may not hold a word that such data goes by. And a column that could hold
//! anything, because it is text, bytes or a document, is on a list that says what it holds; whoever adds one
//! has to think about it.

use std::collections::BTreeSet;

use sqlx::{Executor, PgPool};

use crate::servers::pg::fresh_database;

/// Words that secrets go by.
const SECRET: &[&str] = &[
    "bearer",
    "cert",
    "certificate",
    "credentials",
    "kubeconfig",
    "passphrase",
    "passwd",
    "password",
    "plaintext",
    "private",
    "secret",
    "secrets",
    "signature",
    "token",
    "tokens",
    "userdata",
];

/// Words that personal data goes by.
const PERSONAL: &[&str] = &[
    "address",
    "birth",
    "birthday",
    "comment",
    "contact",
    "email",
    "firstname",
    "ip",
    "lastname",
    "mail",
    "mobile",
    "person",
    "phone",
    "surname",
    "user",
    "username",
];

/// Columns with such a word that hold something else.
const HARMLESS: &[&str] = &[
    // The id of a token, its number, and whether there will be more.
    "provisioned_resources.bootstrap_token_id",
    "provisioned_resources.token_ordinal",
    "provisioned_resources.token_closed",
];

/// Columns of the broker's tables that could hold anything.
const FREE: &[&str] = &[
    // Closed sets, each under a CHECK.
    "provisioned_resources.status",
    "provisioned_resources.mesh_role",
    "provisioned_resources.on_failure",
    "provisioned_resources.failure_step",
    "provisioned_resource_outbox_token.event_type",
    "provisioned_resource_schedule.lane",
    "provisioning_turns.lane",
    "provisioning_outbox.event_type",
    "provisioned_resource_audit.action",
    "provisioned_resource_audit.previous_phase",
    "provisioned_resource_audit.new_phase",
    "provisioned_resource_audit.failed_step",
    // Names and digests that the broker makes itself.
    "provisioned_resources.xr_name",
    "provisioned_resources.references_digest",
    "provisioned_resources.request_hash",
    "provisioned_resources.cluster_id",
    "provisioned_resources.xr_uid",
    "provisioned_resource_schedule.cluster_id",
    "provisioning_permits.cluster_id",
    "provisioning_permits.loss",
    "provisioned_resource_schedule.lease_owner",
    "provisioned_resource_schedule.last_reason",
    "provisioning_brake.cluster_id",
    "provisioning_outbox.claimed_by",
    "provisioned_resource_audit.cluster_id",
    // Opaque ids that a caller brings, of a restricted form.
    "provisioned_resources.request_id",
    "provisioned_resource_audit.actor",
    "provisioned_resource_audit.correlation_id",
    // Parameters: a secret one takes a reference only.
    "provisioned_resources.parameters",
    // Names of objects on the cluster.
    "provisioned_resources.substrate",
    // Messages of others, from which injected values were removed.
    "provisioned_resources.failure_reason",
    "provisioned_resource_schedule.last_error",
    "provisioning_outbox.set_aside_reason",
    // Ids, phases and the scrubbed reason of a failure.
    "provisioning_outbox.payload",
    // What a person wrote. The one place for personal data, and it can be blanked.
    "provisioned_resource_audit.event_data",
];

/// What the live catalog has that the lists do not allow, in one line each.
async fn findings(pool: &PgPool) -> Vec<String> {
    let own: Vec<String> = super::own_tables(pool).await.into_iter().collect();
    let select = "SELECT table_name || '.' || column_name, column_name,
            data_type IN ('text', 'character varying', 'character', 'bytea', 'json', 'jsonb', 'ARRAY',
                'USER-DEFINED', 'xml')
        FROM information_schema.columns
        WHERE table_schema = 'plexsphere' AND table_name = ANY ($1)";
    let mut columns: Vec<(String, String, bool)> =
        sqlx::query_as(select).bind(own).fetch_all(pool).await.unwrap();
    columns.sort();
    let mut findings = Vec::new();
    for (column, name, free) in &columns {
        for word in name.split('_') {
            if SECRET.contains(&word) && !HARMLESS.contains(&column.as_str()) {
                findings.push(format!("{column}: is named like a secret"));
            }
            if PERSONAL.contains(&word) && !HARMLESS.contains(&column.as_str()) {
                findings.push(format!("{column}: is named like personal data"));
            }
        }
        if *free && !FREE.contains(&column.as_str()) {
            findings.push(format!("{column}: could hold anything; say in the list what it holds"));
        }
    }
    let known: BTreeSet<&str> = columns.iter().map(|(column, ..)| column.as_str()).collect();
    let gone = FREE.iter().chain(HARMLESS).filter(|column| !known.contains(*column));
    findings.extend(gone.map(|column| format!("{column}: is on a list and in no table")));
    findings
}

#[tokio::test]
async fn no_column_is_made_for_what_must_not_be_stored() {
    let database = fresh_database().await;
    assert_eq!(findings(database.pool()).await, [""; 0]);
}

#[tokio::test]
async fn a_column_that_breaks_the_rule_is_found() {
    let database = fresh_database().await;
    let fixture = "ALTER TABLE plexsphere.provisioned_resources
            ADD COLUMN bootstrap_token uuid, ADD COLUMN email uuid, ADD COLUMN remarks text;
        CREATE TABLE plexsphere.keepsakes (admin_password uuid);
        ALTER TABLE plexsphere.provisioned_resource_audit RENAME COLUMN event_data TO words";
    database.pool().execute(fixture).await.unwrap();
    assert_eq!(
        findings(database.pool()).await,
        [
            "keepsakes.admin_password: is named like a secret",
            "provisioned_resource_audit.words: could hold anything; say in the list what it holds",
            "provisioned_resources.bootstrap_token: is named like a secret",
            "provisioned_resources.email: is named like personal data",
            "provisioned_resources.remarks: could hold anything; say in the list what it holds",
            "provisioned_resource_audit.event_data: is on a list and in no table",
        ]
    );
}
