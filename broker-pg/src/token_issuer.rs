//! Stage 5, act: bootstrap tokens, of which at most one per resource can be consumed.
//!
//! Each resource has a ledger row. Issue, close and an agent's consumption lock it before they look at the
//! tokens, and look with a statement of their own after that: a statement sees what was committed when it
//! began, so one that had to wait for the lock would decide on tokens that are no longer true.
//!
//! A plaintext exists in the answer to an issue and nowhere else. Its digest is what the table, and every
//! statement on the way there, holds.

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

use crate::error::Classified;
use crate::transaction;

/// Locks the ledger, which is there from the first request on, and puts the epoch into it.
const ADMIT_EPOCH: &str = "\
INSERT INTO plexsphere.bootstrap_token_ledgers AS ledger (provisioned_resource_id, highest_epoch)
VALUES ($1, $2)
ON CONFLICT (provisioned_resource_id)
    DO UPDATE SET highest_epoch = greatest(ledger.highest_epoch, excluded.highest_epoch)
RETURNING closed_at IS NOT NULL, highest_epoch";

/// Only for whoever holds the ledger. The count makes the insert wait for the update: the index that allows
/// one open token per resource is checked at once.
const ISSUE_TOKEN: &str = "\
WITH consumed AS (
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
SELECT id, false FROM issued UNION ALL SELECT id, true FROM consumed";

/// Locks the ledger and closes it.
const CLOSE_LEDGER: &str = "\
INSERT INTO plexsphere.bootstrap_token_ledgers AS ledger (provisioned_resource_id, closed_at)
VALUES ($1, clock_timestamp())
ON CONFLICT (provisioned_resource_id)
    DO UPDATE SET closed_at = coalesce(ledger.closed_at, excluded.closed_at)";

/// Only for whoever holds the ledger.
const INVALIDATE_TOKENS: &str = "\
UPDATE plexsphere.bootstrap_tokens SET invalidated_at = clock_timestamp()
WHERE provisioned_resource_id = $1 AND consumed_at IS NULL AND invalidated_at IS NULL";

const TOKEN_STATE: &str = "\
SELECT consumed_at, invalidated_at, expires_at, expires_at <= clock_timestamp()
FROM plexsphere.bootstrap_tokens
WHERE id = $1";

/// A minute to a day.
const DEFAULT_WINDOW: TtlWindow =
    TtlWindow { min: Duration::from_mins(1), max: Duration::from_hours(24) };

/// Issues tokens from the neighbours' tables. The database's clock decides what has expired.
#[derive(Clone)]
pub struct PgTokenIssuer {
    pool: PgPool,
    window: TtlWindow,
}

impl PgTokenIssuer {
    /// An issuer that allows times to live of a minute to a day.
    pub fn new(pool: PgPool) -> Self {
        Self { pool, window: DEFAULT_WINDOW }
    }

    /// With other times to live.
    #[must_use]
    pub const fn with_ttl_window(mut self, window: TtlWindow) -> Self {
        self.window = window;
        self
    }
}

impl fmt::Debug for PgTokenIssuer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PgTokenIssuer").field("window", &self.window).finish_non_exhaustive()
    }
}

/// Consumed at, invalidated at, expires at, and whether that is over.
pub(crate) type TokenRow = (Option<OffsetDateTime>, Option<OffsetDateTime>, OffsetDateTime, bool);

/// What a stored token is now.
pub(crate) fn state_of(row: TokenRow) -> TokenState {
    match row {
        (Some(at), _, _, _) => TokenState::Consumed { at },
        (None, Some(_), _, _) => TokenState::Invalidated,
        (None, None, at, true) => TokenState::Expired { at },
        (None, None, expires_at, false) => TokenState::Live { expires_at },
    }
}

#[async_trait]
impl TokenIssuer for PgTokenIssuer {
    async fn issue(&self, request: &IssueRequest) -> Result<Issue, PortError> {
        let IssueRequest { resource, ordinal, epoch, ttl } = *request;
        if !self.window.allows(ttl) {
            let TtlWindow { min, max } = self.window;
            return Err(PortError::rejected(format!("ttl is {ttl:?}; use {min:?} to {max:?}")));
        }
        let plaintext = plaintext::random()?;

        let mut transaction = transaction::begin(&self.pool).await?;
        let (closed, highest): (bool, i64) = sqlx::query_as(ADMIT_EPOCH)
            .bind(resource.as_uuid())
            .bind(fits::<i64>("epoch", epoch.get())?)
            .fetch_one(&mut *transaction)
            .await
            .harmless()?;
        // A refusal rolls the transaction back, so that it leaves neither an epoch nor a ledger.
        if closed {
            return Err(PortError::rejected(format!("the tokens of {resource} are closed")));
        }
        if u64::try_from(highest).is_ok_and(|highest| highest > epoch.get()) {
            return Err(PortError::rejected(format!(
                "epoch {epoch} is over; epoch {highest} has asked for a token of {resource}"
            )));
        }
        let (id, consumed): (Uuid, bool) = sqlx::query_as(ISSUE_TOKEN)
            .bind(resource.as_uuid())
            .bind(fits::<i32>("ordinal", ordinal.get().into())?)
            .bind(digest(&plaintext).as_slice())
            .bind(ttl.as_secs_f64())
            .fetch_one(&mut *transaction)
            .await
            .harmless()?;
        let id = BootstrapTokenId::new(id)?;
        transaction.commit().await.committing()?;

        if consumed {
            return Ok(Issue::Consumed { id });
        }
        Ok(Issue::Issued(IssuedToken { id, plaintext: BootstrapToken::new(plaintext) }))
    }

    async fn close(&self, resource: ProvisionedResourceId) -> Result<(), PortError> {
        let mut transaction = transaction::begin(&self.pool).await?;
        for statement in [CLOSE_LEDGER, INVALIDATE_TOKENS] {
            sqlx::query(statement)
                .bind(resource.as_uuid())
                .execute(&mut *transaction)
                .await
                .harmless()?;
        }
        transaction.commit().await.committing()
    }

    async fn state(&self, token: BootstrapTokenId) -> Result<Option<TokenState>, PortError> {
        let row: Option<TokenRow> = sqlx::query_as(TOKEN_STATE)
            .bind(token.as_uuid())
            .fetch_optional(&self.pool)
            .await
            .harmless()?;
        Ok(row.map(state_of))
    }

    async fn ttl_window(&self) -> Result<TtlWindow, PortError> {
        Ok(self.window)
    }
}

/// A number as its signed column holds it.
fn fits<C: TryFrom<u64>>(name: &str, number: u64) -> Result<C, PortError> {
    C::try_from(number).map_err(|_| {
        PortError::rejected(format!("{name} is {number}; its column holds no such number"))
    })
}
