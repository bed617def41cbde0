//! The states that the views of other contexts carry. The platform changes them; the broker only reads them.

use std::fmt;

use broker_domain::{CloudCredentialId, Error};

/// A closed set of states, as rows of the platform spell them.
macro_rules! states {
    ($(#[$docs:meta])* $name:ident, $field:literal { $($(#[$state_docs:meta])* $state:ident = $text:literal,)+ }) => {
        $(#[$docs])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[expect(clippy::exhaustive_enums, reason = "its users act on every variant")]
        pub enum $name {
            $($(#[$state_docs])* $state,)+
        }

        impl $name {
            /// Every state.
            pub const ALL: &[Self] = &[$(Self::$state),+];

            /// The name in rows.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$state => $text,)+
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl TryFrom<&str> for $name {
            type Error = Error;

            fn try_from(text: &str) -> Result<Self, Error> {
                let known = Self::ALL.iter().copied().find(|state| state.as_str() == text);
                known.ok_or_else(|| {
                    let allowed: Vec<_> = Self::ALL.iter().map(|state| state.as_str()).collect();
                    Error::invalid($field, format!("{text:?} is unknown; use {}", allowed.join(", ")))
                })
            }
        }
    };
}

states! {
    /// The phase of a Project's namespace.
    ///
    /// ```
    /// use broker_ports::NamespacePhase;
    ///
    /// assert_eq!(NamespacePhase::try_from("Degraded")?, NamespacePhase::Degraded);
    /// assert!(NamespacePhase::try_from("ready").is_err());
    /// # Ok::<(), broker_domain::Error>(())
    /// ```
    NamespacePhase, "namespace_phase" {
        /// Requested, and not created yet.
        Pending = "Pending",
        /// Created, and being prepared.
        Provisioning = "Provisioning",
        /// It takes objects.
        Ready = "Ready",
        /// It takes objects of resources that were applied before, and no new ones.
        Degraded = "Degraded",
        /// It is being deleted.
        Terminating = "Terminating",
        /// It is gone.
        Deleted = "Deleted",
    }
}

states! {
    /// The state of a cloud credential.
    CredentialState, "credential_state" {
        /// It may be used.
        Active = "active",
        /// It is past its validity.
        Expired = "expired",
        /// Its owner revoked it.
        Revoked = "revoked",
    }
}

states! {
    /// The state of a credential's assignment to a Project.
    ApprovalState, "approval_state" {
        /// The Project asked for the credential.
        Requested = "requested",
        /// The Project may use the credential.
        Approved = "approved",
        /// The request was refused.
        Rejected = "rejected",
        /// An approval was taken back.
        Revoked = "revoked",
    }
}

states! {
    /// The state of a blueprint version.
    BlueprintState, "blueprint_state" {
        /// It takes declarations.
        Active = "active",
        /// It takes no new declaration. Resources that were declared before stay.
        Retired = "retired",
    }
}

/// Why a credential may create nothing more: what runs with it keeps running, and can be torn down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_enums, reason = "its users act on every variant")]
pub enum Withdrawal {
    /// The credential expired.
    Expired,
    /// The credential was revoked.
    Revoked,
    /// Its assignment to the Project is in this state, and not approved.
    NotApproved(ApprovalState),
}

impl Withdrawal {
    /// The withdrawal by these states, if any. The state of the credential comes first, because it concerns every
    /// Project.
    pub const fn of(credential: CredentialState, approval: ApprovalState) -> Option<Self> {
        match (credential, approval) {
            (CredentialState::Expired, _) => Some(Self::Expired),
            (CredentialState::Revoked, _) => Some(Self::Revoked),
            (CredentialState::Active, ApprovalState::Approved) => None,
            (
                CredentialState::Active,
                ApprovalState::Requested | ApprovalState::Rejected | ApprovalState::Revoked,
            ) => Some(Self::NotApproved(approval)),
        }
    }

    /// The refusal of a declaration that names the credential.
    pub const fn refusal(self, credential: CloudCredentialId) -> Error {
        match self {
            Self::Expired => Error::CredentialExpired(credential),
            Self::Revoked => Error::CredentialRevoked(credential),
            Self::NotApproved(_) => Error::CredentialNotApproved(credential),
        }
    }
}

/// A fragment about the credential.
impl fmt::Display for Withdrawal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Expired => f.write_str("it is expired"),
            Self::Revoked => f.write_str("it is revoked"),
            Self::NotApproved(state) => write!(f, "its assignment to the Project is {state}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_active_and_approved_credential_is_not_withdrawn() {
        for credential in CredentialState::ALL.iter().copied() {
            for approval in ApprovalState::ALL.iter().copied() {
                let usable =
                    (credential, approval) == (CredentialState::Active, ApprovalState::Approved);
                let withdrawal = Withdrawal::of(credential, approval);
                assert_eq!(withdrawal.is_none(), usable, "{credential}, {approval}");
            }
        }
    }
}
