//! How Crossplane and what it runs with are called.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use anyhow::Result;
use rustix::process::Signal;

use crate::{
    servers::{
        certificates::Authority,
        control_plane::lavish,
        run::Run,
        server::{Program, option},
    },
    tools::CrossplaneTools,
};

/// Where `core init` leaves certificates that nobody uses: it makes them or refuses to start.
const UNUSED_SECRET: &str = "unused";

/// How often Crossplane looks at everything that nobody told it about. Its own default is a minute, and a test
/// that waits for it would be slow.
const CROSSPLANE_POLL: &str = "10s";

/// How often the provider looks whether the time of a condition has come.
const PROVIDER_POLL: &str = "1s";

/// The files of Crossplane in a run's directory.
pub(super) struct Layout {
    pub(super) certificates: PathBuf,
    packages: PathBuf,
}

impl Layout {
    /// Writes what the programs read before they are ready.
    pub(super) fn create(run: &Run, authority: &Authority) -> Result<Self> {
        let certificates = run.subdirectory("crossplane-tls")?;
        let credentials = authority.mutual()?;
        for (name, text) in [
            ("tls.crt", credentials.certificate.as_str()),
            ("tls.key", credentials.key.as_str()),
            ("ca.crt", authority.certificate()),
        ] {
            run.write(&format!("crossplane-tls/{name}"), text)?;
        }
        Ok(Self { certificates, packages: run.subdirectory("crossplane-packages")? })
    }

    pub(super) fn initializer(tools: &CrossplaneTools, kubeconfig: &Path) -> Program {
        let args = [
            "core".into(),
            "init".into(),
            "--enable-webhooks=false".into(),
            option("--cr-ds-path", &tools.crds),
            format!("--tlsca-secret-name={UNUSED_SECRET}-ca").into(),
            format!("--tls-client-secret-name={UNUSED_SECRET}-client").into(),
            "--activation=*".into(),
        ];
        program("crossplane-init", &tools.crossplane, args, kubeconfig)
    }

    pub(super) fn core(
        &self,
        tools: &CrossplaneTools,
        kubeconfig: &Path,
        [webhook, metrics, health]: [u16; 3],
    ) -> Program {
        let args = [
            "core".into(),
            "start".into(),
            "--package-runtime=External".into(),
            option("--cache-dir", &self.packages),
            // The controller of Usages starts only with webhooks.
            format!("--webhook-port={webhook}").into(),
            option("--tls-server-certs-dir", &self.certificates),
            option("--tls-client-certs-dir", &self.certificates),
            format!("--metrics-port={metrics}").into(),
            format!("--health-probe-port={health}").into(),
            format!("--poll-interval={CROSSPLANE_POLL}").into(),
        ];
        program("crossplane", &tools.crossplane, args, kubeconfig)
    }

    pub(super) fn function(&self, name: &'static str, binary: &Path, port: u16) -> Program {
        let args = vec![
            format!("--address=127.0.0.1:{port}").into(),
            option("--tls-certs-dir", &self.certificates),
        ];
        Program { name, path: binary.to_owned(), args, env: vec![lavish()], stop: Signal::TERM }
    }

    pub(super) fn provider(&self, tools: &CrossplaneTools, kubeconfig: &Path) -> Program {
        let args = [format!("--poll={PROVIDER_POLL}").into(), "--max-reconcile-rate=100".into()];
        let mut program = program("provider-nop", &tools.provider_nop, args, kubeconfig);
        let certificates = self.certificates.to_string_lossy().into_owned();
        program.env.push(("TLS_SERVER_CERTS_DIR".to_owned(), certificates));
        program
    }
}

fn program<const N: usize>(
    name: &'static str,
    binary: &Path,
    args: [OsString; N],
    kubeconfig: &Path,
) -> Program {
    let kubeconfig = kubeconfig.to_string_lossy().into_owned();
    Program {
        name,
        path: binary.to_owned(),
        args: args.into(),
        env: vec![("KUBECONFIG".to_owned(), kubeconfig), lavish()],
        stop: Signal::TERM,
    }
}
