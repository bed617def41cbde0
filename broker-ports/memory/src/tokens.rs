//! Act: a token issuer in memory.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use broker_domain::{BootstrapTokenId, ProvisionedResourceId};

use super::mesh::{DEFAULT_WINDOW, State};
use crate::PortResult;
use broker_ports::{Clock, Issue, IssueRequest, TokenIssuer, TokenState, TtlWindow};

/// Issues tokens, which agents consume through [`MemoryMesh`](super::MemoryMesh). Clones are handles on the same
/// issuer.
///
/// The seed determines ids and plaintexts, so that a run is repeatable. The plaintexts are guessable: use the issuer in
/// tests and demos only.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// use broker_domain::{ProvisionedResourceId, TokenOrdinal};
/// use broker_memory::{ManualClock, MemoryMesh, MemoryTokens};
/// use broker_ports::{Issue, IssueRequest, LeaseEpoch, TokenIssuer};
/// use secrecy::ExposeSecret;
/// use time::OffsetDateTime;
/// use uuid::Uuid;
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let clock = ManualClock::at(OffsetDateTime::UNIX_EPOCH);
/// let tokens = MemoryTokens::seeded(7, Arc::new(clock));
/// let resource = ProvisionedResourceId::new(Uuid::from_u128(1))?;
/// let hour = Duration::from_secs(3_600);
/// let request = IssueRequest::new(resource, TokenOrdinal::FIRST, LeaseEpoch::new(1), hour);
/// let Issue::Issued(token) = tokens.issue(&request).await? else { panic!("the token is new") };
/// let node = MemoryMesh::of(&tokens).enrol(token.plaintext.secret().expose_secret())?;
/// assert_eq!(MemoryMesh::of(&tokens).consumer(token.id).unwrap().node, node);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct MemoryTokens {
    state: Arc<Mutex<State>>,
    clock: Arc<dyn Clock>,
}

impl MemoryTokens {
    /// An issuer that allows times to live of one minute to one day.
    pub fn seeded(seed: u32, clock: Arc<dyn Clock>) -> Self {
        Self { state: Arc::new(Mutex::new(State::seeded(seed))), clock }
    }

    /// Simulates an outage; see [`MemoryMesh::set_reachable`](super::MemoryMesh::set_reachable).
    pub fn set_reachable(&self, reachable: bool) {
        self.lock().set_reachable(reachable);
    }

    /// The resource's live token, if any.
    pub fn live_token(&self, resource: ProvisionedResourceId) -> Option<BootstrapTokenId> {
        self.lock().live_token(resource, self.clock.now())
    }

    pub(super) fn shared(&self) -> (Arc<Mutex<State>>, Arc<dyn Clock>) {
        (Arc::clone(&self.state), Arc::clone(&self.clock))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for MemoryTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryTokens").finish_non_exhaustive()
    }
}

#[async_trait]
impl TokenIssuer for MemoryTokens {
    async fn issue(&self, request: &IssueRequest) -> PortResult<Issue> {
        self.lock().check_reachable()?.issue(request, DEFAULT_WINDOW, self.clock.now())
    }

    async fn close(&self, resource: ProvisionedResourceId) -> PortResult<()> {
        self.lock().check_reachable()?.close(resource);
        Ok(())
    }

    async fn state(&self, token: BootstrapTokenId) -> PortResult<Option<TokenState>> {
        Ok(self.lock().check_reachable()?.token_state(token, self.clock.now()))
    }

    async fn ttl_window(&self) -> PortResult<TtlWindow> {
        self.lock().check_reachable()?;
        Ok(DEFAULT_WINDOW)
    }
}
