//! Act: the shared state of issuer and mesh. One lock makes issuing, consuming, closing and retiring atomic.

use std::collections::BTreeMap;
use std::time::Duration;

use broker_domain::{BootstrapTokenId, ProvisionedResourceId, TokenOrdinal};
use rand::distr::Alphanumeric;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use sha2::{Digest, Sha256};
use time::OffsetDateTime;

use super::{EnrolError, JoinError};
use crate::PortResult;
use crate::SequentialIds;
use broker_ports::{
    BootstrapToken, Consumer, Issue, IssueRequest, IssuedToken, LeaseEpoch, NodeId, PeerId,
    PortError, Retired, TokenState, TtlWindow,
};

/// 40 letters and digits: about 238 bits.
const PLAINTEXT_CHARS: usize = 40;

pub(crate) struct State {
    reachable: bool,
    ledgers: BTreeMap<ProvisionedResourceId, Ledger>,
    tokens: BTreeMap<BootstrapTokenId, Token>,
    /// As in a real issuer, only the digest of a plaintext is stored.
    by_digest: BTreeMap<[u8; 32], BootstrapTokenId>,
    nodes: BTreeMap<NodeId, Node>,
    ids: SequentialIds,
    random: StdRng,
}

/// The issuer's state of one resource.
///
/// Invariant: `open` holds at most one token, so a resource has at most one live token.
#[derive(Default)]
struct Ledger {
    /// The highest epoch that requested a token.
    latest_epoch: Option<LeaseEpoch>,
    closed: bool,
    open: Option<BootstrapTokenId>,
    consumed: BTreeMap<TokenOrdinal, BootstrapTokenId>,
}

struct Token {
    resource: ProvisionedResourceId,
    ordinal: TokenOrdinal,
    expires_at: OffsetDateTime,
    status: TokenStatus,
}

enum TokenStatus {
    Open,
    Consumed { at: OffsetDateTime, node: NodeId },
    Invalidated,
}

#[derive(Default)]
struct Node {
    deregistered: bool,
    peer: Option<PeerId>,
}

impl State {
    pub(crate) fn seeded(seed: u32) -> Self {
        Self {
            reachable: true,
            ledgers: BTreeMap::new(),
            tokens: BTreeMap::new(),
            by_digest: BTreeMap::new(),
            nodes: BTreeMap::new(),
            ids: SequentialIds::seeded(seed),
            random: StdRng::seed_from_u64(seed.into()),
        }
    }

    pub(crate) const fn set_reachable(&mut self, reachable: bool) {
        self.reachable = reachable;
    }

    /// The state, or an error while issuer and mesh are unreachable.
    pub(crate) fn check_reachable(&mut self) -> PortResult<&mut Self> {
        if self.reachable { Ok(self) } else { Err(PortError::transient("the mesh is unreachable")) }
    }

    pub(crate) fn issue(
        &mut self,
        request: &IssueRequest,
        window: TtlWindow,
        now: OffsetDateTime,
    ) -> PortResult<Issue> {
        let IssueRequest { resource, ordinal, epoch, ttl, .. } = *request;
        if !window.allows(ttl) {
            let TtlWindow { min, max, .. } = window;
            return Err(PortError::rejected(format!("ttl is {ttl:?}; use {min:?} to {max:?}")));
        }
        let ledger = self.ledgers.entry(resource).or_default();
        if ledger.closed {
            return Err(PortError::rejected(format!("the tokens of {resource} are closed")));
        }
        if let Some(latest) = ledger.latest_epoch.filter(|latest| epoch < *latest) {
            return Err(PortError::rejected(format!(
                "epoch {epoch} is stale: epoch {latest} has requested a token of {resource}"
            )));
        }
        ledger.latest_epoch = Some(epoch);
        if let Some(id) = ledger.consumed.get(&ordinal) {
            return Ok(Issue::Consumed { id: *id });
        }
        self.invalidate_open(resource);
        Ok(Issue::Issued(self.mint(resource, ordinal, now + ttl)))
    }

    pub(crate) fn close(&mut self, resource: ProvisionedResourceId) {
        self.ledgers.entry(resource).or_default().closed = true;
        self.invalidate_open(resource);
    }

    pub(crate) fn token_state(
        &self,
        id: BootstrapTokenId,
        now: OffsetDateTime,
    ) -> Option<TokenState> {
        let Token { expires_at, status, .. } = self.tokens.get(&id)?;
        Some(match status {
            TokenStatus::Consumed { at, .. } => TokenState::Consumed { at: *at },
            TokenStatus::Invalidated => TokenState::Invalidated,
            TokenStatus::Open if now < *expires_at => TokenState::Live { expires_at: *expires_at },
            TokenStatus::Open => TokenState::Expired { at: *expires_at },
        })
    }

    pub(crate) fn live_token(
        &self,
        resource: ProvisionedResourceId,
        now: OffsetDateTime,
    ) -> Option<BootstrapTokenId> {
        let open = self.ledgers.get(&resource)?.open?;
        matches!(self.token_state(open, now), Some(TokenState::Live { .. })).then_some(open)
    }

    pub(super) fn enrol(
        &mut self,
        plaintext: &str,
        now: OffsetDateTime,
    ) -> Result<NodeId, EnrolError> {
        let id = *self.by_digest.get(&digest(plaintext)).ok_or(EnrolError::Unknown)?;
        match self.token_state(id, now) {
            Some(TokenState::Live { .. }) => {}
            Some(TokenState::Consumed { .. }) => return Err(EnrolError::Consumed),
            Some(TokenState::Expired { .. }) => return Err(EnrolError::Expired),
            Some(TokenState::Invalidated) => return Err(EnrolError::Invalidated),
            Some(_) | None => return Err(EnrolError::Unknown),
        }
        let node = NodeId::new(self.ids.uuid()).expect("a UUID with a version is not nil");
        self.nodes.insert(node, Node::default());
        if let Some(token) = self.tokens.get_mut(&id) {
            token.status = TokenStatus::Consumed { at: now, node };
            let ledger = self.ledgers.entry(token.resource).or_default();
            ledger.open = None;
            ledger.consumed.insert(token.ordinal, id);
        }
        Ok(node)
    }

    pub(super) fn join(&mut self, node: NodeId) -> Result<PeerId, JoinError> {
        let new_peer = PeerId::new(self.ids.uuid()).expect("a UUID with a version is not nil");
        let node = self.nodes.get_mut(&node).ok_or(JoinError::Unknown)?;
        if node.deregistered {
            return Err(JoinError::Deregistered);
        }
        Ok(*node.peer.get_or_insert(new_peer))
    }

    pub(super) fn leave(&mut self, node: NodeId) {
        if let Some(node) = self.nodes.get_mut(&node) {
            node.peer = None;
        }
    }

    pub(super) fn consumer(&self, token: BootstrapTokenId) -> Option<Consumer> {
        let TokenStatus::Consumed { node, .. } = self.tokens.get(&token)?.status else {
            return None;
        };
        let deregistered = self.nodes.get(&node)?.deregistered;
        Some(if deregistered { Consumer::deregistered(node) } else { Consumer::registered(node) })
    }

    /// As [`consumer`](Self::consumer); an error if no issuer issued the token.
    pub(super) fn consumer_of_known(
        &self,
        token: BootstrapTokenId,
    ) -> PortResult<Option<Consumer>> {
        if self.tokens.contains_key(&token) {
            return Ok(self.consumer(token));
        }
        Err(PortError::rejected(format!("the mesh knows no bootstrap token {token}")))
    }

    pub(super) fn registered(&self, token: BootstrapTokenId) -> PortResult<bool> {
        Ok(self.consumer_of_known(token)?.is_some_and(|consumer| !consumer.deregistered))
    }

    pub(super) fn live_peer(&self, node: NodeId) -> Option<PeerId> {
        self.nodes.get(&node)?.peer
    }

    pub(super) fn retire(
        &mut self,
        id: NodeId,
        expected_peer: Option<PeerId>,
    ) -> PortResult<Retired> {
        let node = self
            .nodes
            .get_mut(&id)
            .ok_or_else(|| PortError::rejected(format!("node {id} does not exist")))?;
        if node.peer.is_some() && node.peer != expected_peer {
            return Ok(Retired::PeerAppeared);
        }
        *node = Node { deregistered: true, peer: None };
        Ok(Retired::Done)
    }

    /// Invalidates the resource's open token, expired or not.
    fn invalidate_open(&mut self, resource: ProvisionedResourceId) {
        let open = self.ledgers.get_mut(&resource).and_then(|ledger| ledger.open.take());
        if let Some(token) = open.and_then(|id| self.tokens.get_mut(&id)) {
            token.status = TokenStatus::Invalidated;
        }
    }

    /// Issues a token. Invariant: the caller has invalidated the open one.
    fn mint(
        &mut self,
        resource: ProvisionedResourceId,
        ordinal: TokenOrdinal,
        expires_at: OffsetDateTime,
    ) -> IssuedToken {
        let id = BootstrapTokenId::new(self.ids.uuid()).expect("a UUID with a version is not nil");
        let plaintext: String = (&mut self.random)
            .sample_iter(Alphanumeric)
            .take(PLAINTEXT_CHARS)
            .map(char::from)
            .collect();
        self.by_digest.insert(digest(&plaintext), id);
        self.tokens.insert(id, Token { resource, ordinal, expires_at, status: TokenStatus::Open });
        self.ledgers.entry(resource).or_default().open = Some(id);
        IssuedToken::new(id, BootstrapToken::new(plaintext))
    }
}

/// One minute to one day.
pub(crate) const DEFAULT_WINDOW: TtlWindow =
    TtlWindow::new(Duration::from_mins(1), Duration::from_hours(24));

fn digest(plaintext: &str) -> [u8; 32] {
    Sha256::digest(plaintext).into()
}
