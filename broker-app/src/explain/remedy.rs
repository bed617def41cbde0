//! The one next action, as data: a person reads the sentence, a program the kind and what it is about.

use std::fmt;

use broker_domain::{ClusterId, ObjectReference, ProjectId, ProvisionedResourceId};
use broker_render::CompositionName;

/// What to do next. One thing, and only what lets the resource go on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Remedy {
    /// Nothing; it goes on by itself, or it is over.
    Wait,
    /// Ask again once the source that did not answer does.
    AskAgain {
        /// What is not known.
        source: String,
    },
    /// Resume it in the broker.
    Resume(ProvisionedResourceId),
    /// Release the brake of a cluster, or of a Project on it.
    ReleaseBrake(ClusterId, Option<ProjectId>),
    /// Have the event that was set aside delivered again, or skip it.
    RedriveEvents(ProvisionedResourceId),
    /// Let the broker change things again.
    LeaveDryRun,
    /// Start a replica, or look why none takes up work.
    StartReplicas,
    /// Replace it: declare another resource in its place, and tear this one down.
    Replace(ProvisionedResourceId),
    /// Remove by hand what a teardown that was given up left behind.
    CleanUp(Vec<ObjectReference>),
    /// Bring the store back.
    RestoreStore,
    /// Bring back whoever does not answer.
    RestoreCollaborator {
        /// Who.
        who: String,
    },
    /// Bring back a thing that the resource refers to.
    RestoreReference {
        /// What.
        what: String,
    },
    /// Mend what the message of the last pass names.
    MendPass,
    /// Get the namespace of the Project ready.
    ReadyNamespace(String),
    /// Create the namespace of the Project.
    CreateNamespace(String),
    /// Let the namespace go, and create it anew.
    ReplaceNamespace(String),
    /// Install a kind on the cluster.
    InstallKind {
        /// Its apiVersion.
        api_version: String,
        /// Its kind.
        kind: String,
    },
    /// Bring the cluster back.
    ReachCluster,
    /// Give the broker credentials that the cluster accepts.
    RenewCredentials,
    /// Connect the broker to the cluster that its objects stand on.
    ConnectTo(ClusterId),
    /// Grant the right that the message names.
    GrantRight,
    /// Install the schema that the blueprint version was published with.
    AlignSchema,
    /// Mend or lift the admission webhook.
    MendWebhook,
    /// Stop others from writing to an object.
    StopRivals {
        /// The object.
        object: ObjectReference,
        /// The field managers.
        managers: Vec<String>,
    },
    /// Undo a change of a composite resource that is Ready, or replace the resource.
    UndoChange {
        /// The composite resource.
        object: ObjectReference,
        /// The field managers that wrote to it.
        managers: Vec<String>,
    },
    /// Delete the composite resource, so that it is made anew.
    DeleteComposite(ObjectReference),
    /// Name the blueprint's Composition on the composite resource again.
    PinComposition {
        /// The composite resource.
        object: ObjectReference,
        /// The blueprint's Composition.
        composition: CompositionName,
    },
    /// Take the pause off an object.
    Unpause(ObjectReference),
    /// Mend the Composition or the function that fails.
    MendComposition,
    /// Mend what the provider says about an object.
    MendComposed(ObjectReference),
    /// Start the provider.
    StartProvider {
        /// The provider, by its API group.
        provider: String,
    },
    /// Let the Composition refer to the ProviderConfig that stands, or bring it back.
    MendProviderConfig(ObjectReference),
    /// Materialise the Secret that the ProviderConfig names.
    RestoreSecret,
    /// Have the quota raised, or free some of it.
    RaiseQuota,
    /// Look at the agent on the machine.
    LookAtAgent,
    /// Bring the mesh back.
    ReachMesh,
    /// Mend what keeps the Node from being drained.
    MendDraining,
    /// Take the Peer out of the mesh.
    DrainPeer,
    /// Remove the Usage that protects an object.
    RemoveUsage(ObjectReference),
    /// Have the owner of a finalizer remove it.
    RemoveFinalizer {
        /// From which object.
        object: ObjectReference,
        /// Which.
        finalizer: String,
    },
    /// Let Crossplane and the garbage collector finish.
    FinishDeletion(ObjectReference),
}

impl Remedy {
    /// The kind of action, for programs.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Wait => "wait",
            Self::AskAgain { .. } => "ask_again",
            Self::Resume(_) => "resume",
            Self::ReleaseBrake(..) => "release_brake",
            Self::RedriveEvents(_) => "redrive_events",
            Self::LeaveDryRun => "leave_dry_run",
            Self::StartReplicas => "start_replicas",
            Self::Replace(_) => "replace",
            Self::CleanUp(_) => "clean_up",
            Self::RestoreStore => "restore_store",
            Self::RestoreCollaborator { .. } => "restore_collaborator",
            Self::RestoreReference { .. } => "restore_reference",
            Self::MendPass => "mend_pass",
            Self::ReadyNamespace(_) => "ready_namespace",
            Self::CreateNamespace(_) => "create_namespace",
            Self::ReplaceNamespace(_) => "replace_namespace",
            Self::InstallKind { .. } => "install_kind",
            Self::ReachCluster => "reach_cluster",
            Self::RenewCredentials => "renew_credentials",
            Self::ConnectTo(_) => "connect_to",
            Self::GrantRight => "grant_right",
            Self::AlignSchema => "align_schema",
            Self::MendWebhook => "mend_webhook",
            Self::StopRivals { .. } => "stop_rivals",
            Self::UndoChange { .. } => "undo_change",
            Self::DeleteComposite(_) => "delete_composite",
            Self::PinComposition { .. } => "pin_composition",
            Self::Unpause(_) => "unpause",
            Self::MendComposition => "mend_composition",
            Self::MendComposed(_) => "mend_composed",
            Self::StartProvider { .. } => "start_provider",
            Self::MendProviderConfig(_) => "mend_provider_config",
            Self::RestoreSecret => "restore_secret",
            Self::RaiseQuota => "raise_quota",
            Self::LookAtAgent => "look_at_agent",
            Self::ReachMesh => "reach_mesh",
            Self::MendDraining => "mend_draining",
            Self::DrainPeer => "drain_peer",
            Self::RemoveUsage(_) => "remove_usage",
            Self::RemoveFinalizer { .. } => "remove_finalizer",
            Self::FinishDeletion(_) => "finish_deletion",
        }
    }

    /// The command of the binary that does it, where there is one.
    pub fn command(&self) -> Option<String> {
        let of_broker = |words: &str| Some(format!("provisioning-broker {words}"));
        if let Self::Resume(id) = self {
            of_broker(&format!("resume {id}"))
        } else if let Self::ReleaseBrake(cluster, project) = self {
            let of_project = project.map(|project| format!(" --project {project}"));
            of_broker(&format!("brake release {cluster}{}", of_project.unwrap_or_default()))
        } else if let Self::RedriveEvents(id) = self {
            of_broker(&format!("redrive-events {id}"))
        } else if let Self::Replace(id) = self {
            of_broker(&format!("replace {id}"))
        } else {
            None
        }
    }
}

/// The sentence for people, as an imperative without a full stop.
impl fmt::Display for Remedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Wait => f.write_str("nothing has to be done"),
            Self::AskAgain { source } => {
                write!(f, "bring back what could not be asked ({source}), and ask again")
            }
            Self::Resume(_) => f.write_str("resume it"),
            Self::ReleaseBrake(..) => {
                f.write_str("look why so much is missing; if it is really gone, release the brake")
            }
            Self::RedriveEvents(_) => {
                f.write_str("mend the receiver of events, then have the event delivered again")
            }
            Self::LeaveDryRun => f.write_str("run the replicas with writing enabled"),
            Self::StartReplicas => {
                f.write_str("start a replica, or look why those that run take up no work")
            }
            Self::Replace(_) => f.write_str("replace it by a new resource of the same declaration"),
            Self::CleanUp(objects) if objects.is_empty() => f.write_str("nothing has to be done"),
            Self::CleanUp(objects) => {
                write!(f, "remove by hand what is left: {}", names(objects))
            }
            Self::RestoreStore => f.write_str("bring the store back"),
            Self::RestoreCollaborator { who } => write!(f, "bring back the {who}"),
            Self::RestoreReference { what } => write!(f, "bring back {what}"),
            Self::MendPass => f.write_str("mend what the message names"),
            Self::ReadyNamespace(name) => write!(f, "get the namespace {name} ready"),
            Self::CreateNamespace(name) => write!(f, "create the namespace {name}"),
            Self::ReplaceNamespace(name) => {
                write!(f, "let the namespace {name} finish going, and create it anew")
            }
            Self::InstallKind { api_version, kind } => {
                write!(f, "install the kind {kind} ({api_version})")
            }
            Self::ReachCluster => f.write_str("bring the API server back, or the way to it"),
            Self::RenewCredentials => {
                f.write_str("give the broker credentials that the cluster accepts")
            }
            Self::ConnectTo(cluster) => write!(f, "connect the broker to cluster {cluster}"),
            Self::GrantRight => f.write_str("grant the right that the message names"),
            Self::AlignSchema => {
                f.write_str("install the XRD that the blueprint version was published with")
            }
            Self::MendWebhook => f.write_str("mend the admission webhook"),
            Self::StopRivals { object, managers } => {
                write!(f, "stop {} from writing to {object}", managers.join(", "))
            }
            Self::UndoChange { object, managers } if managers.is_empty() => {
                write!(f, "undo the change of {object}, or replace the resource")
            }
            Self::UndoChange { object, managers } => {
                let managers = managers.join(", ");
                write!(f, "undo what {managers} changed in {object}, or replace the resource")
            }
            Self::DeleteComposite(object) => {
                write!(f, "delete {object}; it is made anew with a token of its own")
            }
            Self::PinComposition { object, composition } => write!(
                f,
                "let {object} name Composition {composition} again; Crossplane then deletes what the other one composed"
            ),
            Self::Unpause(object) => {
                write!(f, "remove the annotation crossplane.io/paused from {object}")
            }
            Self::MendComposition => f.write_str("mend the Composition or the function that fails"),
            Self::MendComposed(object) => write!(f, "mend what the provider says about {object}"),
            Self::StartProvider { provider } => write!(f, "start the provider of {provider}"),
            Self::MendProviderConfig(object) => {
                write!(f, "let what was composed refer to {object}, which the broker keeps applied")
            }
            Self::RestoreSecret => {
                f.write_str("materialise the Secret that the ProviderConfig names")
            }
            Self::RaiseQuota => f.write_str("have the quota raised, or free some of it"),
            Self::LookAtAgent => {
                f.write_str("look at the agent on the machine and at its way to the control plane")
            }
            Self::ReachMesh => f.write_str("bring the mesh back"),
            Self::MendDraining => f.write_str("mend the part of the mesh that the message names"),
            Self::DrainPeer => f.write_str("take its Peer out of the mesh"),
            Self::RemoveUsage(object) => write!(f, "remove the Usage that protects {object}"),
            Self::RemoveFinalizer { object, finalizer } => {
                write!(f, "have the owner of finalizer {finalizer} release {object}")
            }
            Self::FinishDeletion(object) => {
                write!(f, "let Crossplane and the garbage collector finish {object}")
            }
        }
    }
}

fn names(objects: &[ObjectReference]) -> String {
    objects.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
