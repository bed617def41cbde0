//! Scripts for a Postgres of a run: one connection in the clear, one script at a time, no results. Enough to
//! furnish a database; a real driver would bring an async runtime into `cargo xtask`.

use std::{
    io::{BufReader, Read, Write},
    net::TcpStream,
    time::Duration,
};

use anyhow::{Context as _, Result, bail};

use super::postgres::PostgresAccess;

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
    pub fn connect(access: &PostgresAccess, database: &str) -> Result<Self> {
        let stream = TcpStream::connect((access.host.as_str(), access.port))?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        let mut session = Self { stream: BufReader::new(stream) };
        let mut startup = PROTOCOL.to_be_bytes().to_vec();
        for text in ["user", &access.user, "database", database] {
            startup.extend(text.as_bytes());
            startup.push(0);
        }
        startup.push(0);
        session.send(None, &startup)?;
        session.until_ready(Some(&access.password)).context("no connection to Postgres")?;
        Ok(session)
    }

    /// Runs a script. Several statements are one transaction, unless they say otherwise.
    ///
    /// # Errors
    ///
    /// When a statement is refused, with the server's own words.
    pub fn run(&mut self, script: &str) -> Result<()> {
        let mut body = script.as_bytes().to_vec();
        body.push(0);
        let request = script.lines().next().unwrap_or_default();
        let sent = self.send(Some(b'Q'), &body).and_then(|()| self.until_ready(None));
        sent.with_context(|| format!("Postgres did not run {request:?}"))
    }

    fn send(&mut self, kind: Option<u8>, body: &[u8]) -> Result<()> {
        let length = i32::try_from(body.len() + 4)?;
        let mut message: Vec<u8> = kind.into_iter().collect();
        message.extend(length.to_be_bytes());
        message.extend(body);
        Ok(self.stream.get_mut().write_all(&message)?)
    }

    /// Reads until the server waits for the next command.
    fn until_ready(&mut self, password: Option<&str>) -> Result<()> {
        let mut refusal = None;
        loop {
            let message = match (self.receive(), &refusal) {
                (Ok(message), _) => message,
                // Who is not let in gets a reason, and then nothing any more.
                (Err(_), Some(reason)) => bail!("{reason}"),
                (Err(error), None) => return Err(error),
            };
            match (message.kind, password, &refusal) {
                (b'R', Some(password), _) if message.body.starts_with(&3_i32.to_be_bytes()) => {
                    let mut body = password.as_bytes().to_vec();
                    body.push(0);
                    self.send(Some(b'p'), &body)?;
                }
                (b'E', ..) => refusal = Some(reason(&message.body)),
                (b'Z', _, Some(reason)) => bail!("{reason}"),
                (b'Z', _, None) => return Ok(()),
                _ => {}
            }
        }
    }

    fn receive(&mut self) -> Result<Message> {
        let mut head = [0; 5];
        self.stream.read_exact(&mut head)?;
        let [kind, length @ ..] = head;
        let length = u32::from_be_bytes(length).saturating_sub(4);
        let mut body = vec![0; usize::try_from(length)?];
        self.stream.read_exact(&mut body)?;
        Ok(Message { kind, body })
    }
}

/// An error of the server: fields that each begin with a letter and end with a zero.
fn reason(body: &[u8]) -> String {
    let mut fields = body.split(|byte| *byte == 0);
    let message = fields.find_map(|field| field.strip_prefix(b"M"));
    message.map(String::from_utf8_lossy).unwrap_or_default().into_owned()
}
