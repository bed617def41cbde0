//! The verdicts: a closed set with stable codes, and the party that has to act on each.

use std::fmt;

/// The party that has to act.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Party {
    /// The user who declared the resource.
    Caller,
    /// The operator of the broker, its cluster, its providers or the platform's other contexts.
    Platform,
    /// The operator of the cloud, or the owner of its quotas.
    Cloud,
    /// No party: the resource continues on its own, or is terminal.
    None,
}

impl Party {
    /// Every party.
    pub const ALL: &[Self] = &[Self::Caller, Self::Platform, Self::Cloud, Self::None];

    /// The party's name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Caller => "caller",
            Self::Platform => "platform",
            Self::Cloud => "cloud",
            Self::None => "none",
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
        /// The state of a resource, or what blocks it. Codes are stable; new ones may be added.
        ///
        /// `docs/runbook.md` has an entry for each: symptom, diagnosis, remedy.
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

            /// The party that has to act.
            pub const fn party(self) -> Party {
                match self {
                    $(Self::$name => Party::$party,)+
                }
            }

            /// The meaning, as a fragment that names no object.
            pub const fn summary(self) -> &'static str {
                match self {
                    $(Self::$name => $summary,)+
                }
            }
        }
    };
}

verdicts! {
    Ready = "ready" None "everything is in place",
    BlueprintRetired = "blueprint_retired" None "everything is in place; its blueprint version is retired and takes no new declaration",
    Declared = "declared" None "it was accepted; the next pass processes it",
    Provisioning = "provisioning" None "Crossplane and the provider are creating its objects",
    Enrolling = "enrolling" None "the substrate is ready and its agent still has time to enrol",
    Draining = "draining" None "its Node is being drained from the mesh",
    Deprovisioning = "deprovisioning" None "its substrate is being deleted",
    RollingBack = "rolling_back" None "it failed and is torn down, because it was declared with rollback",
    RetryPending = "retry_pending" None "the last pass failed, its cause is gone, and a retry is scheduled",
    PassUnderWay = "pass_under_way" None "a replica holds its lease and runs a pass",
    CompositeMissing = "composite_missing" None "another writer deleted its composite resource; the broker re-creates it",
    Deleted = "deleted" None "all its objects are proven gone",

    Failed = "failed" Caller "its Composition reported a terminal failure",
    Abandoned = "abandoned" Platform "its teardown was abandoned; remaining objects were not checked",

    PausedHere = "paused_here" Platform "an operator paused it in the broker",
    DryRun = "dry_run" Platform "the broker runs in dry-run mode and changes nothing",
    Brake = "brake" Platform "a brake is set: the broker creates and destroys nothing until its release",
    LeaseLeftBehind = "lease_left_behind" None "the replica that held its lease died or was cut off; another takes over",
    NoReplica = "no_replica" Platform "it has been due for longer than its budget and no replica claims it",
    PassFailing = "pass_failing" Platform "the last pass failed",
    OutboxPoisoned = "outbox_poisoned" Platform "one of its events was dead-lettered; its later events wait",
    StoreUnreachable = "store_unreachable" Platform "the store does not answer",
    CollaboratorUnreachable = "collaborator_unreachable" Platform "a service that every pass depends on does not answer",
    Unknown = "unknown" Platform "the known facts do not determine a verdict",

    BlueprintMissing = "blueprint_missing" Platform "its blueprint version is no longer published",
    BlueprintUnreadable = "blueprint_unreadable" Platform "its blueprint version cannot be read",
    CredentialMissing = "credential_missing" Platform "its credential does not exist or is no longer assigned to its Project",
    CredentialExpired = "credential_expired" Platform "its credential expired: what runs keeps running, and nothing is created with it",
    CredentialRevoked = "credential_revoked" Platform "its credential is revoked: what runs keeps running, and nothing is created with it",
    CredentialNotApproved = "credential_not_approved" Platform "its credential is not approved for its Project: what runs keeps running, and nothing is created with it",
    CloudMissing = "cloud_missing" Platform "the cloud of its credential is not in the inventory",
    ResourceMissing = "resource_missing" Platform "its Resource no longer exists in its Project",
    AssignmentMissing = "assignment_missing" Platform "its Project is not assigned to the cluster",
    CannotRender = "cannot_render" Platform "its objects cannot be rendered from its references",

    NamespaceNotReady = "namespace_not_ready" Platform "the namespace of its Project is not ready",
    NamespaceAbsent = "namespace_absent" Platform "the namespace of its Project is reported ready but does not exist",
    NamespaceTerminating = "namespace_terminating" Platform "the namespace of its Project is being deleted",
    KindMissing = "kind_missing" Platform "a kind that it needs is not installed on the cluster",
    ClusterUnreachable = "cluster_unreachable" Platform "the cluster does not answer",
    ClusterUnauthenticated = "cluster_unauthenticated" Platform "the cluster rejects the broker's credentials",
    WrongCluster = "wrong_cluster" Platform "the broker is connected to a different cluster from the one with its objects",
    Forbidden = "forbidden" Platform "the broker lacks a permission on the cluster",
    SchemaRefused = "schema_refused" Platform "the schema on the cluster rejects its objects",
    WebhookRefused = "webhook_refused" Platform "an admission webhook rejects the request",
    OwnershipConflict = "ownership_conflict" Platform "another field manager keeps changing fields that the broker owns",
    ArmingForeign = "arming_foreign" Platform "its composite resource is armed with a different token from its row's",

    CompositionForeign = "composition_foreign" Platform "its composite resource uses a different Composition from its blueprint's",
    PausedOnCluster = "paused_on_cluster" Platform "one of its objects is paused on the cluster",
    FunctionFailing = "function_failing" Platform "Crossplane cannot compose it",
    ComposedNotReady = "composed_not_ready" Cloud "one of its composed objects does not become ready",
    CompositeNotReady = "composite_not_ready" Platform "Crossplane does not report it ready, and no composed object says why",
    ProviderSilent = "provider_silent" Platform "the provider has reported nothing about an object that it should create",
    ProviderConfigMissing = "provider_config_missing" Platform "the provider does not find its ProviderConfig",
    SharedConfigLeaving = "shared_config_leaving" Platform "the shared ProviderConfig of former resources is being deleted; a new one follows",
    ProviderSecretMissing = "provider_secret_missing" Platform "the provider does not find the Secret with the credentials",
    QuotaExceeded = "quota_exceeded" Cloud "the cloud refuses it for lack of quota or capacity",
    Drifted = "drifted" Platform "it is ready, but another writer changed fields that the broker applied",
    Degraded = "degraded" Platform "it is ready, but Crossplane cannot keep it up to date",
    CompositeBeingDeleted = "composite_being_deleted" None "another writer is deleting its composite resource; the broker re-creates it afterwards",

    NodeNeverCalled = "node_never_called" Caller "the substrate is ready and its token is valid, but its agent did not enrol",
    TokenExpired = "token_expired" Caller "its token expired before its agent enrolled; it never gets another",
    TokenInvalid = "token_invalid" Caller "its token is invalid; it never gets another",
    NodeLost = "node_lost" Caller "its Node was removed from the mesh; it never gets another token",

    MeshUnreachable = "mesh_unreachable" Platform "the mesh does not report whether its Node is registered",
    DeregistrationFailed = "deregistration_failed" Platform "its Node could not be drained, so its substrate is not deleted",
    PeerWillNotDrain = "peer_will_not_drain" Platform "its Node is still registered although the mesh reported it drained",
    Usage = "usage" Platform "a Usage protects its composite resource from deletion",
    ForeignFinalizer = "foreign_finalizer" Platform "a finalizer of another controller blocks the deletion of an object",
    ComposedRemains = "composed_remains" Cloud "the deletion of a composed object does not finish",
    CompositeRemains = "composite_remains" Platform "its composite resource is not deleted although no composed object is left",
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Verdict {
    /// Whether an obstacle blocks the resource; `false` while it progresses and when it is terminal.
    pub const fn is_blocked(self) -> bool {
        match self.party() {
            Party::Caller | Party::Platform | Party::Cloud => !matches!(self, Self::Abandoned),
            Party::None => false,
        }
    }
}
