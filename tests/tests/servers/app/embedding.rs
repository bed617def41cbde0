//! The examples of a host on real servers: the axum service, and the program of docs/embedding.md.

use std::fs;
use std::net::SocketAddr;
use std::process::Command;
use std::sync::Arc;

use broker_app::one_line;
use broker_domain::{Error as DomainError, Phase, ProvisionedResourceId};
use broker_pg::migrate;
use broker_ports::{Envelope, EventSink};
use broker_tests::real::RealWorld;
use broker_tests::world::{NODE, operator};
use broker_tests::{TestPostgres, until};
use embed_axum::OrderStatus;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use sqlx::Executor;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::servers::processes::KilledOnDrop;
use broker_tests::log::Log;
use tracing_subscriber::fmt::format::FmtSpan;

/// The running axum example: a shop whose orders are machines.
struct Shop {
    address: SocketAddr,
    serving: JoinSet<std::io::Result<()>>,
    shutdown: Option<oneshot::Sender<()>>,
}

impl Shop {
    async fn open(world: &RealWorld) -> Self {
        embed_axum::migrate(world.pool()).await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (shutdown, shutdown_signal) = oneshot::channel();
        let mut serving = JoinSet::new();
        let (pool, client) = (world.pool().clone(), world.broker.client.clone());
        serving.spawn(embed_axum::serve(pool, client, listener, async {
            drop(shutdown_signal.await);
        }));
        Self { address, serving, shutdown: Some(shutdown) }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Sends a request of the customer `ann` with additional headers, on a new connection. Returns status and body.
    async fn send(&self, request_line: &str, headers: &str, body: &str) -> (u16, String) {
        let mut connection = self.connect().await;
        connection.write_all(head(request_line, headers, body).as_bytes()).await.unwrap();
        connection.write_all(body.as_bytes()).await.unwrap();
        read_response(connection).await
    }

    async fn place_order(&self, world: &RealWorld, request_id: &str) -> Value {
        let headers = format!("x-request-id: {request_id}\r\n");
        let (status, body) = self.send("POST /orders", &headers, &order(world, NODE)).await;
        assert_eq!(status, 202, "{body}");
        serde_json::from_str(&body).unwrap()
    }

    /// Waits until an order has a status.
    async fn wait_for_status(&self, order: &Value, status: &str) {
        let request_line = format!("GET /orders/{}", text(order, "id"));
        until(format_args!("{order} to be {status}"), || async {
            let (code, body) = self.send(&request_line, "", "").await;
            assert_eq!(code, 200, "{body}");
            let now: Value = serde_json::from_str(&body).unwrap();
            (text(&now, "status") == status).then_some(())
        })
        .await;
    }

    /// Begins the shutdown, and waits until the server accepts no connection.
    async fn begin_shutdown(&mut self) {
        self.shutdown.take().unwrap().send(()).unwrap();
        until("the listener to close", || async {
            TcpStream::connect(self.address).await.is_err().then_some(())
        })
        .await;
    }

    /// Waits until `serve` returns.
    async fn ended(mut self) -> std::io::Result<()> {
        let ended = until("the example to end", || {
            let ended = self.serving.try_join_next();
            async move { ended }
        });
        ended.await.unwrap()
    }
}

fn head(request_line: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "{request_line} HTTP/1.1\r\nhost: shop\r\nx-customer: ann\r\ncontent-type: application/json\r\n\
         connection: close\r\ncontent-length: {length}\r\n{headers}\r\n"
    )
}

async fn read_response(mut connection: TcpStream) -> (u16, String) {
    let mut response = String::new();
    connection.read_to_string(&mut response).await.unwrap();
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    (head[9..12].parse().unwrap(), body.to_owned())
}

fn order(world: &RealWorld, blueprint: u128) -> String {
    json!({
        "project": world.project.as_uuid().to_string(),
        "resource": Uuid::from_u128(2).to_string(),
        "blueprint_version": Uuid::from_u128(blueprint).to_string(),
        "cloud_credential": Uuid::from_u128(4).to_string(),
    })
    .to_string()
}

fn text<'a>(order: &'a Value, field: &str) -> &'a str {
    order[field].as_str().unwrap()
}

fn machine(order: &Value) -> ProvisionedResourceId {
    text(order, "machine").parse().unwrap()
}

const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// The numbers of orders, resources and events.
async fn stored_counts(world: &RealWorld) -> (i64, i64, i64) {
    sqlx::query_as(
        "SELECT (SELECT count(*) FROM public.orders),
            (SELECT count(*) FROM plexsphere.provisioned_resources),
            (SELECT count(*) FROM plexsphere.provisioning_outbox)",
    )
    .fetch_one(world.pool())
    .await
    .unwrap()
}

#[tokio::test]
async fn axum_example_takes_an_order_to_ready_and_to_deleted() {
    let world = Arc::new(RealWorld::new().await);
    let shop = Shop::open(&world).await;
    let _simulation = world.keep_simulating();

    let (status, refusal) = shop.send("POST /orders", "", &order(&world, 0xff)).await;
    let unknown = DomainError::BlueprintNotFound(Uuid::from_u128(0xff).try_into().unwrap());
    let message = broker_app::Error::from(unknown).public_message();
    assert_eq!((status, refusal), (422, message));
    assert_eq!(stored_counts(&world).await, (0, 0, 0));

    let headers = format!("x-request-id: order-1\r\ntraceparent: {TRACE}\r\n");
    let (status, body) = shop.send("POST /orders", &headers, &order(&world, NODE)).await;
    assert_eq!(status, 202, "{body}");
    let placed: Value = serde_json::from_str(&body).unwrap();
    let trace = "SELECT traceparent FROM plexsphere.provisioning_outbox WHERE sequence = 1";
    let trace: String = sqlx::query_scalar(trace).fetch_one(world.pool()).await.unwrap();
    assert_eq!(trace, TRACE);
    let headers = "x-request-id: order-1\r\ntraceparent: malformed\r\n";
    let (status, again) = shop.send("POST /orders", headers, &order(&world, NODE)).await;
    let again: Value = serde_json::from_str(&again).unwrap();
    assert_eq!((status, text(&again, "id")), (200, text(&placed, "id")));
    let (orders, resources, _) = stored_counts(&world).await;
    assert_eq!((orders, resources), (1, 1));

    shop.wait_for_status(&placed, "Ready").await;
    assert_eq!(world.get(machine(&placed)).await.phase(), Phase::Ready);
    let request_line = format!("GET /orders/{}/machine", text(&placed, "id"));
    let (status, body) = shop.send(&request_line, "", "").await;
    let known: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((status, text(&known, "phase"), &known["hold_up"]), (200, "Ready", &Value::Null));
    let cancel = format!("DELETE /orders/{}", text(&placed, "id"));
    assert_eq!(shop.send(&cancel, "x-request-id: cancel-1\r\n", "").await.0, 202);
    shop.wait_for_status(&placed, "Deleted").await;
    assert_eq!(world.get(machine(&placed)).await.phase(), Phase::Deleted);

    let audit = "SELECT correlation_id FROM plexsphere.provisioned_resource_audit
        WHERE actor = 'customer:ann' AND provisioned_resource_id = $1 ORDER BY correlation_id";
    let machine = Uuid::parse_str(text(&placed, "machine")).unwrap();
    let by_ann = sqlx::query_scalar(audit).bind(machine).fetch_all(world.pool()).await;
    let by_ann: Vec<String> = by_ann.unwrap();
    assert_eq!(by_ann, ["cancel-1", "order-1"]);
}

/// Postgres logs a notice for each `IF NOT EXISTS` that finds its table.
#[tokio::test]
async fn axum_example_migrates_again_without_a_notice() {
    let (log, _guard) = Log::start(tracing::Level::TRACE, FmtSpan::NEW);
    let database = TestPostgres::shared().await.database().await;
    let replicas = (embed_axum::migrate(database.pool()), embed_axum::migrate(database.pool()));
    let (one, other) = tokio::join!(replicas.0, replicas.1);
    one.and(other).unwrap();
    migrate::reference_up(database.pool()).await.unwrap();
    for _ in 0..2 {
        migrate::up(database.pool()).await.unwrap();
    }
    assert!(!log.text().contains("already exists"), "{}", log.text());
}

#[tokio::test]
async fn axum_example_ignores_a_repeated_event() {
    let world = RealWorld::new().await;
    embed_axum::migrate(world.pool()).await.unwrap();
    let resource = broker_testkit::builders::id(7);
    let insert = "INSERT INTO public.orders (customer, project, machine, status)
        VALUES ('ann', gen_random_uuid(), $1, 'Pending')";
    sqlx::query(insert).bind(Uuid::from_u128(7)).execute(world.pool()).await.unwrap();

    let sink = OrderStatus::new(world.pool().clone());
    let event = |event_type, sequence| {
        let id = broker_testkit::builders::id(u128::from(sequence));
        Envelope::new(id, event_type, resource, sequence, Vec::new())
    };
    let ready = event(broker_domain::EventType::Ready, 2);
    let deleting = event(broker_domain::EventType::Deleting, 3);
    for (event, status) in [(&ready, "Ready"), (&deleting, "Deleting"), (&ready, "Deleting")] {
        sink.deliver(event).await.unwrap();
        let select = "SELECT status FROM public.orders";
        let now: String = sqlx::query_scalar(select).fetch_one(world.pool()).await.unwrap();
        assert_eq!(now, status);
    }
}

#[tokio::test]
async fn axum_example_serves_while_the_broker_cannot_start() {
    let (log, _guard) = Log::start(tracing::Level::TRACE, FmtSpan::NEW);
    let world = Arc::new(RealWorld::new().await);
    let mut maintenance = world.pool().begin().await.unwrap();
    maintenance.execute("LOCK TABLE plexsphere.provisioned_resources").await.unwrap();
    let shop = Shop::open(&world).await;
    until("the broker not to start", || async {
        log.text().contains("the broker does not run").then_some(())
    })
    .await;
    let request_line = format!("GET /orders/{}", Uuid::from_u128(1));
    let response = shop.send(&request_line, "", "").await;
    assert_eq!(response, (404, "the order does not exist".to_owned()));

    maintenance.rollback().await.unwrap();
    let _simulation = world.keep_simulating();
    let placed = shop.place_order(&world, "order-1").await;
    shop.wait_for_status(&placed, "Ready").await;
}

#[tokio::test]
async fn axum_example_ends_if_a_retry_cannot_start_the_broker() {
    let world = RealWorld::new().await;
    let rename = "ALTER TABLE plexsphere.provisioned_resources RENAME TO mislaid";
    world.pool().execute(rename).await.unwrap();
    let shop = Shop::open(&world).await;
    let error = shop.ended().await.unwrap_err();
    assert!(one_line(&error).contains("the repository failed"), "{error}");
}

#[tokio::test]
async fn axum_example_stops_http_before_the_broker() {
    let world = Arc::new(RealWorld::new().await);
    let mut shop = Shop::open(&world).await;
    let _simulation = world.keep_simulating();
    let first = shop.place_order(&world, "order-1").await;

    // The server sends 100 Continue once the handler waits for the body.
    let (mut connection, body) = (shop.connect().await, order(&world, NODE));
    let headers = "x-request-id: order-2\r\nexpect: 100-continue\r\n";
    connection.write_all(head("POST /orders", headers, &body).as_bytes()).await.unwrap();
    let mut continue_line = [0; 25];
    connection.read_exact(&mut continue_line).await.unwrap();
    assert_eq!(&continue_line, b"HTTP/1.1 100 Continue\r\n\r\n");
    shop.begin_shutdown().await;

    // Broker and sink still work: the request under way may need them.
    until("the first order to be Ready", || async {
        let select = "SELECT status FROM public.orders";
        let status: String = sqlx::query_scalar(select).fetch_one(world.pool()).await.unwrap();
        (status == "Ready").then_some(())
    })
    .await;
    assert_eq!(world.get(machine(&first)).await.phase(), Phase::Ready);
    connection.write_all(body.as_bytes()).await.unwrap();
    let (status, body) = read_response(connection).await;
    assert_eq!(status, 202, "{body}");
    let second: Value = serde_json::from_str(&body).unwrap();
    shop.ended().await.unwrap();
    // The declaration is stored; the phase depends on when the runner stopped.
    world.get(machine(&second)).await;
}

/// Waits until the broker in another process brings a resource to a phase.
async fn wait_for_phase(world: &RealWorld, id: ProvisionedResourceId, phase: Phase) {
    until(format_args!("{id} to be {phase}"), || async {
        (world.get(id).await.phase() == phase).then_some(())
    })
    .await;
}

#[tokio::test]
async fn documented_program_takes_a_machine_to_ready_and_deleted() {
    let world = Arc::new(RealWorld::new().await);
    let directory = tempfile::tempdir().unwrap();
    let kubeconfig = directory.path().join("kubeconfig");
    fs::write(&kubeconfig, world.kubeconfig()).unwrap();
    let program = Command::new(env!("CARGO_BIN_EXE_embedded"))
        .arg(world.database().url())
        .env("KUBECONFIG", &kubeconfig)
        .spawn();
    let mut program = KilledOnDrop(program.unwrap());
    let _simulation = world.keep_simulating();

    let machine = world.declare(&world.declaration(NODE)).await.unwrap().id();
    wait_for_phase(&world, machine, Phase::Ready).await;
    world.service.deprovision(&operator(), machine).await.unwrap();
    wait_for_phase(&world, machine, Phase::Deleted).await;

    kill_process(Pid::from_child(&program.0), Signal::TERM).unwrap();
    let status = until("the program to end", || {
        let ended = program.0.try_wait().unwrap();
        async move { ended }
    });
    let status = status.await;
    assert!(status.success(), "the program ended with {status}");
}
