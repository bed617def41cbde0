//! Every verb of the binary, in working and failing environments.

use std::collections::BTreeSet;

use broker_domain::ProvisionedResourceId;
use broker_tests::real::RealWorld;
use broker_tests::world::SIZED;

use super::machines::words;
use super::scene::Scene;
use crate::servers::cli::process::{DSN, EVENT_URL, Environment};

/// Runs every verb but `run` on this resource and returns their names. The last one abandons the
/// resource.
pub(super) async fn type_all(scene: &mut Scene, id: ProvisionedResourceId) -> BTreeSet<String> {
    let mut typed = BTreeSet::new();
    let literal = scene.secrets.plain();
    for words in commands(&scene.world, &id.to_string(), &literal) {
        scene.command(&words).await;
        for broken in broken(scene) {
            scene.command_in(&broken, &words).await;
        }
        typed.extend(words.into_iter().next());
    }
    typed
}

/// Runs `run` where it fails to start. Returns its name.
pub(super) async fn type_run(scene: &mut Scene) -> String {
    let run = "run".to_owned();
    for broken in broken(scene) {
        scene.command_in(&broken, std::slice::from_ref(&run)).await;
    }
    run
}

/// A new verb must be added here.
pub(super) async fn assert_none_is_missing(scene: &Scene, typed: &BTreeSet<String>) {
    let help = scene.environment.run(&["--help"]).await.out;
    let commands = help.split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    let names = commands.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let mut names: BTreeSet<_> =
        names.map(|line| line.split_whitespace().next().unwrap().to_owned()).collect();
    assert!(names.contains("run"), "{help}");
    // These have no access to a secret.
    names.retain(|name| !["demo", "completions", "help"].contains(&name.as_str()));
    let missing: Vec<_> = names.difference(typed).collect();
    assert_eq!(missing, Vec::<&String>::new(), "verbs without captured output");
}

/// No store, a store that cannot be resolved, an event URL that is rejected; each with other
/// secrets.
fn broken(scene: &mut Scene) -> [Environment; 3] {
    let [absent, unnamed, port, key] = [(); 4].map(|()| scene.secrets.plain());
    let good = &scene.environment;
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
