//! Why a cluster refused, as far as it can be told apart: what an explanation is made from.

use std::fmt;

macro_rules! refusals {
    ($($(#[$docs:meta])* $name:ident = $text:literal,)+) => {
        /// Why the cluster refused something. An adapter says it where it knows
        /// ([`PortError::with_refusal`](crate::PortError::with_refusal)); the words for people are in the
        /// error's message.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Refusal {
            $($(#[$docs])* $name,)+
        }

        impl Refusal {
            /// Every refusal.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// The refusal in one word, which leads the message of a failed pass in the schedule.
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
    /// The namespace is being deleted and takes nothing new.
    NamespaceTerminating = "namespace_terminating",
    /// We lack the right.
    Forbidden = "forbidden",
    /// The cluster does not know who we are.
    Unauthenticated = "unauthenticated",
    /// The schema of the kind does not take the object: a field that it does not declare, or a value that
    /// breaks a rule.
    Schema = "schema",
    /// An admission webhook said no, or something vetoes a deletion.
    Vetoed = "vetoed",
}

impl Refusal {
    /// A message that is led by the refusal, so that it can be told from the stored message alone.
    ///
    /// ```
    /// use broker_ports::Refusal;
    ///
    /// let stored = Refusal::Forbidden.leading("apply Machine pr-1: no right");
    /// assert_eq!(stored, "forbidden: apply Machine pr-1: no right");
    /// assert_eq!(Refusal::led_by(&stored), Some((Refusal::Forbidden, "apply Machine pr-1: no right")));
    /// assert_eq!(Refusal::led_by("the cluster failed: it panicked"), None);
    /// ```
    pub fn leading(self, message: &str) -> String {
        format!("{self}: {message}")
    }

    /// The refusal that leads a message, and the message behind it.
    pub fn led_by(message: &str) -> Option<(Self, &str)> {
        let (word, rest) = message.split_once(": ")?;
        let refusal = Self::ALL.iter().copied().find(|refusal| refusal.as_str() == word)?;
        Some((refusal, rest))
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
