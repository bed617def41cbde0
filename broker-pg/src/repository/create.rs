//! Persist on Postgres: stores a new resource, in its own or in the host's transaction.

use std::fmt;

use broker_domain::{ClusterId, Error, Event, NotFound, Snapshot};
use broker_ports::{Admitted, Created, PortError, TraceParent, wire};
use serde_json::Value;
use sqlx::types::Json;
use sqlx::{Executor, PgConnection};
use time::OffsetDateTime;
use uuid::Uuid;

use super::read::{GET_BY_REQUEST, RequestValues};
use super::row::substrate_document;
use super::shared_config::register;
use crate::error::{ClassifyError, LostResponse, classify, violated_constraint};
use crate::sql::{Statement, columns, params};
use crate::store::PgStore;
use crate::transaction;
use crate::values::to_i64;

params! {
    struct CreateValues<'a> {
        id: Uuid,
        resource_id: Uuid,
        project_id: Uuid,
        blueprint_version_id: Uuid,
        cloud_credential_id: Uuid,
        status: &'a str,
        xr_name: &'a str,
        created_at: OffsetDateTime,
        parameters: &'a str,
        mesh_role: &'a str,
        on_failure: &'a str,
        token_ordinal: i32,
        substrate: Json<Value>,
        phase_entered_at: OffsetDateTime,
        event_sequence: i64,
        version: i64,
        request_id: Option<&'a str>,
        request_hash: Option<&'a [u8]>,
        event_id: Option<Uuid>,
        event_type: Option<&'a str>,
        occurred_at: Option<OffsetDateTime>,
        payload: Option<&'a str>,
        action: &'a str,
        actor: &'a str,
        correlation_id: &'a str,
        event_data: Option<&'a str>,
        cluster_id: Option<&'a str>,
        traceparent: Option<&'a str>,
    }
}

columns! {
    /// The stored row; none if the request id was used before.
    struct CreateRow {
        id: Uuid,
    }
}

/// Stores nothing if the request id is taken. Waits for an open transaction that inserts that id. Triggers add
/// the schedule row and send the wake-up.
pub(crate) const CREATE_RESOURCE: Statement<CreateValues<'_>, CreateRow> = Statement::new(
    "repository.create",
    "WITH written AS (
    INSERT INTO plexsphere.provisioned_resources
        (id, resource_id, project_id, blueprint_version_id, cloud_credential_id, status, xr_name, created_at,
         parameters, mesh_role, on_failure, token_ordinal, substrate, phase_entered_at, event_sequence,
         version, request_id, request_hash, cluster_id)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9::text::json, $10, $11, $12, $13, $14, $15, $16, $17, $18, $27)
    ON CONFLICT ON CONSTRAINT provisioned_resources_project_id_request_id_key DO NOTHING
    RETURNING id, project_id, version, status
), stamped AS MATERIALIZED (
    SELECT id, project_id, version, status, clock_timestamp() AS at FROM written
), token AS (
    INSERT INTO plexsphere.provisioned_resource_outbox_token (provisioned_resource_id, event_type, version)
    SELECT id, $20, version FROM stamped WHERE $19::uuid IS NOT NULL
), event AS (
    INSERT INTO plexsphere.provisioning_outbox
        (event_id, provisioned_resource_id, sequence, event_type, occurred_at, payload, traceparent, committed_at)
    SELECT $19, id, $15, $20, $21::timestamptz, $22, $28, at FROM stamped WHERE $19::uuid IS NOT NULL
), line AS (
    INSERT INTO plexsphere.provisioned_resource_audit
        (project_id, provisioned_resource_id, action, actor, correlation_id, new_phase, version, event_data, at)
    SELECT project_id, id, $23, $24, $25, status, version, $26, at FROM stamped
)
SELECT id FROM written",
);

/// Stores an admitted resource in the host's transaction. Row, event, audit line, schedule and wake-up become visible
/// when the host commits.
///
/// It works in a savepoint: the host's transaction remains usable after any result except a lost connection.
///
/// ```no_run
/// # use broker_ports::{Admitted, PortError};
/// # async fn order(pool: sqlx::PgPool, admitted: Admitted) -> Result<(), Box<dyn std::error::Error>> {
/// let mut transaction = pool.begin().await?;
/// sqlx::query("INSERT INTO orders DEFAULT VALUES").execute(&mut *transaction).await?;
/// let created = broker_pg::create_in(&mut transaction, &admitted).await?;
/// transaction.commit().await?;
/// # let _ = created;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// As [`Repository::create`](broker_ports::Repository::create), but never `Unknown`, because nothing is committed
/// here. `Rejected` outside a transaction.
pub async fn create_in(
    connection: &mut PgConnection,
    admitted: &Admitted,
) -> Result<Created, PortError> {
    // A named savepoint, not the driver's transaction depth: the host may have started its transaction with a
    // statement that the driver did not see.
    connection.execute("SAVEPOINT plexsphere_provisioning_broker").await.map_uncommitted_error()?;
    let created = create_with_user(connection, admitted).await;
    let end_savepoint = match &created {
        Ok(Created::Stored) => "RELEASE SAVEPOINT plexsphere_provisioning_broker",
        Ok(Created::Replayed(_) | Created::Conflict) | Err(_) => {
            "ROLLBACK TO SAVEPOINT plexsphere_provisioning_broker; \
             RELEASE SAVEPOINT plexsphere_provisioning_broker"
        }
    };
    let savepoint_ended =
        sqlx::raw_sql(end_savepoint).execute(&mut *connection).await.map_uncommitted_error();
    let created = created?;
    savepoint_ended?;
    Ok(created)
}

/// Creates the resource, and registers it as a user of its shared ProviderConfig. The caller ends the transaction.
async fn create_with_user(
    connection: &mut PgConnection,
    admitted: &Admitted,
) -> Result<Created, PortError> {
    let created = create(connection, admitted, LostResponse::Harmless).await?;
    if created == Created::Stored {
        register(connection, admitted, LostResponse::Harmless).await?;
    }
    Ok(created)
}

impl PgStore {
    pub(super) async fn insert_new(&self, admitted: &Admitted) -> Result<Created, PortError> {
        if admitted.shared_config().is_some() {
            let mut transaction = transaction::begin(&self.pool).await.map_uncommitted_error()?;
            let created = create_with_user(&mut transaction, admitted).await;
            if matches!(created, Ok(Created::Stored)) {
                transaction.commit().await.map_commit_error()?;
            } else {
                transaction.roll_back().await;
            }
            return created;
        }
        create(&mut *self.connection().await?, admitted, LostResponse::MayHaveHappened).await
    }
}

/// Attempts to store a request id that is taken at the insert but free at the lookup: a purge ran in between.
const MAX_ATTEMPTS: u32 = 3;

pub(super) async fn create(
    connection: &mut PgConnection,
    admitted: &Admitted,
    lost_response: LostResponse,
) -> Result<Created, PortError> {
    for _ in 0..MAX_ATTEMPTS {
        if insert(connection, admitted, lost_response).await? {
            return Ok(Created::Stored);
        }
        let Some((request, hash)) = admitted.request() else { continue };
        let values = RequestValues {
            project_id: admitted.change().resource().project_id().as_uuid(),
            request_id: request.as_str(),
        };
        if let Some(first) =
            GET_BY_REQUEST.optional(connection, values).await.map_uncommitted_error()?
        {
            let (resource, stored) = first.into_parts()?;
            return Ok(if stored == Some(*hash) {
                Created::Replayed(Box::new(resource))
            } else {
                Created::Conflict
            });
        }
    }
    Err(PortError::transient("the request id is taken and purged repeatedly"))
}

async fn insert(
    connection: &mut PgConnection,
    admitted: &Admitted,
    lost_response: LostResponse,
) -> Result<bool, PortError> {
    let resource = admitted.change().resource();
    let audit = admitted.audit();
    let event = EventValues::new(admitted.change().event())?;
    // A new resource has no value in the omitted columns.
    let Snapshot {
        phase,
        xr_name,
        created_at,
        parameters,
        mesh_role,
        on_failure,
        token_ordinal,
        substrate,
        phase_entered_at,
        event_sequence,
        version,
        ..
    } = &resource.snapshot();
    let values = CreateValues {
        id: resource.id().as_uuid(),
        resource_id: resource.resource_id().as_uuid(),
        project_id: resource.project_id().as_uuid(),
        blueprint_version_id: resource.blueprint_version_id().as_uuid(),
        cloud_credential_id: resource.cloud_credential_id().as_uuid(),
        status: phase,
        xr_name,
        created_at: *created_at,
        parameters: parameters.as_json(),
        mesh_role,
        on_failure,
        token_ordinal: i32::try_from(*token_ordinal).unwrap_or(i32::MAX),
        substrate: substrate_document(substrate),
        phase_entered_at: *phase_entered_at,
        event_sequence: to_i64(*event_sequence),
        version: to_i64(*version),
        request_id: admitted.request().map(|(request, _)| request.as_str()),
        request_hash: admitted.request().map(|(_, hash)| &hash.as_bytes()[..]),
        event_id: event.id,
        event_type: event.event_type,
        occurred_at: event.occurred_at,
        payload: event.payload.as_deref(),
        action: audit.action.as_str(),
        actor: audit.attribution.actor.as_str(),
        correlation_id: audit.attribution.correlation_id.as_str(),
        event_data: audit.event_data.as_deref(),
        cluster_id: resource.substrate().cluster().map(ClusterId::as_str),
        traceparent: admitted.attribution().traceparent.as_ref().map(TraceParent::as_str),
    };
    match CREATE_RESOURCE.optional(connection, values).await {
        Ok(stored) => Ok(stored.is_some_and(|CreateRow { id }| id == resource.id().as_uuid())),
        Err(error) => Err(match constraint_error(&error, admitted, &event) {
            Some(refusal) => refusal,
            None => classify(error, lost_response),
        }),
    }
}

/// A missing reference is a refusal of the declaration. A taken id is not, because the broker minted the id.
fn constraint_error(
    error: &sqlx::Error,
    admitted: &Admitted,
    event: &EventValues,
) -> Option<PortError> {
    let resource = admitted.change().resource();
    let missing = match violated_constraint(error)? {
        "provisioned_resources_project_id_fkey" => {
            Error::invalid("project_id", "names no existing project")
        }
        "provisioned_resources_resource_id_fkey" => {
            Error::invalid("resource_id", "names no existing resource")
        }
        "provisioned_resources_blueprint_version_id_fkey" => {
            resource.blueprint_version_id().not_found()
        }
        "provisioned_resources_cloud_credential_id_fkey" => {
            resource.cloud_credential_id().not_found()
        }
        // The second constraint: a resource was purged before its events.
        "provisioned_resources_pkey"
        | "provisioning_outbox_provisioned_resource_id_sequence_key" => {
            return Some(id_taken("id", resource.id()));
        }
        "provisioning_outbox_pkey" => return Some(event.id_taken()),
        _ => return None,
    };
    Some(missing.into())
}

fn id_taken(field: &str, id: impl fmt::Display) -> PortError {
    PortError::rejected("a new id is taken")
        .with_source(Error::invalid(field, format!("{id} is taken; use a new one")))
}

/// An event as column values; all `None` for a change without an event.
pub(super) struct EventValues {
    pub(super) id: Option<Uuid>,
    pub(super) event_type: Option<&'static str>,
    pub(super) occurred_at: Option<OffsetDateTime>,
    pub(super) payload: Option<String>,
}

impl EventValues {
    pub(super) fn new(event: Option<&Event>) -> Result<Self, PortError> {
        let payload = event.map(wire::encode).map(String::from_utf8).transpose();
        Ok(Self {
            id: event.map(|event| event.id().as_uuid()),
            event_type: event.map(|event| event.event_type().as_str()),
            occurred_at: event.map(Event::occurred_at),
            payload: payload.map_err(|error| {
                PortError::rejected("the event is not encoded as UTF-8").with_source(error)
            })?,
        })
    }

    pub(super) fn id_taken(&self) -> PortError {
        id_taken("event_id", self.id.unwrap_or_default())
    }
}
