//! What a pass has to do after [`next`](crate::next()) decided.

use std::fmt;

/// What one pass does to the outside world.
///
/// Teardown has two actions rather than one "delete", so that *Node first, then substrate* is a property
/// of the transition function and not a habit of an adapter.
///
/// Exhaustive on purpose: a new action is a new major version, and every `match` should see it.
///
/// ```
/// use broker_domain::Action;
///
/// assert_eq!(Action::DeleteSubstrate.to_string(), "DeleteSubstrate");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Action {
    /// Nothing to do.
    Noop,
    /// Bring ProviderConfig and composite resource to the cluster, or keep them as rendered.
    Apply,
    /// Drain the Node out of the mesh. Always before any substrate is deleted.
    DeregisterNode,
    /// Delete the composite resource and, when nothing that it composed is left, the ProviderConfig.
    DeleteSubstrate,
}

impl Action {
    /// Every action.
    pub const ALL: [Self; 4] =
        [Self::Noop, Self::Apply, Self::DeregisterNode, Self::DeleteSubstrate];

    /// The action's name on the wire, in logs and in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Noop => "Noop",
            Self::Apply => "Apply",
            Self::DeregisterNode => "DeregisterNode",
            Self::DeleteSubstrate => "DeleteSubstrate",
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_are_pinned() {
        let names: Vec<_> = Action::ALL.iter().map(|action| action.as_str()).collect();
        assert_eq!(names, ["Noop", "Apply", "DeregisterNode", "DeleteSubstrate"]);
    }
}
