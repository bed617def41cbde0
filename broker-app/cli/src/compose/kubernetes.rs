//! The management cluster: from kubeconfig files, or from what the machine offers, to the cluster port.

use std::error::Error as _;
use std::sync::Arc;

use broker_app::Error;
use broker_domain::{ClusterId, Phase};
use broker_kube::cache::{Cache, CacheOptions};
use broker_kube::{KubeCluster, KubeOptions, client_config};
use broker_ports::{ListQuery, PageSize, PortError, PortName, Repository};
use kube::config::{InferConfigError, KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};

use super::{DEADLINES, asked};
use crate::failure::{Failure, in_one_line};
use crate::settings::Settings;

/// Who sends, for the API server's audit.
const USER_AGENT: &str = concat!("provisioning-broker/", env!("CARGO_PKG_VERSION"));

/// How many resources of a phase are asked where they stand.
const SAMPLE: u16 = 100;

/// The cluster, and the cache that has to run beside it. Nothing is sent yet.
pub(super) async fn connect(
    settings: &Settings,
) -> Result<(Arc<KubeCluster>, Arc<Cache>), Failure> {
    let config = client_config(config(settings).await?, USER_AGENT).map_err(unusable)?;
    let client = Client::try_from(config).map_err(unusable)?;
    let cache = Arc::new(Cache::new(client.clone(), CacheOptions::default()));
    // Each call of the port may need several requests; the application's own deadline bounds them together.
    let options = KubeOptions::new(DEADLINES.cluster_read, DEADLINES.cluster_write);
    Ok((Arc::new(KubeCluster::new(client, options, Arc::clone(&cache))), cache))
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

/// Where nobody was told to look, a file that is not there is no surprise.
fn not_inferred(error: &InferConfigError) -> Failure {
    let source = error.source().and_then(|source| source.downcast_ref::<KubeconfigError>());
    unusable(match source {
        None | Some(KubeconfigError::ReadConfig(..) | KubeconfigError::FindPath) => {
            NoConfig::Nowhere
        }
        Some(other) => in_words(other),
    })
}

/// Refuses a cluster that is not the one that the store's resources stand on: nothing here would be theirs, and every
/// pass would fail.
///
/// A sample is enough. Resources of several clusters in one store are the business of each pass, as long as some are
/// at home here.
pub(super) async fn expect_home(
    repository: &dyn Repository,
    cluster: &ClusterId,
) -> Result<(), Error> {
    let mut elsewhere: Option<ClusterId> = None;
    for phase in [Phase::Ready, Phase::Enrolling, Phase::Provisioning] {
        let query = ListQuery::new(PageSize::new(SAMPLE)?).in_phase(phase);
        let page = asked(PortName::Repository, DEADLINES.store, repository.list(&query)).await?;
        for resource in &page.resources {
            match resource.substrate().cluster() {
                Some(own) if own == cluster => return Ok(()),
                Some(other) => elsewhere = Some(other.clone()),
                None => {}
            }
        }
    }
    elsewhere.map_or(Ok(()), |other| {
        let message =
            format!("this is cluster {cluster}, and the resources of the store stand on {other}");
        Err(Error::Port { port: PortName::Cluster, source: PortError::rejected(message) })
    })
}

fn unusable(error: impl std::error::Error + Send + Sync + 'static) -> Failure {
    Failure::Compose { what: "Kubernetes", source: error.into() }
}
