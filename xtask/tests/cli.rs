//! The binary as a person meets it: exit codes, the one line of an error, and a cache that two runs
//! share and a killed run does not spoil. Scripts stand in for Go and Postgres.

#![expect(clippy::unwrap_used, reason = "to a test every failure is the same")]

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread;

/// A machine of a test's own making: its search path holds only what the test puts there.
struct Machine {
    root: tempfile::TempDir,
}

impl Machine {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        // Temporary directories are closed to others, and root's cache may not be.
        fs::set_permissions(root.path(), Permissions::from_mode(0o755)).unwrap();
        fs::create_dir(root.path().join("bin")).unwrap();
        Self { root }
    }

    fn path(&self, relative: &str) -> PathBuf {
        self.root.path().join(relative)
    }

    /// Written by a shell: a file that this process has open for writing cannot be executed, and a
    /// test beside this one may have just forked with it.
    fn put(&self, relative: &str, script: &str) {
        let written = Command::new("sh")
            .args(["-c", r#"mkdir -p "$(dirname "$0")" && printf '#!/bin/sh\n%s\n' "$1" > "$0" && chmod 755 "$0""#])
            .arg(self.path(relative))
            .arg(script)
            .status()
            .unwrap();
        assert!(written.success());
    }

    fn put_postgres(&self) {
        self.put("bin/initdb", "true");
        self.put("bin/postgres", "echo 'postgres (PostgreSQL) 15.1'");
    }

    /// A compiler that counts its runs and writes to the path after `-o`.
    fn put_go(&self) {
        self.put(
            "bin/go",
            r#"[ "$1" = env ] && exec echo go1.26.0; echo run >> "$0.runs"; while [ "$1" != -o ]; do shift; done; echo binary > "$2""#,
        );
    }

    fn compiler_runs(&self) -> usize {
        fs::read_to_string(self.path("bin/go.runs")).unwrap_or_default().lines().count()
    }

    fn xtask(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
        command
            .args(arguments)
            .current_dir(self.root.path())
            .env("PATH", self.path("bin"))
            .env("BROKER_CACHE_DIR", self.path("cache"))
            .env("BROKER_CLOUD_INIT_SCHEMA", env!("CARGO_BIN_EXE_xtask"))
            .env("RUST_BACKTRACE", "1")
            .env_remove("KUBEBUILDER_ASSETS")
            .env_remove("BROKER_POSTGRES");
        command
    }

    /// What stands in the cache, without the logs.
    fn cached(&self) -> Vec<String> {
        let entries = fs::read_dir(self.path("cache")).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.filter(|name| name != "logs").collect();
        names.sort();
        names
    }
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[track_caller]
fn assert_one_line(output: &Output, beginning: &str) {
    let text = stderr(output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.starts_with(beginning), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
}

#[test]
fn every_command_has_help() {
    for task in ["setup", "test", "lint", "tidy", "docs"] {
        let output = Machine::new().xtask(&[task, "--help"]).output().unwrap();
        assert!(output.status.success(), "{task}");
        let usage = format!("Usage: cargo xtask {task}");
        assert!(String::from_utf8_lossy(&output.stdout).contains(&usage), "{task}");
    }
}

#[test]
fn bad_usage_is_exit_code_2() {
    let output = Machine::new().xtask(&["test", "--teir", "unit"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn without_go_one_line_says_what_is_missing() {
    let machine = Machine::new();
    machine.put_postgres();
    let output = machine.xtask(&["setup"]).output().unwrap();
    assert_one_line(
        &output,
        "error: missing etcd 3.6.8, kube-apiserver 1.36.3, kube-controller-manager 1.36.3: ",
    );
    assert!(!machine.path("cache").exists());
}

#[test]
fn without_postgres_and_apt_one_line_says_what_is_missing() {
    let machine = Machine::new();
    for name in ["etcd", "kube-apiserver", "kube-controller-manager"] {
        machine.put(&format!("assets/{name}"), "true");
    }
    let output = machine
        .xtask(&["setup"])
        .env("KUBEBUILDER_ASSETS", machine.path("assets"))
        .env("BROKER_POSTGRES", "package")
        .output()
        .unwrap();
    assert_one_line(
        &output,
        "error: no Postgres 15 or newer on PATH or under /usr/lib/postgresql, and ",
    );
}

#[test]
fn a_package_that_cannot_be_fetched_is_one_line_too() {
    let machine = Machine::new();
    for name in ["etcd", "kube-apiserver", "kube-controller-manager"] {
        machine.put(&format!("assets/{name}"), "true");
    }
    machine.put("bin/apt-get", "echo 'E: no network'; exit 100");
    machine.put("bin/apt-cache", "true");
    machine.put("bin/dpkg-deb", "true");
    let output = machine
        .xtask(&["setup"])
        .env("KUBEBUILDER_ASSETS", machine.path("assets"))
        .env("BROKER_POSTGRES", "package")
        .output()
        .unwrap();
    assert_one_line(
        &output,
        "error: no Postgres 15 or newer on PATH or under /usr/lib/postgresql, and ",
    );
    assert!(stderr(&output).contains("fetching the package lists failed (exit status: 100)"));
    assert!(
        machine
            .cached()
            .iter()
            .all(|name| Path::new(name).extension().is_some_and(|end| end == "lock"))
    );
}

#[test]
fn a_variable_that_means_nothing_is_named_with_what_is_allowed() {
    let output = Machine::new().xtask(&["setup"]).env("BROKER_POSTGRES", "yes").output().unwrap();
    assert_one_line(
        &output,
        "error: BROKER_POSTGRES is \"yes\": leave it unset, or set it to `package`",
    );
}

#[test]
fn a_go_that_is_too_old_is_said_to_be_so_before_anything_is_built() {
    let machine = Machine::new();
    machine.put_postgres();
    machine.put("bin/go", "echo go1.19.8");
    let output = machine.xtask(&["setup"]).output().unwrap();
    assert_one_line(
        &output,
        "error: missing etcd 3.6.8, kube-apiserver 1.36.3, kube-controller-manager 1.36.3, and go1.19.8 is too old",
    );
}

#[test]
fn two_runs_at_once_build_each_binary_once_and_a_third_builds_none() {
    let machine = Machine::new();
    machine.put_postgres();
    machine.put_go();
    let set_up = || machine.xtask(&["setup"]).output().unwrap();
    let outputs = thread::scope(|scope| {
        [scope.spawn(set_up), scope.spawn(set_up)].map(|run| run.join().unwrap())
    });
    for output in outputs.iter().chain([&set_up()]) {
        assert!(output.status.success(), "{}", stderr(output));
        assert_eq!(String::from_utf8_lossy(&output.stdout).lines().count(), 5);
    }
    assert_eq!(machine.compiler_runs(), 3);
}

#[test]
fn a_run_that_was_killed_in_a_build_leaves_nothing_half_done() {
    let machine = Machine::new();
    machine.put_postgres();
    // Writes half a binary and then kills the run that called it.
    machine
        .put("bin/go", r#"[ "$1" = env ] && exec echo go1.26.0; while [ "$1" != -o ]; do shift; done; echo half > "$2"; kill -9 $PPID"#);
    let killed = machine.xtask(&["setup"]).status().unwrap();
    assert_eq!(killed.code(), None);
    assert!(
        machine.cached().iter().any(|name| name.contains(".partial-")),
        "{:?}",
        machine.cached()
    );

    machine.put_go();
    let output = machine.xtask(&["setup"]).output().unwrap();

    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(machine.compiler_runs(), 3);
    assert!(
        !machine.cached().iter().any(|name| name.contains(".partial-")),
        "{:?}",
        machine.cached()
    );
}

#[test]
fn a_forbidden_dependency_makes_tidy_fail_with_both_names() {
    let machine = Machine::new();
    let write = |path: &str, text: &str| {
        let path = machine.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("Cargo.toml", "[workspace]\nresolver = \"3\"\nmembers = [\"broker-app\", \"sqlx\"]\n");
    for (name, dependencies) in [("broker-app", "sqlx = { path = \"../sqlx\" }\n"), ("sqlx", "")] {
        let manifest = format!(
            "[package]\nname = \"{name}\"\nversion = \"1.0.0\"\n\n[dependencies]\n{dependencies}"
        );
        write(&format!("{name}/Cargo.toml"), &manifest);
        write(&format!("{name}/src/lib.rs"), "//! A crate.\n");
    }
    let path = std::env::join_paths([Path::new("/usr/bin"), Path::new("/bin")]).unwrap();
    let cargo = Path::new(env!("CARGO"));
    let mut tidy = machine.xtask(&["tidy"]);
    // `cargo tree` asks the compiler, too.
    tidy.env("PATH", path).env("CARGO", cargo).env("RUSTC", cargo.with_file_name("rustc"));
    let output = tidy.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(1), "{text}{}", stderr(&output));
    let line = "broker-app/Cargo.toml:6: [edges] broker-app must not depend on sqlx — remove it: ";
    assert!(text.lines().any(|found| found.starts_with(line)), "{text}{}", stderr(&output));
}
