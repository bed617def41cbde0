//! The store: connects a pool and checks its schema.

use std::net::IpAddr;
use std::str::FromStr;
use std::time::Duration;

use broker_app::BrokerConfig;
use broker_pg::catalog::{self, BlueprintVersion, ImportError, Source};
use broker_pg::{migrate, test_idle_connections};
use broker_ports::Deadlines;
use broker_render::catalog::Files;
use secrecy::ExposeSecret;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions, PgSslMode};
use sqlx::{Connection, PgConnection, PgPool};
use tokio::time::timeout;

use crate::catalog::{Catalog, CheckedBlueprint};
use crate::wiring::Publication;
use crate::failure::Failure;
use crate::settings::{Dsn, SettingsError};
use crate::wiring::Publication;

const CONNECT_TIMEOUT: Duration = Deadlines::DEFAULT.store;

/// A pool, after a check that this release supports the schema.
pub(super) async fn connect_checked(dsn: &Dsn) -> Result<PgPool, Failure> {
    let pool = connect(dsn).await?;
    let checked = timeout(CONNECT_TIMEOUT, migrate::ensure_current(&pool)).await;
    checked.map_err(|_| unusable(ConnectError::Timeout))?.map_err(unusable)?;
    Ok(pool)
}

/// A pool without a check of the schema.
pub(super) async fn connect(dsn: &Dsn) -> Result<PgPool, Failure> {
    // Drops the parser's message: it may quote a part of the string.
    let url = dsn.secret().expose_secret();
    let options = PgConnectOptions::from_str(url)
        .map_err(|_| SettingsError::unreadable_dsn())?
        .application_name("provisioning-broker");
    if !is_protected(url, &options) {
        return Err(SettingsError::unprotected_dsn().into());
    }
    // A pool reports only a timeout; a single connection reports the cause.
    let probe = async { PgConnection::connect_with(&options).await?.close().await };
    timeout(CONNECT_TIMEOUT, probe)
        .await
        .map_err(|_| unusable(ConnectError::Timeout))?
        .map_err(|error| unusable(ConnectError::from(error)))?;
    let pool = test_idle_connections(PgPoolOptions::new());
    let connections = BrokerConfig::default().connections();
    let pool = pool.max_connections(connections).acquire_timeout(CONNECT_TIMEOUT);
    Ok(pool.connect_lazy_with(options))
}

/// Whether TLS protects the password, or the operator chose another `sslmode`. Without an `sslmode` the driver falls
/// back to no TLS or to an unverified certificate.
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

#[derive(Debug, thiserror::Error)]
enum ConnectError {
    #[error("no answer within {}", humantime::format_duration(CONNECT_TIMEOUT))]
    Timeout,
    /// The server's message, without the source line that the driver adds.
    #[error("{0}")]
    Rejected(String),
    #[error(transparent)]
    Failed(sqlx::Error),
}

impl From<sqlx::Error> for ConnectError {
    fn from(error: sqlx::Error) -> Self {
        if let sqlx::Error::Database(rejection) = &error {
            return Self::Rejected(rejection.message().to_owned());
        }
        Self::Failed(error)
    }
}

/// Publishes a catalog.
pub(super) async fn import(pool: &PgPool, catalog: &Catalog) -> Result<Vec<Publication>, Failure> {
    let sources: Vec<_> = catalog
        .blueprints
        .iter()
        .map(|CheckedBlueprint { blueprint, metadata, xrd, composition }| {
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
    let publication = |is_new| {
        move |BlueprintVersion { id, slug, version, .. }: BlueprintVersion| Publication {
            slug,
            version,
            id,
            is_new,
        }
    };
    let published = imported.published.into_iter().map(publication(true));
    let mut all: Vec<_> =
        published.chain(imported.unchanged.into_iter().map(publication(false))).collect();
    all.sort_by(|one, other| one.slug.cmp(&other.slug));
    Ok(all)
}

/// Postgres cannot be used with these settings.
pub(super) fn unusable(error: impl std::error::Error + Send + Sync + 'static) -> Failure {
    Failure::Compose { subject: "Postgres", source: error.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remote_server_without_tls_or_sslmode_is_unprotected() {
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
