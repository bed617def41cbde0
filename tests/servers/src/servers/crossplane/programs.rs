//! The command lines of Crossplane and its companions.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use anyhow::Result;
use rustix::process::Signal;

use crate::{
    servers::{
        certificates::Authority,
        control_plane::relaxed_gc,
        run::Run,
        server::{Program, option},
    },
    tools::CrossplaneTools,
};

/// The Secret for certificates that `core init` requires and that stay unused.
const UNUSED_SECRET: &str = "unused";

/// Crossplane's resync interval. Its default of a minute would slow down the tests that wait for it.
const CROSSPLANE_POLL: &str = "10s";

/// The provider's interval for time-based conditions.
const PROVIDER_POLL: &str = "1s";

/// The files of Crossplane in a run's directory.
pub(super) struct Layout {
    pub(super) certificates: PathBuf,
    packages: PathBuf,
}

impl Layout {
    /// Writes the files that the programs read at their start.
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
            // The Usage controller requires webhooks.
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
        Program { name, path: binary.to_owned(), args, env: vec![relaxed_gc()], stop: Signal::TERM }
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
        env: vec![("KUBECONFIG".to_owned(), kubeconfig), relaxed_gc()],
        stop: Signal::TERM,
    }
}
