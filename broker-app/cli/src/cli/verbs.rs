//! The arguments of the verbs that need a store, parsed into validated types.

use std::time::Duration;

use broker_domain::{
    BlueprintVersionId, CloudCredentialId, ClusterId, OnFailure, Phase, ProjectId,
    ProvisionedResourceId, RequestId, ResourceId,
};
use broker_ports::{Actor, CorrelationId, Watermark};
use clap::{Args, Subcommand};

use super::{OutputArguments, values};

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Declare a resource.
    ///
    /// Prints the accepted resource; the replicas then provision it. With `--wait`, follows it to Ready or to the phase
    /// of `--for`.
    Provision(ProvisionArguments),
    /// Request the deletion of a resource.
    ///
    /// Idempotent. With `--wait`, follows the resource to Deleted.
    Deprovision(DeprovisionArguments),
    /// Show a resource.
    Get(ResourceArguments),
    /// List resources.
    List(ListArguments),
    /// Explain why a resource is in its phase: what blocks it, who must act, and what to do next.
    ///
    /// Prints one paragraph, then the facts behind it; an unknown fact states the reason. Every verdict has an entry in
    /// docs/runbook.md. The exit code does not depend on the verdict.
    Explain(ExplainArguments),
    /// Show what the next pass over a resource would do, or how a declaration would be applied.
    ///
    /// Prints every step, with the manifests and the changed fields, without secrets. A dry run on the
    /// API server names rejected fields. Writes nothing.
    Plan(Box<PlanArguments>),
    /// Show the audit of a resource: every change, its time and its actor.
    ///
    /// The audit outlives the resource, so this works after a purge.
    History(ResourceArguments),
    /// Pause a resource: no pass runs on it until `resume`.
    Pause(ResourceArguments),
    /// Resume a paused resource.
    Resume(ResourceArguments),
    /// Reconcile a resource now, regardless of its back-off.
    ReconcileNow(ResourceArguments),
    /// Abandon a teardown: mark the resource Deleted without proof that its objects are deleted.
    ///
    /// Works only while the deletion is in progress. The broker leaves the remaining objects on the cluster; remove
    /// them by hand.
    Abandon(AbandonArguments),
    /// Show, set or release the brake on automatic destruction.
    ///
    /// Except in teardowns, the broker then applies no object, issues no token and deregisters no Node. It rolls nothing
    /// back and stores no resource as Failed.
    #[command(subcommand)]
    Brake(BrakeCommand),
    /// Retry a failed resource after its cause is fixed.
    Retry(ResourceArguments),
    /// Tear a resource down and declare its replacement in one transaction.
    ///
    /// For a resource that can never become Ready: its token expired, or its Node is lost. The replacement has the same
    /// Resource, blueprint version, credential and parameters. Idempotent: a repeated call prints the same replacement.
    /// With `--wait`, follows it to Ready.
    Replace(ReplaceArguments),
    /// Redrive or skip dead-lettered events: of one resource, a Project, or all.
    ///
    /// Only a rejection (400, 413, 415 or 422) dead-letters an event. The relay retries events after other failures
    /// without this command.
    RedriveEvents(RedriveEventsArguments),
    /// Erase free text from the audit of a resource.
    ScrubAudit(ResourceArguments),
}

/// The actor and the output format. The broker does not authorise: access to the connection string is full access.
#[derive(Args, Debug)]
pub(crate) struct CommonArguments {
    /// The opaque actor id for the audit; never a name or an address.
    #[arg(long, value_name = "ID", default_value = "user:cli", value_parser = actor)]
    pub(crate) actor: Actor,
    /// The correlation id for the audit; a new one by default.
    #[arg(long, value_name = "ID", value_parser = correlation_id)]
    pub(crate) correlation_id: Option<CorrelationId>,
    #[command(flatten)]
    pub(crate) output: OutputArguments,
}

impl Verb {
    pub(crate) const fn common(&self) -> &CommonArguments {
        match self {
            Self::Provision(arguments) => &arguments.common,
            Self::Deprovision(arguments) => &arguments.common,
            Self::Replace(arguments) => &arguments.common,
            Self::Get(arguments)
            | Self::History(arguments)
            | Self::Pause(arguments)
            | Self::Resume(arguments)
            | Self::ReconcileNow(arguments)
            | Self::Retry(arguments)
            | Self::ScrubAudit(arguments) => &arguments.common,
            Self::List(arguments) => &arguments.common,
            Self::Explain(arguments) => &arguments.common,
            Self::Plan(arguments) => &arguments.common,
            Self::Abandon(arguments) => &arguments.common,
            Self::Brake(command) => command.common(),
            Self::RedriveEvents(arguments) => &arguments.common,
        }
    }
}

fn actor(text: &str) -> Result<Actor, broker_domain::Error> {
    Actor::new(text)
}

fn correlation_id(text: &str) -> Result<CorrelationId, broker_domain::Error> {
    CorrelationId::new(text)
}

fn request_id(text: &str) -> Result<RequestId, broker_domain::Error> {
    RequestId::new(text)
}

fn cluster_id(text: &str) -> Result<ClusterId, broker_domain::Error> {
    ClusterId::new(text)
}

/// Whether to wait, and the timeout.
#[derive(Args, Debug, Clone, Copy)]
pub(crate) struct Wait {
    /// Follows the resource to the awaited phase; prints one line per observed phase.
    #[arg(long)]
    pub(crate) wait: bool,
    /// The timeout of `--wait`.
    #[arg(
        long,
        value_name = "TIME",
        default_value = "30m",
        requires = "wait",
        allow_negative_numbers = true,
        value_parser = values::timeout
    )]
    pub(crate) timeout: Duration,
}

#[derive(Args, Debug)]
pub(crate) struct ProvisionArguments {
    #[command(flatten)]
    pub(crate) declaration: DeclarationArguments,
    #[command(flatten)]
    pub(crate) wait: Wait,
    /// The phase to wait for; a later phase on the way to Ready also counts.
    #[arg(
        long = "for",
        value_name = "PHASE",
        default_value = "Ready",
        requires = "wait",
        value_parser = values::converge_phase
    )]
    pub(crate) wait_for: Phase,
    #[command(flatten)]
    pub(crate) common: CommonArguments,
}

#[derive(Args, Debug)]
pub(crate) struct ExplainArguments {
    /// The resource.
    #[arg(value_name = "ID", required_unless_present = "all", value_parser = values::id::<ProvisionedResourceId>)]
    pub(crate) id: Option<ProvisionedResourceId>,
    /// All non-terminal resources, one line each; with `--output json`, one object per line.
    #[arg(long, conflicts_with = "id")]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) common: CommonArguments,
}

/// A resource, or a declaration.
#[derive(Args, Debug)]
pub(crate) struct PlanArguments {
    /// The resource; without it, a declaration.
    #[arg(value_name = "ID", conflicts_with = "DeclarationArguments", value_parser = values::id::<ProvisionedResourceId>)]
    pub(crate) id: Option<ProvisionedResourceId>,
    #[command(flatten)]
    pub(crate) declaration: Option<DeclarationArguments>,
    #[command(flatten)]
    pub(crate) common: CommonArguments,
}

#[derive(Args, Debug)]
pub(crate) struct DeclarationArguments {
    /// The Project.
    #[arg(long, value_name = "ID", value_parser = values::id::<ProjectId>)]
    pub(crate) project: ProjectId,
    /// The platform's Resource that this declaration provisions.
    #[arg(long, value_name = "ID", value_parser = values::id::<ResourceId>)]
    pub(crate) resource: ResourceId,
    /// The blueprint version.
    #[arg(long, value_name = "ID", value_parser = values::id::<BlueprintVersionId>)]
    pub(crate) blueprint_version: BlueprintVersionId,
    /// The cloud credential; it selects the cloud.
    #[arg(long, value_name = "ID", value_parser = values::id::<CloudCredentialId>)]
    pub(crate) credential: CloudCredentialId,
    /// One parameter; repeatable.
    ///
    /// PATH names fields from the outside in, separated by dots; `\.` is a dot within a name. VALUE is a JSON number,
    /// true, false, null or quoted string if it parses as one, and text otherwise. A scalar of `--values` may be
    /// replaced; set lists and objects with `--values`.
    #[arg(long = "set", value_name = "PATH=VALUE")]
    pub(crate) assignments: Vec<String>,
    /// Parameters from a JSON or YAML file, at most 1 MiB; `-` reads standard input.
    #[arg(long, value_name = "FILE")]
    pub(crate) values: Option<std::path::PathBuf>,
    /// What a terminal failure causes: `retain` keeps the failed substrate, `rollback` tears it down.
    #[arg(long, value_name = "POLICY", default_value = "retain", value_parser = values::on_failure)]
    pub(crate) on_failure: OnFailure,
    /// The caller's idempotency key: the same id and declaration return the first resource again.
    #[arg(long, value_name = "ID", value_parser = request_id)]
    pub(crate) request_id: Option<RequestId>,
}

#[derive(Args, Debug)]
pub(crate) struct DeprovisionArguments {
    /// The resource.
    #[arg(value_name = "ID", value_parser = values::id::<ProvisionedResourceId>)]
    pub(crate) id: ProvisionedResourceId,
    #[command(flatten)]
    pub(crate) wait: Wait,
    #[command(flatten)]
    pub(crate) common: CommonArguments,
}

#[derive(Args, Debug)]
pub(crate) struct ReplaceArguments {
    /// The resource.
    #[arg(value_name = "ID", value_parser = values::id::<ProvisionedResourceId>)]
    pub(crate) id: ProvisionedResourceId,
    /// The caller's idempotency key; `replace-ID` by default. The same id returns the first replacement again.
    #[arg(long, value_name = "ID", value_parser = request_id)]
    pub(crate) request_id: Option<RequestId>,
    #[command(flatten)]
    pub(crate) wait: Wait,
    #[command(flatten)]
    pub(crate) common: CommonArguments,
}

#[derive(Args, Debug)]
pub(crate) struct ResourceArguments {
    /// The resource.
    #[arg(value_name = "ID", value_parser = values::id::<ProvisionedResourceId>)]
    pub(crate) id: ProvisionedResourceId,
    #[command(flatten)]
    pub(crate) common: CommonArguments,
}

#[derive(Args, Debug)]
pub(crate) struct ListArguments {
    /// Only resources of this Project.
    #[arg(long, value_name = "ID", value_parser = values::id::<ProjectId>)]
    pub(crate) project: Option<ProjectId>,
    /// Only resources in this phase.
    #[arg(long, value_name = "PHASE", value_parser = values::phase)]
    pub(crate) phase: Option<Phase>,
    /// Only resources that use this credential: those that its withdrawal affects.
    #[arg(long, value_name = "ID", value_parser = values::id::<CloudCredentialId>)]
    pub(crate) credential: Option<CloudCredentialId>,
    /// Only resources changed at or after this time: the `watermark` of an earlier list.
    #[arg(long, value_name = "TIME", value_parser = values::watermark)]
    pub(crate) updated_since: Option<Watermark>,
    /// Keeps running and prints each changed resource again, one per line, until Ctrl-C.
    ///
    /// With `--phase`, a resource that leaves the phase is no longer printed.
    #[arg(long)]
    pub(crate) watch: bool,
    /// The polling interval of `--watch`.
    #[arg(
        long,
        value_name = "TIME",
        default_value = "2s",
        requires = "watch",
        allow_negative_numbers = true,
        value_parser = values::interval
    )]
    pub(crate) interval: Duration,
    #[command(flatten)]
    pub(crate) common: CommonArguments,
}

#[derive(Args, Debug)]
pub(crate) struct AbandonArguments {
    /// The resource.
    #[arg(value_name = "ID", value_parser = values::id::<ProvisionedResourceId>)]
    pub(crate) id: ProvisionedResourceId,
    /// The reason, for the audit.
    #[arg(long, value_name = "TEXT", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub(crate) reason: String,
    #[command(flatten)]
    pub(crate) common: CommonArguments,
}

#[derive(Debug, Subcommand)]
pub(crate) enum BrakeCommand {
    /// Show the brakes and every absent composite resource, read directly from the cluster.
    Show {
        #[command(flatten)]
        common: CommonArguments,
    },
    /// Set the brake of the cluster, or of one Project on it.
    Set {
        #[command(flatten)]
        reach: BrakeReach,
        #[command(flatten)]
        common: CommonArguments,
    },
    /// Release a brake and accept its losses: the broker re-creates the absent composite resources without a permit.
    Release {
        /// The cluster: the uid of its namespace kube-system, as in `brake show`.
        #[arg(value_name = "CLUSTER", value_parser = cluster_id)]
        cluster: ClusterId,
        #[command(flatten)]
        reach: BrakeReach,
        #[command(flatten)]
        common: CommonArguments,
    },
}

/// The Project or cluster that a brake stops.
#[derive(Args, Debug, Clone, Copy)]
pub(crate) struct BrakeReach {
    /// One Project; the whole cluster by default.
    #[arg(long, value_name = "ID", value_parser = values::id::<ProjectId>)]
    pub(crate) project: Option<ProjectId>,
}

impl BrakeCommand {
    const fn common(&self) -> &CommonArguments {
        match self {
            Self::Show { common } | Self::Set { common, .. } | Self::Release { common, .. } => {
                common
            }
        }
    }
}

#[derive(Args, Debug)]
pub(crate) struct RedriveEventsArguments {
    /// The resource.
    #[arg(value_name = "ID", required_unless_present_any = ["project", "all"],
        value_parser = values::id::<ProvisionedResourceId>)]
    pub(crate) id: Option<ProvisionedResourceId>,
    /// Every resource of this Project.
    #[arg(long, value_name = "ID", conflicts_with = "id", value_parser = values::id::<ProjectId>)]
    pub(crate) project: Option<ProjectId>,
    /// Every resource of every Project.
    #[arg(long, conflicts_with_all = ["id", "project"])]
    pub(crate) all: bool,
    /// Skips the event permanently and continues with the next one.
    #[arg(long)]
    pub(crate) skip: bool,
    #[command(flatten)]
    pub(crate) common: CommonArguments,
}
