//! The built binary: replicas in their own processes, and an operator's commands.

use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::Value;

use crate::failure::OrFail;

/// The sweep interval: short, because some changes produce no hint.
const SWEEP: &str = "1s";

/// The binary's environment.
#[derive(Debug, Clone)]
pub(super) struct Environment {
    pub(super) dsn: String,
    pub(super) kubeconfig: PathBuf,
}

/// A running replica. Dropping it kills the process.
#[derive(Debug)]
pub struct Replica {
    child: Child,
}

impl Replica {
    pub(super) fn start(environment: &Environment, directory: &Path) -> Self {
        static STARTED: AtomicU64 = AtomicU64::new(1);
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let log = directory.join(format!("replica-{number}.log"));
        let output = File::create(&log).or_fail("cannot create a log for the replica");
        let errors = output.try_clone().or_fail("cannot create a log for the replica");
        let child = command(environment)
            .args(["run", "--log", "info"])
            .stdout(output)
            .stderr(errors)
            .spawn()
            .or_fail("the replica does not start");
        Self { child }
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a command of the binary and returns its standard output.
pub(super) async fn run_text(environment: &Environment, arguments: &[&OsStr]) -> String {
    let mut command = command(environment);
    command.args(arguments);
    let command_line = arguments.join(OsStr::new(" ")).to_string_lossy().into_owned();
    let output = tokio::task::spawn_blocking(move || command.output()).await;
    let output = output.or_fail(&command_line).or_fail(&command_line);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command_line}: {}: {errors}", output.status);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Runs a command with JSON output and parses its last line.
pub(super) async fn run_json(environment: &Environment, arguments: &[&OsStr]) -> Value {
    let json = ["--output", "json"].map(OsStr::new);
    let text = run_text(environment, &[arguments, &json].concat()).await;
    serde_json::from_str(text.lines().last().unwrap_or_default()).or_fail("the output is not JSON")
}

fn command(environment: &Environment) -> Command {
    let Environment { dsn, kubeconfig } = environment;
    let mut command = Command::new(binary());
    command
        .env_clear()
        .env("PLEXSPHERE_DSN", dsn)
        .env("KUBECONFIG", kubeconfig)
        .env("PLEXSPHERE_PROVISIONING_BROKER_API_URL", "https://mesh.example.org")
        .env("PLEXSPHERE_PROVISIONING_BROKER_LISTEN", "127.0.0.1:0")
        .env("PLEXSPHERE_PROVISIONING_BROKER_RECONCILE_INTERVAL", SWEEP)
        .stdin(Stdio::null());
    command
}

/// The path of the binary, which cargo builds with the workspace's tests.
fn binary() -> PathBuf {
    let test = std::env::current_exe().or_fail("cannot read the test's own path");
    let built =
        test.parent().and_then(Path::parent).map(|directory| directory.join("provisioning-broker"));
    let built = built.filter(|path| path.is_file());
    built.unwrap_or_else(|| panic!("provisioning-broker is not built: use `cargo xtask test`"))
}
