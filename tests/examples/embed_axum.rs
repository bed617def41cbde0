//! An axum service that takes orders, with the broker embedded: they share one pool, and an order and the node
//! that it orders are stored in one transaction. Either both exist afterwards, or neither does.
//!
//! ```text
//! embed_axum DSN LISTEN    KUBECONFIG and the like are found as every Kubernetes client finds them
//! ```
//!
//! The database needs the broker's tables (`broker_pg::migrate`) and `CREATE TABLE public.orders (customer text)`.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use broker_app::{Broker, BrokerConfig, Error, Service};
use broker_domain::{Declaration, ProvisionedResourceId};
use broker_kube::client_config;
use broker_pg::create_in;
use broker_ports::{Actor, CorrelationId, Created, RequestContext, Scope, WorkerId};
use broker_render::ApiUrl;
use broker_tests::real::{Adapters, PATIENCE, deadlines};
use serde::Deserialize;
use sqlx::PgPool;

/// What the service had before, and the broker's facade beside it.
#[derive(Clone)]
pub(crate) struct Shop {
    /// One pool for both.
    pub(crate) pool: PgPool,
    /// What callers of the broker use.
    pub(crate) broker: Arc<Service>,
}

/// What a customer orders.
#[derive(Deserialize)]
struct Order {
    customer: String,
    project: String,
    resource: String,
    blueprint_version: String,
    cloud_credential: String,
}

/// Why an order was not taken: a status and a line.
type Refusal = (StatusCode, String);

/// The service's routes.
pub(crate) fn routes(shop: Shop) -> Router {
    Router::new().route("/orders", post(order)).route("/nodes/{id}", get(node)).with_state(shop)
}

/// Stores the order and declares its node, in one transaction.
async fn order(
    State(shop): State<Shop>,
    Json(order): Json<Order>,
) -> Result<(StatusCode, String), Refusal> {
    let context = context(&order.customer)?;
    let declaration = order.declaration().map_err(|error| refused(&error.into()))?;
    // Resolves and checks everything, and writes nothing: a refusal costs no transaction.
    let admitted =
        shop.broker.admit(&context, &declaration).await.map_err(|error| refused(&error))?;

    let mut transaction = shop.pool.begin().await.map_err(|error| broken(&error))?;
    sqlx::query("INSERT INTO public.orders (customer) VALUES ($1)")
        .bind(&order.customer)
        .execute(&mut *transaction)
        .await
        .map_err(|error| broken(&error))?;
    let created = create_in(&mut transaction, &admitted).await.map_err(|error| broken(&error))?;
    let id = match created {
        Created::Stored => admitted.change().resource().id(),
        Created::Replayed(first) => first.id(),
        Created::Conflict => return Err((StatusCode::CONFLICT, "ordered otherwise before".into())),
    };
    // The runner is woken by this commit.
    transaction.commit().await.map_err(|error| broken(&error))?;
    Ok((StatusCode::ACCEPTED, id.to_string()))
}

/// How far a node is.
async fn node(State(shop): State<Shop>, Path(id): Path<String>) -> Result<String, Refusal> {
    let id: Result<ProvisionedResourceId, _> = id.parse();
    let id = id.map_err(|error: broker_domain::Error| refused(&error.into()))?;
    let found = shop.broker.get(&context("shop")?, id).await;
    found.map(|node| node.phase().to_string()).map_err(|error| refused(&error))
}

impl Order {
    fn declaration(&self) -> Result<Declaration, broker_domain::Error> {
        Ok(Declaration::new(
            self.project.parse()?,
            self.resource.parse()?,
            self.blueprint_version.parse()?,
            self.cloud_credential.parse()?,
        ))
    }
}

/// Who asks. A real service has authorised them before: the broker does not.
fn context(customer: &str) -> Result<RequestContext, Refusal> {
    let context = || -> Result<_, broker_domain::Error> {
        let actor = Actor::new(format!("customer:{customer}"))?;
        Ok(RequestContext::new(actor, Scope::All, CorrelationId::new("order")?))
    };
    context().map_err(|error| refused(&error.into()))
}

/// The broker says what was wrong with a declaration; that is the customer's to know.
fn refused(error: &Error) -> Refusal {
    let status = if matches!(error, Error::Domain(_)) {
        StatusCode::UNPROCESSABLE_ENTITY
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    (status, format!("{}: {}", error.reason(), broker_app::one_line(error)))
}

/// What is wrong with a database is not the customer's to know.
fn broken(error: &dyn std::error::Error) -> Refusal {
    eprintln!("{}", broker_app::one_line(error));
    (StatusCode::SERVICE_UNAVAILABLE, "try again".to_owned())
}

/// Serves until Ctrl-C: the routes and the broker's runner, each with the other.
#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(dsn), Some(listen)) = (arguments.next(), arguments.next()) else {
        return Err("give a DSN and an address to listen at".into());
    };
    let pool = PgPool::connect(&dsn).await?;
    let config = client_config(kube::Config::infer().await?, "embed-axum")?;
    let (adapters, cache) = Adapters::over(&pool, kube::Client::try_from(config)?, PATIENCE);
    let worker = WorkerId::new(format!("shop-{}", std::process::id()))?;
    let api_url = ApiUrl::new("https://mesh.example.org")?;
    let config = BrokerConfig::new(worker, api_url, deadlines());
    let broker = Broker::new(adapters.ports(), config)?;

    let listener = tokio::net::TcpListener::bind(listen).await?;
    let shop = Shop { pool, broker: Arc::new(broker.service) };
    let ended = || async { drop(tokio::signal::ctrl_c().await) };
    let serve = axum::serve(listener, routes(shop)).with_graceful_shutdown(ended());
    let beside = cache.run(ended());
    let (served, ran, ()) = tokio::join!(serve, broker.runner.run(ended()), beside);
    served?;
    ran?;
    Ok(())
}
