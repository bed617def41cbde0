//! Act stage: the actions that [`next`](crate::next()) can decide on.

use std::fmt;

/// The action of one pass.
///
/// Teardown has two actions, so that [`next`](crate::next()) can order them: first the Node, then the substrate.
///
/// Exhaustive on purpose: a new action needs a new major version, and every `match` must handle it.
///
/// ```
/// use broker_domain::Action;
///
/// assert_eq!(Action::DeleteSubstrate.to_string(), "DeleteSubstrate");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Action {
    /// No action.
    Noop,
    /// Apply the ProviderConfig and the composite resource as rendered.
    Apply,
    /// Deregister the Node from the mesh. Always precedes the deletion of substrate.
    DeregisterNode,
    /// Delete the composite resource, then the ProviderConfig once every composed object is gone.
    DeleteSubstrate,
}

impl Action {
    /// Every action.
    pub const ALL: [Self; 4] =
        [Self::Noop, Self::Apply, Self::DeregisterNode, Self::DeleteSubstrate];

    /// The name on the wire, in logs and in metrics.
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
    fn action_names_equal_the_released_names() {
        let names: Vec<_> = Action::ALL.iter().map(|action| action.as_str()).collect();
        assert_eq!(names, ["Noop", "Apply", "DeregisterNode", "DeleteSubstrate"]);
    }
}
