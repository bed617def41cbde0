//! Where a resource stands on its way up or down, and which steps are legal.

use std::fmt;

use crate::error::Error;

/// Where a resource stands.
///
/// The first five are the way up, the last three the way down. Only [`next`](crate::next()) over live
/// facts and a deletion request move a resource from one to another.
///
/// Exhaustive on purpose: a new phase is a new major version, and every `match` should see it.
///
/// ```
/// use broker_domain::Phase;
///
/// assert!(Phase::Ready.can_become(Phase::Pending), "its composite resource may vanish");
/// assert!(!Phase::Deprovisioning.can_become(Phase::Ready), "teardown never turns back");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Phase {
    /// Declared; the composite resource does not stand yet.
    Pending,
    /// The composite resource stands; Crossplane has not reported it Ready.
    Provisioning,
    /// The substrate is up; the Node has not enrolled.
    Enrolling,
    /// The substrate is up and the Node, if one is expected, has enrolled. Watched for ever.
    Ready,
    /// The Composition declared that it will never work. Left only by deletion.
    Failed,
    /// Deletion was accepted; the Node is drained before any substrate is touched.
    Deregistering,
    /// The Node is gone; the substrate is being deleted.
    Deprovisioning,
    /// Nothing is left. The end.
    Deleted,
}

impl Phase {
    /// Every phase, in the order of a life.
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

    /// The phase's name in rows, on the wire, in logs and in metrics.
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

    /// Reads a phase that somebody else wrote, perhaps a newer release: what is unknown here counts as
    /// [`Phase::Pending`], from which convergence can always start over.
    ///
    /// Rows are read strictly instead, with `Phase::try_from`.
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

    /// On the way up: Pending, Provisioning, Enrolling or Ready.
    pub const fn is_converging(self) -> bool {
        match self {
            Self::Pending | Self::Provisioning | Self::Enrolling | Self::Ready => true,
            Self::Failed | Self::Deregistering | Self::Deprovisioning | Self::Deleted => false,
        }
    }

    /// On the way down, or at its end: Deregistering, Deprovisioning or Deleted.
    pub const fn is_teardown(self) -> bool {
        match self {
            Self::Deregistering | Self::Deprovisioning | Self::Deleted => true,
            Self::Pending | Self::Provisioning | Self::Enrolling | Self::Ready | Self::Failed => {
                false
            }
        }
    }

    /// Whether a resource in this phase may be written with the other one.
    ///
    /// The edges are what [`next`](crate::next()) can answer from each phase, and the step into
    /// [`Phase::Deregistering`] that a deletion request takes from every phase on the way up and from
    /// [`Phase::Failed`]. Invariant: legal edges only (`legal_edges_only`).
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

/// The strict reading, for rows: what is unknown is an error that names it.
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
    fn the_names_are_pinned() {
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
    fn an_unknown_phase_is_refused_by_rows_and_pending_on_the_wire() {
        for text in ["", "ready", "READY", " Ready", "Hibernating"] {
            assert_eq!(Phase::from_wire(text), Phase::Pending);
            let error = Phase::try_from(text).unwrap_err();
            assert_eq!(error.reason(), "invalid_input");
            assert!(error.to_string().contains("Pending, Provisioning"), "{error}");
        }
    }

    /// Invariant: the legal edges are what `next` can yield, and deletion from every phase but those of
    /// teardown. Computed here from the definition, so that neither side can drift alone.
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
