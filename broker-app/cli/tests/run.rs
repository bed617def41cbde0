//! `run` as a process without a store: its log, its endpoints and its exit.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::ffi::OsStrExt;
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// The binary with exactly these environment variables.
fn broker(environment: &[(&str, &OsStr)], arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_provisioning-broker"));
    command.args(arguments).env_clear().envs(environment.iter().copied());
    command
}

fn run_to_end(environment: &[(&str, &OsStr)], arguments: &[&str]) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } =
        broker(environment, arguments).output().expect("the binary runs");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (status.code(), text(stdout), text(stderr))
}

/// A running replica and its log. Dropping it kills the process, even after a test failure.
struct RunningReplica {
    child: Child,
    log: BufReader<ChildStdout>,
}

impl RunningReplica {
    fn start() -> Self {
        let listen = [("PLEXSPHERE_PROVISIONING_BROKER_LISTEN", OsStr::new("127.0.0.1:0"))];
        let mut child = broker(&listen, &["run"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        let log = BufReader::new(child.stdout.take().expect("a pipe"));
        Self { child, log }
    }

    /// Reads the log up to the next line with this message.
    fn wait_for_log(&mut self, message: &str) -> Value {
        loop {
            let mut line = String::new();
            assert_ne!(
                self.log.read_line(&mut line).expect("a line"),
                0,
                "no {message:?} in the log"
            );
            let line: Value = serde_json::from_str(&line).expect("JSON");
            if line["message"] == message {
                return line;
            }
        }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("the replica runs");
    }
}

impl Drop for RunningReplica {
    fn drop(&mut self) {
        // The kill fails if the replica has already exited, which most tests expect.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn get(address: SocketAddr, path: &str) -> String {
    let mut connection = TcpStream::connect(address).expect("a connection");
    write!(connection, "GET {path} HTTP/1.1\r\nhost: broker\r\nconnection: close\r\n\r\n")
        .expect("the request is sent");
    let mut response = String::new();
    connection.read_to_string(&mut response).expect("a response");
    response
}

#[test]
fn replica_without_a_store_serves_until_a_signal() {
    for signal in [Signal::TERM, Signal::INT] {
        let mut replica = RunningReplica::start();
        let line = replica.wait_for_log("serving /livez, /readyz and /metrics");
        assert_eq!(line["level"], "INFO");
        let address: SocketAddr = line["address"].as_str().unwrap().parse().unwrap();
        replica.wait_for_log("PLEXSPHERE_DSN is empty: this replica is inert");

        let ready = get(address, "/readyz");
        assert!(ready.starts_with("HTTP/1.1 200 OK\r\n"), "{ready}");
        assert!(ready.ends_with("ok: inert, PLEXSPHERE_DSN is empty\n"), "{ready}");
        assert!(get(address, "/livez").ends_with("\r\n\r\nok\n"));
        let metrics = get(address, "/metrics");
        assert!(metrics.contains("content-type: text/plain; version=0.0.4"), "{metrics}");

        replica.signal(signal);
        replica.wait_for_log("received a stop signal");
        assert_eq!(replica.child.wait().unwrap().code(), Some(0));
        let mut errors = String::new();
        replica.child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
        assert_eq!(errors, "");
    }
}

#[test]
fn bad_environment_prints_one_line_and_exits_with_1() {
    let listen = ("PLEXSPHERE_PROVISIONING_BROKER_LISTEN", OsStr::new("127.0.0.1:0"));
    let (code, _, errors) =
        run_to_end(&[listen, ("KUBECONFIG", OsStr::from_bytes(b"\xff\xfe"))], &["run"]);
    let line = "error[environment_invalid]: KUBECONFIG is not UTF-8; use plain text\n";
    assert_eq!((code, errors.as_str()), (Some(1), line));
}

#[test]
fn command_without_environment_ignores_bad_variables() {
    let broken = [("PLEXSPHERE_DSN", OsStr::from_bytes(b"\xff"))];
    let (code, out, errors) = run_to_end(&broken, &["completions", "bash"]);
    assert_eq!((code, errors.as_str()), (Some(0), ""));
    assert!(out.contains("provisioning-broker"));
}
