//! The phases of a resource and the legal transitions between them.

use std::fmt;

use crate::error::Error;

/// The phase of a resource.
///
/// Only [`next`](crate::next()) over live facts, a deletion request, a retry and an abandon change it.
///
/// Exhaustive on purpose: a new phase needs a new major version, and every `match` must handle it.
///
/// ```
/// use broker_domain::Phase;
///
/// assert!(Phase::Ready.can_become(Phase::Pending), "the composite resource may vanish");
/// assert!(!Phase::Deprovisioning.can_become(Phase::Ready), "teardown is irreversible");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Phase {
    /// Declared; the composite resource does not exist yet.
    Pending,
    /// The composite resource exists; Crossplane has not reported it Ready.
    Provisioning,
    /// The substrate is up; the Node has not enrolled.
    Enrolling,
    /// The substrate is up and the Node, if expected, has enrolled. Sweeps keep observing it.
    Ready,
    /// The Composition reported a terminal failure. A deletion request or an operator's retry
    /// leaves it.
    Failed,
    /// Deletion was accepted; the Node is deregistered before any substrate is deleted.
    Deregistering,
    /// The Node is gone; the substrate is being deleted.
    Deprovisioning,
    /// Terminal: nothing is left, or an operator abandoned the teardown.
    Deleted,
}

impl Phase {
    /// Every phase, in lifecycle order.
    pub const ALL: [Self; 8] = [
        Self::Pending,
        Self::Provisioning,
        Self::Enrolling,
        Self::Ready,
        Self::Failed,
        Self::Deregistering,
        Self::Deprovisioning,
        Self::Deleted,
    ];

    /// The name in rows, on the wire, in logs and in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Provisioning => "Provisioning",
            Self::Enrolling => "Enrolling",
            Self::Ready => "Ready",
            Self::Failed => "Failed",
            Self::Deregistering => "Deregistering",
            Self::Deprovisioning => "Deprovisioning",
            Self::Deleted => "Deleted",
        }
    }

    /// Parses a phase from another writer, perhaps a newer release. An unknown phase becomes
    /// [`Phase::Pending`], from which convergence can always restart.
    ///
    /// Rows use the strict `Phase::try_from` instead.
    ///
    /// ```
    /// use broker_domain::Phase;
    ///
    /// assert_eq!(Phase::from_wire("Enrolling"), Phase::Enrolling);
    /// assert_eq!(Phase::from_wire("Hibernating"), Phase::Pending);
    /// assert!(Phase::try_from("Hibernating").is_err());
    /// ```
    pub fn from_wire(text: &str) -> Self {
        Self::try_from(text).unwrap_or(Self::Pending)
    }

    /// Converging: Pending, Provisioning, Enrolling or Ready.
    pub const fn is_converging(self) -> bool {
        match self {
            Self::Pending | Self::Provisioning | Self::Enrolling | Self::Ready => true,
            Self::Failed | Self::Deregistering | Self::Deprovisioning | Self::Deleted => false,
        }
    }

    /// In teardown or at its end: Deregistering, Deprovisioning or Deleted.
    pub const fn is_teardown(self) -> bool {
        match self {
            Self::Deregistering | Self::Deprovisioning | Self::Deleted => true,
            Self::Pending | Self::Provisioning | Self::Enrolling | Self::Ready | Self::Failed => {
                false
            }
        }
    }

    /// Whether a resource in this phase may be written with phase `to`.
    ///
    /// The edges are: every result of [`next`](crate::next()); a deletion request into
    /// [`Phase::Deregistering`] from a converging phase or [`Phase::Failed`]; and a retry from
    /// [`Phase::Failed`] into [`Phase::Pending`]. Invariant: legal edges only (`legal_edges_only`).
    pub const fn can_become(self, to: Self) -> bool {
        match self {
            Self::Pending | Self::Provisioning | Self::Enrolling | Self::Ready => match to {
                Self::Pending
                | Self::Provisioning
                | Self::Enrolling
                | Self::Ready
                | Self::Failed
                | Self::Deregistering => true,
                Self::Deprovisioning | Self::Deleted => false,
            },
            Self::Failed => matches!(to, Self::Failed | Self::Deregistering | Self::Pending),
            Self::Deregistering | Self::Deprovisioning => to.is_teardown(),
            Self::Deleted => matches!(to, Self::Deleted),
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Strict parsing for stored rows: the error names the unknown value.
impl TryFrom<&str> for Phase {
    type Error = Error;

    fn try_from(text: &str) -> Result<Self, Error> {
        Self::ALL.into_iter().find(|phase| phase.as_str() == text).ok_or_else(|| {
            Error::invalid(
                "phase",
                format!(
                    "{text:?} is not a phase; use one of {}",
                    Self::ALL.map(Self::as_str).join(", ")
                ),
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ObservedXr, next};

    #[test]
    fn phase_names_equal_the_released_names() {
        assert_eq!(
            Phase::ALL.map(Phase::as_str),
            [
                "Pending",
                "Provisioning",
                "Enrolling",
                "Ready",
                "Failed",
                "Deregistering",
                "Deprovisioning",
                "Deleted"
            ]
        );
        for phase in Phase::ALL {
            assert_eq!(Phase::try_from(phase.as_str()).unwrap(), phase);
            assert_eq!(Phase::from_wire(phase.as_str()), phase);
        }
    }

    #[test]
    fn unknown_phase_is_an_error_in_rows_and_pending_on_the_wire() {
        for text in ["", "ready", "READY", " Ready", "Hibernating"] {
            assert_eq!(Phase::from_wire(text), Phase::Pending);
            let error = Phase::try_from(text).unwrap_err();
            assert_eq!(error.reason(), "invalid_input");
            assert!(error.to_string().contains("Pending, Provisioning"), "{error}");
        }
    }

    /// Invariant: the legal edges are the results of `next`, a deletion request and a retry. Computed
    /// independently of `can_become`.
    #[test]
    fn legal_edges_only() {
        for from in Phase::ALL {
            for to in Phase::ALL {
                let decided = ObservedXr::every().any(|facts| next(&facts, from).1 == to);
                let deletion = !from.is_teardown() && to == Phase::Deregistering;
                let retry = from == Phase::Failed && to == Phase::Pending;
                assert_eq!(from.can_become(to), decided || deletion || retry, "{from} to {to}");
            }
        }
    }
}
