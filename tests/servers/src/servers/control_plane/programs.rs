//! The command lines of the three programs of a control plane.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use rcgen::KeyPair;
use rustix::process::Signal;

use super::CONTROLLER_MANAGER;
use crate::{
    servers::{
        certificates::Authority,
        crossplane::{CROSSPLANE, PROVIDER},
        run::Run,
        server::{Program, option},
    },
    tools::Tools,
};

/// Logs every client request with user, verb, object and response; excludes requests between the servers and health
/// checks.
fn audit_policy() -> String {
    serde_json::json!({
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "rules": [
            { "level": "None", "users": ["system:apiserver", CONTROLLER_MANAGER, CROSSPLANE, PROVIDER] },
            { "level": "None", "nonResourceURLs": ["/healthz*", "/livez*", "/readyz*"] },
            { "level": "Metadata" },
        ],
    })
    .to_string()
}

/// The files of a control plane in a run's directory.
pub(super) struct Layout {
    etcd_data: PathBuf,
    authority: PathBuf,
    serving_certificate: PathBuf,
    serving_key: PathBuf,
    token_key: PathBuf,
    token_public_key: PathBuf,
    /// The directory for certificates that kube-apiserver generates.
    generated: PathBuf,
    audit_policy: PathBuf,
    pub(super) audit_log: PathBuf,
}

impl Layout {
    /// Writes the files that the programs read at their start.
    pub(super) fn create(run: &Run, authority: &Authority) -> Result<Self> {
        let serving = authority.mutual()?;
        let tokens =
            KeyPair::generate().context("cannot create the key of service account tokens")?;
        Ok(Self {
            etcd_data: run.subdirectory("etcd")?,
            authority: run.write("clients.crt", authority.certificate())?,
            serving_certificate: run.write("serving.crt", &serving.certificate)?,
            serving_key: run.write("serving.key", &serving.key)?,
            token_key: run.write("tokens.key", &tokens.serialize_pem())?,
            token_public_key: run.write("tokens.pub", &tokens.public_key_pem())?,
            generated: run.subdirectory("kube-apiserver")?,
            audit_policy: run.write("audit-policy.json", &audit_policy())?,
            audit_log: run.write("audit.log", "")?,
        })
    }

    pub(super) fn etcd(&self, tools: &Tools, port: u16) -> Program {
        let url = format!("http://127.0.0.1:{port}");
        let args = [
            option("--data-dir", &self.etcd_data),
            text("--listen-client-urls", &url),
            text("--advertise-client-urls", &url),
            // There are no peers, so any port works.
            text("--listen-peer-urls", "http://127.0.0.1:0"),
            "--unsafe-no-fsync".into(),
        ];
        program("etcd", &tools.etcd, args)
    }

    pub(super) fn api_server(&self, tools: &Tools, port: u16, etcd_port: u16) -> Program {
        let args = [
            text("--etcd-servers", &format!("http://127.0.0.1:{etcd_port}")),
            text("--bind-address", "127.0.0.1"),
            text("--secure-port", &port.to_string()),
            // Without it, the server needs a public interface, which a machine may not have.
            text("--advertise-address", "127.0.0.1"),
            text("--endpoint-reconciler-type", "none"),
            option("--cert-dir", &self.generated),
            option("--tls-cert-file", &self.serving_certificate),
            option("--tls-private-key-file", &self.serving_key),
            option("--client-ca-file", &self.authority),
            text("--authorization-mode", "RBAC"),
            text("--service-account-issuer", "https://kubernetes.default.svc"),
            option("--service-account-key-file", &self.token_public_key),
            option("--service-account-signing-key-file", &self.token_key),
            text("--service-cluster-ip-range", "10.0.0.0/24"),
            text("--disable-admission-plugins", "ServiceAccount"),
            option("--audit-policy-file", &self.audit_policy),
            option("--audit-log-path", &self.audit_log),
            // A request is logged before it is served, and the log is one file without rotation.
            text("--audit-log-mode", "blocking"),
            text("--audit-log-maxsize", "100000"),
        ];
        program("kube-apiserver", &tools.kube_apiserver, args)
    }

    pub(super) fn controller_manager(
        &self,
        tools: &Tools,
        port: u16,
        kubeconfig: &Path,
    ) -> Program {
        let args = [
            option("--kubeconfig", kubeconfig),
            // Foreground deletion and namespace deletion never finish without these two.
            text("--controllers", "garbage-collector-controller,namespace-controller"),
            text("--leader-elect", "false"),
            // The default of about twenty requests per second delays every deletion.
            text("--kube-api-qps", "1000"),
            text("--kube-api-burst", "2000"),
            text("--bind-address", "127.0.0.1"),
            text("--secure-port", &port.to_string()),
            option("--tls-cert-file", &self.serving_certificate),
            option("--tls-private-key-file", &self.serving_key),
        ];
        program("kube-controller-manager", &tools.kube_controller_manager, args)
    }
}

fn program<const N: usize>(name: &'static str, path: &Path, args: [OsString; N]) -> Program {
    let env = vec![relaxed_gc()];
    Program { name, path: path.to_owned(), args: args.into(), env, stop: Signal::TERM }
}

/// Runs Go's garbage collector a quarter as often: for these small programs it takes a third of the CPU time.
pub(in crate::servers) fn relaxed_gc() -> (String, String) {
    ("GOGC".to_owned(), "400".to_owned())
}

fn text(option: &str, value: &str) -> OsString {
    format!("{option}={value}").into()
}
