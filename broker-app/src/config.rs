//! The one configuration: every part of the broker reads it, and it is validated in one place.

use std::fmt;
use std::time::Duration;

use broker_domain::Error as DomainError;
use broker_ports::{Allowance, Deadlines, PageSize, WorkerId};
use broker_render::{Agent, ApiUrl, ProviderProfiles};

use crate::decide::Mode;
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
    /// How long a bootstrap token can be consumed. Default: 1 h. The token issuer has a window for it.
    pub token_ttl: Duration,
    /// How much may be destroyed automatically: re-created after a loss, or given up after it was Ready. Give every
    /// replica the same. See [`Allowance::default`].
    pub allowance: Allowance,
    /// What explanations call too long. Default: [`Budgets::with_token_ttl`] of `token_ttl`.
    pub budgets: Option<Budgets>,
    /// How often the replica looks at all resources. Default: 30 s.
    pub sweep_interval: Duration,
    /// How often the replica asks for due work and for events to deliver when nothing wakes it up. Default: 1 s.
    pub poll_interval: Duration,
    /// How often [`Service::wait_for`](crate::Service::wait_for) reads the resource. Default: 500 ms.
    pub wait_interval: Duration,
    /// How many passes run at once in each of the two lanes, converge and teardown. Default: 8. Give the store's pool a
    /// connection for each, and four more.
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

/// A configuration that cannot work: which field, what it is, and what is allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field} is {value}; {allowed}")]
#[non_exhaustive]
pub struct ConfigError {
    /// The field of [`BrokerConfig`], such as `deadlines.store`.
    pub field: &'static str,
    /// Its value, or `missing`.
    pub value: String,
    /// What to give instead.
    pub allowed: String,
}

impl ConfigError {
    /// A field with a value that is not allowed.
    pub fn new(field: &'static str, value: impl fmt::Display, allowed: impl Into<String>) -> Self {
        Self { field, value: value.to_string(), allowed: allowed.into() }
    }

    pub(crate) fn time(field: &'static str, value: Duration, allowed: impl Into<String>) -> Self {
        Self::new(field, format_args!("{value:?}"), allowed)
    }
}

impl BrokerConfig {
    /// The defaults, for agents that enrol at this URL.
    pub fn new(api_url: ApiUrl) -> Self {
        Self { api_url: Some(api_url), ..Self::default() }
    }

    /// The API URL, for a document that needs it.
    pub(crate) fn agents_enrol_at(&self) -> Result<&ApiUrl, DomainError> {
        let unset =
            || DomainError::invalid("api_url", "is not set; give the URL where agents enrol");
        self.api_url.as_ref().ok_or_else(unset)
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
        self.check_times()?;
        self.check_lease()?;
        self.check_events()?;
        if self.workers_per_lane == 0 {
            return Err(ConfigError::new("workers_per_lane", 0, "give at least 1"));
        }
        Ok(())
    }

    fn check_times(&self) -> Result<(), ConfigError> {
        let times = [
            ("lease", self.lease),
            ("token_ttl", self.token_ttl),
            ("allowance.within", self.allowance.within),
            ("sweep_interval", self.sweep_interval),
            ("poll_interval", self.poll_interval),
            ("wait_interval", self.wait_interval),
            ("deadlines.deliver", self.deadlines.deliver),
        ];
        for (field, time) in self.deadlines_of_a_pass().into_iter().chain(times) {
            if time.is_zero() {
                return Err(ConfigError::time(field, time, "give more than zero"));
            }
        }
        Ok(())
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
        if source.is_empty() || source.contains(|it: char| it.is_whitespace() || it.is_control()) {
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

    #[test]
    fn what_cannot_work_is_named_with_what_is_allowed() {
        const ZERO: Duration = Duration::ZERO;
        const MINUTE: Duration = Duration::from_mins(1);
        type Spoil = fn(&mut BrokerConfig);
        let rows: [(Spoil, &str); 26] = [
            (|it| it.api_url = None, "api_url is missing; give the URL where agents enrol"),
            (|it| it.lease = ZERO, "lease is 0ns; give more than zero"),
            (|it| it.token_ttl = ZERO, "token_ttl is 0ns; give more than zero"),
            (|it| it.allowance.within = ZERO, "allowance.within is 0ns; give more than zero"),
            (|it| it.sweep_interval = ZERO, "sweep_interval is 0ns; give more than zero"),
            (|it| it.poll_interval = ZERO, "poll_interval is 0ns; give more than zero"),
            (|it| it.wait_interval = ZERO, "wait_interval is 0ns; give more than zero"),
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
            (|it| it.event_attempts = 0, "event_attempts is 0; give at least 1"),
            (
                |it| it.event_source = "/the broker".to_owned(),
                "event_source is \"/the broker\"; give a URI reference, such as /provisioning-broker",
            ),
            (|it| it.workers_per_lane = 0, "workers_per_lane is 0; give at least 1"),
        ];
        for (spoil, message) in rows {
            let mut config = config();
            spoil(&mut config);
            assert_eq!(config.validate().unwrap_err().to_string(), message);
        }
    }
}
