//! An issuer from scratch, and the mesh that its tokens admit to. One mutex protects their state, so each call is atomic.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use broker_embed::TokenIssuer;
use broker_embed::domain::{BootstrapTokenId, ProvisionedResourceId, TokenOrdinal};
use broker_embed::ports::{
    BootstrapToken, Clock, Issue, IssueRequest, IssuedToken, LeaseEpoch, NodeDeregistrar,
    PortError, TokenState, TtlWindow,
};
use sha2::{Digest, Sha256};
use time::OffsetDateTime;
use uuid::Uuid;

const WINDOW: TtlWindow = TtlWindow::new(Duration::from_secs(60), Duration::from_secs(86_400));

/// Issues random tokens and remembers their digests. Tokens do not survive the process.
pub struct OwnTokens {
    clock: Arc<dyn Clock>,
    /// `None` simulates an unreachable store.
    state: Mutex<Option<State>>,
}

#[derive(Default)]
struct State {
    ledgers: BTreeMap<ProvisionedResourceId, Ledger>,
    tokens: BTreeMap<BootstrapTokenId, Token>,
}

/// The rules for the next token of a resource.
#[derive(Default)]
struct Ledger {
    closed: bool,
    highest_epoch: Option<LeaseEpoch>,
}

struct Token {
    resource: ProvisionedResourceId,
    ordinal: TokenOrdinal,
    /// The plaintext itself is never stored.
    digest: [u8; 32],
    state: TokenState,
    /// The Node that consumed the token was removed from the mesh.
    deregistered: bool,
}

impl OwnTokens {
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, state: Mutex::new(Some(State::default())) }
    }

    /// The call of your enrolment endpoint: consumes a live token, and returns whether the agent may enrol.
    pub fn consume(&self, plaintext: &str) -> Result<bool, PortError> {
        let (now, digest) = (self.clock.now(), digest(plaintext));
        self.with_state(|state| {
            let token = state.tokens.values_mut().find(|token| token.digest == digest);
            let live = token.filter(|token| matches!(token.state_at(now), TokenState::Live { .. }));
            Ok(live.map(|token| token.state = TokenState::Consumed { at: now }).is_some())
        })
    }

    /// Makes every later call fail, as an unreachable store does.
    pub fn cut_off(&self) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn with_state<T>(
        &self,
        work: impl FnOnce(&mut State) -> Result<T, PortError>,
    ) -> Result<T, PortError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        work(state.as_mut().ok_or_else(|| PortError::transient("the tokens are unavailable"))?)
    }
}

#[async_trait]
impl TokenIssuer for OwnTokens {
    async fn issue(&self, request: &IssueRequest) -> Result<Issue, PortError> {
        let now = self.clock.now();
        self.with_state(|state| state.issue(request, now))
    }

    async fn close(&self, resource: ProvisionedResourceId) -> Result<(), PortError> {
        self.with_state(|state| {
            state.ledgers.entry(resource).or_default().closed = true;
            state.invalidate(resource);
            Ok(())
        })
    }

    async fn state(&self, token: BootstrapTokenId) -> Result<Option<TokenState>, PortError> {
        let now = self.clock.now();
        self.with_state(|state| Ok(state.tokens.get(&token).map(|token| token.state_at(now))))
    }

    async fn ttl_window(&self) -> Result<TtlWindow, PortError> {
        Ok(WINDOW)
    }
}

/// Only the mesh that admits agents by these tokens knows their Nodes, so both ports are replaced together. In this mesh
/// each registered Node is a Peer.
#[async_trait]
impl NodeDeregistrar for OwnTokens {
    async fn deregister(&self, token: BootstrapTokenId) -> Result<(), PortError> {
        self.with_state(|state| {
            let token = state.tokens.get_mut(&token).ok_or_else(unknown_token)?;
            // An unconsumed token has no Node yet. The broker closes tokens first, so none follows.
            token.deregistered = matches!(token.state, TokenState::Consumed { .. });
            Ok(())
        })
    }

    async fn node_registered(&self, token: BootstrapTokenId) -> Result<bool, PortError> {
        self.with_state(|state| {
            let token = state.tokens.get(&token).ok_or_else(unknown_token)?;
            Ok(matches!(token.state, TokenState::Consumed { .. }) && !token.deregistered)
        })
    }
}

/// An answer would be a guess: the Node may be in another mesh.
fn unknown_token() -> PortError {
    PortError::rejected("the token was not issued here")
}

impl State {
    fn issue(&mut self, request: &IssueRequest, now: OffsetDateTime) -> Result<Issue, PortError> {
        let IssueRequest { resource, ordinal, epoch, ttl, .. } = *request;
        if !WINDOW.allows(ttl) {
            return Err(PortError::rejected(format!("a token cannot live for {ttl:?}")));
        }
        let ledger = self.ledgers.entry(resource).or_default();
        if ledger.closed {
            return Err(PortError::rejected("the tokens of this resource are closed"));
        }
        if ledger.highest_epoch.is_some_and(|highest| epoch < highest) {
            return Err(PortError::rejected("another replica holds the lease of this resource"));
        }
        ledger.highest_epoch = Some(epoch);
        let consumed =
            self.tokens.iter().find(|(_, token)| token.is_consumed_as(resource, ordinal));
        if let Some((id, _)) = consumed {
            return Ok(Issue::Consumed { id: *id });
        }
        self.invalidate(resource);
        // 256 random bits, printable.
        let plaintext = format!("{:032x}{:032x}", rand::random::<u128>(), rand::random::<u128>());
        let id = BootstrapTokenId::new(Uuid::from_u128(rand::random()))?;
        let state = TokenState::Live { expires_at: now + ttl };
        let digest = digest(&plaintext);
        let token = Token { resource, ordinal, digest, state, deregistered: false };
        self.tokens.insert(id, token);
        Ok(Issue::Issued(IssuedToken::new(id, BootstrapToken::new(plaintext))))
    }

    fn invalidate(&mut self, resource: ProvisionedResourceId) {
        for token in self.tokens.values_mut().filter(|token| token.resource == resource) {
            if matches!(token.state, TokenState::Live { .. }) {
                token.state = TokenState::Invalidated;
            }
        }
    }
}

impl Token {
    /// The state at a time: expiry is computed, not stored.
    fn state_at(&self, now: OffsetDateTime) -> TokenState {
        match self.state {
            TokenState::Live { expires_at } if expires_at <= now => {
                TokenState::Expired { at: expires_at }
            }
            state => state,
        }
    }

    fn is_consumed_as(&self, resource: ProvisionedResourceId, ordinal: TokenOrdinal) -> bool {
        let is_consumed = matches!(self.state, TokenState::Consumed { .. });
        is_consumed && (self.resource, self.ordinal) == (resource, ordinal)
    }
}

fn digest(plaintext: &str) -> [u8; 32] {
    Sha256::digest(plaintext).into()
}
