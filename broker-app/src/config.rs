//! What an embedder decides about the reconciler.

use std::time::Duration;

use broker_ports::{Allowance, Deadlines, WorkerId};
use broker_render::{Agent, ApiUrl, ProviderProfiles};

use crate::decide::Mode;

/// Configuration of the reconciler: a plain struct without defaults for what only the embedder can know.
#[derive(Debug, Clone)]
pub struct ReconcilerConfig {
    /// This replica's name for itself, new at every start.
    pub worker: WorkerId,
    /// How long a claimed resource belongs to this replica. Longer than a pass takes.
    pub lease: Duration,
    /// How long before the end of its lease a pass sends nothing more.
    pub lease_margin: Duration,
    /// How long each collaborator may take.
    pub deadlines: Deadlines,
    /// How long a bootstrap token can be consumed.
    pub token_ttl: Duration,
    /// Where agents enrol.
    pub api_url: ApiUrl,
    /// Where the agent comes from.
    pub agent: Agent,
    /// How the providers' configuration objects look.
    pub profiles: ProviderProfiles,
    /// How much may be destroyed automatically: re-created after a loss, or given up after it was Ready. The
    /// same for every replica.
    pub allowance: Allowance,
    /// Whether anything is changed at all.
    pub mode: Mode,
}
