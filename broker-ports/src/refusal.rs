//! Act: why a cluster refused a request, as input for explain.

use std::fmt;

macro_rules! refusals {
    ($($(#[$docs:meta])* $name:ident = $text:literal,)+) => {
        /// Why the cluster refused a request. The adapter sets it with
        /// [`PortError::with_refusal`](crate::PortError::with_refusal); the error's message has the details.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Refusal {
            $($(#[$docs])* $name,)+
        }

        impl Refusal {
            /// Every refusal.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// The refusal in one word. It prefixes the stored message of a failed pass.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)+
                }
            }
        }
    };
}

refusals! {
    /// The kind is not served.
    KindAbsent = "kind_absent",
    /// The namespace does not exist.
    NamespaceAbsent = "namespace_absent",
    /// The namespace is being deleted and accepts no new objects.
    NamespaceTerminating = "namespace_terminating",
    /// Access is denied.
    Forbidden = "forbidden",
    /// The credentials are invalid.
    Unauthenticated = "unauthenticated",
    /// The object breaks the schema of its kind: an undeclared field, or a value that breaks a rule.
    Schema = "schema",
    /// An admission webhook denied the request, or a Usage vetoes a deletion.
    Vetoed = "vetoed",
}

impl Refusal {
    /// Prefixes a message with the refusal, so that [`parse_prefix`](Self::parse_prefix) can read it from the stored
    /// text.
    ///
    /// ```
    /// use broker_ports::Refusal;
    ///
    /// let stored = Refusal::Forbidden.prefix("apply Machine pr-1: denied");
    /// assert_eq!(stored, "forbidden: apply Machine pr-1: denied");
    /// assert_eq!(Refusal::parse_prefix(&stored), Some((Refusal::Forbidden, "apply Machine pr-1: denied")));
    /// assert_eq!(Refusal::parse_prefix("the cluster failed: it panicked"), None);
    /// ```
    pub fn prefix(self, message: &str) -> String {
        format!("{self}: {message}")
    }

    /// The refusal that prefixes a message, and the rest of the message.
    pub fn parse_prefix(message: &str) -> Option<(Self, &str)> {
        let (prefix, rest) = message.split_once(": ")?;
        let refusal = Self::ALL.iter().copied().find(|refusal| refusal.as_str() == prefix)?;
        Some((refusal, rest))
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
