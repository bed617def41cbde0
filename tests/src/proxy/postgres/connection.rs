//! One connection through the proxy: gathers the client's messages into requests and the server's into
//! answers.

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
    NoAnswer,
    message::{Message, Messages, Opening},
};
use crate::proxy::script::{Moment, Request, Script, Verdict};

/// Unanswered requests. `None` is a lone `Sync`: pools send one at any time to test a connection, so it is
/// answered but is not a request.
type Pending = Mutex<VecDeque<Option<Request>>>;

/// Serves a client until either side, or the script, ends the connection.
pub(super) async fn serve(
    mut client: TcpStream,
    server: &(String, u16),
    script: &Script<NoAnswer>,
    silence: &Notify,
) -> io::Result<()> {
    let (client_read, mut client_write) = client.split();
    let mut from_client = Messages::new(client_read);
    let (opening, greeting) = loop {
        match from_client.opening().await? {
            None => return Ok(()),
            // The proxy must read the stream, so it refuses encryption. The connection is loopback.
            Some((Opening::Encryption, _)) => client_write.write_all(b"N").await?,
            Some(opening) => break opening,
        }
    };
    let mut server = TcpStream::connect((server.0.as_str(), server.1)).await?;
    server.write_all(&greeting).await?;
    if opening == Opening::Cancel {
        return Ok(());
    }
    let (server_read, server_write) = server.split();
    let unanswered = Pending::default();
    // Whichever side ends first ends both: the sockets are closed on return.
    tokio::select! {
        ended = ask(from_client, server_write, &unanswered, script) => ended,
        ended = answer(Messages::new(server_read), client_write, &unanswered, script) => ended,
        // The sockets stay open, and nothing reads them any more.
        () = silence.notified() => pending().await,
    }
}

/// Forwards requests from the client to the server.
async fn ask(
    mut client: Messages<impl AsyncRead + Unpin>,
    mut server: impl AsyncWrite + Unpin,
    pending: &Pending,
    script: &Script<NoAnswer>,
) -> io::Result<()> {
    let mut gathering = Gathering::default();
    while let Some(message) = client.next().await? {
        match gathering.add(&message) {
            Gathered::More => {}
            Gathered::Part => server.write_all(&gathering.take_bytes()).await?,
            Gathered::Sync => {
                pending.lock().unwrap_or_else(PoisonError::into_inner).push_back(None);
                server.write_all(&gathering.take_bytes()).await?;
            }
            Gathered::Request { verb, target } => {
                let request = script.receive(verb, target);
                match script.perform(Moment::BeforeForward, &request).await {
                    Verdict::Continue => {}
                    Verdict::Cut => return Ok(()),
                    Verdict::Answer(never) => match never {},
                }
                // Registered before the server can answer.
                pending.lock().unwrap_or_else(PoisonError::into_inner).push_back(Some(request));
                server.write_all(&gathering.take_bytes()).await?;
            }
        }
    }
    Ok(())
}

/// Forwards answers from the server to the client.
async fn answer(
    mut server: Messages<impl AsyncRead + Unpin>,
    mut client: impl AsyncWrite + Unpin,
    pending: &Pending,
    script: &Script<NoAnswer>,
) -> io::Result<()> {
    let mut kept = BytesMut::new();
    while let Some(message) = server.next().await? {
        let request = pending.lock().unwrap_or_else(PoisonError::into_inner).front().cloned();
        // ReadyForQuery: the answer is complete, and the request has taken effect.
        let complete = message.tag == b'Z';
        if complete {
            pending.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        }
        let Some(request) = request.flatten() else {
            client.write_all(&message.bytes).await?;
            continue;
        };
        kept.extend_from_slice(&message.bytes);
        match message.tag {
            _ if complete => match script.perform(Moment::BeforeAnswer, &request).await {
                Verdict::Continue => {}
                Verdict::Cut => return Ok(()),
                Verdict::Answer(never) => match never {},
            },
            // CopyInResponse, CopyBothResponse: the server waits for the client.
            b'G' | b'W' => {}
            // An answer that no rule concerns is streamed.
            _ if !script.concerns(Moment::BeforeAnswer, &request) => {}
            _ => continue,
        }
        client.write_all(&kept.split()).await?;
    }
    Ok(())
}

/// The messages of a request that is not complete yet.
#[derive(Debug, Default)]
struct Gathering {
    bytes: BytesMut,
    /// The SQL that it prepares or executes.
    sql: Vec<String>,
    executes: bool,
    /// The SQL of the connection's prepared statements.
    prepared: HashMap<String, String>,
}

#[derive(Debug, PartialEq, Eq)]
enum Gathered {
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

impl Gathering {
    fn add(&mut self, message: &Message) -> Gathered {
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
                Gathered::More
            }
            b'B' => {
                let sql = self.prepared.get(&message.bind()).cloned().unwrap_or_default();
                if self.sql.last() != Some(&sql) {
                    self.sql.push(sql);
                }
                Gathered::More
            }
            b'E' => {
                self.executes = true;
                Gathered::More
            }
            b'D' | b'C' => Gathered::More,
            b'S' => self.complete(),
            // Flush, copied data, passwords, Terminate: forwarded unchanged.
            _ => Gathered::Part,
        }
    }

    fn complete(&mut self) -> Gathered {
        if self.sql.is_empty() {
            return Gathered::Sync;
        }
        let target = std::mem::take(&mut self.sql).join("; ");
        let executes = std::mem::take(&mut self.executes);
        let word = || target.split_whitespace().next().unwrap_or_default().trim_end_matches(';');
        let verb = if executes { word().to_uppercase() } else { "PREPARE".to_owned() };
        Gathered::Request { verb, target }
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

    fn request(verb: &str, target: &str) -> Gathered {
        Gathered::Request { verb: verb.to_owned(), target: target.to_owned() }
    }

    #[test]
    fn prepared_statement_is_recognised_when_executed() {
        let mut gathering = Gathering::default();
        let sql = "INSERT INTO t VALUES ($1)";
        assert_eq!(gathering.add(&message(b'P', &format!("s1\0{sql}\0"))), Gathered::More);
        assert_eq!(gathering.add(&message(b'D', "Ss1\0")), Gathered::More);
        assert_eq!(gathering.add(&message(b'S', "")), request("PREPARE", sql));
        assert_eq!(gathering.add(&message(b'B', "\0s1\0")), Gathered::More);
        assert_eq!(gathering.add(&message(b'E', "\0")), Gathered::More);
        assert_eq!(gathering.add(&message(b'S', "")), request("INSERT", sql));
    }

    #[test]
    fn flush_sends_messages_without_ending_the_request() {
        let mut gathering = Gathering::default();
        gathering.add(&message(b'P', "\0SELECT 1\0"));
        assert_eq!(gathering.add(&message(b'H', "")), Gathered::Part);
        gathering.add(&message(b'B', "\0\0"));
        gathering.add(&message(b'E', "\0"));
        assert_eq!(gathering.add(&message(b'S', "")), request("SELECT", "SELECT 1"));
    }
}
