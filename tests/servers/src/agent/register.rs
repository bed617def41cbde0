//! Registration over HTTP: the agent's request, its terminal refusals, and a stub of the control plane that answers it.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

const TIMEOUT: Duration = Duration::from_secs(10);
const MAX_BODY_BYTES: u64 = 64 * 1024;

/// The body of `POST /v1/register`; every field is required.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Registration {
    /// The Project.
    pub project_id: String,
    /// The handle of the Resource.
    pub resource_handle: String,
    /// The token, in plain text.
    pub bootstrap_token: String,
    /// Random, and never used again.
    pub nonce: String,
    /// The public half of the identity.
    pub public_key: String,
}

/// A refusal that no retry changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The status of the answer.
    pub status: u16,
    /// The reason in its body.
    pub reason: String,
}

/// Why a registration did not succeed.
#[derive(Debug)]
pub(super) enum RegisterError {
    Refused(Refusal),
    NoAnswer,
}

/// A stub of the control plane on the loopback interface; it stops when dropped.
pub struct ControlPlane {
    address: SocketAddr,
    requests: Arc<AtomicUsize>,
    stops: Arc<AtomicBool>,
}

impl Refusal {
    /// Every terminal refusal of the control plane.
    pub const ALL: [(u16, &'static str); 10] = [
        (401, "unauthorized"),
        (403, "project_mismatch"),
        (403, "token_consumed"),
        (403, "token_expired"),
        (403, "token_revoked"),
        (403, "kind_mismatch"),
        (403, "nonce_collision"),
        (404, "resource_not_found"),
        (409, "conflict"),
        (422, "invalid_request"),
    ];

    /// A refusal of [`ALL`](Self::ALL), by its reason.
    ///
    /// # Panics
    ///
    /// When no refusal has the reason.
    #[must_use]
    pub fn of(reason: &str) -> Self {
        let (status, reason) = Self::ALL
            .into_iter()
            .find(|(_, known)| *known == reason)
            .unwrap_or_else(|| panic!("{reason} is not a refusal of the control plane"));
        Self { status, reason: reason.to_owned() }
    }
}

impl Refusal {
    /// An answer that is no refusal: the agent tries again.
    #[must_use]
    pub fn unavailable() -> Self {
        Self { status: 503, reason: "unavailable".to_owned() }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.status, self.reason)
    }
}

impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Registration({}, {}, …)", self.project_id, self.resource_handle)
    }
}

impl ControlPlane {
    /// Serves `POST /v1/register`. `enrol` gets each request with all five fields and a new nonce, consumes its token
    /// and answers with the id of the Node. `report` gets each refusal before the agent does.
    ///
    /// # Errors
    ///
    /// No port is free.
    pub fn start(
        enrol: impl Fn(&Registration) -> Result<String, Refusal> + Send + 'static,
        report: impl Fn(&Refusal) + Send + 'static,
    ) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).context("no port is free")?;
        let address = listener.local_addr().context("no address")?;
        let plane = Self { address, requests: Arc::default(), stops: Arc::default() };
        let (requests, stops) = (Arc::clone(&plane.requests), Arc::clone(&plane.stops));
        let nonces = Mutex::new(BTreeMap::new());
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if stops.load(Ordering::Relaxed) {
                    return;
                }
                requests.fetch_add(1, Ordering::Relaxed);
                // An agent that hangs up has its own timeout.
                let _ = answer(stream, |body| decide(body, &nonces, &enrol).inspect_err(&report));
            }
        });
        Ok(plane)
    }

    /// The base URL for agents.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// How many requests arrived.
    #[must_use]
    pub fn requests(&self) -> usize {
        self.requests.load(Ordering::Relaxed)
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        self.stops.store(true, Ordering::Relaxed);
        // Wakes the thread; if it has ended, there is nothing to wake.
        drop(TcpStream::connect(self.address));
    }
}

/// The checks that need no token come first, so that a malformed request consumes none.
fn decide(
    body: &[u8],
    nonces: &Mutex<BTreeMap<String, String>>,
    enrol: &impl Fn(&Registration) -> Result<String, Refusal>,
) -> Result<String, Refusal> {
    let invalid = || Refusal::of("invalid_request");
    let request: Registration = serde_json::from_slice(body).map_err(|_| invalid())?;
    let Registration { project_id, resource_handle, bootstrap_token, nonce, public_key } = &request;
    let fields = [project_id, resource_handle, bootstrap_token, nonce, public_key];
    let is_printable = |text: &str| text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    if fields.iter().any(|field| field.is_empty() || field.len() > 512 || !is_printable(field)) {
        return Err(invalid());
    }
    let mut nonces = nonces.lock().unwrap_or_else(PoisonError::into_inner);
    let known = nonces.entry(nonce.clone()).or_insert_with(|| public_key.clone());
    if known != public_key {
        return Err(Refusal::of("nonce_collision"));
    }
    enrol(&request)
}

fn answer(
    stream: TcpStream,
    decide: impl Fn(&[u8]) -> Result<String, Refusal>,
) -> std::io::Result<()> {
    stream.set_read_timeout(Some(TIMEOUT))?;
    let mut reader = BufReader::new(stream);
    let (start, body) = read_message(&mut reader)?;
    let (status, content) = if start.starts_with("POST /v1/register ") {
        match decide(&body) {
            Ok(node) => (201, json!({"node_id": node})),
            Err(Refusal { status, reason }) => (status, json!({"error": reason})),
        }
    } else {
        (404, json!({"error": "not_found"}))
    };
    let content = content.to_string();
    let head = format!("HTTP/1.1 {status} -\r\ncontent-length: {}\r\n", content.len());
    let stream = reader.get_mut();
    stream.write_all(format!("{head}connection: close\r\n\r\n{content}").as_bytes())
}

/// Sends a registration once and returns the id of the Node.
pub(super) fn post(base_url: &str, request: &Registration) -> Result<String, RegisterError> {
    let (status, body) = exchange(base_url, request).map_err(|_| RegisterError::NoAnswer)?;
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    match status {
        200 | 201 => {
            let node = body["node_id"].as_str().ok_or(RegisterError::NoAnswer)?;
            Ok(node.to_owned())
        }
        401 | 403 | 404 | 409 | 422 => {
            let reason = body["error"].as_str().unwrap_or("unknown").to_owned();
            Err(RegisterError::Refused(Refusal { status, reason }))
        }
        _ => Err(RegisterError::NoAnswer),
    }
}

/// Plain HTTP only: the stub has no certificate.
fn exchange(base_url: &str, request: &Registration) -> std::io::Result<(u16, Vec<u8>)> {
    let refuse = |what: &str| std::io::Error::other(what.to_owned());
    let rest = base_url.strip_prefix("http://").ok_or_else(|| refuse("not http"))?;
    let (authority, prefix) = rest.split_once('/').map_or((rest, ""), |(host, path)| (host, path));
    let prefix = if prefix.is_empty() {
        String::new()
    } else {
        format!("/{}", prefix.trim_end_matches('/'))
    };
    let body = serde_json::to_string(request)?;
    let mut stream = TcpStream::connect(authority)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    let head = format!(
        "POST {prefix}/v1/register HTTP/1.1\r\nhost: {authority}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())?;
    let (start, body) = read_message(&mut BufReader::new(stream))?;
    let status = start.split(' ').nth(1).and_then(|status| status.parse().ok());
    Ok((status.ok_or_else(|| refuse("no status"))?, body))
}

/// The start line and the body of a message with a `content-length`.
fn read_message(reader: &mut BufReader<TcpStream>) -> std::io::Result<(String, Vec<u8>)> {
    let mut start = String::new();
    reader.read_line(&mut start)?;
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 || line.trim().is_empty() {
            break;
        }
        let header = line.to_ascii_lowercase();
        if let Some(value) = header.strip_prefix("content-length:") {
            length = value.trim().parse::<u64>().unwrap_or(0).min(MAX_BODY_BYTES);
        }
    }
    let mut body = Vec::new();
    reader.take(length).read_to_end(&mut body)?;
    Ok((start, body))
}
