//! One connection through the proxy: assembles the client's messages to requests and the server's to
//! responses.

use std::{
    collections::{HashMap, VecDeque},
    future::pending,
    io,
    sync::{Mutex, PoisonError},
};

use bytes::{Bytes, BytesMut};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
    sync::Notify,
};

use super::{
    NoCannedResponse,
    message::{FirstMessage, Message, Messages},
};
use crate::proxy::script::{Decision, InterceptPoint, Request, Script};

/// Requests without a response yet. `None` is a lone `Sync`, with which pools test a connection: it gets a
/// response but is not a request.
type Pending = Mutex<VecDeque<Option<Request>>>;

/// Serves a client until either side, or the script, ends the connection.
pub(super) async fn serve(
    mut client: TcpStream,
    server: &(String, u16),
    script: &Script<NoCannedResponse>,
    silence: &Notify,
) -> io::Result<()> {
    let (client_read, mut client_write) = client.split();
    let mut from_client = Messages::new(client_read);
    let (first_message, first_bytes) = loop {
        match from_client.first_message().await? {
            None => return Ok(()),
            // The proxy must read the stream, so it refuses encryption. The connection is loopback.
            Some((FirstMessage::Encryption, _)) => client_write.write_all(b"N").await?,
            Some(first_message) => break first_message,
        }
    };
    let mut server = TcpStream::connect((server.0.as_str(), server.1)).await?;
    server.write_all(&first_bytes).await?;
    if first_message == FirstMessage::Cancel {
        return Ok(());
    }
    let (server_read, server_write) = server.split();
    let unanswered = Pending::default();
    // The end of either side ends the connection: the sockets are closed on return.
    tokio::select! {
        ended = forward_requests(from_client, server_write, &unanswered, script) => ended,
        ended = forward_responses(Messages::new(server_read), client_write, &unanswered, script) => ended,
        // The sockets stay open, and nothing reads them any more.
        () = silence.notified() => pending().await,
    }
}

/// Forwards requests from the client to the server.
async fn forward_requests(
    mut client: Messages<impl AsyncRead + Unpin>,
    mut server: impl AsyncWrite + Unpin,
    pending: &Pending,
    script: &Script<NoCannedResponse>,
) -> io::Result<()> {
    let mut assembler = RequestAssembler::default();
    while let Some(message) = client.next().await? {
        match assembler.add(&message) {
            Assembled::More => {}
            Assembled::Part => server.write_all(&assembler.take_bytes()).await?,
            Assembled::Sync => {
                pending.lock().unwrap_or_else(PoisonError::into_inner).push_back(None);
                server.write_all(&assembler.take_bytes()).await?;
            }
            Assembled::Request { verb, target } => {
                let request = script.receive(verb, target);
                match script.perform(InterceptPoint::BeforeForward, &request).await {
                    Decision::Continue => {}
                    Decision::Cut => return Ok(()),
                    Decision::Respond(never) => match never {},
                }
                // Registered before the server can respond.
                pending.lock().unwrap_or_else(PoisonError::into_inner).push_back(Some(request));
                server.write_all(&assembler.take_bytes()).await?;
            }
        }
    }
    Ok(())
}

/// Forwards responses from the server to the client.
async fn forward_responses(
    mut server: Messages<impl AsyncRead + Unpin>,
    mut client: impl AsyncWrite + Unpin,
    pending: &Pending,
    script: &Script<NoCannedResponse>,
) -> io::Result<()> {
    let mut buffered = BytesMut::new();
    while let Some(message) = server.next().await? {
        let request = pending.lock().unwrap_or_else(PoisonError::into_inner).front().cloned();
        // ReadyForQuery: the response is complete, and the request has taken effect.
        let complete = message.tag == b'Z';
        if complete {
            pending.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        }
        let Some(request) = request.flatten() else {
            client.write_all(&message.bytes).await?;
            continue;
        };
        buffered.extend_from_slice(&message.bytes);
        match message.tag {
            _ if complete => match script.perform(InterceptPoint::BeforeResponse, &request).await {
                Decision::Continue => {}
                Decision::Cut => return Ok(()),
                Decision::Respond(never) => match never {},
            },
            // CopyInResponse, CopyBothResponse: the server waits for the client.
            b'G' | b'W' => {}
            // A response without a rule is streamed.
            _ if !script.has_rule_for(InterceptPoint::BeforeResponse, &request) => {}
            _ => continue,
        }
        client.write_all(&buffered.split()).await?;
    }
    Ok(())
}

/// Assembles the messages of a request.
#[derive(Debug, Default)]
struct RequestAssembler {
    bytes: BytesMut,
    /// The SQL that the request prepares or executes.
    sql: Vec<String>,
    executes: bool,
    /// The SQL of the connection's prepared statements.
    prepared: HashMap<String, String>,
}

#[derive(Debug, PartialEq, Eq)]
enum Assembled {
    /// More messages must follow before anything can be sent.
    More,
    /// Must be sent now, but is not a request by itself.
    Part,
    /// A lone `Sync`.
    Sync,
    Request {
        verb: String,
        target: String,
    },
}

impl RequestAssembler {
    fn add(&mut self, message: &Message) -> Assembled {
        self.bytes.extend_from_slice(&message.bytes);
        match message.tag {
            b'Q' => {
                self.sql.push(message.query());
                self.executes = true;
                self.complete()
            }
            b'P' => {
                let (name, sql) = message.parse();
                self.prepared.insert(name, sql.clone());
                self.sql.push(sql);
                Assembled::More
            }
            b'B' => {
                let sql = self.prepared.get(&message.bind()).cloned().unwrap_or_default();
                if self.sql.last() != Some(&sql) {
                    self.sql.push(sql);
                }
                Assembled::More
            }
            b'E' => {
                self.executes = true;
                Assembled::More
            }
            b'D' | b'C' => Assembled::More,
            b'S' => self.complete(),
            // Flush, copied data, passwords, Terminate: forwarded unchanged.
            _ => Assembled::Part,
        }
    }

    fn complete(&mut self) -> Assembled {
        if self.sql.is_empty() {
            return Assembled::Sync;
        }
        let target = std::mem::take(&mut self.sql).join("; ");
        let executes = std::mem::take(&mut self.executes);
        let word = || target.split_whitespace().next().unwrap_or_default().trim_end_matches(';');
        let verb = if executes { word().to_uppercase() } else { "PREPARE".to_owned() };
        Assembled::Request { verb, target }
    }

    fn take_bytes(&mut self) -> Bytes {
        self.bytes.split().freeze()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(tag: u8, body: &str) -> Message {
        let mut bytes = BytesMut::new();
        bytes.extend_from_slice(&[tag, 0, 0, 0, 0]);
        bytes.extend_from_slice(body.as_bytes());
        Message { tag, bytes: bytes.freeze() }
    }

    fn request(verb: &str, target: &str) -> Assembled {
        Assembled::Request { verb: verb.to_owned(), target: target.to_owned() }
    }

    #[test]
    fn prepared_statement_is_recognised_when_executed() {
        let mut assembler = RequestAssembler::default();
        let sql = "INSERT INTO t VALUES ($1)";
        assert_eq!(assembler.add(&message(b'P', &format!("s1\0{sql}\0"))), Assembled::More);
        assert_eq!(assembler.add(&message(b'D', "Ss1\0")), Assembled::More);
        assert_eq!(assembler.add(&message(b'S', "")), request("PREPARE", sql));
        assert_eq!(assembler.add(&message(b'B', "\0s1\0")), Assembled::More);
        assert_eq!(assembler.add(&message(b'E', "\0")), Assembled::More);
        assert_eq!(assembler.add(&message(b'S', "")), request("INSERT", sql));
    }

    #[test]
    fn flush_sends_messages_without_ending_the_request() {
        let mut assembler = RequestAssembler::default();
        assembler.add(&message(b'P', "\0SELECT 1\0"));
        assert_eq!(assembler.add(&message(b'H', "")), Assembled::Part);
        assembler.add(&message(b'B', "\0\0"));
        assembler.add(&message(b'E', "\0"));
        assert_eq!(assembler.add(&message(b'S', "")), request("SELECT", "SELECT 1"));
    }
}
