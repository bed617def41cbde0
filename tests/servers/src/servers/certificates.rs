//! A run's own certificate authority. It vouches for the API server to its clients and for every
//! identity to the API server; its key stays in the run's directory, so a test can make any
//! identity it needs.

use std::{fs, path::Path};

use anyhow::{Context as _, Result};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

use super::run::Run;
use crate::failure::cannot;

const CERTIFICATE: &str = "ca.crt";
const KEY: &str = "ca.key";

/// A certificate and its key, both PEM.
#[derive(Clone)]
pub struct Credentials {
    /// The certificate.
    pub certificate: String,
    /// Its private key.
    pub key: String,
}

/// Who signs certificates in a run.
pub struct Authority {
    certificate: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// Makes a new one and keeps it in the run's directory.
    pub(super) fn create(run: &Run) -> Result<Self> {
        let key = KeyPair::generate().with_context(failed("the authority"))?;
        let certificate =
            parameters().self_signed(&key).with_context(failed("the authority"))?.pem();
        run.write(CERTIFICATE, &certificate)?;
        run.write(KEY, &key.serialize_pem())?;
        Ok(Self { certificate, issuer: Issuer::new(parameters(), key) })
    }

    /// Takes up the one that a run keeps in its directory.
    ///
    /// # Errors
    ///
    /// When there is none.
    pub fn load(directory: &Path) -> Result<Self> {
        let read = |name| {
            let path = directory.join(name);
            fs::read_to_string(&path).with_context(cannot("read", &path))
        };
        let certificate = read(CERTIFICATE)?;
        let key = KeyPair::from_pem(&read(KEY)?).with_context(failed("the authority"))?;
        Ok(Self { certificate, issuer: Issuer::new(parameters(), key) })
    }

    /// Its own certificate, PEM.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// Credentials for whoever serves on loopback, and asks others who do.
    ///
    /// # Errors
    ///
    /// When none can be made.
    pub fn mutual(&self) -> Result<Credentials> {
        let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
        let mut parameters = CertificateParams::new(names).with_context(failed("localhost"))?;
        parameters.distinguished_name.push(DnType::CommonName, "localhost");
        parameters.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(parameters, "localhost")
    }

    /// Credentials for a client whom the API server will know by this name and, if one is given, as
    /// a member of this group. (Kubernetes would read several groups from a certificate; the
    /// library writes only one.)
    ///
    /// # Errors
    ///
    /// When none can be made.
    pub fn identity(&self, name: &str, group: Option<&str>) -> Result<Credentials> {
        let mut parameters = CertificateParams::default();
        parameters.distinguished_name.push(DnType::CommonName, name);
        if let Some(group) = group {
            parameters.distinguished_name.push(DnType::OrganizationName, group);
        }
        parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(parameters, name)
    }

    fn sign(&self, mut parameters: CertificateParams, name: &str) -> Result<Credentials> {
        parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        parameters.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate().with_context(failed(name))?;
        let certificate = parameters.signed_by(&key, &self.issuer).with_context(failed(name))?;
        Ok(Credentials { certificate: certificate.pem(), key: key.serialize_pem() })
    }
}

/// The same for the certificate and for whoever signs with its key later.
fn parameters() -> CertificateParams {
    let mut parameters = CertificateParams::default();
    parameters.distinguished_name.push(DnType::CommonName, "provisioning-broker-run");
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    parameters
}

fn failed(subject: &str) -> impl FnOnce() -> String + '_ {
    move || format!("cannot make the certificate of {subject}")
}
