//! Ids that belong to the mesh. The broker only passes them from one seam to the next.

use std::fmt;

use broker_domain::Error;
use uuid::Uuid;

/// A Node, by the mesh's own id.
///
/// ```
/// use broker_ports::NodeId;
/// use uuid::Uuid;
///
/// assert_eq!(NodeId::new(Uuid::from_u128(7))?.as_uuid(), Uuid::from_u128(7));
/// assert!(NodeId::new(Uuid::nil()).is_err());
/// # Ok::<(), broker_domain::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(Uuid);

/// A Peer, by the mesh's own id.
///
/// ```
/// use broker_ports::PeerId;
/// use uuid::Uuid;
///
/// assert_eq!(PeerId::new(Uuid::from_u128(7))?.as_uuid(), Uuid::from_u128(7));
/// assert!(PeerId::new(Uuid::nil()).is_err());
/// # Ok::<(), broker_domain::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerId(Uuid);

impl NodeId {
    /// Takes any UUID but the nil one.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidInput`] when the UUID is nil.
    pub fn new(id: Uuid) -> Result<Self, Error> {
        reject_nil("node_id", "node", id).map(Self)
    }

    /// The UUID behind the id.
    pub const fn as_uuid(&self) -> Uuid {
        self.0
    }
}

impl PeerId {
    /// Takes any UUID but the nil one.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidInput`] when the UUID is nil.
    pub fn new(id: Uuid) -> Result<Self, Error> {
        reject_nil("peer_id", "peer", id).map(Self)
    }

    /// The UUID behind the id.
    pub const fn as_uuid(&self) -> Uuid {
        self.0
    }
}

/// Rejects the nil UUID.
fn reject_nil(field: &str, entity: &str, id: Uuid) -> Result<Uuid, Error> {
    if id.is_nil() {
        let problem = format!("is the nil UUID; give the id of a {entity}");
        return Err(Error::invalid(field, problem));
    }
    Ok(id)
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Display for PeerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}
