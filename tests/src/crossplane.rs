//! Real Crossplane on the shared control plane: with its functions, a provider whose resources cost
//! nothing, a function of the harness, and the sample blueprints.
//!
//! A machine runs one Crossplane at a time, so all tests of a process share it. A test that kills or stops
//! a part of it uses it [exclusively](TestCluster::with_exclusive_crossplane).

mod agents;
mod blueprint;
mod function;
mod history;
mod installation;
mod recording;
mod replica;
mod requests;

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use broker_embed::kube_cluster;
use broker_kube::KubeCluster;
use broker_kube::cache::CacheOptions;
use broker_render::ProviderProfiles;
use broker_test_servers::servers::{Crossplane, Run, crd};
use broker_test_servers::tools::CrossplaneTools;
use kube::Client;
use tokio::sync::{OnceCell, RwLock, RwLockReadGuard, RwLockWriteGuard};

pub use blueprint::{Blueprint, Objects, pause_patch, provider_configs};
pub use history::{Lifetime, Version};
pub use installation::{DeclaredResource, Installation};
pub use recording::{Change, History, Recording};
pub use replica::Replica;
pub use requests::Requests;

use crate::cluster::TestCluster;
use crate::collector;
use crate::control::Control;
use crate::failure::OrFail;
use crate::real::config;
use crate::rights::BrokerIdentity;

/// The provider of the samples' clouds. No controller reads its ProviderConfigs.
pub const PROVIDER: &str = "hetzner";

/// The interval between two attempts to get exclusive use.
const RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// A control plane with Crossplane on it.
pub struct TestCrossplane {
    cluster: TestCluster,
    /// A cluster-admin client, which retries while the API server (re)installs a kind.
    pub admin: Client,
    servers: Arc<Mutex<Crossplane>>,
    _access: Access,
}

/// Shared or exclusive use.
enum Access {
    Shared { _guard: RwLockReadGuard<'static, ()> },
    Exclusive { _guard: RwLockWriteGuard<'static, ()> },
}

/// Read-locked by shared use, write-locked by exclusive use.
static ACCESS: RwLock<()> = RwLock::const_new(());

impl TestCluster {
    /// The shared control plane with Crossplane. The first caller starts it; it ends with this process. No
    /// test uses it exclusively while the returned value lives.
    pub async fn with_crossplane() -> TestCrossplane {
        let guard = ACCESS.read().await;
        TestCrossplane::get(Access::Shared { _guard: guard }).await
    }

    /// Exclusive use, for a test that kills or stops a part of Crossplane: no other test uses it meanwhile.
    pub async fn with_exclusive_crossplane() -> TestCrossplane {
        // Polls, because a queued writer would block all later readers, which could run concurrently.
        let guard = loop {
            match ACCESS.try_write() {
                Ok(guard) => break guard,
                Err(_) => tokio::time::sleep(RETRY_INTERVAL).await,
            }
        };
        TestCrossplane::get(Access::Exclusive { _guard: guard }).await
    }
}

impl TestCrossplane {
    async fn get(access: Access) -> Self {
        let cluster = TestCluster::shared().await;
        let admin = cluster.retrying_admin().await;
        let servers = {
            let cluster = cluster.clone();
            let started = tokio::task::spawn_blocking(move || start(&cluster)).await;
            match started.or_fail("Crossplane cannot start") {
                Ok(servers) => servers,
                Err(reason) => panic!("Crossplane cannot start: {reason}"),
            }
        };
        let crossplane = Self { cluster, admin, servers, _access: access };
        crossplane.install_fixtures().await;
        crossplane
    }

    /// Installs what the platform would, once: the kinds of a provider, and every blueprint.
    async fn install_fixtures(&self) {
        static INSTALLED: OnceCell<()> = OnceCell::const_new();
        INSTALLED
            .get_or_init(|| async {
                let group = format!("{PROVIDER}.crossplane.io");
                let configs =
                    crd::any_fields(&group, "v1beta1", "ProviderConfig", "providerconfigs");
                self.cluster.install_crd(configs).await;
                let blueprints = Blueprint::all();
                for blueprint in &blueprints {
                    blueprint.install(&self.admin).await;
                }
                for blueprint in &blueprints {
                    blueprint.wait_until_served(&self.admin).await;
                }
                self.cluster.install_crd(collector::last_installed_kind()).await;
            })
            .await;
    }

    /// A broker's identity with the roles for every blueprint, which may write in one namespace.
    pub async fn broker_for_namespace(&self, namespace: &str) -> BrokerIdentity {
        let blueprints: Vec<_> =
            Blueprint::all().iter().map(Blueprint::catalog_blueprint).collect();
        let roles = broker_kube::rbac(&blueprints, &ProviderProfiles::default());
        let broker = BrokerIdentity::new(&self.cluster, format!("broker-in-{namespace}")).await;
        broker.grant(&roles, "broker-of-every-blueprint").await;
        broker.admit_to(namespace).await;
        broker
    }

    /// The control of Crossplane's core.
    #[must_use]
    pub fn core(&self) -> Control {
        Control::new("crossplane", &self.servers, Crossplane::core)
    }

    /// The control of the provider.
    #[must_use]
    pub fn provider(&self) -> Control {
        Control::new("provider-nop", &self.servers, Crossplane::provider)
    }

    /// The control of the function that composes objects.
    #[must_use]
    pub fn function(&self) -> Control {
        Control::new("function-patch-and-transform", &self.servers, Crossplane::patch_and_transform)
    }
}

impl Deref for TestCrossplane {
    type Target = TestCluster;

    fn deref(&self) -> &TestCluster {
        &self.cluster
    }
}

/// The broker's cluster port, for a test that sends requests without a broker.
#[must_use]
pub fn cluster_port(broker: &BrokerIdentity) -> KubeCluster {
    let options = CacheOptions::default();
    kube_cluster(broker.client.clone(), options, &config("port")).or_fail("the default options").0
}

/// Starts Crossplane unless it runs, and restarts parts that a failed test left stopped.
fn start(cluster: &TestCluster) -> Result<Arc<Mutex<Crossplane>>, &'static str> {
    static STARTED: OnceLock<Result<Arc<Mutex<Crossplane>>, String>> = OnceLock::new();
    let started = STARTED.get_or_init(|| try_start(cluster).map_err(|error| error.to_string()));
    let servers = started.as_ref().map_err(String::as_str)?;
    let mut crossplane = servers.lock().unwrap_or_else(PoisonError::into_inner);
    for select in [
        Crossplane::patch_and_transform,
        Crossplane::auto_ready,
        Crossplane::core,
        Crossplane::provider,
    ] {
        let server = select(&mut crossplane);
        if server.id().is_none() {
            server.restart().map_err(|_| "a part of Crossplane does not restart")?;
        }
    }
    Ok(Arc::clone(servers))
}

fn try_start(cluster: &TestCluster) -> Result<Arc<Mutex<Crossplane>>, Box<dyn std::error::Error>> {
    let tools = CrossplaneTools::find()?;
    let run = Arc::new(Run::start()?);
    let crossplane = Crossplane::start(&tools, &run, cluster.access())?;
    let port = function::serve(crossplane.certificates());
    crossplane.register_function(function::NAME, port)?;
    Ok(Arc::new(Mutex::new(crossplane)))
}

/// The sample blueprints of this repository.
fn sample_blueprints() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/catalog")
}

/// The blueprints that only tests use.
fn test_blueprints() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/crossplane/catalog")
}
