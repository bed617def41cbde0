//! The states that the views of other contexts carry. The platform changes them; the broker only reads them.

use std::fmt;

use broker_domain::Error;

/// A closed set of states, as rows of the platform spell them.
macro_rules! states {
    ($(#[$docs:meta])* $name:ident, $field:literal { $($(#[$state_docs:meta])* $state:ident = $text:literal,)+ }) => {
        $(#[$docs])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
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
