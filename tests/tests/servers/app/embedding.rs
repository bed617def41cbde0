//! The broker in a host that has a transaction of its own, and the example of an axum service that is one.

#[expect(dead_code, reason = "its main serves until it is told to stop")]
#[path = "../../../examples/embed_axum.rs"]
mod embed_axum;

use std::sync::Arc;

use axum::body::Body;
use axum::http::{Request, StatusCode};
use broker_app::Service;
use broker_domain::Phase;
use broker_tests::real::RealWorld;
use broker_tests::world::NODE;
use embed_axum::{Shop, routes};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use sqlx::Executor;
use tower::ServiceExt;
use uuid::Uuid;

async fn shop_world() -> RealWorld {
    let world = RealWorld::new().await;
    world.pool().execute("CREATE TABLE public.orders (customer text NOT NULL)").await.unwrap();
    world
}

/// Orders, resources, events.
async fn stored(world: &RealWorld) -> (i64, i64, i64) {
    sqlx::query_as(
        "SELECT (SELECT count(*) FROM public.orders),
            (SELECT count(*) FROM plexsphere.provisioned_resources),
            (SELECT count(*) FROM plexsphere.provisioning_outbox)",
    )
    .fetch_one(world.pool())
    .await
    .unwrap()
}

async fn ask(shop: &Shop, request: Request<Body>) -> (StatusCode, String) {
    let answer = routes(shop.clone()).oneshot(request).await.unwrap();
    let status = answer.status();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

fn order(world: &RealWorld, blueprint: u128) -> Request<Body> {
    let order: Value = json!({
        "customer": "ann", "project": world.project.as_uuid().to_string(),
        "resource": Uuid::from_u128(2).to_string(),
        "blueprint_version": Uuid::from_u128(blueprint).to_string(),
        "cloud_credential": Uuid::from_u128(4).to_string(),
    });
    Request::post("/orders")
        .header("content-type", "application/json")
        .body(Body::from(order.to_string()))
        .unwrap()
}

#[tokio::test]
async fn the_axum_example_takes_an_order_and_its_node_together() {
    let world = shop_world().await;
    let broker = Arc::new(Service::new(world.ports.clone(), broker_tests::real::service_config()));
    let shop = Shop { pool: world.pool().clone(), broker };

    let (status, refusal) = ask(&shop, order(&world, 0xff)).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{refusal}");
    assert!(refusal.starts_with("blueprint_not_found"), "{refusal}");
    assert_eq!(stored(&world).await, (0, 0, 0));

    let (status, id) = ask(&shop, order(&world, NODE)).await;
    assert_eq!(status, StatusCode::ACCEPTED, "{id}");
    assert_eq!(stored(&world).await, (1, 1, 1));
    world.until(id.parse().unwrap(), Phase::Ready).await;
    let look = Request::get(format!("/nodes/{id}")).body(Body::empty()).unwrap();
    assert_eq!(ask(&shop, look).await, (StatusCode::OK, "Ready".to_owned()));
}
