//! The certificate authority of a run. It signs the API server's certificate and every client identity. Its key is in
//! the run's directory, so a test can create any identity.

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

/// The certificate authority of a run.
pub struct Authority {
    certificate: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// Creates an authority in the run's directory.
    pub(super) fn create(run: &Run) -> Result<Self> {
        let key = KeyPair::generate().with_context(cannot_certify("the authority"))?;
        let certificate =
            parameters().self_signed(&key).with_context(cannot_certify("the authority"))?.pem();
        run.write(CERTIFICATE, &certificate)?;
        run.write(KEY, &key.serialize_pem())?;
        Ok(Self { certificate, issuer: Issuer::new(parameters(), key) })
    }

    /// Loads the authority of a run.
    ///
    /// # Errors
    ///
    /// It does not exist.
    pub fn load(directory: &Path) -> Result<Self> {
        let read = |name| {
            let path = directory.join(name);
            fs::read_to_string(&path).with_context(cannot("read", &path))
        };
        let certificate = read(CERTIFICATE)?;
        let key = KeyPair::from_pem(&read(KEY)?).with_context(cannot_certify("the authority"))?;
        Ok(Self { certificate, issuer: Issuer::new(parameters(), key) })
    }

    /// Its own certificate, PEM.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// Credentials for a server on loopback that is also a client of such servers.
    ///
    /// # Errors
    ///
    /// The certificate cannot be created.
    pub fn mutual(&self) -> Result<Credentials> {
        let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
        let mut parameters =
            CertificateParams::new(names).with_context(cannot_certify("localhost"))?;
        parameters.distinguished_name.push(DnType::CommonName, "localhost");
        parameters.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(parameters, "localhost")
    }

    /// Credentials of a client with this user name and at most one group. Kubernetes would accept several groups, but
    /// the library writes only one.
    ///
    /// # Errors
    ///
    /// The certificate cannot be created.
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
        let key = KeyPair::generate().with_context(cannot_certify(name))?;
        let certificate =
            parameters.signed_by(&key, &self.issuer).with_context(cannot_certify(name))?;
        Ok(Credentials { certificate: certificate.pem(), key: key.serialize_pem() })
    }
}

/// The parameters of the authority's certificate. Signatures need the same ones.
fn parameters() -> CertificateParams {
    let mut parameters = CertificateParams::default();
    parameters.distinguished_name.push(DnType::CommonName, "provisioning-broker-run");
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    parameters
}

fn cannot_certify(subject: &str) -> impl FnOnce() -> String + '_ {
    move || format!("cannot create the certificate of {subject}")
}
