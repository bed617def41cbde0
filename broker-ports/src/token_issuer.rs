//! Act: bootstrap tokens, at most one live token per resource.

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
/// **Invariant**: at most one live token per resource, across crashes, because every issue invalidates earlier
/// unconsumed tokens. No live token after a confirmed [`close`](Self::close).
///
/// An issuer from scratch comes with a [`NodeDeregistrar`](crate::NodeDeregistrar) that knows its tokens and which Node
/// consumed each. Another deregistrar answers each of them with an error, so no machine becomes Ready or is torn down.
#[cfg_attr(feature = "mocks", mockall::automock)]
#[async_trait]
pub trait TokenIssuer: Send + Sync {
    /// Issues a token under an ordinal. One atomic operation:
    ///
    /// - A closed resource, or an epoch below the highest seen for it, is `Rejected`: the worker has lost its lease.
    ///   Every issue that is not rejected records its epoch, including one that returns [`Issue::Consumed`].
    /// - If a token of this ordinal was consumed, the result is [`Issue::Consumed`] and no token changes. An agent
    ///   enrolled with it, so a replacement would create a second Node.
    /// - Otherwise the issuer invalidates every unconsumed token of the resource, whatever its ordinal, and returns the
    ///   new one.
    ///
    /// **Implementer**: a plaintext is 1 to 512 printable ASCII characters; rendering relies on this.
    ///
    /// **Caller**: after `Unknown`, an unusable token may exist. A retry under the same ordinal invalidates it.
    ///
    /// # Errors
    ///
    /// - `Rejected`: as above, and for a time to live outside of the window.
    /// - `Transient`: no token was issued.
    /// - `Unknown`: the response was lost.
    async fn issue(&self, request: &IssueRequest) -> Result<Issue, PortError>;

    /// Invalidates every unconsumed token of the resource, recorded or not, and makes every later issue fail.
    /// Idempotent.
    ///
    /// **Caller**: calls it before any observation on which a teardown is decided, and stores the confirmation
    /// ([`WriteKind::Closed`](crate::WriteKind::Closed)).
    ///
    /// # Errors
    ///
    /// `Transient`, `Unknown`: not confirmed; retry.
    async fn close(&self, resource: ProvisionedResourceId) -> Result<(), PortError>;

    /// Reads the state of a token; `None` if it was never issued.
    ///
    /// # Errors
    ///
    /// `Transient`: the issuer could not be reached.
    async fn state(&self, token: BootstrapTokenId) -> Result<Option<TokenState>, PortError>;

    /// Reads the allowed times to live.
    ///
    /// # Errors
    ///
    /// `Transient`: the issuer could not be reached.
    async fn ttl_window(&self) -> Result<TtlWindow, PortError>;
}

/// A decorator of a token issuer. It overrides the methods that it changes; the others call [`inner`](Self::inner).
///
/// ```
/// use std::sync::Arc;
///
/// use broker_ports::{Issue, IssueRequest, PortError, TokenIssuer, TokenIssuerWrapper};
///
/// /// Prints every issue.
/// struct PrintingIssuer(Arc<dyn TokenIssuer>);
///
/// #[async_trait::async_trait]
/// impl TokenIssuerWrapper for PrintingIssuer {
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
/// fn into_issuer(issuer: PrintingIssuer) -> Arc<dyn TokenIssuer> {
///     Arc::new(issuer)
/// }
/// ```
#[async_trait]
pub trait TokenIssuerWrapper: Send + Sync {
    /// The decorated issuer.
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

/// A worker's request for a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct IssueRequest {
    /// The resource.
    pub resource: ProvisionedResourceId,
    /// The ordinal.
    pub ordinal: TokenOrdinal,
    /// The epoch of the worker's lease.
    pub epoch: LeaseEpoch,
    /// How long an agent may consume the token.
    pub ttl: Duration,
}

impl IssueRequest {
    /// A token for a resource, under an ordinal and a lease epoch, with a time to live.
    pub const fn new(
        resource: ProvisionedResourceId,
        ordinal: TokenOrdinal,
        epoch: LeaseEpoch,
        ttl: Duration,
    ) -> Self {
        Self { resource, ordinal, epoch, ttl }
    }
}

/// The result of an issue. It may hold a plaintext, so it cannot be serialised or cloned.
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
/// The variants that compile:
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
#[expect(clippy::exhaustive_enums, reason = "its users act on every variant")]
pub enum Issue {
    /// A new token, the only live one of the resource.
    Issued(IssuedToken),
    /// The token of this ordinal was consumed; nothing changed.
    Consumed {
        /// That token.
        id: BootstrapTokenId,
    },
}

/// An issued token: its id, which the broker stores, and its plaintext, which it never stores.
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
/// The variants that compile:
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

/// A token's plaintext. It cannot be printed, serialised or cloned, only moved. Only rendering and simulated agents
/// call [`secret`](Self::secret), because its result can be copied like any text.
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
/// The variants that compile:
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

    /// Borrows the plaintext in a wrapper that does not print it. Do not copy it: every copy needs the same protection.
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

/// The state of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum TokenState {
    /// It can be consumed.
    Live {
        /// The end of its life.
        expires_at: OffsetDateTime,
    },
    /// An agent consumed it.
    Consumed {
        /// When.
        at: OffsetDateTime,
    },
    /// It expired before an agent consumed it.
    Expired {
        /// When.
        at: OffsetDateTime,
    },
    /// A later issue or a close invalidated it.
    Invalidated,
}

/// The times to live that an issuer allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct TtlWindow {
    /// The shortest.
    pub min: Duration,
    /// The longest.
    pub max: Duration,
}

impl TtlWindow {
    /// From shortest to longest, both included.
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
