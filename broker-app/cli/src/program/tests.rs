//! Command lines over an in-memory world: their output, errors and exit codes.

use broker_memory::Behaviour;
use serde_json::{Value, json};

use crate::failure::Exit;
use crate::settings;
use crate::testing::{CommandOutput, DECLARATION, World};

const STORE: (&str, &str) = (settings::DSN, "postgres://broker@localhost/broker");

fn world() -> World {
    World::new(Behaviour::ready_after(1))
}

fn provision<'a>(rest: &[&'a str]) -> Vec<&'a str> {
    [&["provision"], &DECLARATION[..4], rest].concat()
}

#[test]
fn resource_is_declared_shown_listed_and_deleted() {
    let world = world();
    let id = world.declare();
    let text = id.to_string();
    world.settle(id);

    let got = world.run_command(&["get", &text, "--output=json"]).json();
    assert_eq!((&got["phase"], &got["terminal"]), (&json!("Ready"), &json!(false)));
    assert_eq!(got["parameters"], json!({"size": "small"}));
    assert_eq!(got["cluster_id"], json!("cluster-1"));

    let listed = world.run_command(&["list", "--output=json"]).json();
    assert_eq!(listed["resources"], json!([got]));
    let since = listed["watermark"].as_str().unwrap();
    let deleting = world.run_command(&["deprovision", &text, "--output=json"]).json();
    assert_eq!(deleting["phase"], json!("Deregistering"));
    let changed = world.run_command(&["list", "--updated-since", since, "--output=json"]).json();
    assert_eq!(changed["resources"], json!([deleting]));

    world.settle(id);
    let gone = world.run_command(&["get", &text, "--output=json"]).json();
    assert_eq!((&gone["phase"], &gone["composed"]), (&json!("Deleted"), &json!([])));
}

#[test]
fn list_filters_by_project_phase_and_time() {
    let world = world();
    world.declare();
    let count = |filters: &[&str]| {
        let printed = world.run_command(&[&["list", "--output=json"], filters].concat());
        printed.json()["resources"].as_array().unwrap().len()
    };
    assert_eq!(count(&[]), 1);
    assert_eq!(count(&["--phase=pending"]), 1);
    assert_eq!(count(&["--phase=Ready"]), 0);
    assert_eq!(count(&[DECLARATION[0]]), 1);
    assert_eq!(count(&["--project=00000000-0000-0000-0000-000000000009"]), 0);
    assert_eq!(count(&["--updated-since=2099-01-01T00:00:00Z"]), 0);
    assert_eq!(world.run_command(&["list", "--phase=Ready"]).out, "no resources\n");
}

#[test]
fn parameters_come_from_file_stdin_and_flags() {
    let world = world();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "size: small\ndisk: {gb: 10}\n").unwrap();
    let parameters = |printed: CommandOutput| printed.json()["parameters"].clone();
    let path = file.path().to_str().unwrap();
    let from_file = provision(&["--output=json", "--values", path, "--set", "disk.gb=20"]);
    assert_eq!(
        parameters(world.run_command(&from_file)),
        json!({"size": "small", "disk": {"gb": 20}})
    );
    let from_stdin = provision(&["--output=json", "--values=-"]);
    let printed = world.run_command_in(&[STORE], r#"{"size": "large"}"#, &from_stdin);
    assert_eq!(parameters(printed), json!({"size": "large"}));
}

#[test]
fn operator_verb_reports_its_operation() {
    let world = world();
    let id = world.declare();
    let text = id.to_string();
    let done =
        |arguments: &[&str]| world.run_command(&[arguments, &["--output=json"]].concat()).json();
    assert_eq!(done(&["pause", &text]), json!({"id": text, "done": "paused"}));
    assert_eq!(done(&["resume", &text]), json!({"id": text, "done": "resumed"}));
    assert_eq!(done(&["reconcile-now", &text]), json!({"id": text, "done": "reconcile_requested"}));
    let status = done(&["brake", "show"]);
    assert_eq!((&status["brakes"], &status["absent"]), (&json!([]), &json!([])));
    let cluster = status["cluster_id"].as_str().unwrap();
    let set = json!({"cluster_id": cluster, "project_id": null, "done": "brake_set"});
    assert_eq!(done(&["brake", "set"]), set);
    assert_eq!(done(&["brake", "show"])["brakes"][0]["absent"], json!(0));
    assert_eq!(done(&["brake", "release", cluster])["done"], json!("brake_released"));
    let other_cluster = world.run_command(&["brake", "release", "cluster-9"]).err;
    assert!(
        other_cluster.contains("cluster-9 is not the cluster of this broker"),
        "{other_cluster}"
    );
    let early_retry = world.run_command(&["retry", &text]);
    assert!(early_retry.err.starts_with("error[illegal_transition]"), "{}", early_retry.err);
    let nothing = json!({"id": text, "done": "no_dead_letter", "event": null});
    assert_eq!(done(&["redrive-events", &text]), nothing);
    done(&["deprovision", &text]);
    let abandoned = done(&["abandon", &text, "--reason=the cloud is gone"]);
    assert_eq!((&abandoned["phase"], &abandoned["abandoned"]), (&json!("Deleted"), &json!(true)));
    let scrubbed = json!({"id": text, "done": "audit_scrubbed", "lines": 1});
    assert_eq!(done(&["scrub-audit", &text]), scrubbed);
    assert_eq!(world.run_command(&["pause", &text]).out, format!("{text} is paused\n"));
}

/// A sweep counts eight losses in one Project; one of its resources stays absent.
#[test]
fn counted_brake_of_a_project_is_shown_and_released() {
    use broker_domain::ClusterId;
    use broker_ports::{Brake, Schedule};
    use broker_testkit::builders::{project, second};
    const PROJECT: &str = "00000000-0000-0000-0000-000000000001";
    let world = world();
    let id = world.declare();
    world.settle(id);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let brake = Brake::new(8, 9, second(60)).of_project(project(1));
        let cluster = ClusterId::new("cluster-1").unwrap();
        let by = crate::testing::operator().attribution().clone();
        world.store.set_brake(&cluster, &brake, &by).await.unwrap();
    });
    let bucket =
        world.cluster.objects().into_iter().find(|object| object.kind() == "Bucket").unwrap();
    let uid = world.cluster.object(&bucket).unwrap()["metadata"]["uid"].clone();
    let lost = format!("xr:{}", uid.as_str().unwrap());
    world.cluster.delete_in_background(&bucket);
    world.cluster.settle(5);

    assert_eq!(
        world.run_command(&["brake", "show"]).out,
        format!(
            "a brake is set on project {PROJECT}: the broker still applies new resources; \
             8 of 9 composite resources were lost, since 2023-11-14T22:14:20Z\n\
             1 composite resource is absent\n  \
             {id} of project {PROJECT}, Ready: {lost} is absent\n"
        )
    );
    let absent = json!([{"id": id.to_string(), "project_id": PROJECT, "phase": "Ready",
        "lost": lost}]);
    assert_eq!(
        world.run_command(&["brake", "show", "--output=json"]).json(),
        json!({"cluster_id": "cluster-1", "absent": absent, "unread": [],
            "brakes": [{"project_id": PROJECT, "absent": 8, "expected": 9,
                "since": "2023-11-14T22:14:20Z"}]})
    );

    let release = ["brake", "release", "cluster-1", DECLARATION[0], "--output=json"];
    assert_eq!(
        world.run_command(&release).json(),
        json!({"cluster_id": "cluster-1", "project_id": PROJECT, "done": "brake_released",
            "accepted": absent, "unread": []})
    );
    let shown = world.run_command(&["brake", "show", "--output=json"]).json();
    assert_eq!((&shown["brakes"], &shown["absent"]), (&json!([]), &absent));
}

#[test]
fn repeated_replace_prints_the_same_new_resource() {
    let world = world();
    let old = world.declare().to_string();
    let json =
        |arguments: &[&str]| world.run_command(&[arguments, &["--output=json"]].concat()).json();
    let new = json(&["replace", &old]);
    assert_ne!(new["id"], json!(old));
    assert_eq!(new["phase"], json!("Pending"));
    let torn_down = json(&["get", &old]);
    assert_eq!(torn_down["phase"], json!("Deregistering"));
    for key in ["project_id", "resource_id", "blueprint_version_id", "parameters", "on_failure"] {
        assert_eq!(new[key], torn_down[key], "{key}");
    }
    assert_eq!(json(&["replace", &old]), new);
    let lines = json(&["history", &old]);
    let last = lines["history"].as_array().unwrap().last().unwrap().clone();
    assert_eq!((&last["action"], &last["text"]), (&json!("replaced"), &new["id"]));
}

#[test]
fn history_shows_the_audit_oldest_first() {
    let world = world();
    let text = world.declare().to_string();
    world.run_command(&["pause", &text, "--actor=user:7f3a", "--correlation-id=ticket-9"]);
    world.run_command(&["resume", &text]);
    let shown = world.run_command(&["history", &text, "--output=json"]).json();
    assert_eq!(shown["id"], json!(text));
    let lines = shown["history"].as_array().unwrap();
    let actions: Vec<_> = lines.iter().map(|line| &line["action"]).collect();
    assert_eq!(actions, ["declared", "paused", "resumed"]);
    assert_eq!(lines[1]["actor"], json!("user:7f3a"));
    assert_eq!(lines[1]["correlation_id"], json!("ticket-9"));
    assert_eq!(lines[2]["actor"], json!("user:cli"));
    let correlation_id = lines[2]["correlation_id"].as_str().unwrap();
    assert!(correlation_id.starts_with("cli-"), "{correlation_id}");
    let table = world.run_command(&["history", &text]).out;
    assert_eq!(table.lines().count(), 4, "{table}");
}

#[test]
fn redrive_of_all_or_a_project_names_each_event() {
    let world = world();
    let id = world.declare();
    let event = dead_letter(&world);
    let run = |arguments: &[&str]| {
        world.run_command(&[&["redrive-events", "--output=json"], arguments].concat()).json()
    };
    let nothing = json!({"done": "events_redriven", "events": []});
    assert_eq!(run(&["--project=00000000-0000-0000-0000-000000000077"]), nothing);
    let reported = json!({"event_id": event, "reason": "410 Gone",
        "event_type": "broker.ProvisionedResourceRequested"});
    let named = json!({"id": id.to_string(), "event_id": event, "reason": "410 Gone",
        "event_type": "broker.ProvisionedResourceRequested"});
    assert_eq!(run(&["--all"]), json!({"done": "events_redriven", "events": [named]}));
    assert_eq!(run(&["--all"]), nothing);
    assert_eq!(dead_letter(&world), event);
    let skipped = json!({"id": id.to_string(), "done": "events_skipped", "event": reported});
    assert_eq!(run(&[&id.to_string(), "--skip"]), skipped);
}

/// Dead-letters the world's first event, as the relay does; returns its id.
fn dead_letter(world: &World) -> String {
    use broker_ports::{ClaimEvents, Outbox, PageSize};
    use broker_testkit::builders::worker;
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let request =
            ClaimEvents::new(worker("relay"), PageSize::MAX, std::time::Duration::from_secs(1));
        let events = world.store.claim_events(&request).await.unwrap();
        world.store.dead_letter_event(&events[0].claim, "410 Gone").await.unwrap();
        events[0].claim.event_id.to_string()
    })
}

#[test]
fn migrations_are_shown_after_each_command() {
    let world = world();
    let applied = |arguments: &[&str]| -> Vec<bool> {
        let printed =
            world.run_command(&[&["migrate"], arguments, &["--output=json"]].concat()).json();
        let migrations = printed["migrations"].as_array().unwrap().clone();
        migrations.iter().map(|migration| migration["applied_at"] != Value::Null).collect()
    };
    assert_eq!(applied(&["up"]), [true, true]);
    assert_eq!(applied(&["down", "--to=0"]), [false, false]);
    assert_eq!(applied(&["status"]), [true, false]);
    assert_eq!(
        world.run_command(&["migrate", "status"]).out,
        " VERSION  NAME    APPLIED\n 1        first   2023-11-14T22:13:21Z\n 2        second  pending\n"
    );
}

#[test]
fn migrate_sql_prints_the_schema_without_an_environment() {
    let world = world();
    let own = world.run_command_in(&[], "", &["migrate", "sql"]);
    assert_eq!((own.exit, own.out), (Exit::Success, broker_pg::migrate::plain_sql()));
    let reference = world.run_command_in(&[], "", &["migrate", "sql", "--reference"]);
    assert_eq!(reference.out, broker_pg::migrate::plain_sql_of_reference());
}

/// Splits a line into arguments; `·` is a space within one, and a declaration gets its references.
fn words(line: &str) -> Vec<String> {
    let mut words: Vec<_> = line.split(' ').map(|word| word.replace('·', " ")).collect();
    if words[0] == "provision" {
        words.splice(1..1, DECLARATION[..4].iter().map(|flag| (*flag).to_owned()));
    }
    words
}

#[track_caller]
fn assert_refused(world: &World, line: &str, expected: &str) {
    let exit = if expected.starts_with("error[usage]") { Exit::Usage } else { Exit::Error };
    let words = words(line);
    let printed = world.run_command(&words.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!((printed.exit, printed.err), (exit, format!("{expected}\n")), "{line}");
    assert_eq!(printed.out, "", "{line}");
}

const UUID: &str = "use a UUID that is not nil, such as 0198a8e2-5d9f-7c31-8a4e-0f6d2b9c1e57";
const WAIT: &str = "use a duration of more than zero and up to 7days, such as 30m";
const RESOURCES: &str = "use a whole number from 1 to 200";
const SEED: &str = "use a whole number from 0 to 4294967295";
const SPEED: &str = "use a number from 0.1 to 100, or max";

/// A line whose last value is invalid, its flag, and the allowed values.
const BAD_VALUES: &[(&str, &str, &str)] = &[
    ("get web-1", "<ID>", UUID),
    ("get 00000000-0000-0000-0000-000000000000", "<ID>", UUID),
    (
        "get ID --actor=jane@example.org",
        "--actor <ID>",
        "actor: holds '@'; use an opaque id of 1 to 128 visible ASCII characters without @",
    ),
    (
        "get ID --correlation-id=a·b",
        "--correlation-id <ID>",
        "correlation_id: holds ' '; use 1 to 128 visible ASCII characters without @",
    ),
    (
        "list --phase=Hibernating",
        "--phase <PHASE>",
        "use one of Pending, Provisioning, Enrolling, Ready, Failed, Deregistering, Deprovisioning, Deleted",
    ),
    ("list --project=1", "--project <ID>", UUID),
    (
        "list --updated-since=yesterday",
        "--updated-since <TIME>",
        "use an RFC 3339 time, such as 2026-09-21T13:33:20Z",
    ),
    (
        "list --watch --interval=1ms",
        "--interval <TIME>",
        "use a duration from 100ms to 10m, such as 2s",
    ),
    ("deprovision ID --wait --timeout=0s", "--timeout <TIME>", WAIT),
    ("deprovision ID --wait --timeout=8days", "--timeout <TIME>", WAIT),
    (
        "brake release ",
        "<CLUSTER>",
        "cluster_id: is not a uid; use 1 to 128 visible ASCII characters",
    ),
    ("migrate down --to=-1", "--to <VERSION>", "use the number of a migration, or 0"),
    (
        "run --log=loud,,=x",
        "--log <FILTER>",
        "use a level (error, warn, info, debug, trace) or TARGET=LEVEL, separated by commas",
    ),
    ("run --retention=1m", "--retention <TIME>", "use a duration of 1h or more, such as 90days"),
    ("provision --on-failure=delete", "--on-failure <POLICY>", "use retain or rollback"),
    (
        "provision --set=size=small --wait --for=Deleted",
        "--for <PHASE>",
        "use one of Pending, Provisioning, Enrolling, Ready",
    ),
    (
        "provision --request-id=a·b",
        "--request-id <ID>",
        "request_id: holds ' '; use 1 to 128 visible ASCII characters without @",
    ),
    ("demo --resources=0", "--resources <N>", RESOURCES),
    ("demo --resources=201", "--resources <N>", RESOURCES),
    ("demo --seed 4294967296", "--seed <N>", SEED),
    ("demo --speed -1", "--speed <X>", SPEED),
];

#[test]
fn bad_value_is_named_with_its_flag_and_allowed_values() {
    const ID: &str = "00000000-0000-0000-0000-000000000077";
    let world = world();
    for (line, flag, allowed) in BAD_VALUES {
        let line = line.replace(" ID", &format!(" {ID}"));
        let last = words(&line).pop().unwrap();
        let value = last.strip_prefix("--").and_then(|flag| flag.split_once('='));
        let value = value.map_or(last.as_str(), |(_, value)| value);
        let expected = format!("error[usage]: invalid value '{value}' for '{flag}': {allowed}");
        assert_refused(&world, &line, &expected);
    }
}

const MISSING: &str = "error[usage]: the following required arguments were not provided:";

/// Other invalid flags and files, with the exact error line.
#[test]
fn invalid_input_prints_one_error_line() {
    const ID: &str = "00000000-0000-0000-0000-000000000077";
    const NOT_AN_OBJECT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");
    let rows = [
        (
            "lst",
            "error[usage]: unrecognized subcommand 'lst'; tip: a similar subcommand exists: 'list'",
        ),
        ("get", &format!("{MISSING} <ID>")),
        (
            &format!("get {ID} --output=yaml"),
            "error[usage]: invalid value 'yaml' for '--output <FORMAT>' [possible values: human, json]",
        ),
        (
            &format!("get {ID}"),
            &format!(
                "error[provisioned_resource_not_found]: provisioned resource {ID} does not exist"
            ),
        ),
        ("list --interval=1s", &format!("{MISSING} --watch")),
        (&format!("deprovision {ID} --timeout=1s"), &format!("{MISSING} --wait")),
        ("provision --set=size=small --for=Ready", &format!("{MISSING} --wait")),
        (&format!("abandon {ID}"), &format!("{MISSING} --reason <TEXT>")),
        (
            &format!("abandon {ID} --reason="),
            "error[usage]: a value is required for '--reason <TEXT>' but none was supplied",
        ),
        (
            "provision --values=/nowhere/values.yaml",
            "error[file_unreadable]: cannot read /nowhere/values.yaml: No such file or directory (os error 2)",
        ),
        (
            &format!("provision --values {NOT_AN_OBJECT}"),
            "error[values_invalid]: --values: is not YAML: did not find expected <document start> at line 5, column 1",
        ),
        (
            "provision",
            "error[parameter_values_invalid]: parameter values are invalid: size: is required",
        ),
        (
            "demo --plain --json",
            "error[usage]: the argument '--plain' cannot be used with '--json'",
        ),
    ];
    let world = world();
    for (line, expected) in rows {
        assert_refused(&world, line, expected);
    }
}

#[test]
fn bad_environment_fails_each_command_that_reads_it() {
    let world = world();
    for command in [&["list"][..], &["migrate", "status"], &["run"]] {
        let printed = world.run_command_in(&[STORE, (settings::LISTEN, "8090")], "", command);
        let expected =
            "error[environment_invalid]: PLEXSPHERE_PROVISIONING_BROKER_LISTEN is \"8090\"; ";
        assert_eq!(printed.exit, Exit::Error, "{command:?}");
        assert!(printed.err.starts_with(expected), "{command:?}: {}", printed.err);
    }
    let printed = world.run_command_in(&[], "", &["list"]);
    let expected = "error[environment_invalid]: PLEXSPHERE_DSN is empty; ";
    assert!(printed.err.starts_with(expected), "{}", printed.err);
}
