//! A replica that cannot work does not start: it exits with code 1 and one line on standard error.

use broker_domain::{ClusterId, Phase};
use broker_pg::migrate;
use broker_test_servers::servers::kubeconfig;
use broker_tests::proxy::Request;
use broker_tests::real::RealWorld;
use broker_tests::world::NODE;
use broker_tests::{HttpProxy, PgProxy, TestPostgres};
use sqlx::{AssertSqlSafe, PgPool};
use tokio::net::TcpListener;

use super::process::{DSN, Environment, KUBECONFIG, TOKEN_TTL};

/// Runs a replica and asserts that it exits with this error line, which begins after `error[`.
async fn assert_refused(why: &str, environment: &Environment, line: &str) {
    let output = environment.run(&["run"]).await;
    let result = (output.code, output.err.as_str());
    assert_eq!(result, (Some(1), format!("error[{line}\n").as_str()), "{why}");
}

/// The error line of a Postgres that cannot be used.
fn postgres(why: &str) -> String {
    format!("setup_failed]: cannot use Postgres: {why}")
}

#[tokio::test]
async fn start_without_a_usable_store_is_refused() {
    let world = RealWorld::new().await;
    let good = Environment::new(&world.database().url(), &world.kubeconfig());
    let at = |rest: &str| good.clone().with(DSN, &format!("postgres://{rest}"));
    let url = world.database().url();
    let with = |from: &str, to: &str| good.clone().with(DSN, &url.replace(from, to));
    let (port, name) = (world.database().options().get_port(), world.database().name());
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent = silent.local_addr().unwrap();
    let unreadable = "environment_invalid]: PLEXSPHERE_DSN cannot be read; use a connection string such \
        as postgres://USER@HOST:5432/DATABASE";
    let remote = "environment_invalid]: PLEXSPHERE_DSN names a remote server without an sslmode; use \
        sslmode=verify-full in its query, or another sslmode where the network is trusted";
    let short = "environment_invalid]: PLEXSPHERE_PROVISIONING_BROKER_TOKEN_TTL is 1s; the issuer of the \
        tokens allows 1m to 1day";
    let closed = "error communicating with database: Connection refused (os error 111)";
    let password = "password authentication failed for user \"postgres\"";
    let plain = "error occurred while attempting to establish a TLS connection: server does not support TLS";
    let empty = TestPostgres::shared().await.database().await;
    let never_migrated = Environment::new(&empty.url(), &world.kubeconfig());
    let last = migrate::MIGRATIONS.last().unwrap().version;
    let no_schema = format!(
        "the database holds no schema of the broker; this release needs version {last}: migrate up"
    );
    let wrong_password = at(&format!("postgres:hush@127.0.0.1:{port}/{name}?sslmode=disable"));
    let rows = [
        ("closed port", at("a:hush@127.0.0.1:1/b"), postgres(closed)),
        ("no answer", at(&format!("a:hush@{silent}/b")), postgres("no answer within 5s")),
        ("no such option", with("disable", "hush"), unreadable.to_owned()),
        ("no sslmode", at("a:hush@db.invalid/b"), remote.to_owned()),
        ("wrong password", wrong_password, postgres(password)),
        ("encryption without server support", with("disable", "require"), postgres(plain)),
        (
            "no such database",
            with(name, "nothing"),
            postgres("database \"nothing\" does not exist"),
        ),
        ("never migrated", never_migrated, postgres(&no_schema)),
        ("tokens for a second", good.clone().with(TOKEN_TTL, "1s"), short.to_owned()),
    ];
    for (why, environment, line) in rows {
        assert_refused(why, &environment, &line).await;
    }
}

#[tokio::test]
async fn store_that_accepts_and_then_hangs_is_refused() {
    let world = RealWorld::new().await;
    let broker_kubeconfig = world.kubeconfig();
    for (statement, line) in [
        ("", "setup_failed]: cannot use Postgres: no answer within 5s"),
        (
            "FROM plexsphere.provisioned_resources",
            "repository_transient]: the repository failed: no answer within 5s",
        ),
    ] {
        let proxy = PgProxy::start(world.database()).await;
        let is_held = move |request: &Request| request.target.contains(statement);
        let held = proxy.script().each(is_held).before_forward().hold();
        assert_refused(
            "a store that hangs",
            &Environment::new(proxy.url(), &broker_kubeconfig),
            line,
        )
        .await;
        drop(held);
    }
}

/// An invalid `TOKIO_WORKER_THREADS` makes the runtime panic with the value in the payload.
#[tokio::test]
async fn panic_prints_its_place_and_not_its_payload() {
    let environment = Environment::new("", "").with("TOKIO_WORKER_THREADS", "hush");
    let output = environment.run(&["run"]).await;
    assert_eq!((output.code, output.out.as_str()), (Some(101), ""));
    assert!(output.err.starts_with("error[panicked]: the program panicked at "), "{}", output.err);
    assert_eq!(output.err.lines().count(), 1, "{}", output.err);
    assert!(!output.err.contains("hush"), "{}", output.err);
}

#[tokio::test]
async fn older_replica_starts_on_a_newer_schema_that_allows_it() {
    let world = RealWorld::new().await;
    let broker_kubeconfig = world.kubeconfig();
    record_later(world.pool(), migrate::MIGRATIONS.last().unwrap().version).await;
    let replica = Environment::new(&world.database().url(), &broker_kubeconfig).start();
    replica.ready().await;
    replica.stop().await;
}

/// Records a migration of a later release, which this release does not contain.
async fn record_later(pool: &PgPool, lowest_release: u32) {
    let later = format!(
        "INSERT INTO plexsphere.provisioning_broker_migrations
            (version, name, checksum, lowest_release, steps_done, applied_at)
         VALUES (9999, 'later', '', {lowest_release}, 1, now())"
    );
    sqlx::query(AssertSqlSafe(later)).execute(pool).await.unwrap();
}

#[tokio::test]
async fn start_without_a_usable_cluster_is_refused() {
    let world = RealWorld::new().await;
    let url = world.database().url();
    let at = |kubeconfig: &str| Environment::new(&url, kubeconfig);
    let broker_kubeconfig = world.kubeconfig();
    let closed = HttpProxy::start(world.broker.client.clone()).await;
    closed.close_port().await;
    let without_rights = format!("without-rights-{}", world.project);
    let config: serde_json::Value = serde_json::from_str(&broker_kubeconfig).unwrap();
    let server = config["clusters"][0]["cluster"]["server"].as_str().unwrap();
    let identity_read = "the cluster failed: get Namespace kube-system (v1)";
    let not_connected = |why: &str| {
        format!(
            "cluster_transient]: {identity_read}: ServiceError: client error (Connect): {why}: not connected"
        )
    };
    let forbidden = format!(
        "cluster_rejected]: {identity_read}: namespaces \"kube-system\" is forbidden: User \"{without_rights}\" \
         cannot get resource \"namespaces\" in API group \"\" in the namespace \"kube-system\": forbidden"
    );
    let kubernetes = |why: &str| format!("setup_failed]: cannot use Kubernetes: {why}");
    let no_file =
        "file_unreadable]: cannot read /nowhere/kubeconfig: No such file or directory (os error 2)";
    let nothing_set =
        "KUBECONFIG is empty, and neither ~/.kube/config nor a Pod's service account exists";
    let rows = [
        (
            "closed port",
            at(&closed.kubeconfig()),
            not_connected("tcp connect error: Connection refused (os error 111)"),
        ),
        ("a user without rights", at(&world.cluster.kubeconfig(&without_rights)), forbidden),
        (
            "a certificate of an unknown authority",
            at(&kubeconfig(server, None, None)),
            not_connected("invalid peer certificate: UnknownIssuer"),
        ),
        (
            "not YAML",
            at("apiVersion: v1\nusers: [{user: {token: hush"),
            kubernetes("the kubeconfig is invalid from line 2 on"),
        ),
        ("an empty kubeconfig", at(""), kubernetes("failed to determine current context")),
        (
            "no such file",
            at(&broker_kubeconfig).with(KUBECONFIG, "/nowhere/kubeconfig"),
            no_file.to_owned(),
        ),
        (
            "nothing set",
            at(&broker_kubeconfig).with(KUBECONFIG, "").with("HOME", "/nowhere"),
            kubernetes(nothing_set),
        ),
    ];
    for (why, environment, line) in rows {
        assert_refused(why, &environment, &line).await;
    }
}

#[tokio::test]
async fn start_on_a_cluster_without_its_resources_is_refused() {
    let world = RealWorld::new().await;
    let resource = world.declare_until(Phase::Provisioning, &world.declaration(NODE)).await;
    let this_cluster = resource.substrate().cluster().map(ClusterId::to_string).unwrap();
    let elsewhere = "UPDATE plexsphere.provisioned_resources SET cluster_id = 'elsewhere'";
    sqlx::query(elsewhere).execute(world.pool()).await.unwrap();
    let broker_kubeconfig = world.kubeconfig();
    let environment = Environment::new(&world.database().url(), &broker_kubeconfig);
    let line = format!(
        "cluster_rejected]: the cluster failed: this is cluster {this_cluster}, but the resources of the store \
         are on elsewhere"
    );
    assert_refused("another cluster", &environment, &line).await;
}
