//! Act: bootstrap tokens, of which at most one per resource can be consumed.
//!
//! Each resource has a ledger row. Issue, close and an agent's consumption lock it before they read the tokens in a
//! separate statement. A statement sees only commits before its start, so a single statement that waited for the lock
//! would decide on stale tokens. The statement that creates the ledger needs no second one: a resource without a ledger
//! has no token.
//!
//! The plaintext exists only in the result of an issue. The table and every statement hold its digest.

mod plaintext;

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use broker_domain::{BootstrapTokenId, ProvisionedResourceId};
use broker_ports::{
    BootstrapToken, Issue, IssueRequest, IssuedToken, PortError, TokenIssuer, TokenState, TtlWindow,
};
use sqlx::PgPool;
use time::OffsetDateTime;
use uuid::Uuid;

pub(crate) use plaintext::digest;

use crate::error::{ClassifyError, invalid_row};
use crate::sql::{Statement, columns, params};
use crate::transaction;

params! {
    #[derive(Clone)]
    struct IssueFirstValues {
        resource: Uuid,
        epoch: i64,
        ordinal: i32,
        sha256: Vec<u8>,
        ttl_seconds: f64,
    }
}

/// Issues the first token of a resource. Returns no row if a ledger exists.
pub(crate) const ISSUE_FIRST: Statement<IssueFirstValues, IssuedRow> = Statement::new(
    "token_issuer.issue.first",
    "WITH opened AS (
        INSERT INTO plexsphere.bootstrap_token_ledgers (provisioned_resource_id, highest_epoch)
        VALUES ($1, $2)
        ON CONFLICT (provisioned_resource_id) DO NOTHING
        RETURNING provisioned_resource_id
    )
    INSERT INTO plexsphere.bootstrap_tokens
        (provisioned_resource_id, ordinal, sha256, issued_at, expires_at)
    SELECT provisioned_resource_id, $3, $4, moment, moment + make_interval(secs => $5)
    FROM opened CROSS JOIN (SELECT clock_timestamp() AS moment) AS now
    RETURNING id, false AS consumed",
);

params! {
    struct AdmitEpochValues {
        resource: Uuid,
        epoch: i64,
    }
}

columns! {
    struct LedgerRow {
        closed: bool,
        highest_epoch: i64,
    }
}

/// Locks the ledger, creates it if needed, and records the epoch.
pub(crate) const ADMIT_EPOCH: Statement<AdmitEpochValues, LedgerRow> = Statement::new(
    "token_issuer.issue.admit",
    "INSERT INTO plexsphere.bootstrap_token_ledgers AS ledger (provisioned_resource_id, highest_epoch)
    VALUES ($1, $2)
    ON CONFLICT (provisioned_resource_id)
        DO UPDATE SET highest_epoch = greatest(ledger.highest_epoch, excluded.highest_epoch)
    RETURNING closed_at IS NOT NULL AS closed, highest_epoch",
);

params! {
    struct IssueTokenValues {
        resource: Uuid,
        ordinal: i32,
        sha256: Vec<u8>,
        ttl_seconds: f64,
    }
}

columns! {
    struct IssuedRow {
        id: Uuid,
        consumed: bool,
    }
}

/// Requires the ledger lock. The count makes the insert run after the update, because the index that allows one open
/// token per resource is checked for each row at once.
pub(crate) const ISSUE_TOKEN: Statement<IssueTokenValues, IssuedRow> = Statement::new(
    "token_issuer.issue",
    "WITH consumed AS (
        SELECT id FROM plexsphere.bootstrap_tokens
        WHERE provisioned_resource_id = $1 AND ordinal = $2 AND consumed_at IS NOT NULL
    ), invalidated AS (
        UPDATE plexsphere.bootstrap_tokens SET invalidated_at = clock_timestamp()
        WHERE provisioned_resource_id = $1 AND consumed_at IS NULL AND invalidated_at IS NULL
            AND NOT EXISTS (SELECT FROM consumed)
        RETURNING id
    ), issued AS (
        INSERT INTO plexsphere.bootstrap_tokens
            (provisioned_resource_id, ordinal, sha256, issued_at, expires_at)
        SELECT $1, $2, $3, moment, moment + make_interval(secs => $4)
        FROM (SELECT clock_timestamp() AS moment) AS now
        WHERE NOT EXISTS (SELECT FROM consumed) AND (SELECT count(*) FROM invalidated) >= 0
        RETURNING id
    )
    SELECT id, false AS consumed FROM issued UNION ALL SELECT id, true FROM consumed",
);

params! {
    struct ResourceIdValues {
        resource: Uuid,
    }
}

pub(crate) const CLOSE_LEDGER: Statement<ResourceIdValues, ()> = Statement::new(
    "token_issuer.close",
    "INSERT INTO plexsphere.bootstrap_token_ledgers AS ledger (provisioned_resource_id, closed_at)
    VALUES ($1, clock_timestamp())
    ON CONFLICT (provisioned_resource_id)
        DO UPDATE SET closed_at = coalesce(ledger.closed_at, excluded.closed_at)",
);

/// Requires the ledger lock.
pub(crate) const INVALIDATE_TOKENS: Statement<ResourceIdValues, ()> = Statement::new(
    "token_issuer.close.invalidate",
    "UPDATE plexsphere.bootstrap_tokens SET invalidated_at = clock_timestamp()
    WHERE provisioned_resource_id = $1 AND consumed_at IS NULL AND invalidated_at IS NULL",
);

params! {
    struct TokenIdValues {
        id: Uuid,
    }
}

columns! {
    struct TokenRow {
        consumed_at: Option<OffsetDateTime>,
        invalidated_at: Option<OffsetDateTime>,
        expires_at: OffsetDateTime,
        expired: bool,
    }
}

pub(crate) const TOKEN_STATE: Statement<TokenIdValues, TokenRow> = Statement::new(
    "token_issuer.state",
    "SELECT consumed_at, invalidated_at, expires_at, expires_at <= clock_timestamp() AS expired
    FROM plexsphere.bootstrap_tokens
    WHERE id = $1",
);

/// One minute to one day.
const TTL_WINDOW: TtlWindow = TtlWindow::new(Duration::from_mins(1), Duration::from_hours(24));

/// Issues tokens from the platform's tables. The database's clock decides expiry.
#[derive(Clone)]
pub struct PgTokenIssuer {
    pool: PgPool,
}

impl PgTokenIssuer {
    /// An issuer for times to live of one minute to one day.
    pub const fn new(pool: PgPool) -> Self {
        Self { pool }
    }

    async fn issue_first(&self, values: IssueFirstValues) -> Result<Option<IssuedRow>, PortError> {
        let mut connection = self.pool.acquire().await.map_uncommitted_error()?;
        ISSUE_FIRST.optional(&mut connection, values).await.map_commit_error()
    }

    /// Issues a token of a resource with a ledger.
    async fn issue_next(
        &self,
        request: &IssueRequest,
        values: IssueFirstValues,
    ) -> Result<IssuedRow, PortError> {
        let IssueFirstValues { resource, epoch, ordinal, sha256, ttl_seconds } = values;
        let mut transaction = transaction::begin(&self.pool).await.map_uncommitted_error()?;
        let values = AdmitEpochValues { resource, epoch };
        let ledger = ADMIT_EPOCH.one(&mut transaction, values).await.map_uncommitted_error()?;
        // Rolls back, so that a refusal leaves neither an epoch nor a ledger.
        if let Err(refusal) = check_epoch(&ledger, request) {
            transaction.roll_back().await;
            return Err(refusal);
        }
        let values = IssueTokenValues { resource, ordinal, sha256, ttl_seconds };
        let issued = ISSUE_TOKEN.one(&mut transaction, values).await.map_uncommitted_error()?;
        transaction.commit().await.map_commit_error()?;
        Ok(issued)
    }
}

impl fmt::Debug for PgTokenIssuer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PgTokenIssuer").finish_non_exhaustive()
    }
}

impl IssuedRow {
    /// The token, and whether it was consumed before.
    fn into_parts(self) -> Result<(BootstrapTokenId, bool), PortError> {
        let Self { id, consumed } = self;
        let token = BootstrapTokenId::new(id);
        Ok((token.map_err(|error| invalid_row("bootstrap_tokens", id, error))?, consumed))
    }
}

impl From<TokenRow> for TokenState {
    fn from(row: TokenRow) -> Self {
        let TokenRow { consumed_at, invalidated_at, expires_at, expired } = row;
        match (consumed_at, invalidated_at) {
            (Some(at), _) => Self::Consumed { at },
            (None, Some(_)) => Self::Invalidated,
            (None, None) if expired => Self::Expired { at: expires_at },
            (None, None) => Self::Live { expires_at },
        }
    }
}

#[async_trait]
impl TokenIssuer for PgTokenIssuer {
    #[tracing::instrument(name = "db.bootstrap_token.issue", skip_all, fields(resource = %request.resource))]
    async fn issue(&self, request: &IssueRequest) -> Result<Issue, PortError> {
        let IssueRequest { resource, ordinal, epoch, ttl, .. } = *request;
        if !TTL_WINDOW.allows(ttl) {
            let TtlWindow { min, max, .. } = TTL_WINDOW;
            return Err(PortError::rejected(format!("ttl is {ttl:?}; use {min:?} to {max:?}")));
        }
        let plaintext = plaintext::random_plaintext()?;

        let values = IssueFirstValues {
            resource: resource.as_uuid(),
            epoch: to_column_type("epoch", epoch.get())?,
            ordinal: to_column_type("ordinal", ordinal.get().into())?,
            sha256: digest(&plaintext),
            ttl_seconds: ttl.as_secs_f64(),
        };
        let row = match self.issue_first(values.clone()).await? {
            Some(first) => first,
            None => self.issue_next(request, values).await?,
        };
        let (id, consumed) = row.into_parts()?;
        if consumed {
            return Ok(Issue::Consumed { id });
        }
        Ok(Issue::Issued(IssuedToken::new(id, BootstrapToken::new(plaintext))))
    }

    #[tracing::instrument(name = "db.bootstrap_token.close", skip_all, fields(%resource))]
    async fn close(&self, resource: ProvisionedResourceId) -> Result<(), PortError> {
        let values = || ResourceIdValues { resource: resource.as_uuid() };
        let mut transaction = transaction::begin(&self.pool).await.map_uncommitted_error()?;
        CLOSE_LEDGER.all(&mut transaction, values()).await.map_uncommitted_error()?;
        INVALIDATE_TOKENS.all(&mut transaction, values()).await.map_uncommitted_error()?;
        transaction.commit().await.map_commit_error()
    }

    #[tracing::instrument(name = "db.bootstrap_token.state", skip_all, fields(%token))]
    async fn state(&self, token: BootstrapTokenId) -> Result<Option<TokenState>, PortError> {
        let mut connection = self.pool.acquire().await.map_uncommitted_error()?;
        let values = TokenIdValues { id: token.as_uuid() };
        let row = TOKEN_STATE.optional(&mut connection, values).await.map_uncommitted_error()?;
        Ok(row.map(TokenState::from))
    }

    async fn ttl_window(&self) -> Result<TtlWindow, PortError> {
        Ok(TTL_WINDOW)
    }
}

/// Whether the locked ledger admits the request's epoch.
fn check_epoch(ledger: &LedgerRow, request: &IssueRequest) -> Result<(), PortError> {
    let LedgerRow { closed, highest_epoch } = *ledger;
    let IssueRequest { resource, epoch, .. } = *request;
    if closed {
        return Err(PortError::rejected(format!("the tokens of {resource} are closed")));
    }
    if u64::try_from(highest_epoch).is_ok_and(|highest| highest > epoch.get()) {
        return Err(PortError::rejected(format!(
            "epoch {epoch} is stale; epoch {highest_epoch} has requested a token of {resource}"
        )));
    }
    Ok(())
}

fn to_column_type<C: TryFrom<u64>>(name: &str, number: u64) -> Result<C, PortError> {
    C::try_from(number).map_err(|_| {
        PortError::rejected(format!("{name} is {number}, which exceeds its column type"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nil_token_id_in_a_row_is_not_a_refusal() {
        let error = IssuedRow { id: Uuid::nil(), consumed: false }.into_parts().unwrap_err();
        assert!(!error.is_refusal() && error.domain().is_some(), "{error:?}");
        assert!(error.to_string().starts_with("plexsphere.bootstrap_tokens"), "{error}");
    }
}
