//! The checks of `build`, and the replacement of ports.

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

/// The error of `build` over this platform, in one line.
async fn build_error(platform: &MemoryPlatform, change: impl FnOnce(&mut BrokerConfig)) -> String {
    let built = Broker::builder(url()).ports(platform.ports()).configure(change).build().await;
    one_line(&built.err().expect("an error"))
}

#[tokio::test]
async fn invalid_configuration_is_refused_with_the_allowed_range() {
    type Change = fn(&mut BrokerConfig);
    let rows: [(Change, &str); 6] = [
        (|config| config.api_url = None, "api_url is missing; give the URL where agents enrol"),
        (
            |config| config.deadlines.store = MINUTE,
            "deadlines.store is 60s; give at most 55s, the lease without its lease_margin",
        ),
        (
            |config| config.event_claim = Duration::from_secs(1),
            "event_claim is 1s; give at least 20s, one delivery and two calls of the store",
        ),
        (
            |config| config.retention = Some(MINUTE),
            "retention is 60s; give more than the lease, which is 60s",
        ),
        (
            |config| config.sweep_interval = Duration::MAX,
            "sweep_interval is 18446744073709551615.999999999s; give at most 3600s",
        ),
        (
            |config| config.token_ttl = Duration::from_hours(48),
            "token_ttl is 172800s; the token issuer allows 60s to 86400s",
        ),
    ];
    for (change, expected) in rows {
        assert_eq!(build_error(&MemoryPlatform::new(), change).await, expected);
    }
}

#[tokio::test]
async fn build_fails_on_unreachable_store_or_cluster_until_retried() {
    let platform = MemoryPlatform::new();
    platform.adapters.cluster.take_down();
    let error = build_error(&platform, |_| {}).await;
    assert!(error.starts_with("the cluster failed: "), "{error}");
    platform.adapters.cluster.bring_back();
    platform.adapters.store.set_reachable(false);
    let error = build_error(&platform, |_| {}).await;
    assert!(error.starts_with("the repository failed: "), "{error}");
    platform.adapters.store.set_reachable(true);
    assert!(Broker::builder(url()).ports(platform.ports()).build().await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn failed_boot_can_be_retried_on_the_same_broker() {
    let platform = MemoryPlatform::new();
    let broker = Broker::builder(url()).ports(platform.living_ports()).build().await.unwrap();
    broker.service().provision(&operator(), &platform.declaration()).await.unwrap();
    platform.adapters.store.set_reachable(false);
    let error = broker.run(std::future::pending()).await.unwrap_err();
    let is_boot_error = matches!(error, BrokerError::Boot(BootError::Infrastructure(_)));
    assert!(is_boot_error, "{error}");
    platform.adapters.store.set_reachable(true);
    broker.run(tokio::time::sleep(MINUTE)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn unchecked_broker_serves_at_once_and_checks_at_run() {
    let platform = MemoryPlatform::new();
    platform.adapters.cluster.take_down();
    let built = Broker::builder(url()).ports(platform.living_ports()).build_unchecked();
    let broker = built.unwrap();
    let machine = broker.service().provision(&operator(), &platform.declaration()).await.unwrap();
    let error = broker.run(std::future::pending()).await.unwrap_err();
    assert!(matches!(error, BrokerError::Start(_)), "{error}");
    platform.adapters.cluster.bring_back();
    let context = operator();
    let shutdown = broker.service().wait_for(&context, machine.id(), Phase::Ready, 10 * MINUTE);
    broker
        .run(async { assert!(matches!(shutdown.await, Ok(WaitOutcome::Reached(_)))) })
        .await
        .unwrap();
}

#[tokio::test]
async fn failed_passes_back_off_as_builder() {
    const WAIT: Duration = Duration::from_millis(10);
    let platform = MemoryPlatform::new();
    let builder = Broker::builder(url()).ports(platform.ports());
    let parts =
        builder.configure(|config| config.backoff = Backoff::new(WAIT, WAIT)).parts().unwrap();
    let machine = parts.service.provision(&operator(), &platform.declaration()).await.unwrap();
    platform.adapters.platform.set_reachable(false);
    for attempts in 1..=10 {
        parts.reconciler.reconcile(machine.id()).await.unwrap_err();
        let entry = parts.ports.schedule.entry(machine.id()).await.unwrap().unwrap();
        let wait = entry.due_at.unwrap() - entry.now;
        assert!(entry.attempts == attempts && wait <= WAIT, "{entry:?}");
    }
}

/// Counts issued tokens.
struct CountingIssuer(Arc<dyn TokenIssuer>, Arc<AtomicUsize>);

#[async_trait::async_trait]
impl TokenIssuerWrapper for CountingIssuer {
    fn inner(&self) -> &dyn TokenIssuer {
        &*self.0
    }

    async fn issue(&self, request: &IssueRequest) -> Result<Issue, PortError> {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.inner().issue(request).await
    }
}

/// Counts delivered events.
struct CountingSink(Arc<AtomicUsize>);

#[async_trait::async_trait]
impl EventSink for CountingSink {
    async fn deliver(&self, _: &Envelope) -> Result<(), PortError> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn replaced_issuer_and_sink_are_called_by_the_broker() {
    let platform = MemoryPlatform::new();
    let (issued, delivered) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
    let broker = Broker::builder(url())
        .ports(platform.living_ports())
        .token_issuer(|inner| CountingIssuer(inner, Arc::clone(&issued)))
        .event_sink(CountingSink(Arc::clone(&delivered)))
        .build()
        .await
        .unwrap();
    let machine = broker.service().provision(&operator(), &platform.declaration()).await.unwrap();
    let context = operator();
    let shutdown = async {
        let waited =
            broker.service().wait_for(&context, machine.id(), Phase::Ready, 10 * MINUTE).await;
        assert!(matches!(waited, Ok(WaitOutcome::Reached(_))), "{waited:?}");
        // The relay delivers the event after the phase is stored.
        tokio::time::sleep(MINUTE).await;
    };
    broker.run(shutdown).await.unwrap();
    assert_eq!(issued.load(Ordering::Relaxed), 1);
    assert_eq!(
        delivered.load(Ordering::Relaxed),
        2,
        "one event for the declaration, one for Ready"
    );
}

/// A clock that always returns the same time.
struct FixedClock;

impl Clock for FixedClock {
    fn now(&self) -> OffsetDateTime {
        OffsetDateTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000)
    }
}

/// Always returns the same ids.
struct FixedIds;

impl IdSource for FixedIds {
    fn provisioned_resource_id(&self) -> ProvisionedResourceId {
        Uuid::from_u128(7).try_into().expect("an id")
    }

    fn event_id(&self) -> EventId {
        Uuid::from_u128(8).try_into().expect("an id")
    }
}

#[tokio::test]
async fn ports_keep_the_sink_clock_and_ids_of_the_builder() {
    let platform = MemoryPlatform::new();
    let delivered = Arc::<AtomicUsize>::default();
    let parts = Broker::builder(url())
        .event_sink(CountingSink(Arc::clone(&delivered)))
        .clock(FixedClock)
        .id_source(FixedIds)
        .ports(platform.ports())
        .parts()
        .unwrap();
    let machine = parts.service.provision(&operator(), &platform.declaration()).await.unwrap();
    assert_eq!(machine.id(), FixedIds.provisioned_resource_id());
    assert_eq!(machine.created_at(), FixedClock.now());
    parts.relay.deliver_batch().await.unwrap();
    assert_eq!(delivered.load(Ordering::Relaxed), 1);
}

#[cfg(feature = "postgres")]
#[tokio::test]
async fn pool_below_the_needed_connections_is_refused() {
    let cluster = MemoryPlatform::new().adapters.cluster;
    let pool = sqlx::postgres::PgPoolOptions::new().max_connections(19);
    let pool = pool.connect_lazy("postgres://user@127.0.0.1:1/none").unwrap();
    let builder = || Broker::builder(url()).postgres(pool.clone()).cluster(cluster.clone());
    let refused = builder().build().await.err().expect("an error");
    assert_eq!(
        one_line(&refused),
        "max_connections of the pool is 19; give at least 20, which is 2 * workers_per_lane + 4, \
         or fewer than 8 workers"
    );
    assert!(builder().configure(|config| config.workers_per_lane = 7).build_unchecked().is_ok());
    assert!(builder().service().is_ok(), "a process without passes needs fewer connections");
}

#[cfg(all(feature = "kubernetes", feature = "postgres"))]
#[tokio::test]
async fn invalid_cache_option_is_refused_with_the_allowed_range() {
    use broker_embed::kubernetes::cache::CacheOptions;

    type Change = fn(&mut CacheOptions);
    const MAX: &str = "18446744073709551615.999999999s";
    let too_long =
        |field: &str, limit: &str| format!("cache.{field} is {MAX}; give at most {limit}");
    let rows: [(Change, String); 17] = [
        (|options| options.page_size = 0, "cache.page_size is 0; give at least 1".into()),
        (|options| options.page_bytes = 0, "cache.page_bytes is 0; give at least 1".into()),
        (
            |options| options.watch_timeout = ZERO,
            "cache.watch_timeout is 0ns; give at least 1s".into(),
        ),
        (|options| options.watch_timeout = Duration::MAX, too_long("watch_timeout", "86400s")),
        (|options| options.silence = ZERO, "cache.silence is 0ns; give at least 1s".into()),
        (|options| options.silence = Duration::MAX, too_long("silence", "86400s")),
        (
            |options| options.relist_after = ZERO,
            "cache.relist_after is 0ns; give at least 1s".into(),
        ),
        (|options| options.relist_after = Duration::MAX, too_long("relist_after", "86400s")),
        (
            |options| options.request_timeout = ZERO,
            "cache.request_timeout is 0ns; give more than zero".into(),
        ),
        (|options| options.request_timeout = Duration::MAX, too_long("request_timeout", "86400s")),
        (|options| options.first_wait = ZERO, "cache.first_wait is 0ns; give at least 10ms".into()),
        (
            |options| options.longest_wait = ZERO,
            "cache.longest_wait is 0ns; give at least 10ms".into(),
        ),
        (|options| options.longest_wait = Duration::MAX, too_long("longest_wait", "3600s")),
        (
            |options| (options.first_wait, options.longest_wait) = (Duration::MAX, Duration::MAX),
            too_long("first_wait", "3600s"),
        ),
        (
            |options| options.first_wait = MINUTE,
            "cache.first_wait is 60s; give at most 30s, which is cache.longest_wait".into(),
        ),
        (
            |options| options.unused_after = ZERO,
            "cache.unused_after is 0ns; give at least 1s".into(),
        ),
        (
            |options| options.unused_after = Duration::from_nanos(1),
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
        assert_eq!(one_line(&builder().build().await.err().expect("an error")), expected);
        for refused in
            [builder().build_unchecked().err(), builder().service().err(), builder().parts().err()]
        {
            assert_eq!(refused.expect("an error").to_string(), expected);
        }
    }
}

#[tokio::test]
async fn wrapper_forwards_methods_that_it_does_not_override() {
    let platform = MemoryPlatform::new();
    let issuer = CountingIssuer(platform.ports().tokens, Arc::default());
    let window: TtlWindow = TokenIssuer::ttl_window(&issuer).await.unwrap();
    assert_eq!(window, platform.ports().tokens.ttl_window().await.unwrap());
}

#[tokio::test]
async fn service_needs_no_api_url_and_no_reachable_cluster() {
    let platform = MemoryPlatform::new();
    platform.adapters.cluster.take_down();
    let builder = || Broker::configured(BrokerConfig::default()).ports(platform.ports());
    let refused = builder().configure(|config| config.deadlines.store = MINUTE).service();
    let refused = refused.err().expect("an error").to_string();
    assert!(refused.starts_with("deadlines.store is 60s; "), "{refused}");
    let service = builder().service().unwrap();
    let declared = service.provision(&operator(), &platform.declaration()).await.unwrap();
    assert_eq!(declared.to_json()["phase"], "Pending");
    assert_eq!(service.status(&operator(), declared.id()).await.unwrap().phase, Phase::Pending);
}
