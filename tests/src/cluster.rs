//! A Kubernetes API for tests: one shared control plane, a namespace per test, and any number of
//! identities. There are no nodes and, unless a test [requests it](crate::crossplane), no Crossplane; the
//! test simulates the controllers.

mod audit;
mod crd;
mod event;
mod namespace;

use std::{
    io,
    ops::Deref,
    os::unix::fs::{MetadataExt, chown},
    path::Path,
    sync::{Arc, Mutex},
};

use broker_test_servers::servers::{ControlPlane, ControlPlaneAccess, Credentials, MASTERS, Run};
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};

pub use audit::{AuditLog, AuditedRequest, LogPosition};
pub use event::create_warning_event;
pub use namespace::TestNamespace;

use crate::{control::Control, failure::OrFail, shared};

/// A control plane that tests may fill with objects, but not disturb.
#[derive(Debug, Clone)]
pub struct TestCluster {
    access: ControlPlaneAccess,
}

impl TestCluster {
    /// The shared control plane.
    pub async fn shared() -> Self {
        Self { access: shared::servers().await.control_plane.clone() }
    }

    /// A dedicated control plane, for a test that kills, stops or floods it, or counts all requests.
    pub async fn dedicated() -> DedicatedCluster {
        let start = || {
            let run = Arc::new(Run::start()?);
            ControlPlane::start(&shared::tools(), &run)
        };
        let servers = tokio::task::spawn_blocking(start)
            .await
            .or_fail("a dedicated control plane cannot start")
            .or_fail("a dedicated control plane cannot start");
        DedicatedCluster {
            cluster: Self { access: servers.access() },
            servers: Arc::new(Mutex::new(servers)),
        }
    }

    /// A client with cluster-admin rights.
    pub async fn admin(&self) -> Client {
        client(&self.kubeconfig_in("admin", Some(MASTERS))).await
    }

    /// Like [`admin`](Self::admin), and retries 429, 503 and 504 up to 15 times, after the delay that the API
    /// server requests. The API server responds with 429 to a list of a kind that is being (re)installed.
    pub async fn retrying_admin(&self) -> Client {
        connect(&self.kubeconfig_in("admin", Some(MASTERS)), Retries::Temporary).await
    }

    /// A client with this user name. It has the rights that RBAC grants, initially none.
    pub async fn identity(&self, name: &str) -> Client {
        client(&self.kubeconfig(name)).await
    }

    /// Like [`identity`](Self::identity), as a member of a group.
    pub async fn identity_in(&self, name: &str, group: &str) -> Client {
        client(&self.kubeconfig_in(name, Some(group))).await
    }

    /// A self-contained kubeconfig for another process.
    pub fn kubeconfig(&self, name: &str) -> String {
        self.kubeconfig_in(name, None)
    }

    /// A new namespace.
    pub async fn namespace(&self) -> TestNamespace {
        let random = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0);
        self.namespace_named(&format!("test-{random:016x}")).await
    }

    /// A new namespace of a given name, which has to be unique among all tests.
    pub async fn namespace_named(&self, name: &str) -> TestNamespace {
        TestNamespace::create(self, name).await
    }

    /// Installs or updates a `CustomResourceDefinition` and waits until its objects are served. Tests on a
    /// shared cluster share its definitions: a test that needs another schema uses another group.
    pub async fn install_crd(&self, definition: serde_json::Value) {
        crd::install(&self.admin().await, definition).await;
    }

    /// The audit log of this API server.
    pub fn audit_log(&self) -> AuditLog {
        AuditLog::new(self.access.audit_log.clone())
    }

    /// The addresses and credentials of the control plane.
    pub(crate) fn access(&self) -> &ControlPlaneAccess {
        &self.access
    }

    fn kubeconfig_in(&self, name: &str, group: Option<&str>) -> String {
        let authority = self.access.authority().or_fail("the run's authority cannot be read");
        let identity: Credentials =
            authority.identity(name, group).or_fail(format_args!("cannot become {name}"));
        self.access.kubeconfig(&authority, &identity)
    }
}

/// Which requests a client retries.
enum Retries {
    Never,
    /// Requests that the API server refused temporarily.
    Temporary,
}

/// A client for a kubeconfig. It sends each request once.
pub(crate) async fn client(kubeconfig: &str) -> Client {
    connect(kubeconfig, Retries::Never).await
}

async fn connect(kubeconfig: &str, retries: Retries) -> Client {
    let config = async {
        let kubeconfig = Kubeconfig::from_yaml(kubeconfig)?;
        let options = KubeConfigOptions::default();
        let mut config = Config::from_custom_kubeconfig(kubeconfig, &options).await?;
        config.default_retry = matches!(retries, Retries::Temporary);
        Ok::<_, kube::config::KubeconfigError>(config)
    };
    let config = config.await.or_fail("a Kubernetes client cannot be configured");
    Client::try_from(config).or_fail("a Kubernetes client cannot be built")
}

/// The control plane of one test. Dropping it stops its servers.
#[derive(Debug)]
pub struct DedicatedCluster {
    cluster: TestCluster,
    servers: Arc<Mutex<ControlPlane>>,
}

impl DedicatedCluster {
    /// The control of etcd.
    pub fn etcd(&self) -> Control {
        Control::new("etcd", &self.servers, ControlPlane::etcd)
    }

    /// Replaces the store with an empty one. The API server restarts at the same address.
    pub async fn empty_store(&self) {
        self.change_stopped_store(|data| std::fs::rename(data.join("member"), data.join("lost")))
            .await;
    }

    /// Restores the store that [`empty_store`](Self::empty_store) replaced.
    pub async fn undo_empty_store(&self) {
        self.change_stopped_store(|data| {
            std::fs::remove_dir_all(data.join("member"))?;
            std::fs::rename(data.join("lost"), data.join("member"))
        })
        .await;
    }

    /// Copies the current store.
    pub async fn back_up(&self) {
        self.change_stopped_store(|data| copy_directory(&data.join("member"), &data.join("copy")))
            .await;
    }

    /// Restores the [backup](Self::back_up): later changes are lost, and new changes reuse their versions.
    pub async fn restore_back_up(&self) {
        self.change_stopped_store(|data| {
            std::fs::remove_dir_all(data.join("member"))?;
            std::fs::rename(data.join("copy"), data.join("member"))
        })
        .await;
    }

    /// Changes the store's directory while the servers are stopped.
    async fn change_stopped_store(&self, change: impl FnOnce(&Path) -> io::Result<()>) {
        self.controller_manager().stop().await;
        self.api_server().stop().await;
        self.etcd().stop().await;
        let data = self.access.audit_log.with_file_name("etcd");
        change(&data).or_fail("the store cannot be changed");
        self.etcd().restart().await;
        self.api_server().restart().await;
        self.controller_manager().restart().await;
    }

    /// The control of the API server.
    pub fn api_server(&self) -> Control {
        Control::new("kube-apiserver", &self.servers, ControlPlane::api_server)
    }

    /// The control of the controller manager: garbage collection and namespace deletion.
    pub fn controller_manager(&self) -> Control {
        Control::new("kube-controller-manager", &self.servers, ControlPlane::controller_manager)
    }
}

/// Copies with owner and permissions: the servers may run as another user than the test.
fn copy_directory(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::create_dir(to)?;
    copy_owner(from, to)?;
    for entry in std::fs::read_dir(from)? {
        let (entry, target) = entry.map(|entry| (entry.path(), to.join(entry.file_name())))?;
        if entry.is_dir() {
            copy_directory(&entry, &target)?;
        } else {
            std::fs::copy(&entry, &target)?;
            copy_owner(&entry, &target)?;
        }
    }
    Ok(())
}

fn copy_owner(from: &Path, to: &Path) -> io::Result<()> {
    let metadata = from.metadata()?;
    std::fs::set_permissions(to, metadata.permissions())?;
    chown(to, Some(metadata.uid()), Some(metadata.gid()))
}

impl Deref for DedicatedCluster {
    type Target = TestCluster;

    fn deref(&self) -> &TestCluster {
        &self.cluster
    }
}
