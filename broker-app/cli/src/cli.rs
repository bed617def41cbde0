//! The command line, as clap definitions. The doc comments are the help texts and generate docs/cli.md.

mod reference;
mod values;
mod verbs;

use std::path::PathBuf;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

pub(crate) use reference::reference;
pub(crate) use verbs::{
    AbandonArguments, BrakeCommand, BrakeReach, CommonArguments, DeclarationArguments,
    DeprovisionArguments, ExplainArguments, ListArguments, PlanArguments, ProvisionArguments,
    RedriveEventsArguments, ReplaceArguments, ResourceArguments, Verb,
};

use crate::demo::Pace;
use crate::failure::Failure;

/// The Provisioning Broker: provisions infrastructure through Crossplane and tears it down again.
///
/// Exit codes: 0 success, 1 an error, 2 an invalid command line, 3 `--wait` timed out, 4 the awaited phase can no
/// longer be reached. Every code except 0 prints one line on standard error: `error[REASON]: MESSAGE`.
#[derive(Debug, Parser)]
#[command(name = "provisioning-broker", version, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the broker over a simulated world, without Postgres, a cluster or a cloud.
    ///
    /// Service, reconciler and sweep are real. The demo simulates the rest in this process: the store, the management
    /// cluster with Crossplane, the mesh, and agents that enrol with the token on their machine.
    /// It reads and writes nothing outside the process.
    ///
    /// Six scenarios run at the same time: a node, a resource without a node, a blueprint with parameters, a terminal
    /// failure with rollback, a wait for the Project's namespace, and a teardown. The demo takes less than 20 seconds.
    /// It exits with 0 if every scenario ends as expected.
    ///
    /// A terminal shows a live table; other outputs get one line per phase change. Times are simulated; at normal speed
    /// they are real.
    Demo(DemoArguments),
    /// Run a replica of the broker until SIGTERM or SIGINT.
    ///
    /// The replica sweeps at the start and then once per interval. In between it works on due resources and on cluster
    /// changes. Any number of replicas can run concurrently. It serves `/livez`, `/readyz` and `/metrics`, and logs
    /// one JSON object per line to standard output. Without `PLEXSPHERE_DSN` it is inert: it serves these paths and
    /// does nothing else.
    Run(RunArguments),
    /// Change or show the schema of the store.
    #[command(subcommand)]
    Migrate(Migrate),
    /// Check or publish blueprints.
    #[command(subcommand)]
    Catalog(Catalog),
    /// Print the Kubernetes roles that a replica needs for the blueprints of a catalog.
    ///
    /// The output is YAML for a cluster administrator to review and apply.
    Rbac(RbacArguments),
    #[command(flatten)]
    Verb(Verb),
    /// Print a completion script.
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Print generated documentation.
    #[command(subcommand, hide = true)]
    Docs(Docs),
}

#[derive(Args, Debug)]
pub(crate) struct DemoArguments {
    /// Makes a run repeatable: the same seed gives the same ids, order and output.
    ///
    /// Another seed gives other ids and other durations.
    #[arg(long, value_name = "N", default_value = "1", allow_negative_numbers = true, value_parser = values::seed)]
    pub(crate) seed: u32,
    /// The number of resources, 1 to 200; they cycle through the six scenarios.
    #[arg(long, value_name = "N", default_value = "6", allow_negative_numbers = true, value_parser = values::resources)]
    pub(crate) resources: u16,
    /// The speed of time: 0.5 is half, 10 is ten times; `max` does not wait.
    #[arg(long, value_name = "X", default_value = "1", allow_negative_numbers = true, value_parser = values::pace)]
    pub(crate) speed: Pace,
    /// Prints lines instead of a live table.
    #[arg(long, conflicts_with = "json")]
    pub(crate) plain: bool,
    /// Prints one JSON object per line.
    ///
    /// `type` is `phase` (a phase change; `from` is null for a new resource), `event` (a lifecycle event; `event` is
    /// the outbox payload), `namespace` (a Project's namespace became ready), `explanation` (the output of `explain`)
    /// or, at the end, `outcome` (one per resource). All except `outcome` have `elapsed_ms`; all except `namespace`
    /// have `resource`, a name. Keys are added, never changed.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct RunArguments {
    /// The log filter in tracing's syntax, such as `info` or `warn,broker_app=debug`.
    #[arg(long, value_name = "FILTER", default_value = "info", value_parser = values::log_filter)]
    pub(crate) log: String,
    /// Refuses to start if the boot sweep cannot examine one of the resources. Without it, only a failure of the store
    /// or the cluster prevents the start. The boot sweep runs no pass, so a pass may still fail after the start.
    #[arg(long)]
    pub(crate) strict: bool,
    /// How long to keep Deleted resources and delivered events; without it they are never purged. Use at least the
    /// longest outage of a caller.
    #[arg(long, value_name = "TIME", allow_negative_numbers = true, value_parser = values::retention)]
    pub(crate) retention: Option<Duration>,
}

#[derive(Debug, Clone, Copy, Subcommand)]
pub(crate) enum Migrate {
    /// Migrate the schema to the version of this release.
    ///
    /// Idempotent, and safe to run concurrently. The previous release runs on the new schema.
    Up {
        /// Also creates minimal tables of the platform, for a database without them.
        #[arg(long)]
        reference: bool,
        #[command(flatten)]
        output: OutputArguments,
    },
    /// Revert the schema. Data in newer columns and tables is lost.
    Down {
        /// The last migration to keep; 0 reverts all of them.
        #[arg(long, value_name = "VERSION", allow_negative_numbers = true, value_parser = values::migration)]
        to: u32,
        #[command(flatten)]
        output: OutputArguments,
    },
    /// Print the schema as SQL, for an external migration tool. Reads no environment.
    ///
    /// The SQL is idempotent. On a large database, `migrate up` holds locks for a shorter time.
    Sql {
        /// Prints the minimal tables of the platform instead.
        #[arg(long)]
        reference: bool,
    },
    /// Show every migration and when it was applied.
    Status {
        #[command(flatten)]
        output: OutputArguments,
    },
}

/// The commands on a catalog: a directory with one directory per blueprint, each with `metadata.json`, `xrd.yaml` and
/// `composition.yaml`.
#[derive(Debug, Subcommand)]
pub(crate) enum Catalog {
    /// Check every blueprint of a catalog, without Postgres or a cluster.
    ///
    /// Prints one line per problem. Warnings do not fail the check.
    Check(CatalogArguments),
    /// Publish every blueprint of a catalog, all or nothing.
    ///
    /// An already published version is a no-op with the same bytes, and an error with other bytes.
    Import(CatalogArguments),
}

#[derive(Args, Debug)]
pub(crate) struct CatalogArguments {
    /// The catalog.
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
    #[command(flatten)]
    pub(crate) output: OutputArguments,
}

#[derive(Args, Debug)]
pub(crate) struct RbacArguments {
    /// The catalog whose kinds the roles cover.
    #[arg(long, value_name = "DIR")]
    pub(crate) catalog: PathBuf,
}

#[derive(Debug, Clone, Copy, Subcommand)]
pub(crate) enum Docs {
    /// docs/cli.md.
    Cli,
}

#[derive(Args, Debug, Clone, Copy)]
pub(crate) struct OutputArguments {
    /// The format: `human`, or `json` with keys that are added, never changed.
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = Format::Human)]
    pub(crate) output: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people; the text may change.
    Human,
    /// For programs; the keys are stable.
    Json,
}

/// The result of parsing a command line.
pub(crate) enum Parsed {
    Command(Box<Command>),
    /// Help or version, on request: exit code 0.
    Information(String),
    /// The help for a command line without a command: exit code 2.
    MissingCommand(String),
}

/// Parses a command line; the first argument is the program's name.
///
/// # Errors
///
/// [`Failure::Usage`], in one line.
pub(crate) fn parse(
    arguments: impl IntoIterator<Item = std::ffi::OsString>,
) -> Result<Parsed, Failure> {
    let error = match Cli::try_parse_from(arguments) {
        Ok(cli) => return Ok(Parsed::Command(Box::new(cli.command))),
        Err(error) => error,
    };
    let (kind, text) = (error.kind(), error.render().to_string());
    if matches!(kind, ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        Ok(Parsed::Information(text))
    } else if kind == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        Ok(Parsed::MissingCommand(text))
    } else {
        Err(Failure::Usage(join_lines(&text)))
    }
}

/// Joins the parser's message into one line and drops its usage section, which `--help` prints.
fn join_lines(rendered: &str) -> String {
    let paragraphs = rendered.split("\n\n").map(|paragraph| {
        let words: Vec<_> = paragraph.split_whitespace().collect();
        words.join(" ")
    });
    let kept: Vec<_> = paragraphs
        .take_while(|paragraph| {
            !paragraph.starts_with("Usage:") && !paragraph.starts_with("For more information")
        })
        .filter(|paragraph| !paragraph.is_empty())
        .collect();
    let message = kept.join("; ");
    message.strip_prefix("error: ").map_or_else(|| message.clone(), str::to_owned)
}

/// The clap definition that parsing, completions and docs/cli.md share.
pub(crate) fn definition() -> clap::Command {
    Cli::command()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definition_is_consistent() {
        definition().debug_assert();
    }
}
