//! An issuer that is right but for one flaw.
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a flaw changes one thing, and all others leave that as it should be"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use broker_domain::{BootstrapTokenId, ProvisionedResourceId, TokenOrdinal};
use broker_ports::memory::{ManualClock, SequentialIds};
use broker_ports::testing::token_issuer::TokenIssuerUnderTest;
use broker_ports::{
    BootstrapToken, Clock, IdSource, Issue, IssueRequest, IssuedToken, LeaseEpoch, PortError,
    TokenIssuer, TokenState, TtlWindow,
};
use secrecy::ExposeSecret;
use time::OffsetDateTime;

use super::half_way::half_way;
use super::worlds::{TTL, start};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flaw {
    None,
    ReusesTheToken,
    IssuesWithoutInvalidating,
    InvalidatesItsOwnOrdinalOnly,
    LetsAnEpochAskOnce,
    AcceptsAnOlderEpoch,
    HasOneEpochForAll,
    ForgetsTheEpochOfConsumed,
    InvalidatesOnRejection,
    RejectsAsTransient,
    IssuesAfterClose,
    CloseLeavesLiveTokens,
    CloseClosesEverybody,
    CloseErasesConsumption,
    CloseNeedsAToken,
    CloseWorksOnce,
    ConsumedInvalidates,
    ReissuesAConsumedOrdinal,
    NamesAnotherConsumedToken,
    IgnoresTheWindow,
    AlwaysGrantsMax,
    AlwaysGrantsMin,
    TokensNeverExpire,
    ConsumesTwice,
    ChecksFirstAndActsLater,
    IssuesHalfWhenDropped,
    TwoIssuesAtOnceBothLive,
    CloseReadsThenWrites,
    ClosesHalfWhenDropped,
    PlaintextsHoldSpaces,
    KnowsEveryToken,
    NoAnswerIsNoToken,
    ClosesInAnOutage,
    RejectsInAnOutage,
}

pub(super) struct FlawedIssuer {
    flaw: Flaw,
    clock: ManualClock,
    ids: SequentialIds,
    books: Mutex<Books>,
}

#[derive(Default)]
struct Books {
    cut_off: bool,
    tokens: Vec<Token>,
    seen: BTreeMap<ProvisionedResourceId, LeaseEpoch>,
    closed: BTreeSet<ProvisionedResourceId>,
}

struct Token {
    id: BootstrapTokenId,
    plaintext: String,
    resource: ProvisionedResourceId,
    ordinal: TokenOrdinal,
    expires_at: OffsetDateTime,
    consumed: Option<OffsetDateTime>,
    invalidated: bool,
}

const WINDOW: TtlWindow = TtlWindow::new(Duration::from_mins(1), TTL);

impl FlawedIssuer {
    pub(super) fn with(flaw: Flaw) -> Self {
        let (clock, ids) = (ManualClock::at(start()), SequentialIds::seeded(4));
        Self { flaw, clock, ids, books: Mutex::default() }
    }

    fn has(&self, flaw: Flaw) -> bool {
        self.flaw == flaw
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap()
    }

    /// The books, unless nobody can reach them.
    fn reach(&self) -> Result<MutexGuard<'_, Books>, PortError> {
        let books = self.books();
        match self.flaw {
            _ if !books.cut_off => Ok(books),
            Flaw::RejectsInAnOutage => Err(PortError::rejected("the books are closed")),
            _ => Err(PortError::transient("nobody answers")),
        }
    }

    fn refuse(&self) -> PortError {
        match self.flaw {
            Flaw::RejectsAsTransient => PortError::transient("not now"),
            _ => PortError::rejected("never"),
        }
    }

    fn state_of(&self, token: &Token) -> TokenState {
        let (now, expires_at) = (self.clock.now(), token.expires_at);
        match token.consumed {
            Some(at) => TokenState::Consumed { at },
            None if token.invalidated => TokenState::Invalidated,
            None if now < expires_at || self.has(Flaw::TokensNeverExpire) => {
                TokenState::Live { expires_at }
            }
            None => TokenState::Expired { at: expires_at },
        }
    }

    /// What has to be true before a token is made; the answer if none is.
    fn admit(&self, books: &mut Books, request: &IssueRequest) -> Result<Option<Issue>, PortError> {
        let IssueRequest { resource, ordinal, epoch, ttl, .. } = *request;
        if !WINDOW.allows(ttl) && !self.has(Flaw::IgnoresTheWindow) {
            return Err(self.refuse());
        }
        if books.closed.contains(&resource) && !self.has(Flaw::IssuesAfterClose) {
            return Err(self.refuse());
        }
        let seen = match self.flaw {
            Flaw::HasOneEpochForAll => books.seen.values().max(),
            Flaw::AcceptsAnOlderEpoch => None,
            _ => books.seen.get(&resource),
        };
        let late = |seen: &LeaseEpoch| match self.flaw {
            Flaw::LetsAnEpochAskOnce => epoch <= *seen,
            _ => epoch < *seen,
        };
        if seen.is_some_and(late) {
            if self.has(Flaw::InvalidatesOnRejection) {
                books.invalidate(resource, None);
            }
            return Err(self.refuse());
        }
        let of_resource = |token: &&Token| token.resource == resource && token.consumed.is_some();
        let mut consumed = books.tokens.iter().filter(of_resource);
        let named = match self.flaw {
            Flaw::ReissuesAConsumedOrdinal => None,
            Flaw::NamesAnotherConsumedToken => consumed
                .any(|token| token.ordinal == ordinal)
                .then(|| books.tokens.iter().rfind(of_resource).unwrap().id),
            _ => consumed.find(|token| token.ordinal == ordinal).map(|token| token.id),
        };
        let Some(id) = named else { return Ok(None) };
        if !self.has(Flaw::ForgetsTheEpochOfConsumed) {
            books.seen.insert(resource, epoch);
        }
        if self.has(Flaw::ConsumedInvalidates) {
            books.invalidate(resource, None);
        }
        Ok(Some(Issue::Consumed { id }))
    }

    fn mint(&self, books: &mut Books, request: &IssueRequest) -> IssuedToken {
        let IssueRequest { resource, ordinal, epoch, ttl, .. } = *request;
        books.seen.insert(resource, epoch);
        let last = books.tokens.iter().rfind(|token| token.resource == resource);
        if let Some(last) = last.filter(|_| self.has(Flaw::ReusesTheToken)) {
            return last.issued();
        }
        match self.flaw {
            Flaw::IssuesWithoutInvalidating | Flaw::TwoIssuesAtOnceBothLive => {}
            Flaw::InvalidatesItsOwnOrdinalOnly => books.invalidate(resource, Some(ordinal)),
            _ => books.invalidate(resource, None),
        }
        let id = BootstrapTokenId::new(self.ids.uuid()).unwrap();
        let plaintext = match self.flaw {
            Flaw::PlaintextsHoldSpaces => format!("token {id}"),
            _ => format!("token-{id}"),
        };
        let ttl = match self.flaw {
            Flaw::AlwaysGrantsMax => WINDOW.max,
            Flaw::AlwaysGrantsMin => WINDOW.min,
            _ => ttl,
        };
        let expires_at = self.clock.now() + ttl;
        let (consumed, invalidated) = (None, false);
        let token = Token { id, plaintext, resource, ordinal, expires_at, consumed, invalidated };
        let issued = token.issued();
        books.tokens.push(token);
        issued
    }
}

impl FlawedIssuer {
    /// The ordinal is given away, and nobody gets its token.
    fn reserve(&self, request: &IssueRequest) {
        let mut books = self.books();
        self.mint(&mut books, request);
        let at = self.clock.now();
        if let Some(token) = books.tokens.last_mut() {
            token.consumed = Some(at);
        }
    }
}

impl Token {
    fn issued(&self) -> IssuedToken {
        IssuedToken::new(self.id, BootstrapToken::new(self.plaintext.clone()))
    }
}

impl Books {
    /// Those that an issue or a close has to invalidate, as of now.
    fn open(&self, resource: ProvisionedResourceId) -> Vec<BootstrapTokenId> {
        let of_resource = self.tokens.iter().filter(|token| token.resource == resource);
        of_resource.map(|token| token.id).collect()
    }

    fn invalidate_those(&mut self, ids: &[BootstrapTokenId]) {
        for token in self.tokens.iter_mut().filter(|token| ids.contains(&token.id)) {
            token.invalidated = true;
        }
    }

    fn invalidate(&mut self, resource: ProvisionedResourceId, only: Option<TokenOrdinal>) {
        for token in self.tokens.iter_mut().filter(|token| token.resource == resource) {
            token.invalidated |= only.is_none_or(|ordinal| ordinal == token.ordinal);
        }
    }
}

#[async_trait]
impl TokenIssuer for FlawedIssuer {
    async fn issue(&self, request: &IssueRequest) -> Result<Issue, PortError> {
        if self.has(Flaw::ChecksFirstAndActsLater) {
            if let Some(consumed) = self.admit(&mut *self.reach()?, request)? {
                return Ok(consumed);
            }
            tokio::task::yield_now().await;
            return Ok(Issue::Issued(self.mint(&mut *self.reach()?, request)));
        }
        if self.has(Flaw::IssuesHalfWhenDropped) {
            half_way(|| self.reserve(request)).await;
        }
        if self.has(Flaw::TwoIssuesAtOnceBothLive) {
            let open = self.reach()?.open(request.resource);
            tokio::task::yield_now().await;
            let mut books = self.reach()?;
            let answer = self.admit(&mut books, request)?;
            return Ok(answer.unwrap_or_else(|| {
                books.invalidate_those(&open);
                Issue::Issued(self.mint(&mut books, request))
            }));
        }
        let mut books = self.reach()?;
        match self.admit(&mut books, request)? {
            Some(consumed) => Ok(consumed),
            None => Ok(Issue::Issued(self.mint(&mut books, request))),
        }
    }

    async fn close(&self, resource: ProvisionedResourceId) -> Result<(), PortError> {
        if self.has(Flaw::CloseReadsThenWrites) {
            let open = self.reach()?.open(resource);
            tokio::task::yield_now().await;
            let mut books = self.reach()?;
            books.invalidate_those(&open);
            books.closed.insert(resource);
            return Ok(());
        }
        if self.has(Flaw::ClosesHalfWhenDropped) {
            if self.reach()?.closed.contains(&resource) {
                return Ok(());
            }
            half_way(|| {
                self.books().closed.insert(resource);
            })
            .await;
        }
        let mut books = match self.reach() {
            Err(_) if self.has(Flaw::ClosesInAnOutage) => return Ok(()),
            books => books?,
        };
        let known = books.tokens.iter().any(|token| token.resource == resource);
        if self.has(Flaw::CloseWorksOnce) && books.closed.contains(&resource) {
            return Err(self.refuse());
        }
        if known || !self.has(Flaw::CloseNeedsAToken) {
            books.closed.insert(resource);
        }
        let Books { tokens, closed, .. } = &mut *books;
        let everybody = self.has(Flaw::CloseClosesEverybody);
        for token in tokens.iter_mut().filter(|token| everybody || token.resource == resource) {
            closed.insert(token.resource);
            token.invalidated |= !self.has(Flaw::CloseLeavesLiveTokens);
            if self.has(Flaw::CloseErasesConsumption) {
                token.consumed = None;
            }
        }
        Ok(())
    }

    async fn state(&self, token: BootstrapTokenId) -> Result<Option<TokenState>, PortError> {
        let books = match self.reach() {
            Err(_) if self.has(Flaw::NoAnswerIsNoToken) => return Ok(None),
            books => books?,
        };
        let known = books.tokens.iter().find(|known| known.id == token);
        let guess = self.has(Flaw::KnowsEveryToken).then_some(TokenState::Invalidated);
        Ok(known.map(|token| self.state_of(token)).or(guess))
    }

    async fn ttl_window(&self) -> Result<TtlWindow, PortError> {
        Ok(WINDOW)
    }
}

#[async_trait]
impl TokenIssuerUnderTest for FlawedIssuer {
    fn issuer(&self) -> &dyn TokenIssuer {
        self
    }

    async fn resource(&self) -> Result<ProvisionedResourceId, PortError> {
        Ok(self.ids.provisioned_resource_id())
    }

    async fn consume(&self, plaintext: &BootstrapToken) -> Result<bool, PortError> {
        let (mut books, now) = (self.books(), self.clock.now());
        let plaintext = plaintext.secret().expose_secret();
        let token = books.tokens.iter_mut().find(|token| token.plaintext == plaintext);
        let Some(token) = token else { return Ok(false) };
        let again = self.has(Flaw::ConsumesTwice) && token.consumed.is_some();
        let let_in = again || matches!(self.state_of(token), TokenState::Live { .. });
        if let_in {
            token.consumed = Some(now);
        }
        Ok(let_in)
    }

    async fn advance(&self, by: Duration) -> Result<(), PortError> {
        self.clock.advance(by);
        Ok(())
    }

    async fn cut_off(&self) -> Result<(), PortError> {
        self.books().cut_off = true;
        Ok(())
    }
}
