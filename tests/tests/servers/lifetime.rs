//! Servers end with their run, also after a kill, and leave no process and no directory.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Command, Stdio},
};

use broker_test_servers::servers::{Run, SERVERS_VARIABLE};
use broker_tests::until;
use rustix::process::{Pid, Signal, kill_process};

use super::processes::{KilledOnDrop, processes_in, victim};

/// A private directory for runs. It is inside the surrounding run's directory, so that nothing is
/// left if this test is killed.
struct RunDirectory {
    directory: PathBuf,
    _run: Run,
}

impl RunDirectory {
    fn new() -> Self {
        let run = Run::start().unwrap();
        let directory = run.directory().join("runs");
        fs::create_dir(&directory).unwrap();
        Self { directory, _run: run }
    }

    /// A process that starts servers here and keeps them until it ends.
    fn runner(&self) -> KilledOnDrop {
        let mut command = victim(&["servers"]);
        KilledOnDrop(
            command.env("TMPDIR", &self.directory).env_remove(SERVERS_VARIABLE).spawn().unwrap(),
        )
    }

    async fn wait_until_nothing_is_left(&self) {
        until("all servers and directories to be gone", || async {
            let left = fs::read_dir(&self.directory).unwrap().count();
            (left == 0 && processes_in(&self.directory).is_empty()).then_some(())
        })
        .await;
    }
}

async fn first_line(process: &mut KilledOnDrop) -> String {
    let output = process.0.stdout.take().unwrap();
    let read = move || BufReader::new(output).lines().next().expect("it ended instead").unwrap();
    tokio::task::spawn_blocking(read).await.unwrap()
}

fn send(process: &KilledOnDrop, signal: Signal) {
    kill_process(Pid::from_child(&process.0), signal).unwrap();
}

#[tokio::test]
async fn run_ended_by_a_signal_leaves_nothing() {
    for signal in [Signal::KILL, Signal::INT, Signal::TERM, Signal::HUP] {
        let runs = RunDirectory::new();
        let mut runner = runs.runner();
        let directory = PathBuf::from(first_line(&mut runner).await);
        assert!(directory.starts_with(&runs.directory));
        assert!(processes_in(&directory).len() >= 4, "fewer processes than servers");
        // A test process ends with the run whose servers it uses.
        let mut user = victim(&["attach"])
            .env(SERVERS_VARIABLE, &directory)
            .spawn()
            .map(KilledOnDrop)
            .unwrap();
        first_line(&mut user).await;
        send(&runner, signal);
        runs.wait_until_nothing_is_left().await;
        until("the user of the servers to end", || {
            let ended = user.0.try_wait().unwrap();
            async move { ended }
        })
        .await;
    }
}

#[tokio::test]
async fn run_killed_during_its_start_leaves_nothing() {
    for server in ["initdb", "postgres", "etcd", "kube-apiserver", "kube-controller-manager"] {
        let runs = RunDirectory::new();
        let runner = runs.runner();
        until(format_args!("{server} to start"), || async {
            let mut entries = fs::read_dir(&runs.directory).unwrap().flatten();
            entries.any(|run| run.path().join(format!("{server}.log")).exists()).then_some(())
        })
        .await;
        send(&runner, Signal::KILL);
        runs.wait_until_nothing_is_left().await;
    }
}

/// `cargo xtask up` is an alias of `cargo run`, which replaces its process with the task: a signal to cargo reaches `up`.
#[tokio::test]
async fn up_ended_during_its_start_leaves_nothing() {
    for signal in [Signal::TERM, Signal::KILL] {
        let (runs, record) = (RunDirectory::new(), tempfile::tempdir().unwrap());
        let mut up = Command::new(env!("CARGO"));
        let up = up.args(["xtask", "up"]).current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
        let up = up.env("TMPDIR", &runs.directory).env("BROKER_UP_DIR", record.path());
        let up =
            KilledOnDrop(up.env_remove(SERVERS_VARIABLE).stdout(Stdio::null()).spawn().unwrap());
        until("the first server to start", || async {
            (!processes_in(&runs.directory).is_empty()).then_some(())
        })
        .await;
        send(&up, signal);
        runs.wait_until_nothing_is_left().await;
    }
}
