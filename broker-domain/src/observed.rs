//! Observe stage: definite facts about one resource at one moment.

use crate::roles::MeshRole;

/// The facts about one resource, from cluster and mesh.
///
/// Every field is a definite reading, never a guess. A read that failed, was forbidden or timed out is an
/// error of the observe stage and yields no value of this type. Missing information therefore never advances
/// a phase and never destroys anything.
///
/// ```
/// use broker_domain::ObservedXr;
///
/// // Four facts with two values and one with three: small enough to enumerate.
/// assert_eq!(ObservedXr::every().count(), 48);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "four independent facts; every combination is possible"
)]
pub struct ObservedXr {
    /// The composite resource exists. `false` requires a direct read with "not found"; absence from a cache
    /// or list is only a hint.
    pub xr_exists: bool,
    /// Crossplane reports Ready for the live generation, and the object is not being deleted.
    pub crossplane_ready: bool,
    /// The Composition set `ProvisioningFailed` to True: a deliberate, terminal mark. `Synced=False` does not
    /// count, because it is transient.
    pub terminal_failure: bool,
    /// The mesh's state of the Node.
    pub node: NodeObservation,
    /// Other objects of the resource are left: a composed object or the ProviderConfig.
    pub residue: bool,
}

/// The mesh's state of a resource's Node.
///
/// ```
/// use broker_domain::NodeObservation;
///
/// assert_ne!(NodeObservation::NotExpected, NodeObservation::Unregistered);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NodeObservation {
    /// The resource is standalone: no Node ever enrols.
    NotExpected,
    /// No Node holds the resource's token, or the Node was deregistered.
    Unregistered,
    /// A Node consumed the token and is not deregistered.
    Registered,
}

impl NodeObservation {
    /// Every observation.
    pub const ALL: [Self; 3] = [Self::NotExpected, Self::Unregistered, Self::Registered];

    /// The observation of a resource. `registered` is whether the token's Node is registered; `None` without a token.
    ///
    /// ```
    /// use broker_domain::{MeshRole, NodeObservation};
    ///
    /// assert_eq!(NodeObservation::of(MeshRole::Node, None), NodeObservation::Unregistered);
    /// assert_eq!(NodeObservation::of(MeshRole::Node, Some(true)), NodeObservation::Registered);
    /// assert_eq!(NodeObservation::of(MeshRole::Standalone, None), NodeObservation::NotExpected);
    /// ```
    pub const fn of(mesh_role: MeshRole, registered: Option<bool>) -> Self {
        match (mesh_role, registered) {
            (MeshRole::Standalone, _) => Self::NotExpected,
            (MeshRole::Node, Some(true)) => Self::Registered,
            (MeshRole::Node, Some(false) | None) => Self::Unregistered,
        }
    }
}

impl ObservedXr {
    /// Every combination of facts in a fixed order, for exhaustive tests and the generated grid.
    pub fn every() -> impl Iterator<Item = Self> {
        const BOTH: [bool; 2] = [false, true];
        BOTH.into_iter().flat_map(|terminal_failure| {
            BOTH.into_iter().flat_map(move |xr_exists| {
                BOTH.into_iter().flat_map(move |crossplane_ready| {
                    NodeObservation::ALL.into_iter().flat_map(move |node| {
                        BOTH.into_iter().map(move |residue| Self {
                            xr_exists,
                            crossplane_ready,
                            terminal_failure,
                            node,
                            residue,
                        })
                    })
                })
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_observation_is_listed_once() {
        assert_eq!(ObservedXr::every().collect::<BTreeSet<_>>().len(), 2 * 2 * 2 * 2 * 3);
    }
}
