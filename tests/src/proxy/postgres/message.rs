//! The subset of Postgres' protocol that the proxy parses.

use std::io;

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};

/// A longer message means that the parser has lost synchronisation.
const LIMIT: usize = 256 << 20;

const CANCEL_REQUEST: u32 = 80_877_102;
const SSL_REQUEST: u32 = 80_877_103;
const GSS_REQUEST: u32 = 80_877_104;

/// The first message of a client, without a tag.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FirstMessage {
    /// `SSLRequest`.
    Encryption,
    /// `CancelRequest`.
    Cancel,
    /// `StartupMessage`.
    Login,
}

/// A raw message.
#[derive(Debug, Clone)]
pub(super) struct Message {
    pub(super) tag: u8,
    pub(super) bytes: Bytes,
}

impl Message {
    /// The bytes after tag and length.
    fn body(&self) -> &[u8] {
        &self.bytes[5..]
    }

    /// The n-th string at the beginning of the body.
    fn string(&self, n: usize) -> String {
        let bytes = self.body().split(|byte| *byte == 0).nth(n).unwrap_or_default();
        String::from_utf8_lossy(bytes).into_owned()
    }

    /// `Query`: the SQL.
    pub(super) fn query(&self) -> String {
        self.string(0)
    }

    /// `Parse`: the statement's name and SQL.
    pub(super) fn parse(&self) -> (String, String) {
        (self.string(0), self.string(1))
    }

    /// `Bind`: the statement's name, after the portal's.
    pub(super) fn bind(&self) -> String {
        self.string(1)
    }
}

/// Splits a stream of bytes into messages.
#[derive(Debug)]
pub(super) struct Messages<R> {
    stream: R,
    buffer: BytesMut,
}

impl<R: AsyncRead + Unpin> Messages<R> {
    pub(super) fn new(stream: R) -> Self {
        Self { stream, buffer: BytesMut::new() }
    }

    /// The next message; `None` at the end of the stream.
    pub(super) async fn next(&mut self) -> io::Result<Option<Message>> {
        if !self.fill(5).await? {
            return Ok(None);
        }
        let tag = self.buffer[0];
        let bytes = self.take(1).await?;
        Ok(Some(Message { tag, bytes }))
    }

    /// A message without a tag, as clients send before the login.
    pub(super) async fn first_message(&mut self) -> io::Result<Option<(FirstMessage, Bytes)>> {
        if !self.fill(8).await? {
            return Ok(None);
        }
        let first_message = match (&self.buffer[4..]).get_u32() {
            SSL_REQUEST | GSS_REQUEST => FirstMessage::Encryption,
            CANCEL_REQUEST => FirstMessage::Cancel,
            _ => FirstMessage::Login,
        };
        Ok(Some((first_message, self.take(0).await?)))
    }

    /// A whole message whose length, which includes itself, is at `offset`.
    async fn take(&mut self, offset: usize) -> io::Result<Bytes> {
        let length = offset + (&self.buffer[offset..]).get_u32() as usize;
        if length > LIMIT {
            return Err(io::ErrorKind::InvalidData.into());
        }
        if !self.fill(length).await? {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(self.buffer.split_to(length).freeze())
    }

    /// Reads until that many bytes are buffered; `false` if the stream ends before.
    async fn fill(&mut self, length: usize) -> io::Result<bool> {
        while self.buffer.len() < length {
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
