//! The audit on Postgres: append-only, except that free text can be blanked.

use async_trait::async_trait;
use broker_domain::{Error, Phase, ProjectId, ProvisionedResourceId, Version};
use broker_ports::{
    Actor, Attribution, AuditAction, AuditEntry, AuditRecord, AuditSink, CorrelationId, LeaseEpoch,
    PortError,
};
use sqlx::PgConnection;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::error::{ClassifyError, invalid_row};
use crate::sql::{Statement, columns, params};
use crate::store::PgStore;
use crate::values::to_u64;

params! {
    struct RecordValues<'a> {
        project_id: Option<Uuid>,
        provisioned_resource_id: Option<Uuid>,
        action: &'a str,
        actor: &'a str,
        correlation_id: &'a str,
        previous_phase: Option<&'a str>,
        new_phase: Option<&'a str>,
        failed_step: Option<&'a str>,
        event_data: Option<&'a str>,
    }
}

columns! {
    struct SequenceRow {
        sequence: i64,
    }
}

params! {
    struct HistoryValues {
        id: Uuid,
    }
}

columns! {
    struct AuditRow {
        sequence: i64,
        at: OffsetDateTime,
        project_id: Option<Uuid>,
        provisioned_resource_id: Option<Uuid>,
        action: String,
        actor: String,
        correlation_id: String,
        previous_phase: Option<String>,
        new_phase: Option<String>,
        failed_step: Option<String>,
        version: Option<i64>,
        epoch: Option<i64>,
        event_data: Option<String>,
    }
}

params! {
    struct ScrubValues<'a> {
        id: Uuid,
        action: &'a str,
        actor: &'a str,
        correlation_id: &'a str,
    }
}

columns! {
    struct ScrubRow {
        blanked: i64,
    }
}

macro_rules! audit_columns {
    () => {
        "sequence, at, project_id, provisioned_resource_id, action, actor, correlation_id, previous_phase,
    new_phase, failed_step, version, epoch, event_data"
    };
}

pub(crate) const RECORD_AUDIT: Statement<RecordValues<'_>, SequenceRow> = Statement::new(
    "audit.record",
    "INSERT INTO plexsphere.provisioned_resource_audit
    (project_id, provisioned_resource_id, action, actor, correlation_id, previous_phase, new_phase,
     failed_step, event_data)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
RETURNING sequence",
);

pub(crate) const READ_HISTORY: Statement<HistoryValues, AuditRow> = Statement::new(
    "repository.history",
    concat!(
        "SELECT ",
        audit_columns!(),
        "\nFROM plexsphere.provisioned_resource_audit WHERE provisioned_resource_id = $1 ORDER BY sequence"
    ),
);

pub(crate) const READ_AUDIT_TRAIL: Statement<(), AuditRow> = Statement::new(
    "audit.trail",
    concat!(
        "SELECT ",
        audit_columns!(),
        "\nFROM plexsphere.provisioned_resource_audit ORDER BY sequence"
    ),
);

/// The audit line of a scrub copies Project and phase from the last line: the resource may be purged.
pub(crate) const SCRUB_AUDIT: Statement<ScrubValues<'_>, ScrubRow> = Statement::new(
    "repository.scrub_audit",
    "WITH known AS (
    SELECT project_id, new_phase FROM plexsphere.provisioned_resource_audit
    WHERE provisioned_resource_id = $1
    ORDER BY sequence DESC LIMIT 1
), blanked AS (
    UPDATE plexsphere.provisioned_resource_audit SET event_data = NULL
    WHERE provisioned_resource_id = $1 AND event_data IS NOT NULL
    RETURNING sequence
), line AS (
    INSERT INTO plexsphere.provisioned_resource_audit
        (project_id, provisioned_resource_id, action, actor, correlation_id, previous_phase, new_phase)
    SELECT project_id, $1, $2, $3, $4, new_phase, new_phase FROM known
)
SELECT count(*) AS blanked FROM blanked",
);

#[async_trait]
impl AuditSink for PgStore {
    #[tracing::instrument(name = "db.provisioned_resource_audit.record", skip_all, fields(action = %entry.action))]
    async fn record(&self, entry: &AuditEntry) -> Result<(), PortError> {
        record(&mut *self.connection().await?, entry).await.map_commit_error()
    }
}

/// Appends one line. It is durable once its statement or the surrounding transaction commits.
pub(crate) async fn record(
    connection: &mut PgConnection,
    entry: &AuditEntry,
) -> Result<(), sqlx::Error> {
    let values = RecordValues {
        project_id: entry.project.map(|project| project.as_uuid()),
        provisioned_resource_id: entry.resource.map(|resource| resource.as_uuid()),
        action: entry.action.as_str(),
        actor: entry.attribution.actor.as_str(),
        correlation_id: entry.attribution.correlation_id.as_str(),
        previous_phase: entry.previous_phase.map(Phase::as_str),
        new_phase: entry.new_phase.map(Phase::as_str),
        failed_step: entry.failed_step.map(Phase::as_str),
        event_data: entry.event_data.as_deref(),
    };
    let SequenceRow { sequence } = RECORD_AUDIT.one(connection, values).await?;
    tracing::trace!(sequence, "recorded");
    Ok(())
}

impl PgStore {
    /// The whole audit, oldest line first, with and without a resource. For tools that check or export the audit. The
    /// audit grows without bound, so do not read it per request.
    ///
    /// # Errors
    ///
    /// As [`Repository`](broker_ports::Repository).
    pub async fn audit_trail(&self) -> Result<Vec<AuditRecord>, PortError> {
        let mut connection = self.connection().await?;
        let rows = READ_AUDIT_TRAIL.all(&mut connection, ()).await.map_uncommitted_error()?;
        rows.into_iter().map(AuditRow::into_record).collect()
    }

    pub(crate) async fn select_history(
        &self,
        id: ProvisionedResourceId,
    ) -> Result<Vec<AuditRecord>, PortError> {
        let mut connection = self.connection().await?;
        let values = HistoryValues { id: id.as_uuid() };
        let rows = READ_HISTORY.all(&mut connection, values).await.map_uncommitted_error()?;
        rows.into_iter().map(AuditRow::into_record).collect()
    }

    pub(crate) async fn blank_event_data(
        &self,
        id: ProvisionedResourceId,
        by: &Attribution,
    ) -> Result<u64, PortError> {
        let values = ScrubValues {
            id: id.as_uuid(),
            action: AuditAction::AuditScrubbed.as_str(),
            actor: by.actor.as_str(),
            correlation_id: by.correlation_id.as_str(),
        };
        let mut connection = self.connection().await?;
        let ScrubRow { blanked } =
            SCRUB_AUDIT.one(&mut connection, values).await.map_commit_error()?;
        Ok(blanked.unsigned_abs())
    }
}

impl AuditRow {
    fn into_record(self) -> Result<AuditRecord, PortError> {
        let sequence = self.sequence;
        self.parse().map_err(|error| {
            invalid_row("provisioned_resource_audit", format_args!("line {sequence}"), error)
        })
    }

    fn parse(self) -> Result<AuditRecord, Error> {
        let Self {
            sequence,
            at,
            project_id,
            provisioned_resource_id,
            action,
            actor,
            correlation_id,
            previous_phase,
            new_phase,
            failed_step,
            version,
            epoch,
            event_data,
        } = self;
        let attribution = Attribution::new(Actor::new(actor)?, CorrelationId::new(correlation_id)?);
        let phase = |text: Option<String>| text.as_deref().map(Phase::try_from).transpose();
        let mut entry = AuditEntry::new(AuditAction::try_from(action.as_str())?, attribution);
        entry.project = project_id.map(ProjectId::new).transpose()?;
        entry.resource = provisioned_resource_id.map(ProvisionedResourceId::new).transpose()?;
        entry.previous_phase = phase(previous_phase)?;
        entry.new_phase = phase(new_phase)?;
        entry.failed_step = phase(failed_step)?;
        entry.event_data = event_data;
        let count = |field, count: Option<i64>| count.map(|count| to_u64(field, count)).transpose();
        let version = count("version", version)?.map(Version::new).transpose()?;
        let epoch = count("epoch", epoch)?.map(LeaseEpoch::new);
        Ok(AuditRecord::new(to_u64("sequence", sequence)?, at, version, epoch, entry))
    }
}
