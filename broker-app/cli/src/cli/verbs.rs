//! The arguments of the verbs that need a store: one struct each, parsed into types that cannot be wrong.

use std::time::Duration;

use broker_domain::{
    BlueprintVersionId, CloudCredentialId, ClusterId, OnFailure, Phase, ProjectId,
    ProvisionedResourceId, RequestId, ResourceId,
};
use broker_ports::{Actor, CorrelationId, Watermark};
use clap::{Args, Subcommand};

use super::{OutputArguments, values};

/// What can be asked of the service.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Declare a resource.
    ///
    /// Prints it as it was accepted; the replicas take it from there. With `--wait`, follows it to
    /// Ready, or to the phase that `--for` names.
    Provision(ProvisionArguments),
    /// Ask for the deletion of a resource.
    ///
    /// Asking again changes nothing. With `--wait`, follows it to Deleted.
    Deprovision(DeprovisionArguments),
    /// Show a resource.
    Get(OneArguments),
    /// Show resources.
    List(ListArguments),
    /// Say why a resource is where it is: what blocks it, who must act, and what to do next.
    ///
    /// One paragraph, then the facts that it follows from; what could not be learnt says why. Every
    /// verdict has an entry in docs/runbook.md. The exit code is 0 whatever the verdict is.
    Explain(ExplainArguments),
    /// Say what the next pass over a resource would do, or what would become of a declaration.
    ///
    /// Shows every step, with the manifests and the fields that would change, without secrets. The API
    /// server is asked by a dry run, so that a refusal is known with its field. Nothing is written.
    Plan(Box<PlanArguments>),
    /// Show the audit of a resource: what was done to it, when and by whom.
    ///
    /// The audit outlives the resource, so this also works after it was purged.
    History(OneArguments),
    /// Let a resource be: no pass looks at it until it is resumed.
    Pause(OneArguments),
    /// Take a paused resource up again.
    Resume(OneArguments),
    /// Have a resource looked at at once, whatever its back-off says.
    ReconcileNow(OneArguments),
    /// Give up a teardown: the resource is Deleted although nobody proved that everything is gone.
    ///
    /// Only while its deletion is under way. What is left on the cluster is not touched any more,
    /// and has to be removed by hand.
    Abandon(AbandonArguments),
    /// Show, set or release the brake on automatic destruction.
    ///
    /// Under a brake nothing is re-created, issued, deregistered by itself, rolled back or failed.
    #[command(subcommand)]
    Brake(BrakeCommand),
    /// Send a failed resource on its way again, once the cause of its failure is fixed.
    Retry(OneArguments),
    /// Tear a resource down and declare a new one in its place, in one step.
    ///
    /// For a resource that can never become Ready: its token expired, or its Node is lost. The new one has the
    /// same Resource, blueprint version, credential and parameters. Prints it as it was accepted; asking again
    /// prints the same one. With `--wait`, follows it to Ready.
    Replace(ReplaceArguments),
    /// Deliver again, or skip, events that the receiver rejected too often: of one resource, a Project, or all.
    ///
    /// Only a rejection (400, 413, 415 or 422) sets an event aside. Events that wait for a receiver in trouble are
    /// delivered without this command.
    RedriveEvents(ResumeEventsArguments),
    /// Blank what people wrote in the audit of a resource.
    ScrubAudit(OneArguments),
}

/// Who asks, and how the answer should look. The broker authorises nobody: whoever has the connection string
/// may do everything.
#[derive(Args, Debug)]
pub(crate) struct Common {
    /// The opaque id under which this stands in the audit; never a name or an address.
    #[arg(long, value_name = "ID", default_value = "user:cli", value_parser = actor)]
    pub(crate) actor: Actor,
    /// What ties this command to its lines in the audit; a new one if left out.
    #[arg(long, value_name = "ID", value_parser = correlation_id)]
    pub(crate) correlation_id: Option<CorrelationId>,
    #[command(flatten)]
    pub(crate) output: OutputArguments,
}

impl Verb {
    /// Who asks, and how the answer should look.
    pub(crate) const fn common(&self) -> &Common {
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

/// Whether to wait, and for how long.
#[derive(Args, Debug, Clone, Copy)]
pub(crate) struct Wait {
    /// Follows the resource to its end, one line per phase that was seen.
    #[arg(long)]
    pub(crate) wait: bool,
    /// How long to wait.
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

/// What is declared, and whether to wait for it.
#[derive(Args, Debug)]
pub(crate) struct ProvisionArguments {
    #[command(flatten)]
    pub(crate) declaration: DeclarationArguments,
    #[command(flatten)]
    pub(crate) wait: Wait,
    /// How far to follow it: to this phase, or one beyond it on the way to Ready.
    #[arg(
        long = "for",
        value_name = "PHASE",
        default_value = "Ready",
        requires = "wait",
        value_parser = values::way_up
    )]
    pub(crate) wait_for: Phase,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// What is explained.
#[derive(Args, Debug)]
pub(crate) struct ExplainArguments {
    /// The resource.
    #[arg(value_name = "ID", required_unless_present = "all", value_parser = values::id::<ProvisionedResourceId>)]
    pub(crate) id: Option<ProvisionedResourceId>,
    /// Everything that is not at rest, one line each; with `--output json` one object per line.
    #[arg(long, conflicts_with = "id")]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// What is planned: a resource, or a declaration.
#[derive(Args, Debug)]
pub(crate) struct PlanArguments {
    /// The resource; a declaration if left out.
    #[arg(value_name = "ID", conflicts_with = "DeclarationArguments", value_parser = values::id::<ProvisionedResourceId>)]
    pub(crate) id: Option<ProvisionedResourceId>,
    #[command(flatten)]
    pub(crate) declaration: Option<DeclarationArguments>,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// What is declared.
#[derive(Args, Debug)]
pub(crate) struct DeclarationArguments {
    /// For which Project.
    #[arg(long, value_name = "ID", value_parser = values::id::<ProjectId>)]
    pub(crate) project: ProjectId,
    /// Which tenancy Resource it backs.
    #[arg(long, value_name = "ID", value_parser = values::id::<ResourceId>)]
    pub(crate) resource: ResourceId,
    /// From which version of a blueprint.
    #[arg(long, value_name = "ID", value_parser = values::id::<BlueprintVersionId>)]
    pub(crate) blueprint_version: BlueprintVersionId,
    /// With which credential, and so on which cloud.
    #[arg(long, value_name = "ID", value_parser = values::id::<CloudCredentialId>)]
    pub(crate) credential: CloudCredentialId,
    /// One parameter; may be repeated.
    ///
    /// PATH names fields from the outside in, separated by dots; `\.` is a dot within a name. VALUE
    /// is a number, true, false, null or a quoted string where it reads as one in JSON, and text
    /// otherwise. A value of `--values` may be replaced; lists and objects are given by `--values`.
    #[arg(long = "set", value_name = "PATH=VALUE")]
    pub(crate) assignments: Vec<String>,
    /// Parameters from a file in JSON or YAML, at most 1 MiB; `-` reads the standard input.
    #[arg(long, value_name = "FILE")]
    pub(crate) values: Option<std::path::PathBuf>,
    /// What a terminal failure leads to: `retain` keeps what failed, `rollback` takes it down.
    #[arg(long, value_name = "POLICY", default_value = "retain", value_parser = values::on_failure)]
    pub(crate) on_failure: OnFailure,
    /// The caller's own name for this request. With the same name and declaration, the answer is the
    /// first resource again.
    #[arg(long, value_name = "ID", value_parser = request_id)]
    pub(crate) request_id: Option<RequestId>,
}

/// What is to be deleted.
#[derive(Args, Debug)]
pub(crate) struct DeprovisionArguments {
    /// The resource.
    #[arg(value_name = "ID", value_parser = values::id::<ProvisionedResourceId>)]
    pub(crate) id: ProvisionedResourceId,
    #[command(flatten)]
    pub(crate) wait: Wait,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// What is replaced, and whether to wait for the new one.
#[derive(Args, Debug)]
pub(crate) struct ReplaceArguments {
    /// The resource.
    #[arg(value_name = "ID", value_parser = values::id::<ProvisionedResourceId>)]
    pub(crate) id: ProvisionedResourceId,
    /// The caller's own name for this request; `replace-ID` if left out. With the same name, the answer is the
    /// first replacement again.
    #[arg(long, value_name = "ID", value_parser = request_id)]
    pub(crate) request_id: Option<RequestId>,
    #[command(flatten)]
    pub(crate) wait: Wait,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// One resource, and nothing else.
#[derive(Args, Debug)]
pub(crate) struct OneArguments {
    /// The resource.
    #[arg(value_name = "ID", value_parser = values::id::<ProvisionedResourceId>)]
    pub(crate) id: ProvisionedResourceId,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Which resources.
#[derive(Args, Debug)]
pub(crate) struct ListArguments {
    /// Only those of a Project.
    #[arg(long, value_name = "ID", value_parser = values::id::<ProjectId>)]
    pub(crate) project: Option<ProjectId>,
    /// Only those in a phase.
    #[arg(long, value_name = "PHASE", value_parser = values::phase)]
    pub(crate) phase: Option<Phase>,
    /// Only those that changed at or after a moment: the `watermark` of an earlier list.
    #[arg(long, value_name = "TIME", value_parser = values::moment)]
    pub(crate) updated_since: Option<Watermark>,
    /// Goes on and prints each resource again when it changed, one per line, until it is stopped.
    ///
    /// With `--phase`, a resource that leaves the phase is not shown any more.
    #[arg(long)]
    pub(crate) watch: bool,
    /// How often `--watch` looks.
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
    pub(crate) common: Common,
}

/// What is given up.
#[derive(Args, Debug)]
pub(crate) struct AbandonArguments {
    /// The resource.
    #[arg(value_name = "ID", value_parser = values::id::<ProvisionedResourceId>)]
    pub(crate) id: ProvisionedResourceId,
    /// Why, for the audit.
    #[arg(long, value_name = "TEXT", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub(crate) reason: String,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// What is done with the brake.
#[derive(Debug, Subcommand)]
pub(crate) enum BrakeCommand {
    /// Show which brakes are set, and every composite resource that is absent, each by a direct read.
    Show {
        #[command(flatten)]
        common: Common,
    },
    /// Set the brake of the cluster, or of one Project on it.
    Set {
        #[command(flatten)]
        reach: BrakeReach,
        #[command(flatten)]
        common: Common,
    },
    /// Release a brake and accept what is absent in its reach: it is created again, without a permit.
    Release {
        /// The cluster: the uid of its namespace kube-system, as `brake show` names it.
        #[arg(value_name = "CLUSTER", value_parser = cluster_id)]
        cluster: ClusterId,
        #[command(flatten)]
        reach: BrakeReach,
        #[command(flatten)]
        common: Common,
    },
}

/// What a brake holds.
#[derive(Args, Debug, Clone, Copy)]
pub(crate) struct BrakeReach {
    /// One Project; the whole cluster if left out.
    #[arg(long, value_name = "ID", value_parser = values::id::<ProjectId>)]
    pub(crate) project: Option<ProjectId>,
}

impl BrakeCommand {
    const fn common(&self) -> &Common {
        match self {
            Self::Show { common } | Self::Set { common, .. } | Self::Release { common, .. } => {
                common
            }
        }
    }
}

/// Whose events.
#[derive(Args, Debug)]
pub(crate) struct ResumeEventsArguments {
    /// The resource.
    #[arg(value_name = "ID", required_unless_present_any = ["project", "all"],
        value_parser = values::id::<ProvisionedResourceId>)]
    pub(crate) id: Option<ProvisionedResourceId>,
    /// Every resource of a Project, instead of one.
    #[arg(long, value_name = "ID", conflicts_with = "id", value_parser = values::id::<ProjectId>)]
    pub(crate) project: Option<ProjectId>,
    /// Every resource of every Project.
    #[arg(long, conflicts_with_all = ["id", "project"])]
    pub(crate) all: bool,
    /// Never delivers the event, and goes on with the next one.
    #[arg(long)]
    pub(crate) skip: bool,
    #[command(flatten)]
    pub(crate) common: Common,
}
