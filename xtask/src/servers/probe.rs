//! Asks a server over HTTPS whether it is ready: one request, one status line. A real client would
//! bring an async runtime into `cargo xtask`.

use std::{
    io::{self, Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    sync::Arc,
    time::Duration,
};

use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
};

use super::{
    certificates::{Authority, Credentials},
    error::ServersError,
};

/// A server that does not answer within this is asked again.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Asks one server on loopback.
#[derive(Debug, Clone)]
pub(super) struct Probe {
    port: u16,
    tls: Arc<ClientConfig>,
}

impl Probe {
    /// Trusts only the run's authority: another server that happens to have the port says nothing.
    pub(super) fn new(
        port: u16,
        authority: &Authority,
        identity: &Credentials,
    ) -> Result<Self, ServersError> {
        let broken = |_| ServersError::Tls { source: rustls::Error::NoCertificatesPresented };
        let mut roots = RootCertStore::empty();
        let root =
            CertificateDer::from_pem_slice(authority.certificate().as_bytes()).map_err(broken)?;
        let certificate =
            CertificateDer::from_pem_slice(identity.certificate.as_bytes()).map_err(broken)?;
        let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).map_err(broken)?;
        let tls = roots
            .add(root)
            .and_then(|()| {
                ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
                    .with_safe_default_protocol_versions()?
                    .with_root_certificates(roots)
                    .with_client_auth_cert(vec![certificate], key)
            })
            .map_err(|source| ServersError::Tls { source })?;
        Ok(Self { port, tls: Arc::new(tls) })
    }

    /// Whether a GET of `path` is answered with 200.
    pub(super) fn is_ok(&self, path: &str) -> bool {
        self.status(path).is_ok_and(|status| status == "200")
    }

    fn status(&self, path: &str) -> io::Result<String> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port));
        let stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        let name = ServerName::try_from("localhost").map_err(io::Error::other)?;
        let tls = ClientConnection::new(Arc::clone(&self.tls), name).map_err(io::Error::other)?;
        let mut stream = StreamOwned::new(tls, stream);
        write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
        // "HTTP/1.1 200" is all that matters of the answer.
        let mut head = [0; 12];
        stream.read_exact(&mut head)?;
        Ok(String::from_utf8_lossy(&head[9..]).into_owned())
    }
}
