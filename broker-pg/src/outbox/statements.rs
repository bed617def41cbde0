//! The statements of the outbox.

use time::OffsetDateTime;
use uuid::Uuid;

use crate::sql::{Statement, columns, params};

params! {
    struct ClaimValues<'a> {
        worker: &'a str,
        limit: i64,
        claim_microseconds: i64,
    }
}

columns! {
    struct ClaimedRow {
        event_id: Uuid,
        provisioned_resource_id: Uuid,
        sequence: i64,
        event_type: String,
        occurred_at: OffsetDateTime,
        payload: String,
        traceparent: Option<String>,
        claims: i64,
        attempts: i32,
    }
}

params! {
    struct AcknowledgeValues<'a> {
        event_id: Uuid,
        worker: &'a str,
        number: i64,
    }
}

params! {
    struct DelayValues<'a> {
        event_id: Uuid,
        worker: &'a str,
        number: i64,
        wait_microseconds: i64,
        rejected: bool,
    }
}

params! {
    struct DeadLetterValues<'a> {
        event_id: Uuid,
        worker: &'a str,
        number: i64,
        reason: &'a str,
    }
}

columns! {
    struct DoneRow {
        done: bool,
    }
}

params! {
    struct RedriveValues<'a> {
        id: Uuid,
        skip: bool,
        action: &'a str,
        actor: &'a str,
        correlation_id: &'a str,
    }
}

columns! {
    struct DeadLetterRow {
        event_id: Uuid,
        event_type: String,
        reason: String,
    }
}

params! {
    struct PurgeEventsValues {
        retention_microseconds: i64,
        limit: i64,
    }
}

columns! {
    struct PurgedEventsRow {
        purged: i64,
    }
}

params! {
    struct DeadLetterOfOneValues {
        id: Uuid,
    }
}

params! {
    struct DeadLettersOfProjectValues {
        project_id: Uuid,
        limit: i64,
    }
}

params! {
    struct DeadLettersOfAllValues {
        limit: i64,
    }
}

columns! {
    struct ResourceDeadLetterRow {
        provisioned_resource_id: Uuid,
        event_id: Uuid,
        event_type: String,
        reason: String,
    }
}

columns! {
    struct BacklogRow {
        depth: i64,
        dead_letter: i64,
        oldest: Option<OffsetDateTime>,
    }
}

/// Invariant: events arrive in order. An event is claimed only if every earlier event of its resource is settled:
/// acknowledged or skipped. A settled event is never claimed again.
///
/// Passes the picked ids as an array, as the purges do. In a join the planner would ignore the limit, expect many rows,
/// and read the whole table.
pub(crate) const CLAIM_EVENTS: Statement<ClaimValues<'_>, ClaimedRow> = Statement::new(
    "outbox.claim_events",
    "WITH picked AS MATERIALIZED (
    SELECT e.event_id
    FROM plexsphere.provisioning_outbox AS e
    WHERE e.settled_at IS NULL AND e.dead_letter_reason IS NULL
        AND (e.held_until IS NULL OR e.held_until <= statement_timestamp())
        AND NOT EXISTS (
            SELECT FROM plexsphere.provisioning_outbox AS earlier
            WHERE earlier.provisioned_resource_id = e.provisioned_resource_id
                AND earlier.sequence < e.sequence AND earlier.settled_at IS NULL
        )
    ORDER BY e.position
    LIMIT $2
    FOR NO KEY UPDATE OF e SKIP LOCKED
), claimed AS (
    UPDATE plexsphere.provisioning_outbox AS e
    SET claimed_by = $1, held_until = clock_timestamp() + $3::bigint * interval '1 microsecond',
        claims = e.claims + 1
    WHERE e.event_id = ANY (ARRAY(SELECT event_id FROM picked))
    RETURNING e.event_id, e.provisioned_resource_id, e.sequence, e.event_type, e.occurred_at, e.payload,
        e.traceparent, e.claims, e.attempts, e.position
)
SELECT event_id, provisioned_resource_id, sequence, event_type, occurred_at, payload, traceparent, claims, attempts
FROM claimed ORDER BY position",
);

/// An expired claim is valid until the event is claimed again.
pub(crate) const ACKNOWLEDGE_EVENT: Statement<AcknowledgeValues<'_>, DoneRow> = Statement::new(
    "outbox.acknowledge_event",
    "UPDATE plexsphere.provisioning_outbox
SET settled_at = clock_timestamp(), claimed_by = NULL, held_until = NULL
WHERE event_id = $1 AND claimed_by = $2 AND claims = $3 AND settled_at IS NULL
RETURNING true AS done",
);

/// Only a rejection counts as an attempt.
pub(crate) const DELAY_EVENT: Statement<DelayValues<'_>, DoneRow> = Statement::new(
    "outbox.delay_event",
    "UPDATE plexsphere.provisioning_outbox
SET claimed_by = NULL, held_until = clock_timestamp() + $4::bigint * interval '1 microsecond',
    attempts = attempts + CASE WHEN $5 THEN 1 ELSE 0 END
WHERE event_id = $1 AND claimed_by = $2 AND claims = $3 AND settled_at IS NULL
RETURNING true AS done",
);

pub(crate) const DEAD_LETTER_EVENT: Statement<DeadLetterValues<'_>, DoneRow> = Statement::new(
    "outbox.dead_letter_event",
    "UPDATE plexsphere.provisioning_outbox
SET dead_letter_reason = $4, claimed_by = NULL, held_until = NULL
WHERE event_id = $1 AND claimed_by = $2 AND claims = $3 AND settled_at IS NULL
RETURNING true AS done",
);

/// Only the first unsettled event of a resource can be a dead letter: the later ones wait for it.
pub(crate) const REDRIVE_EVENTS: Statement<RedriveValues<'_>, DeadLetterRow> = Statement::new(
    "outbox.redrive_events",
    "WITH first AS MATERIALIZED (
    SELECT event_id, provisioned_resource_id, event_type, dead_letter_reason
    FROM plexsphere.provisioning_outbox
    WHERE provisioned_resource_id = $1 AND settled_at IS NULL
    ORDER BY sequence LIMIT 1
    FOR NO KEY UPDATE
), resumed AS (
    UPDATE plexsphere.provisioning_outbox AS e
    SET dead_letter_reason = NULL, attempts = 0, settled_at = CASE WHEN $2 THEN clock_timestamp() END
    FROM first
    WHERE e.event_id = first.event_id AND first.dead_letter_reason IS NOT NULL
    RETURNING e.event_id, e.event_type, first.dead_letter_reason AS reason
), line AS (
    INSERT INTO plexsphere.provisioned_resource_audit
        (project_id, provisioned_resource_id, action, actor, correlation_id, previous_phase, new_phase)
    SELECT r.project_id, $1, $3, $4, $5, r.status, r.status
    FROM resumed LEFT JOIN plexsphere.provisioned_resources AS r ON r.id = $1
)
SELECT event_id, event_type, reason FROM resumed",
);

pub(crate) const PURGE_EVENTS: Statement<PurgeEventsValues, PurgedEventsRow> = Statement::new(
    "outbox.purge_events",
    "WITH over AS MATERIALIZED (
    SELECT event_id FROM plexsphere.provisioning_outbox
    WHERE settled_at < statement_timestamp() - $1::bigint * interval '1 microsecond'
    ORDER BY settled_at
    LIMIT $2
    FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM plexsphere.provisioning_outbox WHERE event_id = ANY (ARRAY(SELECT event_id FROM over))
    RETURNING event_id
)
SELECT count(*) AS purged FROM gone",
);

pub(crate) const READ_BACKLOG: Statement<(), BacklogRow> = Statement::new(
    "outbox.backlog",
    "SELECT count(*) AS depth, count(dead_letter_reason) AS dead_letter, min(committed_at) AS oldest
FROM plexsphere.provisioning_outbox WHERE settled_at IS NULL",
);

/// Uses the index that orders the events of a resource.
pub(crate) const DEAD_LETTERS_OF_ONE: Statement<DeadLetterOfOneValues, ResourceDeadLetterRow> =
    Statement::new(
        "outbox.dead_letter_of_one",
        "SELECT provisioned_resource_id, event_id, event_type, dead_letter_reason AS reason
FROM plexsphere.provisioning_outbox
WHERE provisioned_resource_id = $1 AND settled_at IS NULL AND dead_letter_reason IS NOT NULL
ORDER BY sequence LIMIT 1",
    );

/// A resource with an unsettled event is not purged, so the join finds its Project.
pub(crate) const DEAD_LETTERS_OF_PROJECT: Statement<
    DeadLettersOfProjectValues,
    ResourceDeadLetterRow,
> = Statement::new(
    "outbox.dead_letter_of_project",
    "SELECT e.provisioned_resource_id, e.event_id, e.event_type, e.dead_letter_reason AS reason
FROM plexsphere.provisioning_outbox AS e
    JOIN plexsphere.provisioned_resources AS r ON r.id = e.provisioned_resource_id
WHERE r.project_id = $1 AND e.settled_at IS NULL AND e.dead_letter_reason IS NOT NULL
ORDER BY e.provisioned_resource_id LIMIT $2",
);

/// Reads unsettled events only, like the backlog.
pub(crate) const DEAD_LETTERS_OF_ALL: Statement<DeadLettersOfAllValues, ResourceDeadLetterRow> =
    Statement::new(
        "outbox.dead_letter_of_all",
        "SELECT provisioned_resource_id, event_id, event_type, dead_letter_reason AS reason
FROM plexsphere.provisioning_outbox
WHERE settled_at IS NULL AND dead_letter_reason IS NOT NULL
ORDER BY provisioned_resource_id LIMIT $1",
    );
