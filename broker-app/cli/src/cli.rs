//! The command line: what can be asked for. Everything that it says is also in docs/cli.md.

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
    AbandonArguments, BrakeCommand, BrakeReach, Common, DeclarationArguments, DeprovisionArguments,
    ExplainArguments, ListArguments, OneArguments, PlanArguments, ProvisionArguments,
    ReplaceArguments, ResumeEventsArguments, Verb,
};

use crate::demo::Pace;
use crate::failure::Failure;

/// The Provisioning Broker: hands out infrastructure through Crossplane, and takes it down again.
///
/// Exit codes: 0 when everything went well, 1 for an error, 2 for a command line that cannot be
/// understood, 3 when what was waited for did not come within the deadline, 4 when it never will.
/// Whatever is not 0 has one line on the standard error: `error[REASON]: MESSAGE`.
#[derive(Debug, Parser)]
#[command(name = "provisioning-broker", version, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What can be asked for.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Watch the broker at work, without Postgres, a cluster or a cloud.
    ///
    /// Service, reconciler and sweep are the real ones; around them everything is simulated in this
    /// process: the store, the management cluster with Crossplane, the mesh, and agents that enrol
    /// with the token that they find on their machine. Nothing outside is read or written.
    ///
    /// Six stories are told side by side: a node, something without a node, a blueprint with
    /// parameters, one that fails for good and is rolled back, one that waits for the namespace of
    /// its Project, and one that is torn down. It takes less than 20 seconds. The exit code is 0
    /// if each of them ended as it should.
    ///
    /// In a terminal it is a live table, elsewhere one line per change of phase. Times are those of
    /// the simulation; at normal speed they are real.
    Demo(DemoArguments),
    /// Run a replica of the broker until it is told to stop.
    ///
    /// Sweeps once, then works: what is due, what changed on the cluster, and every interval
    /// everything. Any number of replicas run side by side. Serves `/livez`, `/readyz` and
    /// `/metrics`, and logs one JSON object per line to the standard output. SIGTERM and SIGINT stop
    /// it cleanly. Without `PLEXSPHERE_DSN` it is inert: it serves, and does nothing else.
    Run(RunArguments),
    /// Change or show the schema of the store.
    #[command(subcommand)]
    Migrate(Migrate),
    /// Check or publish blueprints.
    #[command(subcommand)]
    Catalog(Catalog),
    /// Print the Kubernetes roles that a replica needs for the blueprints of a catalog.
    ///
    /// YAML, to be reviewed and applied by whoever administers the cluster.
    Rbac(RbacArguments),
    #[command(flatten)]
    Verb(Verb),
    /// Print a completion script.
    Completions {
        /// For which shell.
        shell: Shell,
    },
    /// Print generated documentation.
    #[command(subcommand, hide = true)]
    Docs(Docs),
}

/// What the demo can be asked for.
#[derive(Args, Debug)]
pub(crate) struct DemoArguments {
    /// Repeats a run exactly: the same ids, the same order, the same output.
    ///
    /// Another seed gives other ids and lets things take longer or shorter.
    #[arg(long, value_name = "N", default_value = "1", allow_negative_numbers = true, value_parser = values::seed)]
    pub(crate) seed: u32,
    /// How many resources, 1 to 200: the six stories in turn.
    #[arg(long, value_name = "N", default_value = "6", allow_negative_numbers = true, value_parser = values::resources)]
    pub(crate) resources: u16,
    /// How fast time passes: 0.5 is half as fast, 10 ten times; `max` does not wait at all.
    #[arg(long, value_name = "X", default_value = "1", allow_negative_numbers = true, value_parser = values::pace)]
    pub(crate) speed: Pace,
    /// Prints lines where it would show a live table.
    #[arg(long, conflicts_with = "json")]
    pub(crate) plain: bool,
    /// Prints one JSON object per line.
    ///
    /// Each has a `type`: `phase` (a resource changed its phase; `from` is null for a new one),
    /// `event` (a lifecycle event; `event` is what the outbox gave), `namespace` (the namespace of
    /// a Project became ready), `explanation` (why a resource is where it is; as of `explain`) and,
    /// at the end, `outcome` for each resource. All but the last have `elapsed_ms`, all but
    /// `namespace` the `resource`'s name. Keys are added, never changed.
    #[arg(long)]
    pub(crate) json: bool,
}

/// What a replica can be asked for beyond what the environment says.
#[derive(Args, Debug)]
pub(crate) struct RunArguments {
    /// What is logged, in the syntax of tracing's filters, such as `info` or `warn,broker_app=debug`.
    #[arg(long, value_name = "FILTER", default_value = "info", value_parser = values::log_filter)]
    pub(crate) log: String,
    /// Refuses to start when the boot sweep cannot examine one of the resources, and not only when
    /// store or cluster fail. The sweep runs no pass: a pass may still fail after the start.
    #[arg(long)]
    pub(crate) strict: bool,
    /// For how long resources that are Deleted and events that were delivered are kept; for ever if
    /// left out. At least as long as the longest outage after which callers still ask.
    #[arg(long, value_name = "TIME", allow_negative_numbers = true, value_parser = values::retention)]
    pub(crate) retention: Option<Duration>,
}

/// What can be done to the schema.
#[derive(Debug, Clone, Copy, Subcommand)]
pub(crate) enum Migrate {
    /// Bring the schema up to what this release needs.
    ///
    /// Safe to run at any time and by several at once; the previous release runs on the new schema.
    Up {
        /// Also creates minimal tables of the neighbours, for whoever has none.
        #[arg(long)]
        reference: bool,
        #[command(flatten)]
        output: OutputArguments,
    },
    /// Take the schema back. What newer columns and tables hold is lost.
    Down {
        /// The last migration that stays; 0 removes all of them.
        #[arg(long, value_name = "VERSION", allow_negative_numbers = true, value_parser = values::migration)]
        to: u32,
        #[command(flatten)]
        output: OutputArguments,
    },
    /// Print the schema as SQL, for a tool that applies schemas. Reads no environment.
    ///
    /// Applying it again changes nothing. On a database with many resources `migrate up` holds locks
    /// for a shorter time.
    Sql {
        /// Prints the minimal tables of the neighbours instead.
        #[arg(long)]
        reference: bool,
    },
    /// Show which migrations are applied.
    Status {
        #[command(flatten)]
        output: OutputArguments,
    },
}

/// What can be done with a catalog: a directory with one directory per blueprint, each of which holds
/// `metadata.json`, `xrd.yaml` and `composition.yaml`.
#[derive(Debug, Subcommand)]
pub(crate) enum Catalog {
    /// Check every blueprint of a directory, without Postgres or a cluster.
    ///
    /// Prints one line per problem. Warnings alone are no failure.
    Check(CatalogArguments),
    /// Publish every blueprint of a directory, all or nothing.
    ///
    /// A version that was published before with the same bytes is left as it is; with others, it is
    /// refused.
    Import(CatalogArguments),
}

/// Which catalog.
#[derive(Args, Debug)]
pub(crate) struct CatalogArguments {
    /// The directory.
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
    #[command(flatten)]
    pub(crate) output: OutputArguments,
}

/// Which roles.
#[derive(Args, Debug)]
pub(crate) struct RbacArguments {
    /// The catalog whose kinds the roles are for.
    #[arg(long, value_name = "DIR")]
    pub(crate) catalog: PathBuf,
}

/// Documentation that follows from this program.
#[derive(Debug, Clone, Copy, Subcommand)]
pub(crate) enum Docs {
    /// docs/cli.md.
    Cli,
}

/// How a command answers.
#[derive(Args, Debug, Clone, Copy)]
pub(crate) struct OutputArguments {
    /// For people, or for programs: JSON whose keys are added, never changed.
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = Format::Human)]
    pub(crate) output: Format,
}

/// Whom a command answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// People.
    Human,
    /// Programs.
    Json,
}

/// What the parser makes of a command line.
pub(crate) enum Parsed {
    /// A command to be run.
    Command(Box<Command>),
    /// Help or version: text that was asked for.
    Answer(String),
    /// No command at all: help that was not asked for.
    Help(String),
}

/// Reads a command line; the first argument is the program's own name.
///
/// # Errors
///
/// [`Failure::Usage`], in one line.
pub(crate) fn parse(
    arguments: impl IntoIterator<Item = std::ffi::OsString>,
) -> Result<Parsed, Failure> {
    let told = match Cli::try_parse_from(arguments) {
        Ok(cli) => return Ok(Parsed::Command(Box::new(cli.command))),
        Err(told) => told,
    };
    let (kind, text) = (told.kind(), told.render().to_string());
    if matches!(kind, ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        Ok(Parsed::Answer(text))
    } else if kind == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        Ok(Parsed::Help(text))
    } else {
        Err(Failure::Usage(in_one_line(&text)))
    }
}

/// The parser's paragraphs up to the usage, as one line. The usage itself is a `--help` away.
fn in_one_line(rendered: &str) -> String {
    let paragraphs = rendered.split("\n\n").map(|paragraph| {
        let words: Vec<_> = paragraph.split_whitespace().collect();
        words.join(" ")
    });
    let told: Vec<_> = paragraphs
        .take_while(|paragraph| {
            !paragraph.starts_with("Usage:") && !paragraph.starts_with("For more information")
        })
        .filter(|paragraph| !paragraph.is_empty())
        .collect();
    let told = told.join("; ");
    told.strip_prefix("error: ").map_or_else(|| told.clone(), str::to_owned)
}

/// The whole definition, for help, completions and the reference.
pub(crate) fn definition() -> clap::Command {
    Cli::command()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_consistent() {
        definition().debug_assert();
    }
}
