//! Every verb of the binary, in working and failing environments.

use std::collections::BTreeSet;

use broker_domain::ProvisionedResourceId;
use broker_tests::real::RealWorld;
use broker_tests::world::SIZED;

use super::fixture::Fixture;
use super::machines::words;
use crate::servers::cli::process::{DSN, EVENT_URL, Environment};

/// Runs every verb but `run` on this resource and returns their names. The last one abandons the
/// resource.
pub(super) async fn run_all(fixture: &mut Fixture, id: ProvisionedResourceId) -> BTreeSet<String> {
    let mut run_verbs = BTreeSet::new();
    let literal = fixture.secrets.plain();
    for words in commands(&fixture.world, &id.to_string(), &literal) {
        fixture.command(&words).await;
        for environment in broken_environments(fixture) {
            fixture.command_in(&environment, &words).await;
        }
        run_verbs.extend(words.into_iter().next());
    }
    run_verbs
}

/// Runs `run` in environments in which it cannot start. Returns its name.
pub(super) async fn run_failing_starts(fixture: &mut Fixture) -> String {
    let run = "run".to_owned();
    for environment in broken_environments(fixture) {
        fixture.command_in(&environment, std::slice::from_ref(&run)).await;
    }
    run
}

/// Asserts that the test ran every verb of the help text.
pub(super) async fn assert_every_verb_ran(fixture: &Fixture, run_verbs: &BTreeSet<String>) {
    let help = fixture.environment.run(&["--help"]).await.out;
    let commands = help.split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    let names = commands.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let mut names: BTreeSet<_> =
        names.map(|line| line.split_whitespace().next().unwrap().to_owned()).collect();
    assert!(names.contains("run"), "{help}");
    // These have no access to a secret.
    names.retain(|name| !["demo", "completions", "help"].contains(&name.as_str()));
    let missing: Vec<_> = names.difference(run_verbs).collect();
    assert_eq!(missing, Vec::<&String>::new(), "verbs without captured output");
}

/// Environments without a store, with an invalid store URL, and with a rejected event URL. Each has other
/// secrets.
fn broken_environments(fixture: &mut Fixture) -> [Environment; 3] {
    let [absent, unnamed, port, key] = [(); 4].map(|()| fixture.secrets.plain());
    let good = &fixture.environment;
    [
        good.clone().with(DSN, &format!("postgres://postgres:{absent}@127.0.0.1:1/x")),
        good.clone().with(DSN, &format!("postgres://postgres:{unnamed}@127.0.0.1:{port}/x")),
        good.clone().with(EVENT_URL, &format!("https://a:{key}@127.0.0.1/{key}")),
    ]
}

/// Every verb in both output formats, and some that are refused. Deletion comes last.
fn commands(world: &RealWorld, id: &str, literal: &str) -> Vec<Vec<String>> {
    let catalog = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/catalog");
    let mut commands: Vec<Vec<String>> = [
        vec!["migrate", "status"],
        vec!["migrate", "up"],
        vec!["catalog", "check", catalog],
        vec!["catalog", "diff", catalog],
        vec!["catalog", "import", catalog],
        vec!["get", id],
        vec!["list"],
        vec!["explain", id],
        vec!["explain", "--all"],
        vec!["plan", id],
        vec!["pause", id],
        vec!["resume", id],
        vec!["reconcile-now", id],
        vec!["brake", "set"],
        vec!["retry", id],
        vec!["history", id],
        vec!["redrive-events", id],
        vec!["scrub-audit", id],
        vec!["replace", id],
        vec!["deprovision", id],
        vec!["abandon", id, "--reason=the canary sings"],
    ]
    .into_iter()
    .flat_map(|words| ["human", "json"].map(|format| [&words[..], &["--output", format]].concat()))
    .map(|words| words.into_iter().map(str::to_owned).collect())
    .collect();
    commands.push(vec!["rbac".into(), "--catalog".into(), catalog.into()]);
    for verb in ["plan", "provision"] {
        for last in ["--output=json".to_owned(), format!("--set=hush={literal}")] {
            let mut words = words(verb, &world.declaration(SIZED));
            words.extend(["--set=size=small".to_owned(), last]);
            commands.push(words);
        }
    }
    commands
}
