//! One installation of the broker: a database and a namespace, rights and blueprints of every catalog as
//! the binary installs them, and agents on the machines.

mod left;
mod shell;
mod store;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;

use broker_domain::{Phase, ProjectId, ProvisionedResourceId, XrName};
use broker_pg::PgMesh;
use broker_render::namespace;
use kube::api::{DynamicObject, ListParams};
use serde_json::Value;
use sqlx::PgPool;
use tempfile::TempDir;
use tokio::task::JoinSet;
use uuid::Uuid;

use super::blueprint::{
    Blueprint, Objects, cluster_nop_resources, nop_resources, provider_configs, secrets,
};
use super::replica::{Environment, Replica, answer, print};
use super::{PROVIDER, TestCrossplane, agents};
use crate::cluster::TestNamespace;
use crate::failure::OrFail;
use crate::postgres::{TestDatabase, TestPostgres};
use crate::real::{fresh_project, know, migrated};
use crate::rights::BrokerIdentity;
use crate::wait::{until, until_or};

/// A resource of an installation.
#[derive(Debug, Clone)]
pub struct Life {
    /// Its id.
    pub id: ProvisionedResourceId,
    /// Its blueprint.
    pub blueprint: Blueprint,
}

impl Life {
    /// The name of its composite resource.
    #[must_use]
    pub fn xr_name(&self) -> String {
        XrName::of(self.id).to_string()
    }
}

/// The broker on Crossplane.
pub struct Installation {
    /// The cluster with Crossplane.
    pub crossplane: TestCrossplane,
    /// Its one Project.
    pub project: ProjectId,
    /// The identity of its replicas on the API server.
    pub broker: BrokerIdentity,
    environment: Environment,
    published: BTreeMap<String, String>,
    database: TestDatabase,
    home: TestNamespace,
    directory: TempDir,
}

impl Installation {
    /// A new installation into which the binary has imported every blueprint. No replica runs yet.
    pub async fn on(crossplane: TestCrossplane) -> Self {
        let database = TestPostgres::shared().await.database_from(&migrated()).await;
        let project = fresh_project();
        know(database.pool(), project, PROVIDER).await;
        let home = crossplane.namespace_named(namespace(project).as_str()).await;
        let directory = tempfile::tempdir().or_fail("a directory");
        let broker = BrokerIdentity::new(&crossplane, format!("broker-{project}")).await;
        let kubeconfig = directory.path().join("kubeconfig");
        std::fs::write(&kubeconfig, crossplane.kubeconfig(&broker.user)).or_fail("a kubeconfig");
        let environment = Environment { dsn: database.url(), kubeconfig };
        let mut installation = Self {
            crossplane,
            project,
            broker,
            environment,
            published: BTreeMap::new(),
            database,
            home,
            directory,
        };
        for (number, catalog) in Blueprint::catalogs().iter().enumerate() {
            installation.grant(catalog, number).await;
            installation.import(catalog).await;
        }
        installation.broker.admit_to(installation.namespace()).await;
        installation
    }

    /// Grants exactly the roles that the binary generates for a catalog.
    async fn grant(&self, catalog: &Path, number: usize) {
        let arguments = [OsStr::new("rbac"), OsStr::new("--catalog"), catalog.as_os_str()];
        let roles = print(&self.environment, &arguments).await;
        self.broker.grant(&roles, &format!("{}-{number}", self.broker.user)).await;
    }

    async fn import(&mut self, catalog: &Path) {
        let imported = self.command(&["catalog", "import"], &[catalog.as_os_str()]).await;
        for blueprint in imported["blueprints"].as_array().into_iter().flatten() {
            let text = |key: &str| blueprint[key].as_str().unwrap_or_default().to_owned();
            self.published.insert(text("slug"), text("blueprint_version_id"));
        }
    }

    /// Starts a replica.
    #[must_use]
    pub fn replica(&self) -> Replica {
        Replica::start(&self.environment, self.directory.path())
    }

    /// Boots machines and their agents until the returned value is dropped.
    #[must_use]
    pub fn boot_agents(&self) -> JoinSet<()> {
        let admin = &self.crossplane.admin;
        let machines = vec![nop_resources(admin, self.namespace()), cluster_nop_resources(admin)];
        agents::boot(machines, PgMesh::new(self.pool().clone()))
    }

    /// Declares a resource through the binary.
    pub async fn provision(&self, slug: &str, assignments: &[&str]) -> Life {
        let (blueprint, project) = (Blueprint::named(slug), self.project.to_string());
        let version = self.published.get(slug).map(String::as_str).unwrap_or_default();
        let resource = Uuid::from_u128(2).to_string();
        let credential = Uuid::from_u128(4).to_string();
        let mut arguments = vec!["--project", &project, "--resource", &resource];
        arguments.extend(["--blueprint-version", version, "--credential", &credential]);
        for assignment in assignments {
            arguments.extend(["--set", assignment]);
        }
        let arguments: Vec<_> = arguments.into_iter().map(OsStr::new).collect();
        let accepted = self.command(&["provision"], &arguments).await;
        let id = accepted["id"].as_str().unwrap_or_default().parse().or_fail("an id");
        Life { id, blueprint }
    }

    /// Requests the deletion of a resource through the binary.
    pub async fn deprovision(&self, life: &Life) {
        self.command(&["deprovision"], &[OsStr::new(&life.id.to_string())]).await;
    }

    /// The binary's `get` output for a resource.
    pub async fn get(&self, life: &Life) -> Value {
        self.command(&["get"], &[OsStr::new(&life.id.to_string())]).await
    }

    /// The binary's `explain` output for a resource.
    pub async fn explain(&self, life: &Life) -> Value {
        self.command(&["explain"], &[OsStr::new(&life.id.to_string())]).await
    }

    /// Requests an immediate pass.
    pub async fn reconcile_now(&self, life: &Life) {
        self.command(&["reconcile-now"], &[OsStr::new(&life.id.to_string())]).await;
    }

    /// Pauses a resource.
    pub async fn pause(&self, life: &Life) {
        self.command(&["pause"], &[OsStr::new(&life.id.to_string())]).await;
    }

    /// Resumes a resource.
    pub async fn resume(&self, life: &Life) {
        self.command(&["resume"], &[OsStr::new(&life.id.to_string())]).await;
    }

    async fn command(&self, verb: &[&str], arguments: &[&OsStr]) -> Value {
        let verb = verb.iter().map(OsStr::new);
        let all: Vec<&OsStr> = verb.chain(arguments.iter().copied()).collect();
        answer(&self.environment, &all).await
    }

    /// The stored phase.
    pub async fn phase(&self, life: &Life) -> Phase {
        let phase: String = self
            .ask("SELECT status FROM plexsphere.provisioned_resources WHERE id = $1", life)
            .await
            .remove(0);
        Phase::try_from(phase.as_str()).or_fail("a phase")
    }

    /// Waits until a resource is in a phase.
    ///
    /// # Panics
    ///
    /// When it does not get there.
    pub async fn until(&self, life: &Life, phase: Phase) {
        let arrived = until_or(|| async { (self.phase(life).await == phase).then_some(()) }).await;
        assert!(arrived.is_some(), "{}", self.story(life, phase).await);
    }

    /// Everything known about a resource that did not reach its phase.
    async fn story(&self, life: &Life, wanted: Phase) -> String {
        let xr = self.composite(life).await;
        let conditions = xr.as_ref().and_then(|xr| xr.data.pointer("/status/conditions"));
        format!(
            "{} from {} is in {}, not in {wanted}; {} passes, {:?}; conditions: {}; standing: {:?}",
            life.id,
            life.blueprint.slug,
            self.phase(life).await,
            self.passes(life).await,
            self.last_error(life).await,
            conditions.unwrap_or(&Value::Null),
            self.standing(std::slice::from_ref(life)).await,
        )
    }

    /// Requests a pass and waits until it is over.
    pub async fn pass(&self, life: &Life) {
        let idle = "SELECT lease_epoch::text FROM plexsphere.provisioned_resource_schedule
            WHERE provisioned_resource_id = $1 AND lease_owner IS NULL";
        let before = self.passes(life).await;
        self.reconcile_now(life).await;
        until("a pass to be over", || async {
            let epoch = self.ask(idle, life).await.pop()?;
            (epoch.parse::<i64>().ok()? > before).then_some(())
        })
        .await;
    }

    /// Direct access to the store, for assertions.
    #[must_use]
    pub fn pool(&self) -> &PgPool {
        self.database.pool()
    }

    /// The Project's namespace.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.home.name()
    }

    /// The API of a resource's composite resource.
    #[must_use]
    pub fn composites(&self, life: &Life) -> Objects {
        life.blueprint.composites(&self.crossplane.admin, self.namespace())
    }

    /// Its composite resource, if it exists; without its kind there is none.
    pub async fn composite(&self, life: &Life) -> Option<DynamicObject> {
        match self.composites(life).get(&life.xr_name()).await {
            Err(kube::Error::Api(status)) if status.code == 404 => None,
            answer => Some(answer.or_fail("a composite resource")),
        }
    }

    /// The composed objects of a resource.
    pub async fn composed(&self, life: &Life) -> Vec<DynamicObject> {
        let label = format!("crossplane.io/composite={}", life.xr_name());
        let composed = life.blueprint.composed(&self.crossplane.admin, self.namespace());
        composed.list(&ListParams::default().labels(&label)).await.or_fail("composed").items
    }

    /// The Secrets of the Project.
    #[must_use]
    pub fn secrets(&self) -> Objects {
        secrets(&self.crossplane.admin, self.namespace())
    }

    /// The ProviderConfigs of the Project.
    #[must_use]
    pub fn provider_configs(&self) -> Objects {
        provider_configs(&self.crossplane.admin, self.namespace())
    }
}
