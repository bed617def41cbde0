//! The configuration of all parts of the broker, and its validation.

use std::ops::RangeInclusive;
use std::time::Duration;

use broker_ports::{Allowance, Backoff, Deadlines, PageSize, WorkerId};
use broker_render::{Agent, ApiUrl, MAX_USER_DATA_BYTES, ProviderProfiles};
use fluent_uri::UriRef;

pub use broker_ports::ConfigError;

use crate::decide::Mode;
use crate::error::Error;
use crate::explain::Budgets;
use crate::system::new_worker;

/// The configuration. Every field but the API URL has a default.
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
    /// The name of this replica, unique per replica and per start. Default: a new UUID.
    pub worker: WorkerId,
    /// The URL at which agents enrol. A process that only uses the [`Service`](crate::Service) may omit it; then it cannot
    /// plan a resource that becomes a Node.
    pub api_url: Option<ApiUrl>,
    /// The agent: its contract, and its source. Default: a current `plexd`, from its Debian package.
    pub agent: Agent,
    /// The shape of the ProviderConfig of each provider. See [`ProviderProfiles::default`].
    pub profiles: ProviderProfiles,
    /// Whether the replica changes anything. Default: [`Mode::Live`], it does. [`Mode::DryRun`] reports what it would do.
    pub mode: Mode,
    /// How long each call of a port may take. See [`Deadlines::DEFAULT`]. Allowed: 10 ms up to the lease without its
    /// margin; for a delivery up to 1 day.
    pub deadlines: Deadlines,
    /// How long a lease lasts. Default: 1 min. Allowed: 1 s to 1 day. After the crash of a replica, its resources wait
    /// this long.
    pub lease: Duration,
    /// The time before the end of its lease in which a pass sends nothing. Default: 5 s.
    pub lease_margin: Duration,
    /// How long a resource waits after a failed pass: up to `first` after one failure, up to `longest` after many.
    /// Default: 1 s and 5 min. Allowed: 10 ms to 1 day. A hint triggers a pass earlier.
    pub backoff: Backoff,
    /// The time to live of a bootstrap token. Default: 1 h. The token issuer limits it.
    pub token_ttl: Duration,
    /// The limit of automatic destruction: re-creation of a lost composite resource, or failure of a resource that was
    /// Ready. Has to be the same in every replica. See [`Allowance::default`]. Allowed: a share of at most 100 %, a
    /// minimum of at most the maximum, and a window of 1 s or more.
    pub allowance: Allowance,
    /// The time after which an explanation reports a phase as too slow. Default: [`Budgets::with_token_ttl`] of
    /// `token_ttl`.
    pub budgets: Option<Budgets>,
    /// The time between two sweeps. Default: 30 s. Allowed: [`SWEEP_INTERVALS`](Self::SWEEP_INTERVALS).
    pub sweep_interval: Duration,
    /// The time between two claims of due work or of events, without a wake-up. Default: 1 s. Allowed: 10 ms to 1 h.
    pub poll_interval: Duration,
    /// How often [`Service::wait_for`](crate::Service::wait_for) reads the resource. Default: 500 ms.
    /// Allowed: 10 ms to 1 h.
    pub wait_interval: Duration,
    /// How many passes run at once in each of the two lanes, converge and teardown. Default: 8. The store's pool needs
    /// [`connections`](Self::connections).
    pub workers_per_lane: usize,
    /// Whether one unreadable resource prevents the start, and not only an unreachable store or cluster. The boot sweep
    /// reads each resource, its blueprint and its composite resource. It runs no pass, so a pass that will fail does not
    /// prevent the start. Default: false.
    pub strict: bool,
    /// How long running passes may take to finish at shutdown. Default: 20 s.
    pub stop_within: Duration,
    /// After which time the broker purges Deleted rows and delivered events. Default: `None`, never. Allowed: at least
    /// [`MIN_RETENTION`](Self::MIN_RETENTION), and more than the lease.
    pub retention: Option<Duration>,
    /// The `source` of event envelopes, a URI reference. Default: `/provisioning-broker`.
    pub event_source: String,
    /// How long the claim of an event lasts. Default: 30 s. After the crash of a replica, its events wait this long.
    pub event_claim: Duration,
    /// After how many rejections an event becomes a dead letter. Default: 10, which takes about four minutes. Other
    /// failures only delay the event.
    pub event_attempts: u32,
    /// The limit of concurrent deliveries. Default: 16.
    pub deliveries_at_once: PageSize,
}

impl Default for BrokerConfig {
    /// The defaults, without an API URL.
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

/// The shortest lease and the shortest window of the allowance: shorter ones end before a call does.
const SECOND: Duration = Duration::from_secs(1);

/// The shortest time above zero.
const SHORTEST: Duration = Duration::from_nanos(1);

const DAY: Duration = Duration::from_hours(24);

/// The upper limit of a time that a store adds to its clock or subtracts from it, so that the clock does not overflow.
const CENTURY: Duration = Duration::from_hours(24 * 36_500);

/// The upper limit of `workers_per_lane`: one claim returns at most one page.
const MAX_WORKERS: usize = PageSize::MAX.get() as usize;

/// Connections beside those of the passes: sweep, relay, notifications and purge.
const CONNECTIONS_BESIDE_PASSES: u32 = 4;

impl BrokerConfig {
    /// The allowed values of `sweep_interval`. Below, sweeps would run without a pause. Above, a lost hint would delay a
    /// pass for too long.
    pub const SWEEP_INTERVALS: RangeInclusive<Duration> =
        Duration::from_millis(100)..=Duration::from_hours(1);

    /// The shortest `retention`: after a short outage, a caller must still find a Deleted resource.
    pub const MIN_RETENTION: Duration = Duration::from_hours(1);

    /// The defaults, for agents that enrol at this URL.
    pub fn new(api_url: ApiUrl) -> Self {
        Self { api_url: Some(api_url), ..Self::default() }
    }

    /// The connections that a replica needs in the store's pool: one for each pass of the two lanes, and four more.
    pub fn connections(&self) -> u32 {
        let passes = u32::try_from(self.workers_per_lane).unwrap_or(u32::MAX).saturating_mul(2);
        passes.saturating_add(CONNECTIONS_BESIDE_PASSES)
    }

    /// The API URL; an error if it is missing.
    pub(crate) fn require_api_url(&self) -> Result<&ApiUrl, Error> {
        self.api_url.as_ref().ok_or(Error::Internal("api_url is missing from the configuration"))
    }

    /// The time limits of explanations.
    pub(crate) fn budgets(&self) -> Budgets {
        self.budgets.unwrap_or_else(|| Budgets::with_token_ttl(self.token_ttl))
    }

    /// The shortest claim that covers the claim call, one delivery and the acknowledgement.
    const fn shortest_claim(&self) -> Duration {
        self.deadlines.deliver.saturating_add(self.deadlines.store.saturating_mul(2))
    }

    /// Checks that a replica can run with this configuration.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] for the first invalid field.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let Some(api_url) = &self.api_url else {
            return Err(ConfigError::new("api_url", "missing", "give the URL where agents enrol"));
        };
        if self.agent.check(api_url).is_err() {
            let allowed =
                format!("give a profile whose files fit into {MAX_USER_DATA_BYTES} bytes");
            return Err(ConfigError::new("agent", "too large for a cloud-init document", allowed));
        }
        self.validate_service()
    }

    /// As [`validate`](Self::validate), for a process that only calls the [`Service`](crate::Service): the API URL may be
    /// missing.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] for the first invalid field.
    pub fn validate_service(&self) -> Result<(), ConfigError> {
        self.check_times()?;
        self.check_lease()?;
        self.check_events()?;
        self.check_allowance()?;
        let workers = self.workers_per_lane;
        if !(1..=MAX_WORKERS).contains(&workers) {
            let allowed = format!("give 1 to {MAX_WORKERS}");
            return Err(ConfigError::new("workers_per_lane", workers, allowed));
        }
        Ok(())
    }

    /// Checks that a pool with this many connections is large enough for a replica.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] if the pool is too small.
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

    /// Checks the range of each time. A time above its limit would overflow a clock or have no effect.
    fn check_times(&self) -> Result<(), ConfigError> {
        let pause = ConfigError::MIN_WAIT..=*Self::SWEEP_INTERVALS.end();
        let times = [
            ("lease", self.lease, SECOND..=DAY),
            ("token_ttl", self.token_ttl, SHORTEST..=CENTURY),
            ("allowance.within", self.allowance.within, SECOND..=CENTURY),
            ("sweep_interval", self.sweep_interval, Self::SWEEP_INTERVALS),
            ("poll_interval", self.poll_interval, pause.clone()),
            ("wait_interval", self.wait_interval, pause),
            ("deadlines.deliver", self.deadlines.deliver, ConfigError::MIN_WAIT..=DAY),
            ("event_claim", self.event_claim, Duration::ZERO..=DAY),
            ("stop_within", self.stop_within, Duration::ZERO..=DAY),
            ("retention", self.retention.unwrap_or(CENTURY), Self::MIN_RETENTION..=CENTURY),
        ];
        let budgets =
            self.budgets().fields().map(|(field, time)| (field, time, SHORTEST..=CENTURY));
        for (field, time, allowed) in times.into_iter().chain(budgets) {
            ConfigError::check_time(field, time, &allowed)?;
        }
        let Backoff { first, longest, .. } = self.backoff;
        ConfigError::check_waits(("backoff.first", first), ("backoff.longest", longest), DAY)
    }

    const fn pass_deadlines(&self) -> [(&'static str, Duration); 6] {
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
        // A longer call could never finish within the lease.
        let usable = lease.saturating_sub(margin);
        for (field, deadline) in self.pass_deadlines() {
            ConfigError::check_time(field, deadline, &(ConfigError::MIN_WAIT..=Duration::MAX))?;
            if deadline > usable {
                let allowed =
                    format!("give at most {usable:?}, the lease without its lease_margin");
                return Err(ConfigError::time(field, deadline, allowed));
            }
        }
        // A pass may create objects until its lease ends. A row that is purged earlier could leave them behind.
        match retention {
            Some(retention) if retention <= lease => {
                let allowed = format!("give more than the lease, which is {lease:?}");
                Err(ConfigError::time("retention", retention, allowed))
            }
            Some(_) | None => Ok(()),
        }
    }

    fn check_allowance(&self) -> Result<(), ConfigError> {
        let Allowance { min_permits: min, max_permits: max, percent, within: _ } = self.allowance;
        if min > max {
            let allowed = format!("give at most {max}, which is allowance.max_permits");
            return Err(ConfigError::new("allowance.min_permits", min, allowed));
        }
        if percent > 100 {
            return Err(ConfigError::new("allowance.percent", percent, "give at most 100"));
        }
        Ok(())
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
        // CloudEvents requires a source.
        if source.is_empty() || UriRef::parse(source.as_str()).is_err() {
            let allowed = "give a URI reference, such as /provisioning-broker";
            return Err(ConfigError::new("event_source", format_args!("{source:?}"), allowed));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use broker_render::{AgentFile, AgentProfile, AgentVariable};

    use super::*;

    fn config() -> BrokerConfig {
        BrokerConfig::new(ApiUrl::new("https://mesh.example.org").unwrap())
    }

    #[test]
    fn defaults_are_valid_and_each_worker_name_is_unique() {
        assert_eq!(config().validate(), Ok(()));
        assert_ne!(config().worker, config().worker);
    }

    #[test]
    fn agent_without_room_in_a_document_is_refused() {
        let files = [
            ("/etc/a/token", AgentFile::text(AgentVariable::Token)),
            ("/etc/a/rules", AgentFile::text("x".repeat(MAX_USER_DATA_BYTES).as_str())),
        ];
        let mut config = config();
        config.agent = Agent::default().with_profile(AgentProfile::new("a", files).unwrap());
        let message = "agent is too large for a cloud-init document; \
                       give a profile whose files fit into 16384 bytes";
        assert_eq!(config.validate().unwrap_err().to_string(), message);
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
        assert!(config.validate_pool(20).is_err(), "the number of connections must not overflow");
    }
}
