//! The client of the management cluster, from kubeconfig files or the machine's default configuration.

use std::error::Error as _;

use broker_embed::client_config;
use kube::config::{InferConfigError, KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};

use crate::failure::{Failure, in_one_line};
use crate::settings::Settings;

/// The broker's name in the API server's audit log.
const USER_AGENT: &str = concat!("provisioning-broker/", env!("CARGO_PKG_VERSION"));

/// A client of the cluster. Sends no request.
pub(super) async fn client(settings: &Settings) -> Result<Client, Failure> {
    let config = client_config(config(settings).await?, USER_AGENT).map_err(unusable)?;
    Client::try_from(config).map_err(unusable)
}

async fn config(settings: &Settings) -> Result<Config, Failure> {
    let mut merged: Option<Kubeconfig> = None;
    for file in &settings.kubeconfig {
        let next = Kubeconfig::read_from(file).map_err(kubeconfig_failure)?;
        merged = Some(match merged {
            None => next,
            Some(first) => first.merge(next).map_err(kubeconfig_failure)?,
        });
    }
    match merged {
        Some(kubeconfig) => {
            let options = KubeConfigOptions::default();
            Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(kubeconfig_failure)
        }
        None => Config::infer().await.map_err(|error| inference_failure(&error)),
    }
}

/// Why the machine has no usable configuration.
#[derive(Debug, thiserror::Error)]
enum KubeconfigProblem {
    #[error("KUBECONFIG is empty, and neither ~/.kube/config nor a Pod's service account exists")]
    NotFound,
    /// Omits the parser's message: it quotes a line of the file, which may contain a credential.
    #[error("the kubeconfig is invalid{}", at_line(*.line))]
    Invalid { line: Option<u64> },
    #[error("{0}")]
    Other(String),
}

fn at_line(line: Option<u64>) -> String {
    line.map_or_else(String::new, |line| format!(" from line {line} on"))
}

fn kubeconfig_failure(error: KubeconfigError) -> Failure {
    if let KubeconfigError::ReadConfig(source, path) = error {
        return Failure::File { path, source };
    }
    unusable(kubeconfig_problem(&error))
}

fn kubeconfig_problem(error: &KubeconfigError) -> KubeconfigProblem {
    if let KubeconfigError::Parse(error) = error {
        return KubeconfigProblem::Invalid {
            line: error.location().map(|location| location.line()),
        };
    }
    KubeconfigProblem::Other(in_one_line(error))
}

/// If the default file is missing, the message names every source.
fn inference_failure(error: &InferConfigError) -> Failure {
    let source = error.source().and_then(|source| source.downcast_ref::<KubeconfigError>());
    unusable(match source {
        None | Some(KubeconfigError::ReadConfig(..) | KubeconfigError::FindPath) => {
            KubeconfigProblem::NotFound
        }
        Some(other) => kubeconfig_problem(other),
    })
}

fn unusable(error: impl std::error::Error + Send + Sync + 'static) -> Failure {
    Failure::Compose { subject: "Kubernetes", source: error.into() }
}
