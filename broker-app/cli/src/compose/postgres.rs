//! The store: connects a pool and publishes a catalog.

use std::net::IpAddr;
use std::str::FromStr;
use std::time::Duration;

use broker_app::BrokerConfig;
use broker_pg::catalog::{self, ImportError};
use broker_pg::test_idle_connections;
use broker_render::catalog::{ImportReport, Source};
use secrecy::ExposeSecret;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions, PgSslMode};
use sqlx::{Connection, PgConnection, PgPool};
use tokio::time::timeout;

use crate::failure::Failure;
use crate::settings::{Dsn, SettingsError};
use crate::wiring::ImportMode;

/// A pool for a process with this configuration, after one connection.
pub(super) async fn connect(dsn: &Dsn, config: &BrokerConfig) -> Result<PgPool, Failure> {
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
    let deadline = config.deadlines.store;
    timeout(deadline, probe)
        .await
        .map_err(|_| unusable(ConnectError::Timeout(deadline)))?
        .map_err(|error| unusable(ConnectError::from(error)))?;
    let pool = test_idle_connections(PgPoolOptions::new());
    let pool = pool.max_connections(config.connections()).acquire_timeout(deadline);
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
    #[error("no answer within {}", humantime::format_duration(*.0))]
    Timeout(Duration),
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

/// Publishes a catalog, or compares it with the published versions. A refusal is a report, too.
pub(super) async fn import(
    pool: &PgPool,
    mode: ImportMode,
    sources: &[Source<'_>],
) -> Result<ImportReport, Failure> {
    let imported = match mode {
        ImportMode::Publish => catalog::import(pool, sources).await,
        ImportMode::Diff => catalog::diff(pool, sources).await.map_err(ImportError::from),
    };
    match imported {
        Ok(report) | Err(ImportError::Refused(report)) => Ok(report),
        Err(ImportError::Store(failed)) => Err(unusable(failed)),
        Err(other) => Err(unusable(other)),
    }
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
