//! Definite facts about one resource, read at one moment.

use crate::roles::MeshRole;

/// What cluster and mesh said about one resource.
///
/// Every field is something that was learnt, never a guess: a read that failed, was forbidden or timed
/// out is an error of the observe step and produces no value of this type. That is why *no information
/// never advances a phase and never destroys anything*: without facts there is nothing to decide on.
///
/// ```
/// use broker_domain::ObservedXr;
///
/// // Four facts of two values and one of three make a small world: the whole of it can be walked.
/// assert_eq!(ObservedXr::every().count(), 48);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "four facts, and an answer for every combination of them"
)]
pub struct ObservedXr {
    /// The composite resource stands on the cluster. `false` takes a direct read that answered "not
    /// found"; absence from a cache or list is only a hint.
    pub xr_exists: bool,
    /// Crossplane reports it Ready, for the generation that is live, and it is not being deleted.
    pub crossplane_ready: bool,
    /// The Composition set `ProvisioningFailed` to True: a deliberate mark that it will never work.
    /// `Synced=False` is no such mark, it comes and goes by itself.
    pub terminal_failure: bool,
    /// What the mesh knows of the Node.
    pub node: NodeObservation,
    /// Something else of ours is left: a composed object, or the ProviderConfig.
    pub residue: bool,
}

/// What the mesh knows of a resource's Node.
///
/// ```
/// use broker_domain::NodeObservation;
///
/// assert_ne!(NodeObservation::NotExpected, NodeObservation::Unregistered);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NodeObservation {
    /// The resource is standalone: no Node will ever come of it.
    NotExpected,
    /// No Node holds the resource's token, or it was deregistered.
    Unregistered,
    /// The token was consumed and its Node has not been deregistered.
    Registered,
}

impl NodeObservation {
    /// Every observation.
    pub const ALL: [Self; 3] = [Self::NotExpected, Self::Unregistered, Self::Registered];

    /// What the mesh's answer means for a resource: `registered` is its answer about the resource's token, and
    /// `None` when there is no token to ask about. Without a token there is no Node.
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
    /// Every combination of facts, in a fixed order: for exhaustive tests and for the generated grid.
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
