//! The management cluster: from kubeconfig files, or from what the machine offers, to a client.

use std::error::Error as _;

use broker_embed::client_config;
use kube::config::{InferConfigError, KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};

use crate::failure::{Failure, in_one_line};
use crate::settings::Settings;

/// Who sends, for the API server's audit.
const USER_AGENT: &str = concat!("provisioning-broker/", env!("CARGO_PKG_VERSION"));

/// A client of the cluster. Nothing is sent yet.
pub(super) async fn client(settings: &Settings) -> Result<Client, Failure> {
    let config = client_config(config(settings).await?, USER_AGENT).map_err(unusable)?;
    Client::try_from(config).map_err(unusable)
}

async fn config(settings: &Settings) -> Result<Config, Failure> {
    let mut merged: Option<Kubeconfig> = None;
    for file in &settings.kubeconfig {
        let next = Kubeconfig::read_from(file).map_err(unfit)?;
        merged = Some(match merged {
            None => next,
            Some(first) => first.merge(next).map_err(unfit)?,
        });
    }
    match merged {
        Some(kubeconfig) => {
            let options = KubeConfigOptions::default();
            Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(unfit)
        }
        None => Config::infer().await.map_err(|error| not_inferred(&error)),
    }
}

/// Why there is nothing to connect to.
#[derive(Debug, thiserror::Error)]
enum NoConfig {
    #[error(
        "KUBECONFIG is empty, and there is neither ~/.kube/config nor the service account of a Pod"
    )]
    Nowhere,
    /// The reader's own words would repeat a line of the file, and any line may hold a credential.
    #[error("the kubeconfig is not YAML of that kind{}", place(*.line))]
    Unreadable { line: Option<u64> },
    #[error("{0}")]
    Other(String),
}

fn place(line: Option<u64>) -> String {
    line.map_or_else(String::new, |line| format!(" from its line {line} on"))
}

fn unfit(error: KubeconfigError) -> Failure {
    if let KubeconfigError::ReadConfig(source, path) = error {
        return Failure::File { path, source };
    }
    unusable(in_words(&error))
}

fn in_words(error: &KubeconfigError) -> NoConfig {
    if let KubeconfigError::Parse(error) = error {
        return NoConfig::Unreadable { line: error.location().map(|location| location.line()) };
    }
    NoConfig::Other(in_one_line(error))
}

/// A missing default file is not an error in itself: the message names every source that was tried.
fn not_inferred(error: &InferConfigError) -> Failure {
    let source = error.source().and_then(|source| source.downcast_ref::<KubeconfigError>());
    unusable(match source {
        None | Some(KubeconfigError::ReadConfig(..) | KubeconfigError::FindPath) => {
            NoConfig::Nowhere
        }
        Some(other) => in_words(other),
    })
}

fn unusable(error: impl std::error::Error + Send + Sync + 'static) -> Failure {
    Failure::Compose { what: "Kubernetes", source: error.into() }
}
