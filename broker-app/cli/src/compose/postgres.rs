//! The store: from a connection string to a pool whose schema is the one of this release.

use std::str::FromStr;
use std::time::Duration;

use broker_pg::catalog::{self, BlueprintVersion, ImportError, Source};
use broker_pg::{ask_after_rest, migrate};
use broker_render::catalog::Files;
use secrecy::ExposeSecret;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{Connection, PgConnection, PgPool};
use tokio::time::timeout;

use super::DEADLINES;
use crate::catalog::{Catalog, Checked};
use crate::composition::Publication;
use crate::failure::Failure;
use crate::settings::{Dsn, SettingsError};

/// One for each pass that runs at once, and some for sweep, relay, notifications and purge.
const MOST_CONNECTIONS: u32 = 20;

/// A server that is not there is waited for no longer than this.
const CONNECT_WITHIN: Duration = DEADLINES.store;

/// A pool on a schema that this release can use.
pub(super) async fn current(dsn: &Dsn) -> Result<PgPool, Failure> {
    let pool = connect(dsn).await?;
    migrate::ensure_current(&pool).await.map_err(unusable)?;
    Ok(pool)
}

/// A pool, whatever the schema is.
pub(super) async fn connect(dsn: &Dsn) -> Result<PgPool, Failure> {
    // What the parser has to say may repeat a part of the string.
    let options = PgConnectOptions::from_str(dsn.secret().expose_secret())
        .map_err(|_| SettingsError::unreadable_dsn())?
        .application_name("provisioning-broker");
    // A pool only ever says that it ran out of time; a connection says why there is none.
    let first = timeout(CONNECT_WITHIN, PgConnection::connect_with(&options)).await;
    let first = first
        .map_err(|_| unusable(NoConnection::Silent))?
        .map_err(|error| unusable(NoConnection::from(error)))?;
    first.close().await.map_err(unusable)?;
    let pool = ask_after_rest(PgPoolOptions::new());
    let pool = pool.max_connections(MOST_CONNECTIONS).acquire_timeout(CONNECT_WITHIN);
    Ok(pool.connect_lazy_with(options))
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
enum NoConnection {
    #[error("no answer within {}", humantime::format_duration(CONNECT_WITHIN))]
    Silent,
    /// The server's own words, without the line of its source that the driver adds.
    #[error("{0}")]
    Refused(String),
    #[error(transparent)]
    Failed(sqlx::Error),
}

impl From<sqlx::Error> for NoConnection {
    fn from(error: sqlx::Error) -> Self {
        if let sqlx::Error::Database(refusal) = &error {
            return Self::Refused(refusal.message().to_owned());
        }
        Self::Failed(error)
    }
}

/// Publishes a catalog.
pub(super) async fn import(pool: &PgPool, catalog: &Catalog) -> Result<Vec<Publication>, Failure> {
    let sources: Vec<_> = catalog
        .blueprints
        .iter()
        .map(|Checked { blueprint, metadata, xrd, composition }| {
            Source::new(&blueprint.slug, Files { metadata, xrd, composition })
        })
        .collect();
    let imported = catalog::import(pool, &sources).await.map_err(|error| {
        if let ImportError::Store(failed) = error {
            unusable(failed)
        } else {
            Failure::CatalogRefused { source: error.into() }
        }
    })?;
    let publication = |new| {
        move |BlueprintVersion { id, slug, version, .. }: BlueprintVersion| Publication {
            slug,
            version,
            id,
            new,
        }
    };
    let published = imported.published.into_iter().map(publication(true));
    let mut all: Vec<_> =
        published.chain(imported.unchanged.into_iter().map(publication(false))).collect();
    all.sort_by(|one, other| one.slug.cmp(&other.slug));
    Ok(all)
}

/// Postgres is there or not, but cannot be used as it is.
pub(super) fn unusable(error: impl std::error::Error + Send + Sync + 'static) -> Failure {
    Failure::Compose { what: "Postgres", source: error.into() }
}
