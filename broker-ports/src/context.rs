//! Declare: the actor of a request, its scope, and the ids that trace it.

use std::fmt;

use broker_domain::{Error, ProjectId};

/// The actor: an opaque id of a person or a service, never a name or an address.
///
/// The audit keeps it permanently, so it must not be personal data: `@` and spaces are rejected.
///
/// ```
/// use broker_ports::Actor;
///
/// assert_eq!(Actor::new("user:7f3a")?.as_str(), "user:7f3a");
/// assert_eq!(
///     Actor::new("jane@example.org").unwrap_err().to_string(),
///     "actor: holds '@'; use an opaque id of 1 to 128 visible ASCII characters without @",
/// );
/// # Ok::<(), broker_domain::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Actor(String);

/// Correlates the log and audit lines of one request.
///
/// The audit keeps it like an [`Actor`], so it must not be personal data either: `@` and spaces are rejected.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CorrelationId(String);

/// The W3C trace context of a request.
///
/// Events of the request carry it, and so do events of the passes that follow.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TraceParent(String);

/// The resources that a caller may read and change. For the caller, no other resource exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "its users act on every variant")]
pub enum AccessScope {
    /// One Project's.
    Project(ProjectId),
    /// Every Project: for platform operators.
    All,
}

/// The context of every service call.
///
/// The broker does not authorise. The embedder that builds this context has authorised the actor for the scope.
///
/// ```
/// use broker_domain::ProjectId;
/// use broker_ports::{RequestContext, AccessScope};
/// use uuid::Uuid;
///
/// let project = ProjectId::new(Uuid::from_u128(1))?;
/// let context = RequestContext::user("user:7f3a", project, "req-1")?;
/// assert_eq!(context.scope(), AccessScope::Project(project));
///
/// let context = RequestContext::operator("user:81c2", "req-2")?;
/// assert_eq!(context.scope(), AccessScope::All);
/// # Ok::<(), broker_domain::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RequestContext {
    attribution: Attribution,
    scope: AccessScope,
}

/// The actor and request that the audit records for a change.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Attribution {
    /// The actor.
    pub actor: Actor,
    /// The id of the request or pass.
    pub correlation_id: CorrelationId,
    /// The trace of the request. Events carry it; the audit does not keep it.
    pub traceparent: Option<TraceParent>,
}

const MAX_BYTES: usize = 128;

fn check_visible(field: &str, text: String, allowed: &str) -> Result<String, Error> {
    let problem = if text.is_empty() {
        "is empty".to_owned()
    } else if text.len() > MAX_BYTES {
        format!("is {} bytes long", text.len())
    } else if let Some(character) = text.chars().find(|c| !c.is_ascii_graphic() || *c == '@') {
        format!("holds {character:?}")
    } else {
        return Ok(text);
    };
    Err(Error::invalid(field, format!("{problem}; use {allowed}")))
}

impl Actor {
    /// Takes an opaque id.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidInput`] when it is empty, longer than 128 bytes, or holds `@`, a space or anything
    /// that is not visible ASCII.
    pub fn new(id: impl Into<String>) -> Result<Self, Error> {
        let allowed = "an opaque id of 1 to 128 visible ASCII characters without @";
        check_visible("actor", id.into(), allowed).map(Self)
    }

    /// The broker itself.
    pub fn system() -> Self {
        Self("system:provisioning-broker".to_owned())
    }

    /// The id.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl CorrelationId {
    /// Takes a request id.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidInput`] when it is empty, longer than 128 bytes, or holds `@`, a space or anything
    /// that is not visible ASCII.
    pub fn new(id: impl Into<String>) -> Result<Self, Error> {
        check_visible("correlation_id", id.into(), "1 to 128 visible ASCII characters without @")
            .map(Self)
    }

    /// The id.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TraceParent {
    /// Takes the header's value: version, trace id, parent id and flags in lower-case hexadecimal.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidInput`] when it does not have that form, when the version is `ff`, and when an id is all zeros.
    pub fn new(header: impl Into<String>) -> Result<Self, Error> {
        let header = header.into();
        let parts: Vec<_> = header.split('-').collect();
        let hex = |part: &&str, length| {
            part.len() == length && part.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
        };
        let well_formed = matches!(parts.as_slice(), [version, trace, parent, flags]
            if hex(version, 2) && hex(trace, 32) && hex(parent, 16) && hex(flags, 2)
                && *version != "ff" && [trace, parent].iter().all(|id| id.contains(|c| c != '0')));
        if !well_formed {
            return Err(Error::invalid(
                "traceparent",
                "is not of the form 00-<32 hex digits>-<16 hex digits>-<2 hex digits> with ids other than zero",
            ));
        }
        Ok(Self(header))
    }

    /// The header's value.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl AccessScope {
    /// Whether a Project's resources are in scope.
    pub fn covers(self, project: ProjectId) -> bool {
        match self {
            Self::Project(own) => own == project,
            Self::All => true,
        }
    }
}

impl Attribution {
    /// An actor in a request or pass.
    pub const fn new(actor: Actor, correlation_id: CorrelationId) -> Self {
        Self { actor, correlation_id, traceparent: None }
    }

    /// Drops the trace, which the audit does not keep.
    #[must_use]
    pub(crate) fn without_trace(self) -> Self {
        Self { traceparent: None, ..self }
    }
}

impl RequestContext {
    /// A user's request, limited to one Project.
    ///
    /// # Errors
    ///
    /// As [`Actor::new`] and [`CorrelationId::new`].
    pub fn user(
        actor: impl Into<String>,
        project: ProjectId,
        correlation_id: impl Into<String>,
    ) -> Result<Self, Error> {
        let correlation_id = CorrelationId::new(correlation_id)?;
        Ok(Self::new(Actor::new(actor)?, AccessScope::Project(project), correlation_id))
    }

    /// A platform operator's request, for every Project.
    ///
    /// # Errors
    ///
    /// As [`Actor::new`] and [`CorrelationId::new`].
    pub fn operator(
        actor: impl Into<String>,
        correlation_id: impl Into<String>,
    ) -> Result<Self, Error> {
        let correlation_id = CorrelationId::new(correlation_id)?;
        Ok(Self::new(Actor::new(actor)?, AccessScope::All, correlation_id))
    }

    /// A request of the embedding service itself, for every Project.
    ///
    /// # Errors
    ///
    /// As [`CorrelationId::new`].
    pub fn system(correlation_id: impl Into<String>) -> Result<Self, Error> {
        Ok(Self::new(Actor::system(), AccessScope::All, CorrelationId::new(correlation_id)?))
    }

    /// A context without a trace.
    pub fn new(actor: Actor, scope: AccessScope, correlation_id: CorrelationId) -> Self {
        Self { attribution: Attribution::new(actor, correlation_id), scope }
    }

    /// Sets the trace of the request.
    #[must_use]
    pub fn with_traceparent(mut self, traceparent: TraceParent) -> Self {
        self.attribution.traceparent = Some(traceparent);
        self
    }

    /// The actor and request.
    pub const fn attribution(&self) -> &Attribution {
        &self.attribution
    }

    /// The resources that the caller may read and change.
    pub const fn scope(&self) -> AccessScope {
        self.scope
    }

    /// The trace of the request.
    pub const fn traceparent(&self) -> Option<&TraceParent> {
        self.attribution.traceparent.as_ref()
    }
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for CorrelationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn personal_data_is_rejected_as_actor_and_correlation_id() {
        for text in ["", "jane@example.org", "Jane Doe", "jané", "a\tb", &"x".repeat(129)] {
            assert!(Actor::new(text).is_err(), "{text:?}");
            assert!(CorrelationId::new(text).is_err(), "{text:?}");
        }
        assert!(Actor::new(Actor::system().as_str()).is_ok());
    }

    #[test]
    fn malformed_traceparent_is_rejected() {
        let valid = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        assert_eq!(TraceParent::new(valid).unwrap().as_str(), valid);
        for (invalid, why) in [
            ("", "it is empty"),
            ("00-1-2-3", "its parts are short"),
            (&valid.to_uppercase(), "its digits are upper-case"),
            (&format!("{valid}-00"), "it has a fifth part"),
            (&valid[1..], "its version has one digit"),
            (&format!("ff{}", &valid[2..]), "ff is not a version"),
            (&valid.replace("0af7651916cd43dd8448eb211c80319c", &"0".repeat(32)), "no trace id"),
            (&valid.replace("b7ad6b7169203331", &"0".repeat(16)), "no parent id"),
        ] {
            assert!(TraceParent::new(invalid).is_err(), "{invalid}: {why}");
        }
    }
}
