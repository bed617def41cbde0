//! The verdicts: a closed set with stable codes, and who has to act on each.

use std::fmt;

/// Who has to act.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Party {
    /// Whoever declared the resource.
    Caller,
    /// Whoever runs the broker, its cluster, its providers or the contexts beside it.
    Platform,
    /// Whoever runs the cloud, or has a say in what it grants.
    Cloud,
    /// Nobody: it goes on by itself, or it is over.
    Nobody,
}

impl Party {
    /// Every party.
    pub const ALL: &[Self] = &[Self::Caller, Self::Platform, Self::Cloud, Self::Nobody];

    /// The party's name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Caller => "caller",
            Self::Platform => "platform",
            Self::Cloud => "cloud",
            Self::Nobody => "nobody",
        }
    }
}

impl fmt::Display for Party {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

macro_rules! verdicts {
    ($($(#[$docs:meta])* $name:ident = $code:literal $party:ident $summary:literal,)+) => {
        /// Why a resource is where it is. Codes are never changed or removed; the set grows.
        ///
        /// Each has an entry in `docs/runbook.md`: symptom, diagnosis, remedy.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Verdict {
            $($(#[$docs])* #[doc = concat!("`", $code, "`: ", $summary, ".")] $name,)+
        }

        impl Verdict {
            /// Every verdict.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// The stable code.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $code,)+
                }
            }

            /// Who has to act.
            pub const fn party(self) -> Party {
                match self {
                    $(Self::$name => Party::$party,)+
                }
            }

            /// What it means, in a fragment that names no object.
            pub const fn summary(self) -> &'static str {
                match self {
                    $(Self::$name => $summary,)+
                }
            }
        }
    };
}

verdicts! {
    Ready = "ready" Nobody "everything stands and nothing has to be done",
    Declared = "declared" Nobody "it was accepted, and the next pass takes it up",
    Provisioning = "provisioning" Nobody "Crossplane and the provider are at work",
    Enrolling = "enrolling" Nobody "the substrate is up and its agent has time left to enrol",
    Draining = "draining" Nobody "its Node is being drained out of the mesh",
    Deprovisioning = "deprovisioning" Nobody "its substrate is being deleted",
    RollingBack = "rolling_back" Nobody "it failed and is taken down, as it was declared to be",
    RetryPending = "retry_pending" Nobody "what stopped the last pass is gone, and the next attempt is due",
    PassUnderWay = "pass_under_way" Nobody "a replica holds it and is at work",
    CompositeMissing = "composite_missing" Nobody "its composite resource was removed by somebody else and is made again",
    Deleted = "deleted" Nobody "everything is proven gone",

    Failed = "failed" Caller "its Composition declared that it will never work",
    Abandoned = "abandoned" Platform "its teardown was given up, and what is left was not looked for",

    PausedHere = "paused_here" Platform "somebody paused it in the broker",
    DryRun = "dry_run" Platform "the broker runs in dry-run mode and changes nothing",
    Brake = "brake" Platform "a brake is set: nothing is created or destroyed until it is released",
    LeaseLeftBehind = "lease_left_behind" Nobody "the replica that held it died or was cut off, and another takes over",
    NoReplica = "no_replica" Platform "it is due for longer than its budget and no replica takes it up",
    PassFailing = "pass_failing" Platform "the last pass failed",
    OutboxPoisoned = "outbox_poisoned" Platform "an event of it could not be delivered and was set aside, and later ones wait",
    StoreUnreachable = "store_unreachable" Platform "the store does not answer",
    CollaboratorUnreachable = "collaborator_unreachable" Platform "somebody whom every pass asks does not answer",
    Unknown = "unknown" Platform "what is known does not decide it",

    BlueprintMissing = "blueprint_missing" Platform "its blueprint version is not published any more",
    BlueprintUnreadable = "blueprint_unreadable" Platform "its blueprint version cannot be read",
    CredentialMissing = "credential_missing" Platform "its credential is gone, or not assigned to its Project any more",
    CloudMissing = "cloud_missing" Platform "the cloud of its credential is not in the inventory",
    ResourceMissing = "resource_missing" Platform "its Project has no such Resource any more",
    AssignmentMissing = "assignment_missing" Platform "its Project has no place on the cluster",
    CannotRender = "cannot_render" Platform "its objects cannot be rendered from what it refers to",

    NamespaceNotReady = "namespace_not_ready" Platform "the namespace of its Project is not ready",
    NamespaceAbsent = "namespace_absent" Platform "the namespace of its Project is said to be ready and does not exist",
    NamespaceTerminating = "namespace_terminating" Platform "the namespace of its Project is being deleted",
    KindMissing = "kind_missing" Platform "a kind that it needs is not installed on the cluster",
    ClusterUnreachable = "cluster_unreachable" Platform "the cluster does not answer",
    ClusterUnauthenticated = "cluster_unauthenticated" Platform "the cluster does not accept the broker's credentials",
    WrongCluster = "wrong_cluster" Platform "the broker is connected to another cluster than the one its objects stand on",
    Forbidden = "forbidden" Platform "the broker lacks a right on the cluster",
    SchemaRefused = "schema_refused" Platform "the schema on the cluster does not take its objects",
    WebhookRefused = "webhook_refused" Platform "an admission webhook refuses it",
    OwnershipConflict = "ownership_conflict" Platform "somebody else keeps changing fields that the broker owns",
    ArmingForeign = "arming_foreign" Platform "its composite resource carries another token than its row",

    CompositionForeign = "composition_foreign" Platform "its composite resource uses another Composition than its blueprint's",
    PausedOnCluster = "paused_on_cluster" Platform "somebody paused an object of it on the cluster",
    FunctionFailing = "function_failing" Platform "Crossplane cannot compose it",
    ComposedNotReady = "composed_not_ready" Cloud "an object that it composed does not become ready",
    CompositeNotReady = "composite_not_ready" Platform "Crossplane does not call it ready, and nothing that it composed says why",
    ProviderSilent = "provider_silent" Platform "the provider has said nothing about an object that it should make",
    ProviderConfigMissing = "provider_config_missing" Platform "the provider does not find its ProviderConfig",
    ProviderSecretMissing = "provider_secret_missing" Platform "the provider does not find the Secret with the credentials",
    QuotaExceeded = "quota_exceeded" Cloud "the cloud refuses it for lack of quota or capacity",
    Drifted = "drifted" Platform "it is ready, and another writer changed what the broker applied",
    Degraded = "degraded" Platform "it is ready, and Crossplane cannot keep it up to date",
    CompositeBeingDeleted = "composite_being_deleted" Nobody "its composite resource is being deleted by somebody else and is made again afterwards",

    NodeNeverCalled = "node_never_called" Caller "the substrate is up, its token is good, and its agent did not call",
    TokenExpired = "token_expired" Caller "its token expired before its agent called, and it never gets another",
    TokenInvalid = "token_invalid" Caller "the token that it carries is worthless, and it never gets another",
    NodeLost = "node_lost" Caller "its Node was taken out of the mesh, and it never gets another token",

    MeshUnreachable = "mesh_unreachable" Platform "the mesh does not say whether its Node is registered",
    DeregistrationFailed = "deregistration_failed" Platform "its Node could not be drained, so its substrate is not touched",
    PeerWillNotDrain = "peer_will_not_drain" Platform "its Node is still in the mesh although it was told to leave",
    Usage = "usage" Platform "a Usage protects its composite resource from deletion",
    ForeignFinalizer = "foreign_finalizer" Platform "a finalizer that is neither ours nor Crossplane's holds an object",
    ComposedRemains = "composed_remains" Cloud "an object that it composed does not go",
    CompositeRemains = "composite_remains" Platform "its composite resource does not go although nothing that it composed is left",
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Verdict {
    /// Whether something keeps the resource from going on, as opposed to it being on its way or at its end.
    pub const fn is_blocked(self) -> bool {
        match self.party() {
            Party::Caller | Party::Platform | Party::Cloud => !matches!(self, Self::Abandoned),
            Party::Nobody => false,
        }
    }
}
