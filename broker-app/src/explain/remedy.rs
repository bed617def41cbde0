//! The next action, as data: a sentence for people, a kind with parameters for programs.

use std::fmt;

use broker_domain::{ClusterId, ObjectReference, ProjectId, ProvisionedResourceId};
use broker_render::CompositionName;

/// The next action: one step, which lets the resource continue.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Remedy {
    /// No action: the resource continues on its own, or is terminal.
    Wait,
    /// Run explain again once the source answers.
    AskAgain {
        /// The unknown source.
        source: String,
    },
    /// Resume it in the broker.
    Resume(ProvisionedResourceId),
    /// Release the brake of a cluster, or of a Project on it.
    ReleaseBrake(ClusterId, Option<ProjectId>),
    /// Redrive or skip the dead-lettered event.
    RedriveEvents(ProvisionedResourceId),
    /// Turn dry-run mode off.
    LeaveDryRun,
    /// Start a replica, or find out why none claims work.
    StartReplicas,
    /// Declare a replacement and tear this resource down.
    Replace(ProvisionedResourceId),
    /// Delete by hand the objects that an abandoned teardown left.
    CleanUp(Vec<ObjectReference>),
    /// Restore the store.
    RestoreStore,
    /// Restore a service that does not answer.
    RestoreCollaborator {
        /// The service.
        who: String,
    },
    /// Restore an object that the resource refers to.
    RestoreReference {
        /// The object.
        what: String,
    },
    /// Fix what the message of the last pass names.
    MendPass,
    /// Make the namespace of the Project ready.
    ReadyNamespace(String),
    /// Create the namespace of the Project.
    CreateNamespace(String),
    /// Wait for the deletion of the namespace, then create it again.
    ReplaceNamespace(String),
    /// Install a kind on the cluster.
    InstallKind {
        /// Its apiVersion.
        api_version: String,
        /// Its kind.
        kind: String,
    },
    /// Restore the cluster.
    ReachCluster,
    /// Give the broker credentials that the cluster accepts.
    RenewCredentials,
    /// Connect the broker to the cluster with its objects.
    ConnectTo(ClusterId),
    /// Grant the permission that the message names.
    GrantRight,
    /// Install the schema that the blueprint version was published with.
    AlignSchema,
    /// Fix or remove the admission webhook.
    MendWebhook,
    /// Stop other writers of an object.
    StopRivals {
        /// The object.
        object: ObjectReference,
        /// The field managers.
        managers: Vec<String>,
    },
    /// Revert a change to a Ready composite resource, or replace the resource.
    UndoChange {
        /// The composite resource.
        object: ObjectReference,
        /// The field managers that wrote to it.
        managers: Vec<String>,
    },
    /// Delete the composite resource, so that the broker re-creates it.
    DeleteComposite(ObjectReference),
    /// Set the blueprint's Composition on the composite resource again.
    PinComposition {
        /// The composite resource.
        object: ObjectReference,
        /// The blueprint's Composition.
        composition: CompositionName,
    },
    /// Unpause an object.
    Unpause(ObjectReference),
    /// Fix the Composition or the failing function.
    MendComposition,
    /// Fix the problem that the provider reports for an object.
    MendComposed(ObjectReference),
    /// Start the provider.
    StartProvider {
        /// The provider, by its API group.
        provider: String,
    },
    /// Make the Composition refer to this ProviderConfig.
    MendProviderConfig(ObjectReference),
    /// Create the Secret that the ProviderConfig names.
    RestoreSecret,
    /// Raise the quota, or free some of it.
    RaiseQuota,
    /// Check the agent on the machine.
    LookAtAgent,
    /// Restore the mesh.
    ReachMesh,
    /// Fix what prevents draining the Node.
    MendDraining,
    /// Remove the Peer from the mesh.
    DrainPeer,
    /// Remove the Usage that protects an object.
    RemoveUsage(ObjectReference),
    /// Have the owner of a finalizer remove it.
    RemoveFinalizer {
        /// The object.
        object: ObjectReference,
        /// The finalizer.
        finalizer: String,
    },
    /// Check Crossplane and the garbage collector, which have to finish the deletion.
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

    /// The command of the binary for this action, if there is one.
    pub fn command(&self) -> Option<String> {
        let command = |arguments: &str| Some(format!("provisioning-broker {arguments}"));
        if let Self::Resume(id) = self {
            command(&format!("resume {id}"))
        } else if let Self::ReleaseBrake(cluster, project) = self {
            let project_option = project.map(|project| format!(" --project {project}"));
            command(&format!("brake release {cluster}{}", project_option.unwrap_or_default()))
        } else if let Self::RedriveEvents(id) = self {
            command(&format!("redrive-events {id}"))
        } else if let Self::Replace(id) = self {
            command(&format!("replace {id}"))
        } else {
            None
        }
    }
}

/// The sentence for people: imperative, without a full stop.
impl fmt::Display for Remedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Wait => f.write_str("no action is needed"),
            Self::AskAgain { source } => {
                write!(f, "restore access to {source}, then run explain again")
            }
            Self::Resume(_) => f.write_str("resume it"),
            Self::ReleaseBrake(..) => {
                f.write_str("find out why so many composite resources are missing; if they are really gone, release the brake")
            }
            Self::RedriveEvents(_) => {
                f.write_str("fix the event receiver, then redrive the event")
            }
            Self::LeaveDryRun => f.write_str("run the replicas with dry-run mode off"),
            Self::StartReplicas => {
                f.write_str("start a replica, or find out why the running replicas claim no work")
            }
            Self::Replace(_) => f.write_str("replace it with a new resource of the same declaration"),
            Self::CleanUp(objects) if objects.is_empty() => f.write_str("no action is needed"),
            Self::CleanUp(objects) => {
                write!(f, "delete the remaining objects by hand: {}", names(objects))
            }
            Self::RestoreStore => f.write_str("restore the store"),
            Self::RestoreCollaborator { who } => write!(f, "restore the {who}"),
            Self::RestoreReference { what } => write!(f, "restore {what}"),
            Self::MendPass => f.write_str("fix the problem that the message names"),
            Self::ReadyNamespace(name) => write!(f, "make the namespace {name} ready"),
            Self::CreateNamespace(name) => write!(f, "create the namespace {name}"),
            Self::ReplaceNamespace(name) => {
                write!(f, "wait until the namespace {name} is deleted, then create it again")
            }
            Self::InstallKind { api_version, kind } => {
                write!(f, "install the kind {kind} ({api_version})")
            }
            Self::ReachCluster => f.write_str("restore the API server or the connection to it"),
            Self::RenewCredentials => {
                f.write_str("give the broker credentials that the cluster accepts")
            }
            Self::ConnectTo(cluster) => write!(f, "connect the broker to cluster {cluster}"),
            Self::GrantRight => f.write_str("grant the permission that the message names"),
            Self::AlignSchema => {
                f.write_str("install the XRD that the blueprint version was published with")
            }
            Self::MendWebhook => f.write_str("fix the admission webhook"),
            Self::StopRivals { object, managers } => {
                write!(f, "stop {} from writing to {object}", managers.join(", "))
            }
            Self::UndoChange { object, managers } if managers.is_empty() => {
                write!(f, "revert the change to {object}, or replace the resource")
            }
            Self::UndoChange { object, managers } => {
                let managers = managers.join(", ");
                write!(f, "revert what {managers} changed in {object}, or replace the resource")
            }
            Self::DeleteComposite(object) => {
                write!(f, "delete {object}; the broker re-creates it with a new token")
            }
            Self::PinComposition { object, composition } => write!(
                f,
                "set the Composition of {object} back to {composition}; Crossplane then deletes what the other Composition composed"
            ),
            Self::Unpause(object) => {
                write!(f, "remove the annotation crossplane.io/paused from {object}")
            }
            Self::MendComposition => f.write_str("fix the Composition or the failing function"),
            Self::MendComposed(object) => write!(f, "fix the problem that the provider reports for {object}"),
            Self::StartProvider { provider } => write!(f, "start the provider of {provider}"),
            Self::MendProviderConfig(object) => {
                write!(f, "make the composed objects refer to {object}, which the broker keeps applied")
            }
            Self::RestoreSecret => {
                f.write_str("create the Secret that the ProviderConfig names")
            }
            Self::RaiseQuota => f.write_str("raise the quota, or free some of it"),
            Self::LookAtAgent => {
                f.write_str("check the agent on the machine and its connection to the control plane")
            }
            Self::ReachMesh => f.write_str("restore the mesh"),
            Self::MendDraining => f.write_str("fix the part of the mesh that the message names"),
            Self::DrainPeer => f.write_str("remove its Peer from the mesh"),
            Self::RemoveUsage(object) => write!(f, "remove the Usage that protects {object}"),
            Self::RemoveFinalizer { object, finalizer } => {
                write!(f, "have the owner of finalizer {finalizer} release {object}")
            }
            Self::FinishDeletion(object) => {
                write!(f, "check Crossplane and the garbage collector, which finish the deletion of {object}")
            }
        }
    }
}

fn names(objects: &[ObjectReference]) -> String {
    objects.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
