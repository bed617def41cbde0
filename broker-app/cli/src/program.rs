//! Runs a command line and returns its exit code. Tests supply their own [`Environment`].

#[cfg(test)]
pub(crate) mod tests;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{Read, Write};

use broker_pg::migrate::{plain_sql, plain_sql_of_reference};
use broker_ports::wire;
use clap_complete::generate;
use serde_json::json;
use tokio::runtime::{Builder, Runtime};

use crate::cli::{self, Catalog, Command, Docs, Migrate, OutputArguments, Parsed, Verb};
use crate::wiring::{Wiring, Migration, Publication};
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::settings::{Settings, SettingsError};
use crate::terminal::Terminal;
use crate::verbs::{self, CommandContext};
use crate::wiring::{Migration, Publication, Wiring};
use crate::{catalog, demo};

/// The process environment of a command.
pub(crate) struct Environment<'a> {
    /// Reads the environment variables; only commands that need them call it.
    pub(crate) variables: &'a dyn Fn() -> Result<BTreeMap<String, String>, SettingsError>,
    /// Builds the service and the replica.
    pub(crate) wiring: &'a dyn Wiring,
    pub(crate) stdin: &'a mut dyn Read,
    pub(crate) stdout: &'a mut dyn Write,
    pub(crate) stderr: &'a mut dyn Write,
}

/// Runs a command line; the first argument is the program's name.
pub(crate) fn run(
    arguments: impl IntoIterator<Item = OsString>,
    mut environment: Environment<'_>,
) -> Exit {
    match cli::parse(arguments).and_then(|parsed| execute(parsed, &mut environment)) {
        Ok(exit) => exit,
        Err(failure) => {
            let exit = failure.exit();
            if exit != Exit::Success {
                // A closed standard error loses the line.
                let _ = writeln!(environment.stderr, "{}", failure.line());
            }
            exit
        }
    }
}

fn execute(parsed: Parsed, environment: &mut Environment<'_>) -> Result<Exit, Failure> {
    match parsed {
        Parsed::Command(command) => run_command(*command, environment).map(|()| Exit::Success),
        Parsed::Information(text) => {
            write!(environment.stdout, "{text}")?;
            Ok(Exit::Success)
        }
        Parsed::MissingCommand(text) => {
            write!(environment.stderr, "{text}")?;
            Ok(Exit::Usage)
        }
    }
}

fn run_command(command: Command, environment: &mut Environment<'_>) -> Result<(), Failure> {
    match command {
        Command::Demo(arguments) => Ok(demo::run(&arguments, Terminal::from_stdout())?),
        Command::Run(arguments) => {
            let settings = environment.settings()?;
            let runtime = runtime(Builder::new_multi_thread())?;
            runtime.block_on(crate::run::run(&settings, &arguments, environment.wiring))
        }
        Command::Migrate(Migrate::Sql { reference }) => {
            let plain_sql = if reference { plain_sql_of_reference } else { plain_sql };
            Ok(write!(environment.stdout, "{}", plain_sql())?)
        }
        Command::Migrate(Migrate::Up { output, reference }) => {
            migrate(Migrate::Up { output, reference }, output, environment)
        }
        Command::Migrate(Migrate::Down { output, to }) => {
            migrate(Migrate::Down { output, to }, output, environment)
        }
        Command::Migrate(Migrate::Status { output }) => {
            migrate(Migrate::Status { output }, output, environment)
        }
        Command::Catalog(command) => run_catalog(&command, environment),
        Command::Rbac(arguments) => {
            let mut report = |line: &str| writeln!(environment.stderr, "{line}");
            let catalog = catalog::read(&arguments.catalog, &mut report)?;
            let roles = environment.wiring.rbac(&catalog)?;
            Ok(write!(environment.stdout, "{roles}")?)
        }
        Command::Completions { shell } => {
            let mut script = Vec::new();
            generate(shell, &mut cli::definition(), "provisioning-broker", &mut script);
            Ok(environment.stdout.write_all(&script)?)
        }
        Command::Docs(Docs::Cli) => Ok(write!(environment.stdout, "{}", cli::reference())?),
        Command::Verb(verb) => run_verb(&verb, environment),
    }
}

/// Runs a verb over a service.
fn run_verb(verb: &Verb, environment: &mut Environment<'_>) -> Result<(), Failure> {
    let settings = environment.settings()?;
    settings.store()?;
    let context = verbs::context(verb.common()).map_err(broker_app::Error::from)?;
    let Environment { wiring, stdin, stdout, .. } = environment;
    runtime(Builder::new_current_thread())?.block_on(async {
        let service = wiring.service(&settings).await?;
        let output = Output::new(verb.common().output.output, *stdout);
        let context = &mut CommandContext { service: &service, context, output };
        match verb {
            Verb::Provision(arguments) => verbs::provision(context, arguments, *stdin).await,
            Verb::Deprovision(arguments) => verbs::deprovision(context, arguments).await,
            Verb::Get(arguments) => verbs::get(context, arguments).await,
            Verb::List(arguments) => verbs::list(context, arguments, ctrl_c()).await,
            Verb::Explain(arguments) => verbs::explain(context, arguments).await,
            Verb::Plan(arguments) => verbs::plan(context, arguments, *stdin).await,
            Verb::History(arguments) => verbs::history(context, arguments).await,
            Verb::Pause(arguments) => verbs::pause(context, arguments).await,
            Verb::Resume(arguments) => verbs::resume(context, arguments).await,
            Verb::ReconcileNow(arguments) => verbs::reconcile_now(context, arguments).await,
            Verb::Abandon(arguments) => verbs::abandon(context, arguments).await,
            Verb::Brake(command) => verbs::brake(context, command).await,
            Verb::Retry(arguments) => verbs::retry(context, arguments).await,
            Verb::Replace(arguments) => verbs::replace(context, arguments).await,
            Verb::RedriveEvents(arguments) => verbs::redrive_events(context, arguments).await,
            Verb::ScrubAudit(arguments) => verbs::scrub_audit(context, arguments).await,
        }
    })
}

fn migrate(
    command: Migrate,
    output: OutputArguments,
    environment: &mut Environment<'_>,
) -> Result<(), Failure> {
    let settings = environment.settings()?;
    settings.store()?;
    let migrations = runtime(Builder::new_current_thread())?
        .block_on(environment.wiring.migrate(&settings, command))?;
    let rows: Vec<_> = migrations
        .iter()
        .map(|Migration { version, name, applied_at }| {
            let applied = applied_at.map_or_else(|| "pending".to_owned(), wire::rfc3339);
            vec![version.to_string(), name.clone(), applied]
        })
        .collect();
    let objects: Vec<_> = migrations
        .iter()
        .map(|Migration { version, name, applied_at }| {
            json!({
                "version": version,
                "name": name,
                "applied_at": applied_at.map(wire::rfc3339),
            })
        })
        .collect();
    let mut output = Output::new(output.output, environment.stdout);
    Ok(output.rows(&["VERSION", "NAME", "APPLIED"], &rows, &json!({"migrations": objects}))?)
}

fn run_catalog(command: &Catalog, environment: &mut Environment<'_>) -> Result<(), Failure> {
    let arguments = match command {
        Catalog::Check(arguments) => {
            let mut output = Output::new(arguments.output.output, environment.stdout);
            return catalog::check(&arguments.directory, &mut output);
        }
        Catalog::Import(arguments) => arguments,
    };
    let settings = environment.settings()?;
    settings.store()?;
    let mut report = |line: &str| writeln!(environment.stderr, "{line}");
    let catalog = catalog::read(&arguments.directory, &mut report)?;
    let published = runtime(Builder::new_current_thread())?
        .block_on(environment.wiring.import(&settings, &catalog))?;
    let state = |is_new: bool| if is_new { "published" } else { "unchanged" };
    let rows: Vec<_> = published
        .iter()
        .map(|Publication { slug, version, id, is_new }| {
            vec![slug.clone(), version.clone(), id.to_string(), state(*is_new).to_owned()]
        })
        .collect();
    let objects: Vec<_> = published
        .iter()
        .map(|Publication { slug, version, id, is_new }| {
            json!({
                "slug": slug,
                "version": version,
                "blueprint_version_id": id.to_string(),
                "published": is_new,
            })
        })
        .collect();
    let mut output = Output::new(arguments.output.output, environment.stdout);
    let headings = ["SLUG", "VERSION", "BLUEPRINT VERSION ID", "STATE"];
    Ok(output.rows(&headings, &rows, &json!({"blueprints": objects}))?)
}

impl Environment<'_> {
    fn settings(&self) -> Result<Settings, SettingsError> {
        Settings::read(&(self.variables)()?)
    }
}

fn runtime(mut builder: Builder) -> Result<Runtime, Failure> {
    let runtime = builder.enable_all().build();
    runtime.map_err(|source| Failure::Process {
        operation: "start the runtime",
        source: source.into(),
    })
}

/// Resolves at Ctrl-C. Never resolves if the handler cannot be installed.
async fn ctrl_c() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}
