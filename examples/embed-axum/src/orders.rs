//! The HTTP side: orders are placed, looked at and cancelled.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::IntoResponse;
use axum::routing::{get, post};
use axum::{Json, Router};
use broker_embed::ports::Created;
use broker_embed::postgres::create_in;
use broker_embed::{
    Declaration, ProvisionedResourceId, RequestContext, RequestId, Service, domain,
};
use serde::{Deserialize, Serialize};
use sqlx::PgPool;
use uuid::Uuid;

use crate::caller::Caller;
use crate::problem::Problem;

/// What every handler has: its own pool, and the broker for its callers.
#[derive(Clone)]
struct Shop {
    pool: PgPool,
    broker: Service,
}

/// What a customer orders. The machine is the broker's to make.
#[derive(Deserialize)]
struct Order {
    project: String,
    resource: String,
    blueprint_version: String,
    cloud_credential: String,
}

/// What a customer is told.
#[derive(Serialize)]
struct Placed {
    id: Uuid,
    machine: Uuid,
    status: String,
}

impl From<(Uuid, Uuid, String)> for Placed {
    fn from((id, machine, status): (Uuid, Uuid, String)) -> Self {
        Self { id, machine, status }
    }
}

type Answer<T> = Result<T, Problem>;

pub(crate) fn routes(pool: PgPool, broker: Service) -> Router {
    Router::new()
        .route("/orders", post(place))
        .route("/orders/{id}", get(look).delete(cancel))
        .route("/orders/{id}/machine", get(machine))
        .with_state(Shop { pool, broker })
}

/// Stores the order and declares its machine in one transaction: either both exist afterwards, or neither does.
async fn place(
    State(shop): State<Shop>,
    caller: Caller,
    Json(order): Json<Order>,
) -> Answer<(StatusCode, Json<Placed>)> {
    let declaration = order.declaration(&caller)?;
    let context = caller.context(declaration.project_id)?;
    // Resolves and validates, and writes nothing: a refusal costs no transaction.
    let admitted = shop.broker.admit(&context, &declaration).await?;

    let mut transaction = shop.pool.begin().await?;
    let machine = match create_in(&mut transaction, &admitted).await? {
        Created::Stored => admitted.change().resource().id(),
        // The same request came before, and so did its order.
        Created::Replayed(first) => return shop.order_of(&caller, first.id()).await,
        Created::Conflict => return Err(conflict(&declaration)),
    };
    let insert = "INSERT INTO public.orders (customer, project, machine, status)
        VALUES ($1, $2, $3, 'Pending') RETURNING id, machine, status";
    let placed: (Uuid, Uuid, String) = sqlx::query_as(insert)
        .bind(&caller.customer)
        .bind(declaration.project_id.as_uuid())
        .bind(machine.as_uuid())
        .fetch_one(&mut *transaction)
        .await?;
    // This commit wakes the runner, in whichever replica.
    transaction.commit().await?;
    Ok((StatusCode::ACCEPTED, Json(placed.into())))
}

/// The order as its row says. The event sink keeps the row up to date.
async fn look(
    State(shop): State<Shop>,
    caller: Caller,
    Path(id): Path<Uuid>,
) -> Answer<Json<Placed>> {
    let select = "SELECT id, machine, status FROM public.orders WHERE id = $1 AND customer = $2";
    let found = sqlx::query_as(select).bind(id).bind(&caller.customer);
    let row: Option<(Uuid, Uuid, String)> = found.fetch_optional(&shop.pool).await?;
    row.map(|row| Json(row.into())).ok_or(Problem::NoSuchOrder)
}

/// Where the machine is, and what holds it up. It costs one read of the store, so a customer may poll it.
async fn machine(
    State(shop): State<Shop>,
    caller: Caller,
    Path(id): Path<Uuid>,
) -> Answer<impl IntoResponse> {
    let (context, machine) = shop.machine_of(&caller, id).await?;
    Ok(Json(shop.broker.status(&context, machine).await?.to_json()))
}

/// Asks the broker to take the machine down. The row stays: the events say how far it is.
async fn cancel(
    State(shop): State<Shop>,
    caller: Caller,
    Path(id): Path<Uuid>,
) -> Answer<StatusCode> {
    let (context, machine) = shop.machine_of(&caller, id).await?;
    shop.broker.deprovision(&context, machine).await?;
    Ok(StatusCode::ACCEPTED)
}

impl Shop {
    /// The machine of a customer's order, and the context of a call about it.
    async fn machine_of(
        &self,
        caller: &Caller,
        order: Uuid,
    ) -> Answer<(RequestContext, ProvisionedResourceId)> {
        let select = "SELECT project, machine FROM public.orders WHERE id = $1 AND customer = $2";
        let found = sqlx::query_as(select).bind(order).bind(&caller.customer);
        let (project, machine): (Uuid, Uuid) =
            found.fetch_optional(&self.pool).await?.ok_or(Problem::NoSuchOrder)?;
        Ok((caller.context(project.try_into()?)?, machine.try_into()?))
    }

    async fn order_of(
        &self,
        caller: &Caller,
        machine: ProvisionedResourceId,
    ) -> Answer<(StatusCode, Json<Placed>)> {
        let select =
            "SELECT id, machine, status FROM public.orders WHERE machine = $1 AND customer = $2";
        let found = sqlx::query_as(select).bind(machine.as_uuid()).bind(&caller.customer);
        let row: Option<(Uuid, Uuid, String)> = found.fetch_optional(&self.pool).await?;
        let row = row.ok_or(Problem::NoSuchOrder)?;
        Ok((StatusCode::OK, Json(row.into())))
    }
}

impl Order {
    fn declaration(&self, caller: &Caller) -> Result<Declaration, domain::Error> {
        let declaration = Declaration::new(
            self.project.parse()?,
            self.resource.parse()?,
            self.blueprint_version.parse()?,
            self.cloud_credential.parse()?,
        );
        Ok(match &caller.request_id {
            Some(id) => declaration.with_request_id(RequestId::new(id.as_str())?),
            None => declaration,
        })
    }
}

fn conflict(declaration: &Declaration) -> Problem {
    match declaration.request_id.clone() {
        Some(request) => {
            domain::Error::IdempotencyConflict { project: declaration.project_id, request }.into()
        }
        // A store finds no conflict where there is no request id.
        None => domain::Error::invalid("x-request-id", "is missing").into(),
    }
}
