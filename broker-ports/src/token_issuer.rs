//! Act: bootstrap tokens, at most one of which is alive per resource.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use broker_domain::{BootstrapTokenId, ProvisionedResourceId, TokenOrdinal};
use secrecy::SecretString;
use time::OffsetDateTime;

use crate::error::PortError;
use crate::lease::LeaseEpoch;

/// Issues and closes bootstrap tokens.
///
/// **Invariant**: at most one live token per resource, whatever crashes: every issue invalidates what was
/// issued before and not consumed; and none once [`close`](Self::close) was confirmed.
#[cfg_attr(feature = "mocks", mockall::automock)]
#[async_trait]
pub trait TokenIssuer: Send + Sync {
    /// Issues a token under an ordinal, atomically with all of this:
    ///
    /// - a closed resource, or an epoch below the highest that was ever seen for it, is `Rejected`: whoever
    ///   asks has lost its lease. An epoch is seen by every issue that is not rejected, one that is answered
    ///   [`Issue::Consumed`] included;
    /// - if a token of this ordinal was consumed, the answer is [`Issue::Consumed`] and no token changes: an
    ///   agent enrolled with it, and replacing it silently would make a second Node;
    /// - otherwise every unconsumed token of the resource is invalidated, whatever its ordinal, and the new
    ///   one is returned.
    ///
    /// **Implementer**: a plaintext is 1 to 512 printable ASCII characters, which rendering relies on.
    ///
    /// **Caller**: after `Unknown`, a token may have been issued and is lost: asking again under the same
    /// ordinal invalidates it.
    ///
    /// # Errors
    ///
    /// `Rejected` as above, and for a time to live outside of the window; `Transient`; `Unknown` when the
    /// answer was lost.
    async fn issue(&self, request: &IssueRequest) -> Result<Issue, PortError>;

    /// Invalidates every unconsumed token of the resource, recorded or not, and rejects every later issue.
    /// Twice is once.
    ///
    /// **Caller**: before it observes anything that a teardown is decided on; puts the confirmation on record
    /// ([`WriteKind::Closed`](crate::WriteKind::Closed)).
    ///
    /// # Errors
    ///
    /// `Transient`, `Unknown`: not confirmed, call it again.
    async fn close(&self, resource: ProvisionedResourceId) -> Result<(), PortError>;

    /// What is known of a token; `None` if it was never issued.
    ///
    /// # Errors
    ///
    /// `Transient`.
    async fn state(&self, token: BootstrapTokenId) -> Result<Option<TokenState>, PortError>;

    /// Which times to live are allowed.
    ///
    /// # Errors
    ///
    /// `Transient`.
    async fn ttl_window(&self) -> Result<TtlWindow, PortError>;
}

/// A token issuer in front of another one. It writes the methods that it changes; the others go to
/// [`inner`](Self::inner).
///
/// ```
/// use std::sync::Arc;
///
/// use broker_ports::{Issue, IssueRequest, PortError, TokenIssuer, TokenIssuerWrapper};
///
/// /// Counts what it issues.
/// struct Counted(Arc<dyn TokenIssuer>);
///
/// #[async_trait::async_trait]
/// impl TokenIssuerWrapper for Counted {
///     fn inner(&self) -> &dyn TokenIssuer {
///         &*self.0
///     }
///
///     async fn issue(&self, request: &IssueRequest) -> Result<Issue, PortError> {
///         println!("a token for {}", request.resource);
///         self.inner().issue(request).await
///     }
/// }
///
/// fn is_an_issuer(counted: Counted) -> Arc<dyn TokenIssuer> {
///     Arc::new(counted)
/// }
/// ```
#[async_trait]
pub trait TokenIssuerWrapper: Send + Sync {
    /// The issuer behind this one.
    fn inner(&self) -> &dyn TokenIssuer;

    /// See [`TokenIssuer::issue`].
    async fn issue(&self, request: &IssueRequest) -> Result<Issue, PortError> {
        self.inner().issue(request).await
    }

    /// See [`TokenIssuer::close`].
    async fn close(&self, resource: ProvisionedResourceId) -> Result<(), PortError> {
        self.inner().close(resource).await
    }

    /// See [`TokenIssuer::state`].
    async fn state(&self, token: BootstrapTokenId) -> Result<Option<TokenState>, PortError> {
        self.inner().state(token).await
    }

    /// See [`TokenIssuer::ttl_window`].
    async fn ttl_window(&self) -> Result<TtlWindow, PortError> {
        self.inner().ttl_window().await
    }
}

#[async_trait]
impl<W: TokenIssuerWrapper> TokenIssuer for W {
    async fn issue(&self, request: &IssueRequest) -> Result<Issue, PortError> {
        TokenIssuerWrapper::issue(self, request).await
    }

    async fn close(&self, resource: ProvisionedResourceId) -> Result<(), PortError> {
        TokenIssuerWrapper::close(self, resource).await
    }

    async fn state(&self, token: BootstrapTokenId) -> Result<Option<TokenState>, PortError> {
        TokenIssuerWrapper::state(self, token).await
    }

    async fn ttl_window(&self) -> Result<TtlWindow, PortError> {
        TokenIssuerWrapper::ttl_window(self).await
    }
}

/// What a worker asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct IssueRequest {
    /// For which resource.
    pub resource: ProvisionedResourceId,
    /// Under which ordinal.
    pub ordinal: TokenOrdinal,
    /// The lease under which the worker acts.
    pub epoch: LeaseEpoch,
    /// How long the token may be consumed.
    pub ttl: Duration,
}

impl IssueRequest {
    /// A token for a resource, under an ordinal and a lease, with a time to live.
    pub const fn new(
        resource: ProvisionedResourceId,
        ordinal: TokenOrdinal,
        epoch: LeaseEpoch,
        ttl: Duration,
    ) -> Self {
        Self { resource, ordinal, epoch, ttl }
    }
}

/// What became of it. It may hold a plaintext, so it is neither serialised nor copied.
///
/// ```compile_fail,E0277
/// # use broker_ports::Issue;
/// fn copies<T: Clone>() {}
/// copies::<Issue>();
/// ```
///
/// ```compile_fail,E0277
/// # use broker_ports::Issue;
/// fn send(issue: &Issue) -> Option<String> {
///     serde_json::to_string(issue).ok()
/// }
/// ```
///
/// The twins that do compile:
///
/// ```
/// # use broker_ports::Issue;
/// fn copies<T: Send>() {}
/// copies::<Issue>();
/// ```
///
/// ```
/// # use broker_ports::Issue;
/// fn send(issue: &Issue) -> Option<String> {
///     serde_json::to_string(&format!("{issue:?}")).ok()
/// }
/// ```
#[must_use = "the plaintext is shown once"]
pub enum Issue {
    /// A new token, the only live one of the resource.
    Issued(IssuedToken),
    /// The token of this ordinal was consumed; nothing changed.
    Consumed {
        /// That token.
        id: BootstrapTokenId,
    },
}

/// A token that was just issued: its id, which is kept, and its plaintext, which never is.
///
/// ```compile_fail,E0277
/// # use broker_ports::IssuedToken;
/// fn copies<T: Clone>() {}
/// copies::<IssuedToken>();
/// ```
///
/// ```compile_fail,E0277
/// # use broker_ports::IssuedToken;
/// fn send(token: &IssuedToken) -> Option<String> {
///     serde_json::to_string(token).ok()
/// }
/// ```
///
/// The twins that do compile:
///
/// ```
/// # use broker_ports::IssuedToken;
/// fn copies<T: Send>() {}
/// copies::<IssuedToken>();
/// ```
///
/// ```
/// # use broker_ports::IssuedToken;
/// fn send(token: &IssuedToken) -> Option<String> {
///     serde_json::to_string(&token.id.to_string()).ok()
/// }
/// ```
#[non_exhaustive]
pub struct IssuedToken {
    /// The id.
    pub id: BootstrapTokenId,
    /// The plaintext.
    pub plaintext: BootstrapToken,
}

impl IssuedToken {
    /// An id and its plaintext.
    pub const fn new(id: BootstrapTokenId, plaintext: BootstrapToken) -> Self {
        Self { id, plaintext }
    }
}

/// A token's plaintext, for a manifest and nothing else. It is neither printed nor serialised, and it is handed on
/// and not copied: what [`secret`](Self::secret) lends can be copied by whoever asks for it, as any text can, so
/// rendering asks, and whoever stands in for an agent.
///
/// ```compile_fail,E0277
/// # use broker_ports::BootstrapToken;
/// fn copies<T: Clone>() {}
/// copies::<BootstrapToken>();
/// ```
///
/// ```compile_fail,E0277
/// # use broker_ports::BootstrapToken;
/// let token = BootstrapToken::new("t");
/// let _ = serde_json::to_string(&token);
/// ```
///
/// The twins that do compile:
///
/// ```
/// # use broker_ports::BootstrapToken;
/// fn copies<T: Send>() {}
/// copies::<BootstrapToken>();
/// ```
///
/// ```
/// # use broker_ports::BootstrapToken;
/// let token = BootstrapToken::new("t");
/// let _ = serde_json::to_string(&format!("{token:?}"));
/// ```
pub struct BootstrapToken(SecretString);

impl BootstrapToken {
    /// Takes the plaintext.
    pub fn new(plaintext: impl Into<SecretString>) -> Self {
        Self(plaintext.into())
    }

    /// Lends the plaintext to rendering, in a wrapper that does not print it. A copy of that is a plaintext more to
    /// look after: there should be none.
    pub const fn secret(&self) -> &SecretString {
        &self.0
    }
}

impl fmt::Debug for BootstrapToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BootstrapToken(…)")
    }
}

impl fmt::Debug for IssuedToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IssuedToken({})", self.id)
    }
}

impl fmt::Debug for Issue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Issued(token) => write!(f, "Issued({})", token.id),
            Self::Consumed { id } => write!(f, "Consumed({id})"),
        }
    }
}

/// What is known of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum TokenState {
    /// It can be consumed.
    Live {
        /// Until then.
        expires_at: OffsetDateTime,
    },
    /// An agent consumed it.
    Consumed {
        /// When.
        at: OffsetDateTime,
    },
    /// Its time was over before anybody consumed it.
    Expired {
        /// Since when.
        at: OffsetDateTime,
    },
    /// A later issue or a close made it worthless.
    Invalidated,
}

/// Which times to live an issuer allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct TtlWindow {
    /// The shortest.
    pub min: Duration,
    /// The longest.
    pub max: Duration,
}

impl TtlWindow {
    /// From the shortest to the longest, both allowed.
    pub const fn new(min: Duration, max: Duration) -> Self {
        Self { min, max }
    }

    /// Whether a time to live is allowed.
    pub fn allows(&self, ttl: Duration) -> bool {
        (self.min..=self.max).contains(&ttl)
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn a_plaintext_is_not_printed() {
        let token = || IssuedToken {
            id: BootstrapTokenId::new(Uuid::from_u128(1)).unwrap(),
            plaintext: BootstrapToken::new("hush"),
        };
        let printed = [
            format!("{:?}", token().plaintext),
            format!("{:?}", token()),
            format!("{:?}", Issue::Issued(token())),
        ];
        for text in printed {
            assert!(!text.contains("hush"), "{text}");
        }
    }
}
