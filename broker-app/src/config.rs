//! The one configuration: every part of the broker reads it, and it is validated in one place.

use std::ops::RangeInclusive;
use std::time::Duration;

use broker_ports::{Allowance, Backoff, Deadlines, PageSize, WorkerId};
use broker_render::{Agent, ApiUrl, ProviderProfiles};
use fluent_uri::UriRef;

pub use broker_ports::ConfigError;

use crate::decide::Mode;
use crate::error::Error;
use crate::explain::Budgets;
use crate::system::new_worker;

/// What an embedder decides. Everything but the API URL has a default; change the fields that differ.
///
/// ```
/// use std::time::Duration;
///
/// use broker_app::BrokerConfig;
/// use broker_app::render::ApiUrl;
///
/// let mut config = BrokerConfig::new(ApiUrl::new("https://mesh.example.org")?);
/// config.retention = Some(Duration::from_hours(24 * 30));
/// config.validate()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct BrokerConfig {
    /// The name of this replica. It has to differ between replicas and between starts; the default is a new UUID.
    pub worker: WorkerId,
    /// Where agents enrol. A process that only uses the [`Service`](crate::Service) can leave it out: then a plan of
    /// a resource that becomes a Node fails.
    pub api_url: Option<ApiUrl>,
    /// Where the agent comes from.
    pub agent: Agent,
    /// How the providers' configuration objects look.
    pub profiles: ProviderProfiles,
    /// Whether the replica changes anything; by default it does.
    pub mode: Mode,
    /// How long each call of a port may take. See [`Deadlines::DEFAULT`].
    pub deadlines: Deadlines,
    /// How long a claimed resource belongs to this replica. Default: 1 min. The resources of a replica that died wait
    /// this long.
    pub lease: Duration,
    /// How long before the end of its lease a pass sends nothing more. Default: 5 s.
    pub lease_margin: Duration,
    /// How long a resource waits after a failed pass: up to `first` after one failure, up to `longest` after many.
    /// Default: 1 s and 5 min. Allowed: 10 ms to 1 day. A hint about the resource is followed earlier.
    pub backoff: Backoff,
    /// How long a bootstrap token can be consumed. Default: 1 h. The token issuer has a window for it.
    pub token_ttl: Duration,
    /// How much may be destroyed automatically: re-created after a loss, or given up after it was Ready. Give every
    /// replica the same. See [`Allowance::default`].
    pub allowance: Allowance,
    /// What explanations call too long. Default: [`Budgets::with_token_ttl`] of `token_ttl`.
    pub budgets: Option<Budgets>,
    /// How often the replica looks at all resources. Default: 30 s. Allowed: [`SWEEP_INTERVALS`](Self::SWEEP_INTERVALS).
    pub sweep_interval: Duration,
    /// How often the replica asks for due work and for events to deliver when nothing wakes it up. Default: 1 s. Allowed:
    /// 10 ms to 1 h.
    pub poll_interval: Duration,
    /// How often [`Service::wait_for`](crate::Service::wait_for) reads the resource. Default: 500 ms.
    /// Allowed: 10 ms to 1 h.
    pub wait_interval: Duration,
    /// How many passes run at once in each of the two lanes, converge and teardown. Default: 8. The store's pool needs
    /// [`connections`](Self::connections).
    pub workers_per_lane: usize,
    /// Refuse to start if the boot sweep cannot examine one of the resources, and not only if store or cluster fail. The
    /// sweep reads each resource, its blueprint and its composite resource. It runs no pass, so a resource whose pass
    /// will fail does not prevent the start. Default: false.
    pub strict: bool,
    /// How long passes under way may take to finish when the replica is stopped. Default: 20 s.
    pub stop_within: Duration,
    /// How long Deleted rows and delivered events are kept. Default: `None`, which keeps them.
    pub retention: Option<Duration>,
    /// What the envelopes of events name as their source: a URI reference. Default: `/provisioning-broker`.
    pub event_source: String,
    /// How long an event is claimed for its delivery. Default: 30 s. The events of a replica that died wait this long.
    pub event_claim: Duration,
    /// After how many rejections an event is set aside. Default: 10, which takes about four minutes. Other failures
    /// only delay it.
    pub event_attempts: u32,
    /// How many events are delivered at once. Default: 16.
    pub deliveries_at_once: PageSize,
}

impl Default for BrokerConfig {
    /// Every default, and no API URL.
    fn default() -> Self {
        Self {
            worker: new_worker(),
            api_url: None,
            agent: Agent::default(),
            profiles: ProviderProfiles::default(),
            mode: Mode::Live,
            deadlines: Deadlines::DEFAULT,
            lease: Duration::from_mins(1),
            lease_margin: Duration::from_secs(5),
            backoff: Backoff::default(),
            token_ttl: Duration::from_hours(1),
            allowance: Allowance::default(),
            budgets: None,
            sweep_interval: Duration::from_secs(30),
            poll_interval: Duration::from_secs(1),
            wait_interval: Duration::from_millis(500),
            workers_per_lane: 8,
            strict: false,
            stop_within: Duration::from_secs(20),
            retention: None,
            event_source: "/provisioning-broker".to_owned(),
            event_claim: Duration::from_secs(30),
            event_attempts: 10,
            deliveries_at_once: PageSize::new(16).unwrap_or(PageSize::MAX),
        }
    }
}

/// The least time that is not zero.
const MOMENT: Duration = Duration::from_nanos(1);

const DAY: Duration = Duration::from_hours(24);

/// Keeps each time that a store adds to or subtracts from its clock within the range of that clock.
const CENTURY: Duration = Duration::from_hours(24 * 36_500);

/// The upper limit of `workers_per_lane`: the store claims at most one page at once.
const MOST_WORKERS: usize = PageSize::MAX.get() as usize;

/// Connections beside those of the passes: sweep, relay, notifications and purge.
const CONNECTIONS_BESIDE_PASSES: u32 = 4;

impl BrokerConfig {
    /// The intervals that `sweep_interval` may have. With a shorter one sweeps follow each other without a pause. With a
    /// longer one the sweep is no backstop for lost hints.
    pub const SWEEP_INTERVALS: RangeInclusive<Duration> =
        Duration::from_millis(100)..=Duration::from_hours(1);

    /// The defaults, for agents that enrol at this URL.
    pub fn new(api_url: ApiUrl) -> Self {
        Self { api_url: Some(api_url), ..Self::default() }
    }

    /// How many connections a replica needs of the store's pool: one for each pass of the two lanes, and four more.
    pub fn connections(&self) -> u32 {
        let passes = u32::try_from(self.workers_per_lane).unwrap_or(u32::MAX).saturating_mul(2);
        passes.saturating_add(CONNECTIONS_BESIDE_PASSES)
    }

    /// The API URL, for a document that needs it.
    pub(crate) fn agents_enrol_at(&self) -> Result<&ApiUrl, Error> {
        self.api_url.as_ref().ok_or(Error::Internal("api_url is missing from the configuration"))
    }

    /// What explanations call too long.
    pub(crate) fn budgets(&self) -> Budgets {
        self.budgets.unwrap_or_else(|| Budgets::with_token_ttl(self.token_ttl))
    }

    /// The shortest claim that covers its own answer, one delivery and its acknowledgement.
    const fn shortest_claim(&self) -> Duration {
        self.deadlines.deliver.saturating_add(self.deadlines.store.saturating_mul(2))
    }

    /// Whether a replica can work with it.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] for the first field that cannot work.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if self.api_url.is_none() {
            return Err(ConfigError::new("api_url", "missing", "give the URL where agents enrol"));
        }
        self.validate_service()
    }

    /// Whether a process that only calls the [`Service`](crate::Service) can work with it: as
    /// [`validate`](Self::validate), and the API URL may be missing.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] for the first field that cannot work.
    pub fn validate_service(&self) -> Result<(), ConfigError> {
        self.check_times()?;
        self.check_lease()?;
        self.check_events()?;
        let workers = self.workers_per_lane;
        if !(1..=MOST_WORKERS).contains(&workers) {
            let allowed = format!("give 1 to {MOST_WORKERS}");
            return Err(ConfigError::new("workers_per_lane", workers, allowed));
        }
        Ok(())
    }

    /// Whether a pool with this many connections is large enough for a replica.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] that names `max_connections` of the pool.
    pub fn validate_pool(&self, max_connections: u32) -> Result<(), ConfigError> {
        let (needed, workers) = (self.connections(), self.workers_per_lane);
        if max_connections >= needed {
            return Ok(());
        }
        let allowed = format!(
            "give at least {needed}, which is 2 * workers_per_lane + 4, or fewer than {workers} workers"
        );
        Err(ConfigError::new("max_connections of the pool", max_connections, allowed))
    }

    /// A time above its limit would overflow a clock, or switch off what it is for.
    fn check_times(&self) -> Result<(), ConfigError> {
        let pause = ConfigError::LEAST_WAIT..=*Self::SWEEP_INTERVALS.end();
        let times = [
            ("lease", self.lease, MOMENT..=DAY),
            ("token_ttl", self.token_ttl, MOMENT..=CENTURY),
            ("allowance.within", self.allowance.within, MOMENT..=CENTURY),
            ("sweep_interval", self.sweep_interval, Self::SWEEP_INTERVALS),
            ("poll_interval", self.poll_interval, pause.clone()),
            ("wait_interval", self.wait_interval, pause),
            ("deadlines.deliver", self.deadlines.deliver, MOMENT..=DAY),
            ("event_claim", self.event_claim, Duration::ZERO..=DAY),
            ("stop_within", self.stop_within, Duration::ZERO..=DAY),
            ("retention", self.retention.unwrap_or_default(), Duration::ZERO..=CENTURY),
        ];
        for (field, time, allowed) in times {
            ConfigError::check_time(field, time, &allowed)?;
        }
        let Backoff { first, longest, .. } = self.backoff;
        ConfigError::check_waits(("backoff.first", first), ("backoff.longest", longest), DAY)
    }

    /// The deadlines of the calls that a pass makes.
    const fn deadlines_of_a_pass(&self) -> [(&'static str, Duration); 6] {
        let Deadlines { store, resolve, cluster_read, cluster_write, token, node, deliver: _ } =
            self.deadlines;
        [
            ("deadlines.store", store),
            ("deadlines.resolve", resolve),
            ("deadlines.cluster_read", cluster_read),
            ("deadlines.cluster_write", cluster_write),
            ("deadlines.token", token),
            ("deadlines.node", node),
        ]
    }

    fn check_lease(&self) -> Result<(), ConfigError> {
        let Self { lease, lease_margin: margin, retention, .. } = *self;
        if margin >= lease {
            let allowed = format!("give less than the lease, which is {lease:?}");
            return Err(ConfigError::time("lease_margin", margin, allowed));
        }
        // A call that outlasts the usable part of the lease would be given up every time.
        let usable = lease.saturating_sub(margin);
        for (field, deadline) in self.deadlines_of_a_pass() {
            ConfigError::check_time(field, deadline, &(MOMENT..=Duration::MAX))?;
            if deadline > usable {
                let allowed =
                    format!("give at most {usable:?}, the lease without its lease_margin");
                return Err(ConfigError::time(field, deadline, allowed));
            }
        }
        // An act ends before its lease does. A row that is purged earlier could leave behind what the act made.
        match retention {
            Some(retention) if retention <= lease => {
                let allowed = format!("give more than the lease, which is {lease:?}");
                Err(ConfigError::time("retention", retention, allowed))
            }
            Some(_) | None => Ok(()),
        }
    }

    fn check_events(&self) -> Result<(), ConfigError> {
        let shortest = self.shortest_claim();
        if self.event_claim < shortest {
            let allowed =
                format!("give at least {shortest:?}, one delivery and two calls of the store");
            return Err(ConfigError::time("event_claim", self.event_claim, allowed));
        }
        if self.event_attempts == 0 {
            return Err(ConfigError::new("event_attempts", 0, "give at least 1"));
        }
        let source = &self.event_source;
        // CloudEvents: a source is not empty.
        if source.is_empty() || UriRef::parse(source.as_str()).is_err() {
            let allowed = "give a URI reference, such as /provisioning-broker";
            return Err(ConfigError::new("event_source", format_args!("{source:?}"), allowed));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> BrokerConfig {
        BrokerConfig::new(ApiUrl::new("https://mesh.example.org").unwrap())
    }

    #[test]
    fn the_defaults_can_work_and_each_has_a_worker_of_its_own() {
        assert_eq!(config().validate(), Ok(()));
        assert_ne!(config().worker, config().worker);
    }

    const ZERO: Duration = Duration::ZERO;
    const NANOSECOND: Duration = Duration::from_nanos(1);
    const MINUTE: Duration = Duration::from_mins(1);
    const MAX: Duration = Duration::MAX;
    type Spoil = fn(&mut BrokerConfig);
    /// A configuration that cannot work, and its refusal.
    const REFUSED: [(Spoil, &str); 46] = [
        (|it| it.api_url = None, "api_url is missing; give the URL where agents enrol"),
        (|it| it.lease = ZERO, "lease is 0ns; give more than zero"),
        (|it| it.token_ttl = ZERO, "token_ttl is 0ns; give more than zero"),
        (|it| it.allowance.within = ZERO, "allowance.within is 0ns; give more than zero"),
        (|it| it.sweep_interval = ZERO, "sweep_interval is 0ns; give at least 100ms"),
        (|it| it.poll_interval = NANOSECOND, "poll_interval is 1ns; give at least 10ms"),
        (|it| it.wait_interval = NANOSECOND, "wait_interval is 1ns; give at least 10ms"),
        (|it| it.deadlines.deliver = ZERO, "deadlines.deliver is 0ns; give more than zero"),
        (|it| it.deadlines.store = ZERO, "deadlines.store is 0ns; give more than zero"),
        (|it| it.deadlines.resolve = ZERO, "deadlines.resolve is 0ns; give more than zero"),
        (
            |it| it.deadlines.cluster_read = ZERO,
            "deadlines.cluster_read is 0ns; give more than zero",
        ),
        (
            |it| it.deadlines.cluster_write = ZERO,
            "deadlines.cluster_write is 0ns; give more than zero",
        ),
        (|it| it.deadlines.token = ZERO, "deadlines.token is 0ns; give more than zero"),
        (|it| it.deadlines.node = ZERO, "deadlines.node is 0ns; give more than zero"),
        (
            |it| it.lease_margin = MINUTE,
            "lease_margin is 60s; give less than the lease, which is 60s",
        ),
        (
            |it| it.deadlines.store = MINUTE,
            "deadlines.store is 60s; give at most 55s, the lease without its lease_margin",
        ),
        (
            |it| it.deadlines.resolve = MINUTE,
            "deadlines.resolve is 60s; give at most 55s, the lease without its lease_margin",
        ),
        (
            |it| it.deadlines.cluster_read = MINUTE,
            "deadlines.cluster_read is 60s; give at most 55s, the lease without its lease_margin",
        ),
        (
            |it| it.deadlines.cluster_write = MINUTE,
            "deadlines.cluster_write is 60s; give at most 55s, the lease without its lease_margin",
        ),
        (
            |it| it.deadlines.token = MINUTE,
            "deadlines.token is 60s; give at most 55s, the lease without its lease_margin",
        ),
        (
            |it| it.deadlines.node = MINUTE,
            "deadlines.node is 60s; give at most 55s, the lease without its lease_margin",
        ),
        (
            |it| it.retention = Some(MINUTE),
            "retention is 60s; give more than the lease, which is 60s",
        ),
        (
            |it| it.event_claim = Duration::from_secs(19),
            "event_claim is 19s; give at least 20s, one delivery and two calls of the store",
        ),
        (|it| it.backoff.first = ZERO, "backoff.first is 0ns; give at least 10ms"),
        (|it| it.backoff.longest = ZERO, "backoff.longest is 0ns; give at least 10ms"),
        (
            |it| it.backoff.first = Duration::from_mins(6),
            "backoff.first is 360s; give at most 300s, which is backoff.longest",
        ),
        (
            |it| it.backoff.longest = MAX,
            "backoff.longest is 18446744073709551615.999999999s; give at most 86400s",
        ),
        (|it| it.event_attempts = 0, "event_attempts is 0; give at least 1"),
        (
            |it| it.event_source = "/the broker".to_owned(),
            "event_source is \"/the broker\"; give a URI reference, such as /provisioning-broker",
        ),
        (
            |it| it.event_source = String::new(),
            "event_source is \"\"; give a URI reference, such as /provisioning-broker",
        ),
        (
            |it| it.event_source = "/the%broker".to_owned(),
            "event_source is \"/the%broker\"; give a URI reference, such as /provisioning-broker",
        ),
        (
            |it| it.event_source = "/the#broker#again".to_owned(),
            "event_source is \"/the#broker#again\"; give a URI reference, such as /provisioning-broker",
        ),
        (
            |it| it.event_source = "https://[broker".to_owned(),
            "event_source is \"https://[broker\"; give a URI reference, such as /provisioning-broker",
        ),
        (|it| it.workers_per_lane = 0, "workers_per_lane is 0; give 1 to 1000"),
        (|it| it.workers_per_lane = 1_001, "workers_per_lane is 1001; give 1 to 1000"),
        (
            |it| it.sweep_interval = Duration::from_millis(99),
            "sweep_interval is 99ms; give at least 100ms",
        ),
        (
            |it| it.sweep_interval = Duration::from_mins(61),
            "sweep_interval is 3660s; give at most 3600s",
        ),
        (
            |it| it.poll_interval = Duration::from_mins(61),
            "poll_interval is 3660s; give at most 3600s",
        ),
        (
            |it| it.wait_interval = Duration::from_mins(61),
            "wait_interval is 3660s; give at most 3600s",
        ),
        (|it| it.lease = Duration::from_hours(25), "lease is 90000s; give at most 86400s"),
        (
            |it| it.event_claim = Duration::from_hours(25),
            "event_claim is 90000s; give at most 86400s",
        ),
        (
            |it| it.stop_within = Duration::from_hours(25),
            "stop_within is 90000s; give at most 86400s",
        ),
        (
            |it| it.token_ttl = CENTURY + MINUTE,
            "token_ttl is 3153600060s; give at most 3153600000s",
        ),
        (
            |it| it.allowance.within = CENTURY + MINUTE,
            "allowance.within is 3153600060s; give at most 3153600000s",
        ),
        (
            |it| it.retention = Some(CENTURY + MINUTE),
            "retention is 3153600060s; give at most 3153600000s",
        ),
        (
            |it| it.sweep_interval = MAX,
            "sweep_interval is 18446744073709551615.999999999s; give at most 3600s",
        ),
    ];

    #[test]
    fn invalid_value_is_refused_with_the_allowed_range() {
        for (spoil, message) in REFUSED {
            let mut config = config();
            spoil(&mut config);
            assert_eq!(config.validate().unwrap_err().to_string(), message);
            if config.api_url.is_some() {
                assert_eq!(config.validate_service().unwrap_err().to_string(), message);
            }
        }
    }

    #[test]
    fn event_source_may_be_any_uri_reference() {
        for source in ["/provisioning-broker", "https://[::1]:8443/a?b#c", "urn:broker:1", "a/%20"]
        {
            let mut config = config();
            source.clone_into(&mut config.event_source);
            assert_eq!(config.validate(), Ok(()), "{source}");
        }
    }

    #[test]
    fn service_needs_no_api_url_and_every_other_default_is_valid() {
        assert_eq!(BrokerConfig::default().validate_service(), Ok(()));
    }

    #[test]
    fn pool_smaller_than_the_workers_need_is_refused() {
        let mut config = config();
        assert_eq!(config.validate_pool(config.connections()), Ok(()));
        assert_eq!(
            config.validate_pool(19).unwrap_err().to_string(),
            "max_connections of the pool is 19; give at least 20, which is 2 * workers_per_lane + 4, \
             or fewer than 8 workers"
        );
        config.workers_per_lane = usize::MAX;
        assert!(config.validate_pool(20).is_err(), "the number of connections overflowed");
    }
}
