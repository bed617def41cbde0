//! The store: from a connection string to a pool whose schema is the one of this release.

use std::net::IpAddr;
use std::str::FromStr;
use std::time::Duration;

use broker_app::BrokerConfig;
use broker_pg::catalog::{self, BlueprintVersion, ImportError, Source};
use broker_pg::{migrate, resilient};
use broker_ports::Deadlines;
use broker_render::catalog::Files;
use secrecy::ExposeSecret;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions, PgSslMode};
use sqlx::{Connection, PgConnection, PgPool};
use tokio::time::timeout;

use crate::catalog::{Catalog, Checked};
use crate::composition::Publication;
use crate::failure::Failure;
use crate::settings::{Dsn, SettingsError};

/// A server that is not there is waited for no longer than this.
const CONNECT_WITHIN: Duration = Deadlines::DEFAULT.store;

/// A pool on a schema that this release can use.
pub(super) async fn current(dsn: &Dsn) -> Result<PgPool, Failure> {
    let pool = connect(dsn).await?;
    let checked = timeout(CONNECT_WITHIN, migrate::ensure_current(&pool)).await;
    checked.map_err(|_| unusable(NoConnection::Silent))?.map_err(unusable)?;
    Ok(pool)
}

/// A pool, whatever the schema is.
pub(super) async fn connect(dsn: &Dsn) -> Result<PgPool, Failure> {
    // What the parser has to say may repeat a part of the string.
    let url = dsn.secret().expose_secret();
    let options = PgConnectOptions::from_str(url)
        .map_err(|_| SettingsError::unreadable_dsn())?
        .application_name("provisioning-broker");
    if !is_protected(url, &options) {
        return Err(SettingsError::unprotected_dsn().into());
    }
    // A pool only ever says that it ran out of time; a connection says why there is none.
    let first = async { PgConnection::connect_with(&options).await?.close().await };
    timeout(CONNECT_WITHIN, first)
        .await
        .map_err(|_| unusable(NoConnection::Silent))?
        .map_err(|error| unusable(NoConnection::from(error)))?;
    let pool = resilient(PgPoolOptions::new());
    let connections = BrokerConfig::default().connections();
    let pool = pool.max_connections(connections).acquire_timeout(CONNECT_WITHIN);
    Ok(pool.connect_lazy_with(options))
}

/// Whether the connection protects the password on its way, or the operator decided otherwise. Without an `sslmode` the driver
/// would use a connection without TLS, or with a certificate of anybody, if the server offers nothing better.
fn is_protected(url: &str, options: &PgConnectOptions) -> bool {
    let host = options.get_host().trim_matches(['[', ']']);
    let is_local = options.get_socket().is_some()
        || host == "localhost"
        || host.parse().is_ok_and(|address: IpAddr| address.is_loopback());
    let is_verified = matches!(options.get_ssl_mode(), PgSslMode::VerifyCa | PgSslMode::VerifyFull);
    let query = url.split_once('?').map_or("", |(_, query)| query);
    let mut names = query.split('&').filter_map(|pair| pair.split('=').next());
    is_local || is_verified || names.any(|name| matches!(name, "sslmode" | "ssl-mode"))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remote_server_needs_tls_that_is_verified_or_a_decision() {
        for (url, protected) in [
            ("postgres://broker@localhost/broker", true),
            ("postgres://broker@127.0.0.1/broker", true),
            ("postgres://broker@[::1]:5433/broker", true),
            ("postgres://broker@%2Fvar%2Frun%2Fpostgresql/broker", true),
            ("postgres:///broker?host=/var/run/postgresql", true),
            ("postgres://broker@db.example.org/broker", false),
            ("postgres://broker@10.0.0.7/broker?application_name=sslmode", false),
            ("postgres://broker@localhost.example.org/broker", false),
            ("postgres://broker@db.example.org/broker?sslmode=verify-full", true),
            ("postgres://broker@db.example.org/broker?ssl-mode=require", true),
            ("postgres://broker@db.example.org/broker?application_name=b&sslmode=disable", true),
        ] {
            let options = PgConnectOptions::from_str(url).unwrap();
            assert_eq!(is_protected(url, &options), protected, "{url}");
        }
    }
}
