//! A Kubernetes API for tests: one control plane for all, a namespace for each, and as many
//! identities as a test likes. There are no nodes and, unless a test [asks for it](crate::crossplane), no
//! Crossplane; what a controller would do, the test does.

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

pub use audit::{AuditLog, AuditedRequest, Mark};
pub use event::say;
pub use namespace::TestNamespace;

use crate::{control::Control, failure::OrFail, shared};

/// A control plane that tests may fill with objects, but not disturb.
#[derive(Debug, Clone)]
pub struct TestCluster {
    access: ControlPlaneAccess,
}

impl TestCluster {
    /// The one that all tests share.
    ///
    /// # Panics
    ///
    /// When it cannot be had.
    pub async fn shared() -> Self {
        Self { access: shared::servers().await.control_plane.clone() }
    }

    /// One of its own for a test that kills, stops or floods it, or counts what everybody does.
    ///
    /// # Panics
    ///
    /// When it cannot be had.
    pub async fn dedicated() -> DedicatedCluster {
        let start = || {
            let run = Arc::new(Run::start()?);
            ControlPlane::start(&shared::tools(), &run)
        };
        let servers = tokio::task::spawn_blocking(start)
            .await
            .or_fail("a dedicated control plane cannot be had")
            .or_fail("a dedicated control plane cannot be had");
        DedicatedCluster {
            cluster: Self { access: servers.access() },
            servers: Arc::new(Mutex::new(servers)),
        }
    }

    /// A client that may do everything.
    ///
    /// # Panics
    ///
    /// When it cannot be made.
    pub async fn admin(&self) -> Client {
        client(&self.kubeconfig_in("admin", Some(MASTERS))).await
    }

    /// The same for a cluster on which kinds come and go: it retries an answer 429, 503 or 504 up to 15 times, after
    /// the time that the API server asks for. A list of a kind that is being (re)installed is answered 429.
    ///
    /// # Panics
    ///
    /// When it cannot be made.
    pub async fn patient_admin(&self) -> Client {
        connect(&self.kubeconfig_in("admin", Some(MASTERS)), Repeats::Refused).await
    }

    /// A client that the API server knows by this name. It may do what RBAC lets it, at first
    /// nothing.
    ///
    /// # Panics
    ///
    /// When it cannot be made.
    pub async fn identity(&self, name: &str) -> Client {
        client(&self.kubeconfig(name)).await
    }

    /// The same as a member of a group.
    ///
    /// # Panics
    ///
    /// When it cannot be made.
    pub async fn identity_in(&self, name: &str, group: &str) -> Client {
        client(&self.kubeconfig_in(name, Some(group))).await
    }

    /// The content of a kubeconfig for another process, which needs no other file.
    ///
    /// # Panics
    ///
    /// When it cannot be made.
    pub fn kubeconfig(&self, name: &str) -> String {
        self.kubeconfig_in(name, None)
    }

    /// A new namespace.
    ///
    /// # Panics
    ///
    /// When it cannot be created.
    pub async fn namespace(&self) -> TestNamespace {
        let random = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0);
        self.namespace_named(&format!("test-{random:016x}")).await
    }

    /// A new namespace of a given name, which has to be unique among all tests.
    ///
    /// # Panics
    ///
    /// When it cannot be created.
    pub async fn namespace_named(&self, name: &str) -> TestNamespace {
        TestNamespace::create(self, name).await
    }

    /// Installs a `CustomResourceDefinition`, or changes it to this, and waits until its objects
    /// are served. Tests that share a cluster share its definitions too: one that needs another
    /// schema takes another group.
    ///
    /// # Panics
    ///
    /// When it is refused.
    pub async fn install_crd(&self, definition: serde_json::Value) {
        crd::install(&self.admin().await, definition).await;
    }

    /// What the API server was asked for.
    pub fn audit_log(&self) -> AuditLog {
        AuditLog::new(self.access.audit_log.clone())
    }

    /// How to reach it.
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

/// Which requests a client sends again by itself.
enum Repeats {
    Nothing,
    /// What the API server refused for the moment.
    Refused,
}

/// A client for a kubeconfig. It sends each request once.
pub(crate) async fn client(kubeconfig: &str) -> Client {
    connect(kubeconfig, Repeats::Nothing).await
}

async fn connect(kubeconfig: &str, repeats: Repeats) -> Client {
    let make = async {
        let kubeconfig = Kubeconfig::from_yaml(kubeconfig)?;
        let options = KubeConfigOptions::default();
        let mut config = Config::from_custom_kubeconfig(kubeconfig, &options).await?;
        config.default_retry = matches!(repeats, Repeats::Refused);
        Ok::<_, kube::config::KubeconfigError>(config)
    };
    let config = make.await.or_fail("a Kubernetes client cannot be configured");
    Client::try_from(config).or_fail("a Kubernetes client cannot be made")
}

/// A control plane that one test has for itself. Dropping it ends it.
#[derive(Debug)]
pub struct DedicatedCluster {
    cluster: TestCluster,
    servers: Arc<Mutex<ControlPlane>>,
}

impl DedicatedCluster {
    /// Power over the store.
    pub fn etcd(&self) -> Control {
        Control::new("etcd", &self.servers, ControlPlane::etcd)
    }

    /// The store loses all that it held, and the API server comes back over an empty one, at the same address.
    ///
    /// # Panics
    ///
    /// When a server does not end or not come back.
    pub async fn lose_everything(&self) {
        self.exchange_store(|data| std::fs::rename(data.join("member"), data.join("lost"))).await;
    }

    /// The store is again what it was before it lost everything.
    ///
    /// # Panics
    ///
    /// As [`lose_everything`](Self::lose_everything), and when nothing was lost.
    pub async fn restore_everything(&self) {
        self.exchange_store(|data| {
            std::fs::remove_dir_all(data.join("member"))?;
            std::fs::rename(data.join("lost"), data.join("member"))
        })
        .await;
    }

    /// Keeps a copy of the store as it is now.
    ///
    /// # Panics
    ///
    /// As [`lose_everything`](Self::lose_everything).
    pub async fn back_up(&self) {
        self.exchange_store(|data| copy_directory(&data.join("member"), &data.join("copy"))).await;
    }

    /// The store becomes what it was when it was [backed up](Self::back_up), version included: every later change is
    /// lost, and the next ones get the versions that those had.
    ///
    /// # Panics
    ///
    /// As [`lose_everything`](Self::lose_everything), and when there is no copy.
    pub async fn restore_back_up(&self) {
        self.exchange_store(|data| {
            std::fs::remove_dir_all(data.join("member"))?;
            std::fs::rename(data.join("copy"), data.join("member"))
        })
        .await;
    }

    /// Does something to the store's directory while nobody is at it.
    async fn exchange_store(&self, exchange: impl FnOnce(&Path) -> io::Result<()>) {
        self.controller_manager().stop().await;
        self.api_server().stop().await;
        self.etcd().stop().await;
        let data = self.access.audit_log.with_file_name("etcd");
        exchange(&data).or_fail("the store cannot be exchanged");
        self.etcd().restart().await;
        self.api_server().restart().await;
        self.controller_manager().restart().await;
    }

    /// Power over the API server.
    pub fn api_server(&self) -> Control {
        Control::new("kube-apiserver", &self.servers, ControlPlane::api_server)
    }

    /// Power over garbage collection and the deletion of namespaces.
    pub fn controller_manager(&self) -> Control {
        Control::new("kube-controller-manager", &self.servers, ControlPlane::controller_manager)
    }
}

/// Copies with owner and permissions: the servers of a run need not be of the test's own user.
fn copy_directory(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::create_dir(to)?;
    keep_owner(from, to)?;
    for entry in std::fs::read_dir(from)? {
        let (entry, target) = entry.map(|it| (it.path(), to.join(it.file_name())))?;
        if entry.is_dir() {
            copy_directory(&entry, &target)?;
        } else {
            std::fs::copy(&entry, &target)?;
            keep_owner(&entry, &target)?;
        }
    }
    Ok(())
}

fn keep_owner(from: &Path, to: &Path) -> io::Result<()> {
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
