//! The demo through the built binary: its piped output and its exit codes.

use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn run_broker(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_provisioning-broker"))
        .args(arguments)
        .output()
        .expect("the binary runs")
}

fn text(output: Vec<u8>) -> String {
    String::from_utf8(output).expect("UTF-8")
}

/// Runs the demo at maximum speed; returns its output.
#[track_caller]
fn demo(arguments: &[&str]) -> String {
    let output = run_broker(&[&["demo", "--speed", "max"], arguments].concat());
    let errors = text(output.stderr);
    assert!(output.status.success() && errors.is_empty(), "{}: {errors}", output.status);
    text(output.stdout)
}

fn json(arguments: &[&str]) -> Vec<Value> {
    let output = demo(&[&["--json"], arguments].concat());
    output.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

fn of_type<'a>(lines: &'a [Value], wanted: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["type"] == wanted).collect()
}

#[test]
fn six_scenarios_end_as_expected() {
    let output = demo(&[]);
    let ends = [
        "web-1        Ready           Pending -> Provisioning -> Enrolling -> Ready",
        "bucket-1     Ready           Pending -> Provisioning -> Ready",
        "database-1   Ready           Pending -> Provisioning -> Enrolling -> Ready",
        "gpu-1        Deleted         Pending -> Provisioning -> Failed -> Deregistering -> Deprovisioning -> Deleted",
        "edge-1       Ready           Pending -> Provisioning -> Enrolling -> Ready",
        "batch-1      Deleted         Pending -> Provisioning -> Enrolling -> Ready -> Deregistering -> Deprovisioning -> Deleted",
        "4 Ready, 2 Deleted; 16 events.",
    ];
    for end in ends {
        assert_eq!(output.lines().filter(|line| *line == end).count(), 1, "{end}\n{output}");
    }
    assert!(output.ends_with(
        "Every event was published once and in order, deleted resources left no objects, and a last sweep found \
         no work.\n"
    ));
}

#[test]
fn seed_repeats_a_run_byte_for_byte() {
    for format in ["--plain", "--json"] {
        assert_eq!(demo(&[format, "--seed", "7"]), demo(&[format, "--seed", "7"]), "{format}");
    }
    let ids = |seed| -> Vec<String> {
        let lines = json(&["--seed", seed]);
        let outcomes = of_type(&lines, "outcome").into_iter();
        outcomes.map(|line| line["provisioned_resource_id"].as_str().unwrap().to_owned()).collect()
    };
    let (seven, eight) = (ids("7"), ids("8"));
    assert_eq!((seven.len(), eight.len()), (6, 6));
    assert!(seven.iter().all(|id| !eight.contains(id)));
}

#[test]
fn json_keys_of_every_type_are_pinned() {
    let lines = json(&[]);
    let keys = |wanted| -> Vec<&String> {
        of_type(&lines, wanted)[0].as_object().unwrap().keys().collect()
    };
    assert_eq!(
        keys("phase"),
        ["elapsed_ms", "from", "note", "provisioned_resource_id", "resource", "to", "type"]
    );
    assert_eq!(keys("event"), ["elapsed_ms", "event", "resource", "type"]);
    assert_eq!(keys("namespace"), ["elapsed_ms", "project", "type"]);
    assert_eq!(keys("explanation"), ["elapsed_ms", "explanation", "resource", "type"]);
    assert_eq!(
        keys("outcome"),
        [
            "events",
            "node_live",
            "objects_left",
            "path",
            "phase",
            "provisioned_resource_id",
            "resource",
            "type",
            "xr_name"
        ]
    );
    let types = ["phase", "event", "namespace", "explanation", "outcome"];
    let known: usize = types.iter().map(|wanted| of_type(&lines, wanted).len()).sum();
    assert_eq!(known, lines.len());
}

#[test]
fn closed_pipe_is_not_an_error() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_provisioning-broker"))
        .args(["demo", "--speed", "max", "--resources", "30"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(text(output.stderr), "");
}

#[test]
fn missing_command_prints_help() {
    let nothing = run_broker(&[]);
    assert_eq!(nothing.status.code(), Some(2));
    assert!(text(nothing.stderr).contains("Usage: provisioning-broker"));
}
