//! The mesh role and the failure policy of a resource.

use std::fmt;

use crate::error::Error;

/// Whether a Node enrols from the substrate. The blueprint determines it; a caller cannot.
///
/// ```
/// use broker_domain::MeshRole;
///
/// assert_eq!(MeshRole::try_from("standalone")?, MeshRole::Standalone);
/// assert_eq!(MeshRole::default(), MeshRole::Node);
/// # Ok::<(), broker_domain::Error>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "snake_case")
)]
pub enum MeshRole {
    /// An agent on the substrate consumes the bootstrap token and enrols as a Node.
    #[default]
    Node,
    /// No Node enrols, as for a bucket: Ready as soon as Crossplane reports it. Gets no token.
    Standalone,
}

/// The policy after a terminal failure.
///
/// ```
/// use broker_domain::OnFailure;
///
/// assert_eq!(OnFailure::default(), OnFailure::Retain);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "snake_case")
)]
pub enum OnFailure {
    /// The resource stays as a record of the attempt until an operator deletes it.
    #[default]
    Retain,
    /// The broker tears the resource down.
    Rollback,
}

impl MeshRole {
    /// Every role.
    pub const ALL: [Self; 2] = [Self::Node, Self::Standalone];

    /// The name in rows, catalogs and on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Standalone => "standalone",
        }
    }
}

impl OnFailure {
    /// Every policy.
    pub const ALL: [Self; 2] = [Self::Retain, Self::Rollback];

    /// The name in rows and on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Retain => "retain",
            Self::Rollback => "rollback",
        }
    }
}

impl fmt::Display for MeshRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Display for OnFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl TryFrom<&str> for MeshRole {
    type Error = Error;

    fn try_from(text: &str) -> Result<Self, Error> {
        Self::ALL.into_iter().find(|role| role.as_str() == text).ok_or_else(|| {
            Error::invalid(
                "mesh_role",
                format!("{text:?} is not a mesh role; use node or standalone"),
            )
        })
    }
}

impl TryFrom<&str> for OnFailure {
    type Error = Error;

    fn try_from(text: &str) -> Result<Self, Error> {
        Self::ALL.into_iter().find(|policy| policy.as_str() == text).ok_or_else(|| {
            Error::invalid(
                "on_failure",
                format!("{text:?} is not a failure policy; use retain or rollback"),
            )
        })
    }
}
