//! Scripts for a Postgres of a run: one connection in the clear, one script at a time, no results. Enough to
//! furnish a database; a real driver would bring an async runtime into `cargo xtask`.

use std::{
    io::{self, BufReader, Read, Write},
    net::TcpStream,
    time::Duration,
};

use super::{error::ServersError, postgres::PostgresAccess};

/// A server that says nothing for longer than this is stuck.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Version 3.0 of the protocol.
const PROTOCOL: i32 = 196_608;

/// A session in one database.
pub struct Sql {
    stream: BufReader<TcpStream>,
}

/// A message of the server: its kind, and what is in it.
struct Message {
    kind: u8,
    body: Vec<u8>,
}

impl Sql {
    /// Connects as the superuser.
    ///
    /// # Errors
    ///
    /// When the server does not answer, or refuses.
    pub fn connect(access: &PostgresAccess, database: &str) -> Result<Self, ServersError> {
        let lost = |source| ServersError::Unanswered { request: "a connection".to_owned(), source };
        let stream = TcpStream::connect((access.host.as_str(), access.port)).map_err(lost)?;
        stream.set_read_timeout(Some(TIMEOUT)).map_err(lost)?;
        let mut session = Self { stream: BufReader::new(stream) };
        let mut startup = PROTOCOL.to_be_bytes().to_vec();
        for text in ["user", &access.user, "database", database] {
            startup.extend(text.as_bytes());
            startup.push(0);
        }
        startup.push(0);
        session.send(None, &startup).map_err(lost)?;
        session.until_ready("a connection", Some(&access.password))?;
        Ok(session)
    }

    /// Runs a script. Several statements are one transaction, unless they say otherwise.
    ///
    /// # Errors
    ///
    /// When a statement is refused, with the server's own words.
    pub fn run(&mut self, script: &str) -> Result<(), ServersError> {
        let mut body = script.as_bytes().to_vec();
        body.push(0);
        let request = script.lines().next().unwrap_or_default().to_owned();
        self.send(Some(b'Q'), &body)
            .map_err(|source| ServersError::Unanswered { request: request.clone(), source })?;
        self.until_ready(&request, None)
    }

    fn send(&mut self, kind: Option<u8>, body: &[u8]) -> io::Result<()> {
        let length = i32::try_from(body.len() + 4).map_err(io::Error::other)?;
        let mut message: Vec<u8> = kind.into_iter().collect();
        message.extend(length.to_be_bytes());
        message.extend(body);
        self.stream.get_mut().write_all(&message)
    }

    /// Reads until the server waits for the next command.
    fn until_ready(&mut self, request: &str, password: Option<&str>) -> Result<(), ServersError> {
        let lost = |source| ServersError::Unanswered { request: request.to_owned(), source };
        let mut refusal = None;
        loop {
            let message = match self.receive() {
                Ok(message) => message,
                // Who is not let in gets a reason, and then nothing any more.
                Err(error) => return Err(refusal.unwrap_or_else(|| lost(error))),
            };
            match (message.kind, password) {
                (b'R', Some(password)) if message.body.starts_with(&3_i32.to_be_bytes()) => {
                    let mut body = password.as_bytes().to_vec();
                    body.push(0);
                    self.send(Some(b'p'), &body).map_err(lost)?;
                }
                (b'E', _) => refusal = Some(refused(request, &message.body)),
                (b'Z', _) => return refusal.map_or(Ok(()), Err),
                _ => {}
            }
        }
    }

    fn receive(&mut self) -> io::Result<Message> {
        let mut head = [0; 5];
        self.stream.read_exact(&mut head)?;
        let [kind, length @ ..] = head;
        let length = u32::from_be_bytes(length).saturating_sub(4);
        let mut body = vec![0; usize::try_from(length).map_err(io::Error::other)?];
        self.stream.read_exact(&mut body)?;
        Ok(Message { kind, body })
    }
}

/// An error of the server: fields that each begin with a letter and end with a zero.
fn refused(request: &str, body: &[u8]) -> ServersError {
    let mut fields = body.split(|byte| *byte == 0);
    let message = fields.find_map(|field| field.strip_prefix(b"M"));
    let message = message.map(String::from_utf8_lossy).unwrap_or_default().into_owned();
    ServersError::RefusedScript { request: request.to_owned(), message }
}
