//! The HTTP handlers: place, read and cancel orders.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::IntoResponse;
use axum::routing::{get, post};
use axum::{Json, Router};
use broker_embed::{
    Declaration, Declared, ProvisionedResourceId, RequestContext, RequestId, Service, domain,
    provision_in,
};
use serde::{Deserialize, Serialize};
use sqlx::PgPool;
use uuid::Uuid;

use crate::caller::Caller;
use crate::problem::Problem;

/// The shared state of the handlers.
#[derive(Clone)]
struct AppState {
    pool: PgPool,
    broker: Service,
}

/// The body of a new order.
#[derive(Deserialize)]
struct Order {
    project: String,
    resource: String,
    blueprint_version: String,
    cloud_credential: String,
}

/// The response for an order.
#[derive(Serialize)]
struct OrderResponse {
    id: Uuid,
    machine: Uuid,
    status: String,
}

impl From<(Uuid, Uuid, String)> for OrderResponse {
    fn from((id, machine, status): (Uuid, Uuid, String)) -> Self {
        Self { id, machine, status }
    }
}

type HandlerResult<T> = Result<T, Problem>;

pub(crate) fn routes(pool: PgPool, broker: Service) -> Router {
    Router::new()
        .route("/orders", post(place_order))
        .route("/orders/{id}", get(read_order).delete(cancel_order))
        .route("/orders/{id}/machine", get(machine_status))
        .with_state(AppState { pool, broker })
}

/// Stores the order and declares its machine in one transaction: either both exist afterwards, or neither does.
async fn place_order(
    State(app): State<AppState>,
    caller: Caller,
    Json(order): Json<Order>,
) -> HandlerResult<(StatusCode, Json<OrderResponse>)> {
    let declaration = order.declaration(&caller)?;
    let context = caller.context(declaration.project_id)?;
    // Resolves and validates, so a rejection needs no transaction.
    let admitted = app.broker.admit(&context, &declaration).await?;

    let mut transaction = app.pool.begin().await?;
    let machine = match provision_in(&mut transaction, admitted).await? {
        Declared::New(machine) => machine.id(),
        // A repeated request: return the first order.
        Declared::Replayed(first) => return app.order_of(&caller, first.id()).await,
    };
    let insert = "INSERT INTO public.orders (customer, project, machine, status)
        VALUES ($1, $2, $3, 'Pending') RETURNING id, machine, status";
    let placed: (Uuid, Uuid, String) = sqlx::query_as(insert)
        .bind(&caller.customer)
        .bind(declaration.project_id.as_uuid())
        .bind(machine.as_uuid())
        .fetch_one(&mut *transaction)
        .await?;
    // The commit wakes the runner of a replica.
    transaction.commit().await?;
    Ok((StatusCode::ACCEPTED, Json(placed.into())))
}

/// Returns the order's row, which the event sink keeps up to date.
async fn read_order(
    State(app): State<AppState>,
    caller: Caller,
    Path(id): Path<Uuid>,
) -> HandlerResult<Json<OrderResponse>> {
    let select = "SELECT id, machine, status FROM public.orders WHERE id = $1 AND customer = $2";
    let found = sqlx::query_as(select).bind(id).bind(&caller.customer);
    let row: Option<(Uuid, Uuid, String)> = found.fetch_optional(&app.pool).await?;
    row.map(|row| Json(row.into())).ok_or(Problem::NoSuchOrder)
}

/// The machine's phase and what blocks it. Costs one read of the store, so a customer may poll it.
async fn machine_status(
    State(app): State<AppState>,
    caller: Caller,
    Path(id): Path<Uuid>,
) -> HandlerResult<impl IntoResponse> {
    let (context, machine) = app.machine_of(&caller, id).await?;
    Ok(Json(app.broker.status(&context, machine).await?.to_json()))
}

/// Requests the machine's teardown. The row remains, and events update its status.
async fn cancel_order(
    State(app): State<AppState>,
    caller: Caller,
    Path(id): Path<Uuid>,
) -> HandlerResult<StatusCode> {
    let (context, machine) = app.machine_of(&caller, id).await?;
    app.broker.deprovision(&context, machine).await?;
    Ok(StatusCode::ACCEPTED)
}

impl AppState {
    /// The machine of a customer's order, and the context for a call to the broker.
    async fn machine_of(
        &self,
        caller: &Caller,
        order: Uuid,
    ) -> HandlerResult<(RequestContext, ProvisionedResourceId)> {
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
    ) -> HandlerResult<(StatusCode, Json<OrderResponse>)> {
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
