//! Starting the binary, reading its output, and calling its HTTP endpoint.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::JoinHandle;

use broker_tests::until;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::servers::processes::KilledOnDrop;

pub(crate) const DSN: &str = "PLEXSPHERE_DSN";
pub(crate) const API_URL: &str = "PLEXSPHERE_PROVISIONING_BROKER_API_URL";
pub(crate) const LISTEN: &str = "PLEXSPHERE_PROVISIONING_BROKER_LISTEN";
pub(crate) const INTERVAL: &str = "PLEXSPHERE_PROVISIONING_BROKER_RECONCILE_INTERVAL";
pub(crate) const EVENT_URL: &str = "PLEXSPHERE_PROVISIONING_BROKER_EVENT_URL";
pub(crate) const TOKEN_TTL: &str = "PLEXSPHERE_PROVISIONING_BROKER_TOKEN_TTL";
pub(crate) const KUBECONFIG: &str = "KUBECONFIG";

/// The binary that was built with the tests.
///
/// A hard link, because another test executes README's commands, which may replace the original.
pub(crate) fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        let tests = std::env::current_exe().unwrap();
        let built = tests.parent().and_then(Path::parent).unwrap().join("provisioning-broker");
        assert!(built.exists(), "{} is missing: run `cargo xtask test`", built.display());
        let own = tests.with_file_name("provisioning-broker-under-test");
        let new = tests.with_file_name(format!("provisioning-broker-{}", std::process::id()));
        fs::hard_link(&built, &new).unwrap();
        fs::rename(&new, &own).unwrap();
        own
    })
}

/// An environment with only the given variables, and the files that they name.
#[derive(Clone)]
pub(crate) struct Environment {
    variables: Vec<(String, String)>,
    files: Arc<TempDir>,
}

impl Environment {
    /// The variables for a store and for a cluster by the content of a kubeconfig.
    pub(crate) fn new(dsn: &str, kubeconfig: &str) -> Self {
        let files = Arc::new(tempfile::tempdir().unwrap());
        let file = files.path().join("kubeconfig");
        fs::write(&file, kubeconfig).unwrap();
        Self { variables: Vec::new(), files }
            .with(DSN, dsn)
            .with(KUBECONFIG, file.to_str().unwrap())
            .with(API_URL, "https://mesh.example.org")
            .with(LISTEN, "127.0.0.1:0")
            .with(INTERVAL, "500ms")
    }

    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.variables.retain(|(other, _)| other != name);
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(binary());
        let variables = self.variables.iter().map(|(name, value)| (name, value));
        command.args(arguments).env_clear().envs(variables).stdin(Stdio::null());
        command
    }

    pub(crate) async fn run(&self, arguments: &[&str]) -> CommandOutput {
        let ExitedProcess { code, log, errors } = self.start_with(arguments).ended().await;
        let text = |lines: Vec<String>| lines.into_iter().map(|line| line + "\n").collect();
        CommandOutput { code, out: text(log), err: text(errors) }
    }

    pub(crate) fn start(&self) -> Replica {
        self.start_with(&["run"])
    }

    pub(crate) fn start_with(&self, arguments: &[&str]) -> Replica {
        Replica::spawn(self.command(arguments), Arc::clone(&self.files))
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CommandOutput {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// A running replica and its output so far. The test kills it when it ends.
pub(crate) struct Replica {
    process: KilledOnDrop,
    log: LineReader,
    errors: LineReader,
    /// Keeps the files until no replica needs them.
    _files: Arc<TempDir>,
}

/// The lines of a stream. A thread reads them continuously, so that the pipe never fills up.
struct LineReader {
    lines: Arc<Mutex<Vec<String>>>,
    reader: JoinHandle<()>,
}

impl LineReader {
    fn new(stream: impl Read + Send + 'static) -> Self {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&lines);
        let read = move || {
            for line in BufReader::new(stream).lines().map_while(Result::ok) {
                kept.lock().unwrap().push(line);
            }
        };
        Self { lines, reader: std::thread::spawn(read) }
    }

    fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }

    fn end(self) -> Vec<String> {
        self.reader.join().unwrap();
        Arc::into_inner(self.lines).unwrap().into_inner().unwrap()
    }
}

pub(crate) struct ExitedProcess {
    pub(crate) code: Option<i32>,
    pub(crate) log: Vec<String>,
    pub(crate) errors: Vec<String>,
}

impl Replica {
    fn spawn(mut command: Command, files: Arc<TempDir>) -> Self {
        let mut child: Child =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let log = LineReader::new(child.stdout.take().unwrap());
        let errors = LineReader::new(child.stderr.take().unwrap());
        Self { process: KilledOnDrop(child), log, errors, _files: files }
    }

    pub(crate) async fn logged(&self, message: &str) -> Value {
        until(format_args!("{message:?} in the log"), || async {
            let lines = self.log.lines();
            let mut lines = lines.iter().map(|line| serde_json::from_str::<Value>(line).unwrap());
            lines.find(|line| line["message"] == message)
        })
        .await
    }

    pub(crate) async fn get(&self, path: &str) -> (u16, String) {
        let answer = self.answer(path).await;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split_whitespace().nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    pub(crate) async fn answer(&self, path: &str) -> String {
        let serving = self.logged("serving /livez, /readyz and /metrics").await;
        exchange(serving["address"].as_str().unwrap(), path).await.unwrap_or_else(|error| {
            panic!("{path}: {error}; {:?}; {:?}", self.errors.lines(), self.log.lines().last())
        })
    }

    pub(crate) async fn ready(&self) {
        until("the replica to be ready", || async {
            (self.get("/readyz").await == (200, "ok\n".to_owned())).then_some(())
        })
        .await;
    }

    pub(crate) async fn unready(&self) -> String {
        self.unready_because_of("").await
    }

    /// Waits until the replica is not ready for a reason that contains this word, and returns the reason.
    /// Other reasons, such as a late sweep on a busy machine, are ignored.
    pub(crate) async fn unready_because_of(&self, word: &str) -> String {
        until("the replica not to be ready", || async {
            let (status, why) = self.get("/readyz").await;
            (status == 503 && why.contains(word)).then_some(why)
        })
        .await
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process.0), signal).unwrap();
    }

    pub(crate) async fn ended(self) -> ExitedProcess {
        let Self { mut process, log, errors, _files } = self;
        let status = until("the replica to end", || {
            let ended = process.0.try_wait().unwrap();
            async move { ended }
        })
        .await;
        ExitedProcess { code: status.code(), log: log.end(), errors: errors.end() }
    }

    /// Stops the replica as a supervisor would.
    pub(crate) async fn stop(self) -> ExitedProcess {
        self.signal(Signal::TERM);
        let ended = self.ended().await;
        assert_eq!((ended.code, ended.errors.as_slice()), (Some(0), &[][..]));
        ended
    }
}

async fn exchange(address: &str, path: &str) -> std::io::Result<String> {
    let mut connection = TcpStream::connect(address).await?;
    let request = format!("GET {path} HTTP/1.1\r\nhost: broker\r\nconnection: close\r\n\r\n");
    connection.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer).await?;
    Ok(answer)
}
