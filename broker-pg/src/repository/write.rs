//! Persist on Postgres: the one statement that writes a stored resource.

use broker_domain::{Phase, Snapshot};
use broker_ports::{PortError, TraceParent, Write, WriteKind, Written};
use serde_json::Value;
use sqlx::PgConnection;
use sqlx::types::Json;
use time::OffsetDateTime;
use uuid::Uuid;

use super::create::EventValues;
use super::row::substrate_document;
use crate::error::{LostResponse, classify, invalid_row, violated_constraint};
use crate::sql::{Statement, columns, params};
use crate::store::PgStore;
use crate::values::to_i64;

params! {
    struct WriteValues<'a> {
        id: Uuid,
        expected_version: i64,
        epoch: Option<i64>,
        allowed_from: Vec<&'a str>,
        status: &'a str,
        bootstrap_token_id: Option<Uuid>,
        failure_step: Option<&'a str>,
        failure_reason: Option<&'a str>,
        token_ordinal: i32,
        token_closed: bool,
        substrate: Json<Value>,
        references_digest: Option<&'a [u8]>,
        cluster_id: Option<&'a str>,
        xr_uid: Option<&'a str>,
        deletion_requested_at: Option<OffsetDateTime>,
        phase_entered_at: OffsetDateTime,
        first_ready_at: Option<OffsetDateTime>,
        abandoned: bool,
        event_sequence: i64,
        version: i64,
        event_id: Option<Uuid>,
        event_type: Option<&'a str>,
        occurred_at: Option<OffsetDateTime>,
        payload: Option<&'a str>,
        action: &'a str,
        actor: &'a str,
        correlation_id: &'a str,
        failed_step: Option<&'a str>,
        event_data: Option<&'a str>,
        traceparent: Option<&'a str>,
    }
}

columns! {
    struct WriteRow {
        status: String,
        verdict: String,
    }
}

/// Locks the row, then its schedule row, and compares only locked values. A writer that waited therefore sees the
/// result of the other writer. Writes row, event and audit line, or nothing.
///
/// Invariant: the resource row is locked before its schedule row. The triggers use this order for writers with other
/// statements; the reverse order could deadlock with them.
pub(crate) const WRITE_RESOURCE: Statement<WriteValues<'_>, WriteRow> = Statement::new(
    "repository.write",
    "WITH stored AS MATERIALIZED (
    SELECT status, version FROM plexsphere.provisioned_resources
    WHERE id = $1
    FOR NO KEY UPDATE
), placed AS MATERIALIZED (
    SELECT stored.status, stored.version, s.lease_epoch
    FROM stored CROSS JOIN plexsphere.provisioned_resource_schedule AS s
    WHERE s.provisioned_resource_id = $1
    FOR NO KEY UPDATE OF s
), judged AS MATERIALIZED (
    SELECT status, CASE
        WHEN lease_epoch <> $3 THEN 'lease lost'
        WHEN version <> $2 THEN 'stale'
        WHEN status <> ALL ($4) THEN 'refused'
        ELSE 'committed'
    END AS verdict
    FROM placed
), written AS (
    UPDATE plexsphere.provisioned_resources AS r
    SET status = $5, bootstrap_token_id = $6, failure_step = $7, failure_reason = $8, token_ordinal = $9,
        token_closed = $10, substrate = $11, references_digest = $12, cluster_id = $13, xr_uid = $14,
        deletion_requested_at = $15, phase_entered_at = $16, first_ready_at = $17, abandoned = $18,
        event_sequence = $19, version = $20
    FROM judged
    WHERE r.id = $1 AND judged.verdict = 'committed'
    RETURNING r.id, r.project_id, r.version, judged.status AS previous_phase, r.status AS new_phase
), stamped AS MATERIALIZED (
    SELECT id, project_id, version, previous_phase, new_phase, clock_timestamp() AS at FROM written
), token AS (
    INSERT INTO plexsphere.provisioned_resource_outbox_token (provisioned_resource_id, event_type, version)
    SELECT id, $22, version FROM stamped WHERE $21::uuid IS NOT NULL
), event AS (
    INSERT INTO plexsphere.provisioning_outbox
        (event_id, provisioned_resource_id, sequence, event_type, occurred_at, payload, traceparent, committed_at)
    SELECT $21, id, $19, $22, $23::timestamptz, $24, coalesce($30, (
        SELECT traceparent FROM plexsphere.provisioning_outbox
        WHERE provisioned_resource_id = $1 AND $3 IS NOT NULL ORDER BY sequence DESC LIMIT 1
    )), at
    FROM stamped WHERE $21::uuid IS NOT NULL
), line AS (
    INSERT INTO plexsphere.provisioned_resource_audit
        (project_id, provisioned_resource_id, action, actor, correlation_id, previous_phase, new_phase,
         failed_step, version, epoch, event_data, at)
    SELECT project_id, id, $25, $26, $27, previous_phase, new_phase, $28, version, $3, $29, at FROM stamped
)
SELECT status, verdict FROM judged",
);

impl PgStore {
    pub(super) async fn update_row(
        &self,
        kind: WriteKind,
        write: &Write<'_>,
    ) -> Result<Written, PortError> {
        self::write(&mut *self.connection().await?, kind, write, LostResponse::MayHaveHappened)
            .await
    }
}

pub(super) async fn write(
    connection: &mut PgConnection,
    kind: WriteKind,
    write: &Write<'_>,
    lost_response: LostResponse,
) -> Result<Written, PortError> {
    let change = write.change;
    let id = change.resource().id();
    let previous_phase = change.previous_phase().unwrap_or(change.resource().phase());
    let audit = kind.audit(previous_phase, write);
    let event = EventValues::new(change.event())?;
    let snapshot = change.resource().snapshot();
    // The port defines the allowed stored phases; the statement only compares.
    let allowed_from = Phase::ALL
        .into_iter()
        .filter(|stored| kind.check(*stored, change).is_ok())
        .map(Phase::as_str)
        .collect();
    let Snapshot {
        id: _,
        resource_id: _,
        project_id: _,
        blueprint_version_id: _,
        cloud_credential_id: _,
        phase: status,
        xr_name: _,
        bootstrap_token_id,
        created_at: _,
        updated_at: _, // set by the trigger
        parameters: _,
        mesh_role: _,
        on_failure: _,
        failure_step,
        failure_reason,
        token_ordinal,
        token_closed,
        substrate,
        deletion_requested_at,
        phase_entered_at,
        first_ready_at,
        abandoned,
        event_sequence,
        version,
    } = &snapshot;
    let values = WriteValues {
        id: id.as_uuid(),
        expected_version: to_i64(change.expected_version().get()),
        epoch: write.epoch.map(|epoch| to_i64(epoch.get())),
        allowed_from,
        status,
        bootstrap_token_id: *bootstrap_token_id,
        failure_step: failure_step.as_deref(),
        failure_reason: failure_reason.as_deref(),
        token_ordinal: i32::try_from(*token_ordinal).unwrap_or(i32::MAX),
        token_closed: *token_closed,
        substrate: substrate_document(substrate),
        references_digest: substrate.references_digest().map(|digest| &digest.as_bytes()[..]),
        cluster_id: substrate.cluster().map(broker_domain::ClusterId::as_str),
        xr_uid: substrate.applied().map(broker_domain::XrUid::as_str),
        deletion_requested_at: *deletion_requested_at,
        phase_entered_at: *phase_entered_at,
        first_ready_at: *first_ready_at,
        abandoned: *abandoned,
        event_sequence: to_i64(*event_sequence),
        version: to_i64(*version),
        event_id: event.id,
        event_type: event.event_type,
        occurred_at: event.occurred_at,
        payload: event.payload.as_deref(),
        action: audit.action.as_str(),
        actor: audit.attribution.actor.as_str(),
        correlation_id: audit.attribution.correlation_id.as_str(),
        failed_step: audit.failed_step.map(Phase::as_str),
        event_data: audit.event_data.as_deref(),
        traceparent: write.by.traceparent.as_ref().map(TraceParent::as_str),
    };
    let row = match WRITE_RESOURCE.optional(connection, values).await {
        Ok(row) => row,
        Err(error) if violated_constraint(&error) == Some("provisioning_outbox_pkey") => {
            return Err(event.id_taken());
        }
        Err(error) => return Err(classify(error, lost_response)),
    };
    let Some(WriteRow { status, verdict }) = row else { return Ok(Written::Stale) };
    match verdict.as_str() {
        "committed" => Ok(Written::Committed),
        "stale" => Ok(Written::Stale),
        "lease lost" => Ok(Written::LeaseLost),
        _ => {
            let stored = Phase::try_from(status.as_str())
                .map_err(|error| invalid_row("provisioned_resources", id, error))?;
            kind.check(stored, change)?;
            Err(PortError::rejected(
                "the store refused a write that the port allows for the stored phase",
            ))
        }
    }
}
