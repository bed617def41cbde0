//! The whole broker, wired together: for an embedder that wants the usual.
//!
//! Whoever wants something else wires [`Service`], [`Reconciler`], [`Sweeper`], [`Relay`] and [`Runner`] alone.

use std::time::Duration;

use broker_ports::{Allowance, Deadlines, PageSize, Ports, WorkerId};
use broker_render::{Agent, ApiUrl, ProviderProfiles};

use crate::config::ReconcilerConfig;
use crate::decide::Mode;
use crate::emit::{Relay, RelayConfig};
use crate::explain::Budgets;
use crate::reconcile::Reconciler;
use crate::runner::{ConfigError, Runner, RunnerConfig};
use crate::service::{Service, ServiceConfig};
use crate::sweep::Sweeper;

/// What an embedder decides. [`new`](Self::new) takes what nobody else can know; everything else has a default
/// that may be changed.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct BrokerConfig {
    /// This replica's name for itself, new at every start.
    pub worker: WorkerId,
    /// Where agents enrol.
    pub api_url: ApiUrl,
    /// How long each collaborator may take.
    pub deadlines: Deadlines,
    /// How long a claimed resource belongs to this replica; two minutes. Longer than a pass takes.
    pub lease: Duration,
    /// How long before the end of its lease a pass sends nothing more; ten seconds.
    pub lease_margin: Duration,
    /// How long a bootstrap token can be consumed; an hour.
    pub token_ttl: Duration,
    /// Where the agent comes from.
    pub agent: Agent,
    /// How the providers' configuration objects look.
    pub profiles: ProviderProfiles,
    /// How much may be destroyed automatically; see [`Allowance::default`].
    pub allowance: Allowance,
    /// Whether anything is changed at all; it is.
    pub mode: Mode,
    /// How the runner goes about its work: a sweep every 30 seconds, a second at the most until due work is taken
    /// up, eight passes at once in each lane, not strict, ten seconds to stop, and nothing is ever purged.
    pub runner: RunnerConfig,
    /// What the envelopes of events name as their source; `/provisioning-broker`.
    pub event_source: String,
    /// After how many rejections an event is set aside; ten. Other failures only delay it.
    pub most_attempts: u32,
    /// What explanations call too long; the usual, with the time to live of tokens for enrolling.
    pub budgets: Option<Budgets>,
}

/// The broker: what callers use, and what does the work.
pub struct Broker {
    /// For callers.
    pub service: Service,
    /// To be [run](Runner::run).
    pub runner: Runner,
}

/// Events that a relay delivers at once.
const DELIVERIES_AT_ONCE: u16 = 16;

/// How often a caller that waits looks.
const POLL: Duration = Duration::from_millis(250);

impl BrokerConfig {
    /// The usual, with what only the embedder can know.
    pub fn new(worker: WorkerId, api_url: ApiUrl, deadlines: Deadlines) -> Self {
        Self {
            worker,
            api_url,
            deadlines,
            lease: Duration::from_mins(2),
            lease_margin: Duration::from_secs(10),
            token_ttl: Duration::from_hours(1),
            agent: Agent::default(),
            profiles: ProviderProfiles::default(),
            allowance: Allowance::default(),
            mode: Mode::Live,
            runner: RunnerConfig {
                sweep_interval: Duration::from_secs(30),
                poll_interval: Duration::from_secs(1),
                workers_per_lane: 8,
                strict: false,
                stop_within: Duration::from_secs(10),
                retention: None,
            },
            event_source: "/provisioning-broker".to_owned(),
            most_attempts: 10,
            budgets: None,
        }
    }
}

impl Broker {
    /// Wires everything together.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] when the configuration cannot work.
    pub fn new(ports: Ports, config: BrokerConfig) -> Result<Self, ConfigError> {
        let BrokerConfig {
            worker,
            api_url,
            deadlines,
            lease,
            lease_margin,
            token_ttl,
            agent,
            profiles,
            allowance,
            mode,
            runner,
            event_source,
            most_attempts,
            budgets,
        } = config;
        let budgets = budgets.unwrap_or_else(|| Budgets::with_token_ttl(token_ttl));
        let reconciler = ReconcilerConfig {
            worker: worker.clone(),
            lease,
            lease_margin,
            deadlines,
            token_ttl,
            api_url: api_url.clone(),
            agent: agent.clone(),
            profiles: profiles.clone(),
            allowance,
            mode,
        };
        let relay = RelayConfig {
            worker: worker.clone(),
            concurrency: PageSize::new(DELIVERIES_AT_ONCE).unwrap_or(PageSize::MAX),
            claim_for: RelayConfig::shortest_claim(deadlines.deliver, deadlines.store),
            store_deadline: deadlines.store,
            deliver_deadline: deadlines.deliver,
            most_attempts,
            source: event_source,
        };
        let service = ServiceConfig {
            deadlines,
            profiles,
            api_url: Some(api_url),
            agent,
            worker,
            lease,
            poll: POLL,
            mode,
            budgets,
        };
        let runner = Runner::new(
            Reconciler::new(ports.clone(), reconciler.clone()),
            Sweeper::new(ports.clone(), reconciler),
            Relay::new(ports.clone(), relay)?,
            runner,
        )?;
        Ok(Self { service: Service::new(ports, service), runner })
    }
}
