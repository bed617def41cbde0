//! A minimal HTTPS client: one request to a server on loopback. It suffices for readiness checks and object writes; a
//! full client would add an async runtime to `cargo xtask`.

use std::{
    io::{self, Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    sync::Arc,
    time::Duration,
};

use anyhow::Result;
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
};

use super::certificates::{Authority, Credentials};

/// The timeout of a read, which is then retried.
const TIMEOUT: Duration = Duration::from_secs(2);

/// The timeout of a write: it is not retried, and the machine may be busy with builds.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// A client for one server on loopback.
#[derive(Debug, Clone)]
pub(super) struct Probe {
    port: u16,
    tls: Arc<ClientConfig>,
    timeout: Duration,
}

impl Probe {
    /// Trusts only the run's authority, so another server on the port fails the handshake.
    pub(super) fn new(port: u16, authority: &Authority, identity: &Credentials) -> Result<Self> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(authority.certificate().as_bytes())?)?;
        let certificate = CertificateDer::from_pem_slice(identity.certificate.as_bytes())?;
        let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes())?;
        let tls = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_client_auth_cert(vec![certificate], key)?;
        Ok(Self { port, tls: Arc::new(tls), timeout: TIMEOUT })
    }

    /// Uses the write timeout.
    pub(super) fn with_long_timeout(self) -> Self {
        Self { timeout: WRITE_TIMEOUT, ..self }
    }

    /// Whether the server has a certificate of the run.
    pub(super) fn completes_tls_handshake(&self) -> bool {
        let handshake = |mut stream: StreamOwned<ClientConnection, TcpStream>| {
            stream.conn.complete_io(&mut stream.sock)
        };
        self.connect().and_then(handshake).is_ok()
    }

    /// Whether a GET of `path` returns 200.
    pub(super) fn is_ok(&self, path: &str) -> bool {
        self.send("GET", path, None).is_ok_and(|(status, _)| status == 200)
    }

    /// Sends one request, with an optional content type and body, and reads the whole response.
    pub(super) fn send(
        &self,
        method: &str,
        path: &str,
        content: Option<(&str, &str)>,
    ) -> io::Result<(u16, String)> {
        let mut stream = self.connect()?;
        // An HTTP/1.0 response is not chunked and ends with the connection.
        write!(stream, "{method} {path} HTTP/1.0\r\nHost: localhost\r\n")?;
        if let Some((kind, body)) = content {
            write!(stream, "Content-Type: {kind}\r\nContent-Length: {}\r\n\r\n{body}", body.len())?;
        } else {
            write!(stream, "\r\n")?;
        }
        stream.flush()?;
        let mut bytes = Vec::new();
        match stream.read_to_end(&mut bytes) {
            // A server may close the connection without a TLS close_notify.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {}
            result => drop(result?),
        }
        parse(&String::from_utf8_lossy(&bytes))
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "the response is not HTTP"))
    }

    fn connect(&self) -> io::Result<StreamOwned<ClientConnection, TcpStream>> {
        let stream = connect(self.port, self.timeout)?;
        let name = ServerName::try_from("localhost").map_err(io::Error::other)?;
        let tls = ClientConnection::new(Arc::clone(&self.tls), name).map_err(io::Error::other)?;
        Ok(StreamOwned::new(tls, stream))
    }
}

/// Whether a GET over plain HTTP returns 200.
pub(super) fn is_ok_over_http(port: u16, path: &str) -> bool {
    let request = || {
        let mut stream = connect(port, TIMEOUT)?;
        write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n")?;
        // "HTTP/1.0 200" suffices.
        let mut head = [0; 12];
        stream.read_exact(&mut head)?;
        Ok::<_, io::Error>(head.ends_with(b"200"))
    };
    request().unwrap_or(false)
}

fn connect(port: u16, timeout: Duration) -> io::Result<TcpStream> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let stream = TcpStream::connect_timeout(&address, timeout)?;
    stream.set_read_timeout(Some(timeout))?;
    stream.set_write_timeout(Some(timeout))?;
    Ok(stream)
}

/// The status and the body of a response.
fn parse(text: &str) -> Option<(u16, String)> {
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.split_whitespace().nth(1)?.parse().ok()?;
    Some((status, body.to_owned()))
}
