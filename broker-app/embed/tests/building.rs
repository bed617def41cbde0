//! What `build` checks, what it lets through, and what can be replaced.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use broker_embed::domain::EventId;
use broker_embed::memory::MemoryPlatform;
use broker_embed::ports::{
    Backoff, Clock, Envelope, IdSource, Issue, IssueRequest, PortError, TokenIssuer,
    TokenIssuerWrapper, TtlWindow,
};
use broker_embed::{
    ApiUrl, BootError, Broker, BrokerConfig, BrokerError, EventSink, Phase, ProvisionedResourceId,
    RequestContext, ToJson, WaitOutcome, one_line,
};
use time::OffsetDateTime;
use uuid::Uuid;

const MINUTE: Duration = Duration::from_mins(1);
#[cfg(all(feature = "kubernetes", feature = "postgres"))]
const ZERO: Duration = Duration::ZERO;

fn url() -> ApiUrl {
    ApiUrl::new("https://mesh.example.org").expect("a URL")
}

fn operator() -> RequestContext {
    RequestContext::operator("user:test", "test").expect("a context")
}

/// Why a broker over this platform is not built.
async fn refusal(platform: &MemoryPlatform, change: impl FnOnce(&mut BrokerConfig)) -> String {
    let built = Broker::builder(url()).ports(platform.ports()).configure(change).build().await;
    one_line(&built.err().expect("a refusal"))
}

#[tokio::test]
async fn configuration_that_cannot_work_is_refused_in_one_line() {
    type Change = fn(&mut BrokerConfig);
    let rows: [(Change, &str); 6] = [
        (|it| it.api_url = None, "api_url is missing; give the URL where agents enrol"),
        (
            |it| it.deadlines.store = MINUTE,
            "deadlines.store is 60s; give at most 55s, the lease without its lease_margin",
        ),
        (
            |it| it.event_claim = Duration::from_secs(1),
            "event_claim is 1s; give at least 20s, one delivery and two calls of the store",
        ),
        (
            |it| it.retention = Some(MINUTE),
            "retention is 60s; give more than the lease, which is 60s",
        ),
        (
            |it| it.sweep_interval = Duration::MAX,
            "sweep_interval is 18446744073709551615.999999999s; give at most 3600s",
        ),
        (
            |it| it.token_ttl = Duration::from_hours(48),
            "token_ttl is 172800s; the token issuer allows 60s to 86400s",
        ),
    ];
    for (change, expected) in rows {
        assert_eq!(refusal(&MemoryPlatform::new(), change).await, expected);
    }
}

#[tokio::test]
async fn store_or_cluster_that_does_not_answer_is_refused_and_can_be_tried_again() {
    let platform = MemoryPlatform::new();
    platform.adapters.cluster.take_down();
    let away = refusal(&platform, |_| {}).await;
    assert!(away.starts_with("the cluster failed: "), "{away}");
    platform.adapters.cluster.bring_back();
    platform.adapters.store.set_reachable(false);
    let away = refusal(&platform, |_| {}).await;
    assert!(away.starts_with("the repository failed: "), "{away}");
    platform.adapters.store.set_reachable(true);
    assert!(Broker::builder(url()).ports(platform.ports()).build().await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn boot_that_failed_is_repeated_on_the_same_broker() {
    let platform = MemoryPlatform::new();
    let broker = Broker::builder(url()).ports(platform.living_ports()).build().await.unwrap();
    broker.service().provision(&operator(), &platform.declaration()).await.unwrap();
    platform.adapters.store.set_reachable(false);
    let refused = broker.run(std::future::pending()).await.unwrap_err();
    let failed = matches!(refused, BrokerError::Boot(BootError::Infrastructure(_)));
    assert!(failed, "{refused}");
    platform.adapters.store.set_reachable(true);
    broker.run(tokio::time::sleep(MINUTE)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn broker_built_unchecked_serves_at_once_and_makes_its_checks_when_it_runs() {
    let platform = MemoryPlatform::new();
    platform.adapters.cluster.take_down();
    let built = Broker::builder(url()).ports(platform.living_ports()).build_unchecked();
    let broker = built.unwrap();
    let machine = broker.service().provision(&operator(), &platform.declaration()).await.unwrap();
    let refused = broker.run(std::future::pending()).await.unwrap_err();
    assert!(matches!(refused, BrokerError::Start(_)), "{refused}");
    platform.adapters.cluster.bring_back();
    let context = operator();
    let story = broker.service().wait_for(&context, machine.id(), Phase::Ready, 10 * MINUTE);
    broker
        .run(async { assert!(matches!(story.await, Ok(WaitOutcome::Reached(_)))) })
        .await
        .unwrap();
}

#[tokio::test]
async fn failed_passes_back_off_as_configured() {
    const WAIT: Duration = Duration::from_millis(10);
    let platform = MemoryPlatform::new();
    let builder = Broker::builder(url()).ports(platform.ports());
    let parts = builder.configure(|it| it.backoff = Backoff::new(WAIT, WAIT)).parts().unwrap();
    let machine = parts.service.provision(&operator(), &platform.declaration()).await.unwrap();
    platform.adapters.neighbours.set_reachable(false);
    for attempts in 1..=10 {
        parts.reconciler.reconcile(machine.id()).await.unwrap_err();
        let entry = parts.ports.schedule.entry(machine.id()).await.unwrap().unwrap();
        let wait = entry.due_at.unwrap() - entry.now;
        assert!(entry.attempts == attempts && wait <= WAIT, "{entry:?}");
    }
}

/// Counts what it issues, and leaves the rest to the issuer behind it.
struct Counted(Arc<dyn TokenIssuer>, Arc<AtomicUsize>);

#[async_trait::async_trait]
impl TokenIssuerWrapper for Counted {
    fn inner(&self) -> &dyn TokenIssuer {
        &*self.0
    }

    async fn issue(&self, request: &IssueRequest) -> Result<Issue, PortError> {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.inner().issue(request).await
    }
}

/// Counts what is delivered.
struct Counting(Arc<AtomicUsize>);

#[async_trait::async_trait]
impl EventSink for Counting {
    async fn deliver(&self, _: &Envelope) -> Result<(), PortError> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn replaced_ports_are_the_ones_that_a_machine_is_made_with() {
    let platform = MemoryPlatform::new();
    let (issued, delivered) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
    let broker = Broker::builder(url())
        .ports(platform.living_ports())
        .token_issuer(|inner| Counted(inner, Arc::clone(&issued)))
        .event_sink(Counting(Arc::clone(&delivered)))
        .build()
        .await
        .unwrap();
    let machine = broker.service().provision(&operator(), &platform.declaration()).await.unwrap();
    let context = operator();
    let story = async {
        let waited =
            broker.service().wait_for(&context, machine.id(), Phase::Ready, 10 * MINUTE).await;
        assert!(matches!(waited, Ok(WaitOutcome::Reached(_))), "{waited:?}");
        // Its event follows the phase.
        tokio::time::sleep(MINUTE).await;
    };
    broker.run(story).await.unwrap();
    assert_eq!(issued.load(Ordering::Relaxed), 1);
    assert_eq!(delivered.load(Ordering::Relaxed), 2, "it was declared, and it is Ready");
}

/// Stands still.
struct Stopped;

impl Clock for Stopped {
    fn now(&self) -> OffsetDateTime {
        OffsetDateTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000)
    }
}

/// Always the same ids.
struct Fixed;

impl IdSource for Fixed {
    fn provisioned_resource_id(&self) -> ProvisionedResourceId {
        Uuid::from_u128(7).try_into().expect("an id")
    }

    fn event_id(&self) -> EventId {
        Uuid::from_u128(8).try_into().expect("an id")
    }
}

#[tokio::test]
async fn ports_keep_the_sink_clock_and_ids_that_the_builder_has() {
    let platform = MemoryPlatform::new();
    let delivered = Arc::<AtomicUsize>::default();
    let parts = Broker::builder(url())
        .event_sink(Counting(Arc::clone(&delivered)))
        .clock(Stopped)
        .id_source(Fixed)
        .ports(platform.ports())
        .parts()
        .unwrap();
    let machine = parts.service.provision(&operator(), &platform.declaration()).await.unwrap();
    assert_eq!(machine.id(), Fixed.provisioned_resource_id());
    assert_eq!(machine.created_at(), Stopped.now());
    parts.relay.deliver_batch().await.unwrap();
    assert_eq!(delivered.load(Ordering::Relaxed), 1);
}

#[cfg(feature = "postgres")]
#[tokio::test]
async fn pool_that_is_too_small_is_refused_in_one_line() {
    let cluster = MemoryPlatform::new().adapters.cluster;
    let pool = sqlx::postgres::PgPoolOptions::new().max_connections(19);
    let pool = pool.connect_lazy("postgres://user@127.0.0.1:1/none").unwrap();
    let builder = || Broker::builder(url()).postgres(pool.clone()).cluster(cluster.clone());
    let refused = builder().build().await.err().expect("a refusal");
    assert_eq!(
        one_line(&refused),
        "max_connections of the pool is 19; give at least 20, which is 2 * workers_per_lane + 4, \
         or fewer than 8 workers"
    );
    assert!(builder().configure(|it| it.workers_per_lane = 7).build_unchecked().is_ok());
    assert!(builder().service().is_ok(), "a process without passes needs no such pool");
}

#[cfg(all(feature = "kubernetes", feature = "postgres"))]
#[tokio::test]
async fn cache_options_that_cannot_work_are_refused_in_one_line() {
    use broker_embed::kubernetes::cache::CacheOptions;

    type Change = fn(&mut CacheOptions);
    const MAX: &str = "18446744073709551615.999999999s";
    let forever = |field: &str, most: &str| format!("cache.{field} is {MAX}; give at most {most}");
    let rows: [(Change, String); 17] = [
        (|it| it.page_size = 0, "cache.page_size is 0; give at least 1".into()),
        (|it| it.page_bytes = 0, "cache.page_bytes is 0; give at least 1".into()),
        (|it| it.watch_timeout = ZERO, "cache.watch_timeout is 0ns; give at least 1s".into()),
        (|it| it.watch_timeout = Duration::MAX, forever("watch_timeout", "86400s")),
        (|it| it.silence = ZERO, "cache.silence is 0ns; give at least 1s".into()),
        (|it| it.silence = Duration::MAX, forever("silence", "86400s")),
        (|it| it.relist_after = ZERO, "cache.relist_after is 0ns; give at least 1s".into()),
        (|it| it.relist_after = Duration::MAX, forever("relist_after", "86400s")),
        (
            |it| it.request_timeout = ZERO,
            "cache.request_timeout is 0ns; give more than zero".into(),
        ),
        (|it| it.request_timeout = Duration::MAX, forever("request_timeout", "86400s")),
        (|it| it.first_wait = ZERO, "cache.first_wait is 0ns; give at least 10ms".into()),
        (|it| it.longest_wait = ZERO, "cache.longest_wait is 0ns; give at least 10ms".into()),
        (|it| it.longest_wait = Duration::MAX, forever("longest_wait", "3600s")),
        (
            |it| (it.first_wait, it.longest_wait) = (Duration::MAX, Duration::MAX),
            forever("first_wait", "3600s"),
        ),
        (
            |it| it.first_wait = MINUTE,
            "cache.first_wait is 60s; give at most 30s, which is cache.longest_wait".into(),
        ),
        (|it| it.unused_after = ZERO, "cache.unused_after is 0ns; give at least 1s".into()),
        (
            |it| it.unused_after = Duration::from_nanos(1),
            "cache.unused_after is 1ns; give at least 1s".into(),
        ),
    ];
    let pool = sqlx::postgres::PgPoolOptions::new().max_connections(20);
    let pool = pool.connect_lazy("postgres://user@127.0.0.1:1/none").unwrap();
    let config = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
    let client = kube::Client::try_from(config).unwrap();
    for (change, expected) in rows {
        let mut options = CacheOptions::default();
        change(&mut options);
        let store = || Broker::builder(url()).postgres(pool.clone());
        let builder = || store().kubernetes_with(client.clone(), options.clone());
        assert_eq!(one_line(&builder().build().await.err().expect("a refusal")), expected);
        for refused in
            [builder().build_unchecked().err(), builder().service().err(), builder().parts().err()]
        {
            assert_eq!(refused.expect("a refusal").to_string(), expected);
        }
    }
}

/// A wrapper passes on what it does not change.
#[tokio::test]
async fn wrapper_passes_on_the_methods_that_it_leaves_out() {
    let platform = MemoryPlatform::new();
    let counted = Counted(platform.ports().tokens, Arc::default());
    let window: TtlWindow = TokenIssuer::ttl_window(&counted).await.unwrap();
    assert_eq!(window, platform.ports().tokens.ttl_window().await.unwrap());
}

#[tokio::test]
async fn service_alone_needs_neither_an_api_url_nor_a_cluster_that_answers() {
    let platform = MemoryPlatform::new();
    platform.adapters.cluster.take_down();
    let configured = || Broker::configured(BrokerConfig::default()).ports(platform.ports());
    let refused = configured().configure(|it| it.deadlines.store = MINUTE).service();
    let refused = refused.err().expect("a refusal").to_string();
    assert!(refused.starts_with("deadlines.store is 60s; "), "{refused}");
    let service = configured().service().unwrap();
    let declared = service.provision(&operator(), &platform.declaration()).await.unwrap();
    assert_eq!(declared.to_json()["phase"], "Pending");
    assert_eq!(service.status(&operator(), declared.id()).await.unwrap().phase, Phase::Pending);
}
