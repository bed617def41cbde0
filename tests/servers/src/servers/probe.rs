//! One HTTPS request to a server on loopback, and its answer. Enough to ask whether a server is ready and to
//! put objects into an API; a real client would bring an async runtime into `cargo xtask`.

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

/// A server that does not answer within this is asked again.
const TIMEOUT: Duration = Duration::from_secs(2);

/// What changes something may take longer on a machine that is busy with other builds, and is not sent again.
const PATIENCE: Duration = Duration::from_secs(30);

/// Asks one server on loopback.
#[derive(Debug, Clone)]
pub(super) struct Probe {
    port: u16,
    tls: Arc<ClientConfig>,
    timeout: Duration,
}

impl Probe {
    /// Trusts only the run's authority: another server that happens to have the port says nothing.
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

    /// The same for whoever would rather wait than ask again.
    pub(super) fn patient(self) -> Self {
        Self { timeout: PATIENCE, ..self }
    }

    /// Whether the server proves to be one of the run's, whatever it serves.
    pub(super) fn shakes_hands(&self) -> bool {
        let shaken = |mut stream: StreamOwned<ClientConnection, TcpStream>| {
            stream.conn.complete_io(&mut stream.sock)
        };
        self.connect().and_then(shaken).is_ok()
    }

    /// Whether a GET of `path` is answered with 200.
    pub(super) fn is_ok(&self, path: &str) -> bool {
        self.send("GET", path, None).is_ok_and(|(status, _)| status == 200)
    }

    /// Sends one request, with the type and the text of its content, and reads its whole answer.
    pub(super) fn send(
        &self,
        method: &str,
        path: &str,
        content: Option<(&str, &str)>,
    ) -> io::Result<(u16, String)> {
        let mut stream = self.connect()?;
        // With this version of HTTP an answer comes in one piece and ends with the connection.
        write!(stream, "{method} {path} HTTP/1.0\r\nHost: localhost\r\n")?;
        if let Some((kind, body)) = content {
            write!(stream, "Content-Type: {kind}\r\nContent-Length: {}\r\n\r\n{body}", body.len())?;
        } else {
            write!(stream, "\r\n")?;
        }
        stream.flush()?;
        let mut bytes = Vec::new();
        match stream.read_to_end(&mut bytes) {
            // A server that hangs up without the farewell of TLS has said what it had to say.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {}
            read => drop(read?),
        }
        parse(&String::from_utf8_lossy(&bytes))
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "the answer is not HTTP"))
    }

    fn connect(&self) -> io::Result<StreamOwned<ClientConnection, TcpStream>> {
        let stream = connect(self.port, self.timeout)?;
        let name = ServerName::try_from("localhost").map_err(io::Error::other)?;
        let tls = ClientConnection::new(Arc::clone(&self.tls), name).map_err(io::Error::other)?;
        Ok(StreamOwned::new(tls, stream))
    }
}

/// Whether a GET over plain HTTP is answered with 200.
pub(super) fn serves_plainly(port: u16, path: &str) -> bool {
    let ask = || {
        let mut stream = connect(port, TIMEOUT)?;
        write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n")?;
        // "HTTP/1.0 200" is all that matters of the answer.
        let mut head = [0; 12];
        stream.read_exact(&mut head)?;
        Ok::<_, io::Error>(head.ends_with(b"200"))
    };
    ask().unwrap_or(false)
}

fn connect(port: u16, timeout: Duration) -> io::Result<TcpStream> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let stream = TcpStream::connect_timeout(&address, timeout)?;
    stream.set_read_timeout(Some(timeout))?;
    stream.set_write_timeout(Some(timeout))?;
    Ok(stream)
}

/// The status and the body of an answer.
fn parse(text: &str) -> Option<(u16, String)> {
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.split_whitespace().nth(1)?.parse().ok()?;
    Some((status, body.to_owned()))
}
