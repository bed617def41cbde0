//! The Postgres adapters behind the ports of the store, over one pool.

use std::sync::Arc;

use broker_app::domain::ProvisionedResource;
use broker_app::ports::Admitted;
use broker_app::{Declared, Error};
use broker_pg::{PgMesh, PgPlatform, PgStore, PgTokenIssuer, migrate};
use sqlx::{PgConnection, PgPool};

use crate::broker::BrokerError;
use crate::builder::StorePorts;

/// The second half of [`Service::provision`](crate::Service::provision) in a transaction of the host: stores what
/// [`Service::admit`](crate::Service::admit) answered. Host and broker commit both or neither. A replayed declaration is
/// not stored again.
///
/// Call `admit` before the transaction begins, because it reads from other connections. The transaction remains usable
/// after any result except a lost connection.
///
/// ```no_run
/// # use broker_embed::{Declaration, Declared, RequestContext, Service, provision_in};
/// # async fn order(pool: sqlx::PgPool, service: Service, context: RequestContext, declaration: Declaration)
/// # -> Result<(), Box<dyn std::error::Error>> {
/// let admitted = service.admit(&context, &declaration).await?;
/// let mut transaction = pool.begin().await?;
/// if let Declared::New(machine) = provision_in(&mut transaction, admitted).await? {
///     let insert = sqlx::query("INSERT INTO orders (machine) VALUES ($1)");
///     insert.bind(machine.id().as_uuid()).execute(&mut *transaction).await?;
/// }
/// transaction.commit().await?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// `idempotency_conflict` if another declaration took the request id after `admit`; `repository_…`.
pub async fn provision_in(
    connection: &mut PgConnection,
    admitted: Declared<Admitted>,
) -> Result<Declared<ProvisionedResource>, Error> {
    match admitted {
        Declared::New(admitted) => {
            let created = broker_pg::create_in(connection, &admitted).await;
            Declared::from_created(&admitted, created)
        }
        Declared::Replayed(first) => Ok(Declared::Replayed(first)),
    }
}

pub(crate) fn store_ports(pool: PgPool) -> StorePorts {
    let store = Arc::new(PgStore::new(pool.clone()));
    let platform = Arc::new(PgPlatform::new(pool.clone()));
    let max_connections = Some(pool.options().get_max_connections());
    StorePorts {
        repository: store.clone(),
        schedule: store.clone(),
        outbox: store.clone(),
        audit: store,
        tokens: Arc::new(PgTokenIssuer::new(pool.clone())),
        nodes: Arc::new(PgMesh::new(pool.clone()).deregistrar()),
        blueprints: platform.clone(),
        clouds: platform.clone(),
        credentials: platform.clone(),
        assignments: platform.clone(),
        resources: platform,
        max_connections,
        check: Some(Box::new(move || {
            let pool = pool.clone();
            Box::pin(async move {
                let checked = migrate::ensure_current(&pool).await;
                checked.map_err(|error| BrokerError::Store {
                    kind: error.kind(),
                    source: error.into(),
                })
            })
        })),
    }
}
