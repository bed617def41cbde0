//! An issuer from scratch. Its books are one value behind one mutex, so that each call happens as a whole.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use broker_embed::TokenIssuer;
use broker_embed::domain::{BootstrapTokenId, ProvisionedResourceId, TokenOrdinal};
use broker_embed::ports::{
    BootstrapToken, Clock, Issue, IssueRequest, IssuedToken, LeaseEpoch, PortError, TokenState,
    TtlWindow,
};
use sha2::{Digest, Sha256};
use time::OffsetDateTime;
use uuid::Uuid;

const WINDOW: TtlWindow = TtlWindow::new(Duration::from_secs(60), Duration::from_secs(86_400));

/// Issues random tokens and remembers their digests. Tokens do not survive the process.
pub struct OwnTokens {
    clock: Arc<dyn Clock>,
    /// `None` stands for books that cannot be reached.
    books: Mutex<Option<Books>>,
}

#[derive(Default)]
struct Books {
    ledgers: BTreeMap<ProvisionedResourceId, Ledger>,
    tokens: BTreeMap<BootstrapTokenId, Token>,
}

/// What is known of a resource, whatever became of its tokens.
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
}

impl OwnTokens {
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, books: Mutex::new(Some(Books::default())) }
    }

    /// What your enrolment endpoint does: whether an agent with this plaintext is let in, which consumes the token.
    pub fn consume(&self, plaintext: &str) -> Result<bool, PortError> {
        let (now, digest) = (self.clock.now(), digest(plaintext));
        self.with_books(|books| {
            let token = books.tokens.values_mut().find(|token| token.digest == digest);
            let live = token.filter(|it| matches!(it.state_at(now), TokenState::Live { .. }));
            Ok(live.map(|token| token.state = TokenState::Consumed { at: now }).is_some())
        })
    }

    /// Loses the books, as a store does that cannot be reached.
    pub fn cut_off(&self) {
        *self.books.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn with_books<T>(
        &self,
        work: impl FnOnce(&mut Books) -> Result<T, PortError>,
    ) -> Result<T, PortError> {
        let mut books = self.books.lock().unwrap_or_else(PoisonError::into_inner);
        work(books.as_mut().ok_or_else(|| PortError::transient("the tokens cannot be reached"))?)
    }
}

#[async_trait]
impl TokenIssuer for OwnTokens {
    async fn issue(&self, request: &IssueRequest) -> Result<Issue, PortError> {
        let now = self.clock.now();
        self.with_books(|books| books.issue(request, now))
    }

    async fn close(&self, resource: ProvisionedResourceId) -> Result<(), PortError> {
        self.with_books(|books| {
            books.ledgers.entry(resource).or_default().closed = true;
            books.invalidate(resource);
            Ok(())
        })
    }

    async fn state(&self, token: BootstrapTokenId) -> Result<Option<TokenState>, PortError> {
        let now = self.clock.now();
        self.with_books(|books| Ok(books.tokens.get(&token).map(|it| it.state_at(now))))
    }

    async fn ttl_window(&self) -> Result<TtlWindow, PortError> {
        Ok(WINDOW)
    }
}

impl Books {
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
        let same = self.tokens.iter().find(|(_, it)| it.is_consumed_as(resource, ordinal));
        if let Some((id, _)) = same {
            return Ok(Issue::Consumed { id: *id });
        }
        self.invalidate(resource);
        // 256 random bits, printable.
        let plaintext = format!("{:032x}{:032x}", rand::random::<u128>(), rand::random::<u128>());
        let id = BootstrapTokenId::new(Uuid::from_u128(rand::random()))?;
        let state = TokenState::Live { expires_at: now + ttl };
        let digest = digest(&plaintext);
        self.tokens.insert(id, Token { resource, ordinal, digest, state });
        Ok(Issue::Issued(IssuedToken::new(id, BootstrapToken::new(plaintext))))
    }

    fn invalidate(&mut self, resource: ProvisionedResourceId) {
        for token in self.tokens.values_mut().filter(|it| it.resource == resource) {
            if matches!(token.state, TokenState::Live { .. }) {
                token.state = TokenState::Invalidated;
            }
        }
    }
}

impl Token {
    /// Expiry is not stored: it follows from the time of the question.
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
