//! `--wait` and `--watch` while replicas work concurrently, on a paused clock.

use std::time::Duration;

use broker_domain::{Phase, ProvisionedResourceId};
use broker_memory::Behaviour;
use clap::Parser;

use super::*;
use crate::cli::{Cli, Command, Format, Verb};
use crate::failure::{Exit, Failure};
use crate::testing::{DECLARATION, World, operator};

fn verb(arguments: &[&str]) -> Verb {
    let line = ["provisioning-broker"].iter().chain(arguments);
    let Command::Verb(verb) = Cli::try_parse_from(line).unwrap().command else {
        panic!("{arguments:?} is not a verb");
    };
    verb
}

/// Runs a verb while replicas work on a resource; returns its result and output.
async fn run_with_replicas(
    world: &World,
    id: ProvisionedResourceId,
    arguments: &[&str],
) -> (Result<(), Failure>, String) {
    let mut out = Vec::new();
    let output = Output::new(Format::Human, &mut out);
    let mut context = CommandContext { service: &world.service, context: operator(), output };
    let replicas = async {
        loop {
            tokio::time::sleep(Duration::from_secs(3)).await;
            world.run_round(id).await;
        }
    };
    let result = tokio::select! {
        biased;
        result = async {
            let verb = verb(arguments);
            if let Verb::Provision(arguments) = &verb {
                provision(&mut context, arguments, &mut std::io::empty()).await
            } else if let Verb::Deprovision(arguments) = &verb {
                deprovision(&mut context, arguments).await
            } else {
                panic!("{verb:?} does not wait")
            }
        } => result,
        () = replicas => unreachable!("the replicas never stop"),
    };
    (result, String::from_utf8(out).unwrap())
}

/// The printed phases, in order.
fn phases(printed: &str) -> Vec<Phase> {
    let phase = |line: &str| Phase::try_from(line.split_whitespace().nth(2).unwrap()).unwrap();
    printed.lines().map(phase).collect()
}

fn wait_arguments<'a>(verb: &'a str, rest: &[&'a str]) -> Vec<&'a str> {
    [&[verb, "--wait", "--timeout=10m"], rest].concat()
}

#[tokio::test(start_paused = true)]
async fn wait_follows_a_resource_to_ready_and_to_deleted() {
    let world = World::new(Behaviour::ready_after(1));
    // `provision` below has the same request id, so it returns the same resource.
    let id = declare(&world).await;
    let (result, printed) =
        run_with_replicas(&world, id, &wait_arguments("provision", &DECLARATION)).await;
    result.unwrap();
    assert_eq!(phases(&printed), [Phase::Pending, Phase::Provisioning, Phase::Ready]);

    let id_text = id.to_string();
    let (result, printed) =
        run_with_replicas(&world, id, &wait_arguments("deprovision", &[&id_text])).await;
    result.unwrap();
    let seen = phases(&printed);
    assert_eq!(seen.first(), Some(&Phase::Deregistering));
    assert_eq!(seen.last(), Some(&Phase::Deleted));
}

#[tokio::test(start_paused = true)]
async fn wait_reports_a_terminal_failure_with_its_reason() {
    let world = World::new(Behaviour::failing_after(1, "quota exceeded"));
    let id = declare(&world).await;
    let (result, printed) =
        run_with_replicas(&world, id, &wait_arguments("provision", &DECLARATION)).await;
    let failure = result.unwrap_err();
    assert_eq!((failure.exit(), failure.exit().code()), (Exit::FailedTerminally, 4));
    assert_eq!(
        failure.line(),
        format!(
            "error[failed_terminally]: {id} is Failed and will not become Ready: it failed in \
             Provisioning: quota exceeded"
        )
    );
    assert_eq!(phases(&printed), [Phase::Pending, Phase::Provisioning, Phase::Failed]);
    assert!(printed.lines().last().unwrap().ends_with("  quota exceeded"), "{printed}");
}

#[tokio::test(start_paused = true)]
async fn wait_times_out_while_the_resource_continues() {
    let world = World::new(Behaviour::never_ready());
    let id = declare(&world).await;
    let (result, printed) =
        run_with_replicas(&world, id, &wait_arguments("provision", &DECLARATION)).await;
    let failure = result.unwrap_err();
    assert_eq!((failure.exit(), failure.exit().code()), (Exit::NotFinished, 3));
    assert_eq!(
        failure.line(),
        format!("error[not_finished]: {id} is Provisioning after 10m; the replicas continue")
    );
    assert_eq!(phases(&printed), [Phase::Pending, Phase::Provisioning]);
}

#[tokio::test(start_paused = true)]
async fn watch_prints_each_change_once() {
    let world = World::new(Behaviour::ready_after(1));
    let id = declare(&world).await;
    let Verb::List(arguments) = verb(&["list", "--watch", "--interval=1s"]) else { panic!() };
    let mut out = Vec::new();
    let output = Output::new(Format::Json, &mut out);
    let mut context = CommandContext { service: &world.service, context: operator(), output };
    let work = async {
        for _ in 0..6 {
            tokio::time::sleep(Duration::from_secs(3)).await;
            world.run_round(id).await;
        }
        tokio::time::sleep(Duration::from_secs(10)).await;
    };
    list(&mut context, &arguments, Box::pin(work)).await.unwrap();
    let printed = String::from_utf8(out).unwrap();
    let seen: Vec<(u64, String)> = printed
        .lines()
        .map(|line| {
            let object: serde_json::Value = serde_json::from_str(line).unwrap();
            (object["version"].as_u64().unwrap(), object["phase"].as_str().unwrap().to_owned())
        })
        .collect();
    assert_eq!(seen.first(), Some(&(1, "Pending".to_owned())));
    assert_eq!(seen.last().map(|(_, phase)| phase.as_str()), Some("Ready"));
    assert!(seen.is_sorted_by(|one, next| one.0 < next.0), "{seen:?}");
}

/// Declares the world's resource with its flags.
async fn declare(world: &World) -> ProvisionedResourceId {
    let mut out = Vec::new();
    let output = Output::new(Format::Json, &mut out);
    let mut context = CommandContext { service: &world.service, context: operator(), output };
    let arguments = [&["provision"], &DECLARATION[..]].concat();
    let Verb::Provision(arguments) = verb(&arguments) else { panic!() };
    provision(&mut context, &arguments, &mut std::io::empty()).await.unwrap();
    let object: serde_json::Value = serde_json::from_slice(&out).unwrap();
    object["id"].as_str().unwrap().parse().unwrap()
}
