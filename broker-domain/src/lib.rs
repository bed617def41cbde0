//! The Provisioning Broker's domain: the provisioned resource, its phases, and the decision
//! on its next action.
//!
//! A Project operator declares "a node on this cloud from this blueprint". Each stage from that declaration to
//! running substrate, or to its teardown, has one type:
//!
//! | stage | type | module |
//! |---|---|---|
//! | declare | [`Declaration`]: the operator's request | `declaration` |
//! | persist | [`ProvisionedResource`]: the aggregate, and its [`Phase`] | `provisioned_resource`, `phase` |
//! | observe | [`ObservedXr`]: definite facts from cluster and mesh | `observed` |
//! | decide | [`next`]: facts and phase in, action and phase out | `next` |
//! | act | [`Action`]: the action of the pass | `action` |
//! | emit | [`Event`]: a lifecycle event for consumers | `event` |
//!
//! The crate does no I/O, reads no clock, draws no random number and writes no log. Time and ids are
//! arguments, so the same code runs in production, in simulation and in a model checker.
//!
//! ```
//! use broker_domain::{Action, NodeObservation, ObservedXr, Phase, next};
//!
//! // The composite resource exists and is Ready, but no Node has enrolled yet.
//! let facts = ObservedXr {
//!     xr_exists: true,
//!     crossplane_ready: true,
//!     terminal_failure: false,
//!     node: NodeObservation::Unregistered,
//!     residue: false,
//! };
//! assert_eq!(next(&facts, Phase::Provisioning), (Action::Apply, Phase::Enrolling));
//! ```
//!
//! # Misuse that does not compile
//!
//! Ids of different entities cannot be swapped:
//!
//! ```compile_fail,E0308
//! # use broker_domain::{ProjectId, ResourceId};
//! # use uuid::Uuid;
//! fn list_resources(project: ProjectId) {}
//! let id = ResourceId::new(Uuid::from_u128(7))?;
//! list_resources(id);
//! # Ok::<(), broker_domain::Error>(())
//! ```
//!
//! The counterpart that compiles:
//!
//! ```
//! # use broker_domain::{ProjectId, ResourceId};
//! # use uuid::Uuid;
//! fn list_resources(project: ProjectId) {}
//! let id = ProjectId::new(Uuid::from_u128(7))?;
//! list_resources(id);
//! # Ok::<(), broker_domain::Error>(())
//! ```
//!
//! Two more examples: an [`Event`] cannot be built by hand, and the phase of a [`ProvisionedResource`] cannot
//! be set.

mod action;
mod declaration;
mod error;
mod event;
mod failure;
mod ids;
mod next;
mod observed;
mod parameters;
mod phase;
mod provisioned_resource;
mod request_id;
mod roles;
mod snapshot;
mod substrate;
mod token;
mod version;

#[cfg(test)]
mod testing;

#[cfg(all(test, feature = "serde"))]
mod serde_tests;

pub use action::Action;
pub use declaration::Declaration;
pub use error::{Error, ErrorKind, NotFound};
pub use event::{Event, EventDetail, EventType, Stamp};
pub use failure::{Failure, FailureReason};
pub use ids::{
    BlueprintVersionId, BootstrapTokenId, CloudCredentialId, CloudId, EventId, ProjectId,
    ProvisionedResourceId, ResourceHandle, ResourceId, XrName,
};
pub use next::next;
pub use observed::{NodeObservation, ObservedXr};
pub use parameters::Parameters;
pub use phase::Phase;
pub use provisioned_resource::{Change, ProvisionedResource};
pub use request_id::RequestId;
pub use roles::{MeshRole, OnFailure};
pub use snapshot::Snapshot;
pub use substrate::{ClusterId, ObjectReference, PLAIN_DATA, ReferencesDigest, Substrate, XrUid};
pub use token::TokenOrdinal;
pub use version::Version;
