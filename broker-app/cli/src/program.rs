//! From a command line to an exit code, over surroundings that a test can bring along.

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
use crate::composition::{Composition, Migration, Publication};
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::settings::{Settings, SettingsError};
use crate::terminal::Terminal;
use crate::verbs::{self, Desk};
use crate::{catalog, demo};

/// What a command finds around it.
pub(crate) struct Surroundings<'a> {
    /// The environment, for the commands that read it.
    pub(crate) environment: &'a dyn Fn() -> Result<BTreeMap<String, String>, SettingsError>,
    /// Who composes service and replica.
    pub(crate) composition: &'a dyn Composition,
    pub(crate) stdin: &'a mut dyn Read,
    pub(crate) stdout: &'a mut dyn Write,
    pub(crate) stderr: &'a mut dyn Write,
}

/// Runs the command that the arguments name; the first of them is the program's own name.
pub(crate) fn run(
    arguments: impl IntoIterator<Item = OsString>,
    mut surroundings: Surroundings<'_>,
) -> Exit {
    match cli::parse(arguments).and_then(|parsed| answer(parsed, &mut surroundings)) {
        Ok(exit) => exit,
        Err(failure) => {
            let exit = failure.exit();
            if exit != Exit::Done {
                // If the standard error is gone, there is nowhere to say so.
                let _ = writeln!(surroundings.stderr, "{}", failure.line());
            }
            exit
        }
    }
}

fn answer(parsed: Parsed, surroundings: &mut Surroundings<'_>) -> Result<Exit, Failure> {
    match parsed {
        Parsed::Command(command) => perform(*command, surroundings).map(|()| Exit::Done),
        Parsed::Answer(text) => {
            write!(surroundings.stdout, "{text}")?;
            Ok(Exit::Done)
        }
        Parsed::Help(text) => {
            write!(surroundings.stderr, "{text}")?;
            Ok(Exit::Usage)
        }
    }
}

fn perform(command: Command, surroundings: &mut Surroundings<'_>) -> Result<(), Failure> {
    match command {
        Command::Demo(arguments) => Ok(demo::run(&arguments, Terminal::of_stdout())?),
        Command::Run(arguments) => {
            let settings = surroundings.settings()?;
            let threads = runtime(Builder::new_multi_thread())?;
            threads.block_on(crate::run::run(&settings, &arguments, surroundings.composition))
        }
        Command::Migrate(Migrate::Sql { reference }) => {
            let plain_sql = if reference { plain_sql_of_reference } else { plain_sql };
            Ok(write!(surroundings.stdout, "{}", plain_sql())?)
        }
        Command::Migrate(Migrate::Up { output, reference }) => {
            migrate(Migrate::Up { output, reference }, output, surroundings)
        }
        Command::Migrate(Migrate::Down { output, to }) => {
            migrate(Migrate::Down { output, to }, output, surroundings)
        }
        Command::Migrate(Migrate::Status { output }) => {
            migrate(Migrate::Status { output }, output, surroundings)
        }
        Command::Catalog(command) => on_catalog(&command, surroundings),
        Command::Rbac(arguments) => {
            let mut told = |line: &str| writeln!(surroundings.stderr, "{line}");
            let catalog = catalog::read(&arguments.catalog, &mut told)?;
            let roles = surroundings.composition.rbac(&catalog)?;
            Ok(write!(surroundings.stdout, "{roles}")?)
        }
        Command::Completions { shell } => {
            let mut script = Vec::new();
            generate(shell, &mut cli::definition(), "provisioning-broker", &mut script);
            Ok(surroundings.stdout.write_all(&script)?)
        }
        Command::Docs(Docs::Cli) => Ok(write!(surroundings.stdout, "{}", cli::reference())?),
        Command::Verb(verb) => on_service(&verb, surroundings),
    }
}

/// The verbs of the service.
fn on_service(verb: &Verb, surroundings: &mut Surroundings<'_>) -> Result<(), Failure> {
    let settings = surroundings.settings()?;
    settings.store()?;
    let context = verbs::context(verb.common()).map_err(broker_app::Error::from)?;
    let Surroundings { composition, stdin, stdout, .. } = surroundings;
    runtime(Builder::new_current_thread())?.block_on(async {
        let service = composition.service(&settings).await?;
        let output = Output::new(verb.common().output.output, *stdout);
        let desk = &mut Desk { service: &service, context, output };
        match verb {
            Verb::Provision(arguments) => verbs::provision(desk, arguments, *stdin).await,
            Verb::Deprovision(arguments) => verbs::deprovision(desk, arguments).await,
            Verb::Get(arguments) => verbs::get(desk, arguments).await,
            Verb::List(arguments) => verbs::list(desk, arguments, interrupted()).await,
            Verb::Explain(arguments) => verbs::explain(desk, arguments).await,
            Verb::Plan(arguments) => verbs::plan(desk, arguments, *stdin).await,
            Verb::History(arguments) => verbs::history(desk, arguments).await,
            Verb::Pause(arguments) => verbs::pause(desk, arguments).await,
            Verb::Resume(arguments) => verbs::resume(desk, arguments).await,
            Verb::ReconcileNow(arguments) => verbs::reconcile_now(desk, arguments).await,
            Verb::Abandon(arguments) => verbs::abandon(desk, arguments).await,
            Verb::Brake(command) => verbs::brake(desk, command).await,
            Verb::Retry(arguments) => verbs::retry(desk, arguments).await,
            Verb::Replace(arguments) => verbs::replace(desk, arguments).await,
            Verb::ResumeEvents(arguments) => verbs::resume_events(desk, arguments).await,
            Verb::ScrubAudit(arguments) => verbs::scrub_audit(desk, arguments).await,
        }
    })
}

fn migrate(
    command: Migrate,
    output: OutputArguments,
    surroundings: &mut Surroundings<'_>,
) -> Result<(), Failure> {
    let settings = surroundings.settings()?;
    settings.store()?;
    let migrations = runtime(Builder::new_current_thread())?
        .block_on(surroundings.composition.migrate(&settings, command))?;
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
    let mut output = Output::new(output.output, surroundings.stdout);
    Ok(output.rows(&["VERSION", "NAME", "APPLIED"], &rows, &json!({"migrations": objects}))?)
}

fn on_catalog(command: &Catalog, surroundings: &mut Surroundings<'_>) -> Result<(), Failure> {
    let arguments = match command {
        Catalog::Check(arguments) => {
            let mut output = Output::new(arguments.output.output, surroundings.stdout);
            return catalog::check(&arguments.directory, &mut output);
        }
        Catalog::Import(arguments) => arguments,
    };
    let settings = surroundings.settings()?;
    settings.store()?;
    let mut told = |line: &str| writeln!(surroundings.stderr, "{line}");
    let catalog = catalog::read(&arguments.directory, &mut told)?;
    let published = runtime(Builder::new_current_thread())?
        .block_on(surroundings.composition.import(&settings, &catalog))?;
    let state = |new: bool| if new { "published" } else { "unchanged" };
    let rows: Vec<_> = published
        .iter()
        .map(|Publication { slug, version, id, new }| {
            vec![slug.clone(), version.clone(), id.to_string(), state(*new).to_owned()]
        })
        .collect();
    let objects: Vec<_> = published
        .iter()
        .map(|Publication { slug, version, id, new }| {
            json!({
                "slug": slug,
                "version": version,
                "blueprint_version_id": id.to_string(),
                "published": new,
            })
        })
        .collect();
    let mut output = Output::new(arguments.output.output, surroundings.stdout);
    let headings = ["SLUG", "VERSION", "BLUEPRINT VERSION ID", "STATE"];
    Ok(output.rows(&headings, &rows, &json!({"blueprints": objects}))?)
}

impl Surroundings<'_> {
    fn settings(&self) -> Result<Settings, SettingsError> {
        Settings::read(&(self.environment)()?)
    }
}

fn runtime(mut builder: Builder) -> Result<Runtime, Failure> {
    let runtime = builder.enable_all().build();
    runtime.map_err(|source| Failure::Process { doing: "start the runtime", source: source.into() })
}

/// Ready when somebody presses Ctrl-C; never, if that cannot be heard.
async fn interrupted() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}
