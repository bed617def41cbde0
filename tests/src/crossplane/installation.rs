//! One installation of the broker: a database, a namespace, the roles and blueprints that the binary installs
//! from every catalog, and agents on the machines.

mod remaining;
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
use super::replica::{Environment, Replica, run_json, run_text};
use super::{PROVIDER, TestCrossplane, agents};
use crate::cluster::TestNamespace;
use crate::failure::OrFail;
use crate::postgres::{TestDatabase, TestPostgres};
use crate::real::{insert_project, migrated, new_project_id};
use crate::rights::BrokerIdentity;
use crate::wait::{until, until_or};

/// A resource of an installation.
#[derive(Debug, Clone)]
pub struct DeclaredResource {
    /// Its id.
    pub id: ProvisionedResourceId,
    /// Its blueprint.
    pub blueprint: Blueprint,
}

impl DeclaredResource {
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
    /// The one Project.
    pub project: ProjectId,
    /// The replicas' identity on the API server.
    pub broker: BrokerIdentity,
    environment: Environment,
    published: BTreeMap<String, String>,
    database: TestDatabase,
    project_namespace: TestNamespace,
    directory: TempDir,
}

impl Installation {
    /// A new installation into which the binary has imported every blueprint. No replica runs yet.
    pub async fn new(crossplane: TestCrossplane) -> Self {
        let database = TestPostgres::shared().await.database_from(&migrated()).await;
        let project = new_project_id();
        insert_project(database.pool(), project, PROVIDER).await;
        let project_namespace = crossplane.namespace_named(namespace(project).as_str()).await;
        let directory = tempfile::tempdir().or_fail("cannot create a directory");
        let broker = BrokerIdentity::new(&crossplane, format!("broker-{project}")).await;
        let kubeconfig = directory.path().join("kubeconfig");
        std::fs::write(&kubeconfig, crossplane.kubeconfig(&broker.user))
            .or_fail("cannot write a kubeconfig");
        let environment = Environment { dsn: database.url(), kubeconfig };
        let mut installation = Self {
            crossplane,
            project,
            broker,
            environment,
            published: BTreeMap::new(),
            database,
            project_namespace,
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
        let roles = run_text(&self.environment, &arguments).await;
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

    /// Boots the agents of ready machines until the returned value is dropped.
    #[must_use]
    pub fn boot_agents(&self) -> JoinSet<()> {
        let admin = &self.crossplane.admin;
        let machines = vec![nop_resources(admin, self.namespace()), cluster_nop_resources(admin)];
        agents::boot_agents(machines, PgMesh::new(self.pool().clone()))
    }

    /// Declares a resource through the binary.
    pub async fn provision(&self, slug: &str, assignments: &[&str]) -> DeclaredResource {
        let (blueprint, project) = (Blueprint::named(slug), self.project.to_string());
        let version = self.published.get(slug).map(String::as_str).unwrap_or_default();
        let platform_resource = Uuid::from_u128(2).to_string();
        let credential = Uuid::from_u128(4).to_string();
        let mut arguments = vec!["--project", &project, "--resource", &platform_resource];
        arguments.extend(["--blueprint-version", version, "--credential", &credential]);
        for assignment in assignments {
            arguments.extend(["--set", assignment]);
        }
        let arguments: Vec<_> = arguments.into_iter().map(OsStr::new).collect();
        let output = self.command(&["provision"], &arguments).await;
        let id = output["id"].as_str().unwrap_or_default().parse().or_fail("the output has no id");
        DeclaredResource { id, blueprint }
    }

    /// Requests the deletion of a resource through the binary.
    pub async fn deprovision(&self, resource: &DeclaredResource) {
        self.command(&["deprovision"], &[OsStr::new(&resource.id.to_string())]).await;
    }

    /// The binary's `get` output for a resource.
    pub async fn get(&self, resource: &DeclaredResource) -> Value {
        self.command(&["get"], &[OsStr::new(&resource.id.to_string())]).await
    }

    /// The binary's `explain` output for a resource.
    pub async fn explain(&self, resource: &DeclaredResource) -> Value {
        self.command(&["explain"], &[OsStr::new(&resource.id.to_string())]).await
    }

    /// Requests an immediate pass.
    pub async fn reconcile_now(&self, resource: &DeclaredResource) {
        self.command(&["reconcile-now"], &[OsStr::new(&resource.id.to_string())]).await;
    }

    /// Pauses a resource.
    pub async fn pause(&self, resource: &DeclaredResource) {
        self.command(&["pause"], &[OsStr::new(&resource.id.to_string())]).await;
    }

    /// Resumes a resource.
    pub async fn resume(&self, resource: &DeclaredResource) {
        self.command(&["resume"], &[OsStr::new(&resource.id.to_string())]).await;
    }

    async fn command(&self, verb: &[&str], arguments: &[&OsStr]) -> Value {
        let verb = verb.iter().map(OsStr::new);
        let all: Vec<&OsStr> = verb.chain(arguments.iter().copied()).collect();
        run_json(&self.environment, &all).await
    }

    /// The stored phase.
    pub async fn phase(&self, resource: &DeclaredResource) -> Phase {
        let phase: String = self
            .query_strings(
                "SELECT status FROM plexsphere.provisioned_resources WHERE id = $1",
                resource,
            )
            .await
            .remove(0);
        Phase::try_from(phase.as_str()).or_fail("the stored phase is unknown")
    }

    /// Waits until a resource is in a phase.
    ///
    /// # Panics
    ///
    /// When the resource does not reach the phase.
    pub async fn wait_for_phase(&self, resource: &DeclaredResource, phase: Phase) {
        let reached =
            until_or(|| async { (self.phase(resource).await == phase).then_some(()) }).await;
        assert!(reached.is_some(), "{}", self.describe(resource, phase).await);
    }

    /// A description of a resource that did not reach a phase.
    async fn describe(&self, resource: &DeclaredResource, expected: Phase) -> String {
        let xr = self.composite(resource).await;
        let conditions = xr.as_ref().and_then(|xr| xr.data.pointer("/status/conditions"));
        format!(
            "{} from {} is in {}, not in {expected}; {} passes, {:?}; conditions: {}; existing: {:?}",
            resource.id,
            resource.blueprint.slug,
            self.phase(resource).await,
            self.claim_count(resource).await,
            self.last_error(resource).await,
            conditions.unwrap_or(&Value::Null),
            self.existing_objects(std::slice::from_ref(resource)).await,
        )
    }

    /// Requests a pass and waits until it has ended.
    pub async fn run_pass(&self, resource: &DeclaredResource) {
        let idle = "SELECT lease_epoch::text FROM plexsphere.provisioned_resource_schedule
            WHERE provisioned_resource_id = $1 AND lease_owner IS NULL";
        let before = self.claim_count(resource).await;
        self.reconcile_now(resource).await;
        until("a pass to end", || async {
            let epoch = self.query_strings(idle, resource).await.pop()?;
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
        self.project_namespace.name()
    }

    /// The API of a resource's composite resource.
    #[must_use]
    pub fn composites(&self, resource: &DeclaredResource) -> Objects {
        resource.blueprint.composites(&self.crossplane.admin, self.namespace())
    }

    /// The composite resource of a resource. `None` also if its kind is not installed.
    pub async fn composite(&self, resource: &DeclaredResource) -> Option<DynamicObject> {
        match self.composites(resource).get(&resource.xr_name()).await {
            Err(kube::Error::Api(status)) if status.code == 404 => None,
            result => Some(result.or_fail("cannot read a composite resource")),
        }
    }

    /// The composed objects of a resource.
    pub async fn composed(&self, resource: &DeclaredResource) -> Vec<DynamicObject> {
        let label = format!("crossplane.io/composite={}", resource.xr_name());
        let composed = resource.blueprint.composed(&self.crossplane.admin, self.namespace());
        composed
            .list(&ListParams::default().labels(&label))
            .await
            .or_fail("cannot list composed objects")
            .items
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
