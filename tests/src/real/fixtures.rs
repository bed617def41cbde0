//! The fixtures of a world: kinds on the cluster, and platform rows that refer to them.

use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher, RandomState};

use broker_domain::{MeshRole, ProjectId};
use broker_memory::BlueprintDocuments;
use broker_pg::migrate;
use broker_render::{InjectionStrategy, ProviderProfiles, Xrd, namespace};
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, PgPool};
use uuid::Uuid;

use crate::cluster::TestCluster;
use crate::crd;
use crate::failure::OrFail;
use crate::postgres::Template;
use crate::rights::{BrokerIdentity, blueprint};
use crate::world::{NODE, SIZED, STANDALONE, xrd_document};

/// The empty tables of platform and broker. The template's name contains a hash of the scripts, so that a
/// running server does not reuse an outdated template.
pub fn migrated() -> Template {
    let mut fingerprint = DefaultHasher::new();
    (migrate::plain_sql_of_reference(), migrate::plain_sql()).hash(&mut fingerprint);
    Template::new(format!("world_{:016x}", fingerprint.finish()), |options| async move {
        let pool = PgPool::connect_with(options).await?;
        let as_sqlx_error = |error: migrate::MigrateError| sqlx::Error::Configuration(error.into());
        migrate::reference_up(&pool).await.map_err(as_sqlx_error)?;
        migrate::up(&pool).await.map_err(as_sqlx_error)?;
        pool.close().await;
        Ok(())
    })
}

/// A new id of any kind. Conversion fails only for the nil UUID, which is never generated.
pub(super) fn new_id<T: TryFrom<Uuid>>() -> T {
    loop {
        if let Ok(id) = T::try_from(Uuid::now_v7()) {
            return id;
        }
    }
}

/// A new Project, and so a new namespace.
pub(crate) fn new_project_id() -> ProjectId {
    new_id()
}

/// The kinds of a world: three of composite resources, one of composed objects, and
/// ProviderConfigs.
#[derive(Debug, Clone)]
pub struct Kinds {
    provider: String,
}

/// Blueprint, kind, plural, role, schema of parameters.
const BLUEPRINTS: [(u128, &str, &str, MeshRole, &str); 3] = [
    (NODE, "Machine", "machines", MeshRole::Node, r#"{"parameters":[]}"#),
    (STANDALONE, "Bucket", "buckets", MeshRole::Standalone, r#"{"parameters":[]}"#),
    (
        SIZED,
        "Cluster",
        "clusters",
        MeshRole::Node,
        r#"{"parameters":[{"name":"size","type":"string","required":true},
            {"name":"count","type":"integer","default":1}]}"#,
    ),
];

const INSERT_PROJECT: &str = "WITH project AS (
    INSERT INTO plexsphere.projects (id) VALUES ($1)
), resource AS (
    INSERT INTO plexsphere.resources (id, project_id, handle) VALUES ($2, $1, $2::text)
), cloud AS (
    INSERT INTO plexsphere.clouds (id, provider, endpoint) VALUES ($3, $5, '{\"region\":\"eu-1\"}')
), credential AS (
    INSERT INTO plexsphere.cloud_credentials (id, cloud_id, kv_mount, kv_path)
    VALUES ($4, $3, 'kv', 'team/cloud')
), assignment AS (
    INSERT INTO plexsphere.cloud_credential_assignments (project_id, cloud_credential_id)
    VALUES ($1, $4)
)
INSERT INTO plexsphere.namespace_assignments (project_id, namespace, namespace_phase)
VALUES ($1, $6, 'Ready')";

const INSERT_BLUEPRINT: &str = "INSERT INTO plexsphere.blueprint_versions
    (id, slug, version, display_name, description, provider_kinds, injection_strategy, mesh_role,
     parameter_schema, composed_kinds, metadata, xrd, composition)
VALUES ($1, $2, 'v1', '', '', '{}', $3, $4, $5::text::json, $6, '', $7, $8)";

impl Kinds {
    /// The kinds that all worlds share, except worlds that count requests.
    pub(super) fn shared() -> Self {
        Self { provider: "simulated".to_owned() }
    }

    /// Kinds for one world.
    pub(super) fn fresh() -> Self {
        Self { provider: format!("simulated-{:012x}", RandomState::new().hash_one(0) >> 16) }
    }

    /// The group of the composite resources.
    #[must_use]
    pub fn group(&self) -> String {
        format!("{}.example.org", self.provider)
    }

    /// The group of ProviderConfigs.
    #[must_use]
    pub fn provider_group(&self) -> String {
        format!("{}.crossplane.io", self.provider)
    }

    /// The kind and plural of a blueprint.
    ///
    /// # Panics
    ///
    /// When there is no such blueprint.
    #[must_use]
    pub fn of(&self, blueprint: u128) -> (&'static str, &'static str) {
        let found = BLUEPRINTS.iter().find(|(number, ..)| *number == blueprint);
        found.map(|(_, kind, plural, ..)| (*kind, *plural)).expect("no such blueprint")
    }

    /// The provider of the one cloud, after which the ProviderConfigs' group is named.
    pub(super) fn provider(&self) -> &str {
        &self.provider
    }

    /// The XRD of a blueprint's kind.
    ///
    /// # Panics
    ///
    /// When there is no such blueprint.
    #[must_use]
    pub fn xrd_of(&self, blueprint: u128) -> Xrd {
        let (kind, plural) = self.of(blueprint);
        Xrd::parse(self.xrd(kind, plural).to_string().as_bytes()).or_fail("the world's own XRD")
    }

    /// Every kind of composite resources, with its plural.
    pub(super) fn composites() -> impl Iterator<Item = (&'static str, &'static str)> {
        BLUEPRINTS.iter().map(|(_, kind, plural, ..)| (*kind, *plural))
    }

    /// The XRD of a blueprint's kind.
    fn xrd(&self, kind: &str, plural: &str) -> Value {
        xrd_document(&self.group(), kind, plural)
    }

    /// Installs all kinds.
    pub async fn install(&self, cluster: &TestCluster) {
        for (kind, plural) in Self::composites() {
            cluster.install_crd(crd::from_xrd(&self.xrd(kind, plural))).await;
        }
        cluster.install_crd(crd::any_fields(&self.group(), "v1", "Part", "parts")).await;
        let (group, kind) = (self.provider_group(), "ProviderConfig");
        cluster.install_crd(crd::any_fields(&group, "v1beta1", kind, "providerconfigs")).await;
    }

    /// The broker's identity on a cluster, with the roles for these kinds, admitted to the
    /// namespace of one Project.
    pub async fn broker(
        &self,
        cluster: &TestCluster,
        user: &str,
        namespace: &str,
    ) -> BrokerIdentity {
        let part = self.part();
        let blueprints: Vec<_> = Self::composites()
            .map(|(kind, plural)| {
                blueprint(
                    plural,
                    &self.provider,
                    &self.xrd(kind, plural),
                    std::slice::from_ref(&part),
                )
            })
            .collect();
        let broker = BrokerIdentity::new(cluster, user).await;
        let roles = broker_kube::rbac(&blueprints, &ProviderProfiles::default());
        broker.grant(&roles, &format!("broker-{}", self.provider)).await;
        broker.admit_to(namespace).await;
        broker
    }

    /// The kind that every composite resource composes.
    fn part(&self) -> Value {
        json!({"apiVersion": format!("{}/v1", self.group()), "kind": "Part"})
    }

    /// Inserts the platform's rows for all kinds and the Project.
    pub(super) async fn publish(&self, pool: &PgPool, project: ProjectId) {
        insert_project(pool, project, &self.provider).await;
        for (blueprint, kind, plural, role, schema) in BLUEPRINTS {
            let composed = json!([self.part()]);
            sqlx::query(INSERT_BLUEPRINT)
                .bind(Uuid::from_u128(blueprint))
                .bind(plural)
                .bind(InjectionStrategy::CloudInitUserData.as_str())
                .bind(role.as_str())
                .bind(schema)
                .bind(composed)
                .bind(self.xrd(kind, plural).to_string().into_bytes())
                .bind(BlueprintDocuments::composition_named(plural))
                .execute(pool)
                .await
                .or_fail("a blueprint cannot be published");
        }
    }
}

/// Inserts the platform's rows for a Project with one Resource and one credential, on a cloud of
/// this provider.
pub(crate) async fn insert_project(pool: &PgPool, project: ProjectId, provider: &str) {
    sqlx::query(INSERT_PROJECT)
        .bind(project.as_uuid())
        .bind(Uuid::from_u128(2))
        .bind(Uuid::from_u128(0xc0))
        .bind(Uuid::from_u128(4))
        .bind(provider)
        .bind(namespace(project).as_str())
        .execute(pool)
        .await
        .or_fail("the platform's rows cannot be written");
}

/// Changes by other contexts, and the passing of time.
impl super::RealWorld {
    /// Ends all leases, as if a lease's duration had passed.
    pub async fn expire_leases(&self) {
        let by = format!("{} seconds", super::LEASE.as_secs());
        let leases = "UPDATE plexsphere.provisioned_resource_schedule
            SET due_at = due_at - $1::interval, lease_until = lease_until - $1::interval";
        self.execute(leases, &by).await;
        let claims = "UPDATE plexsphere.provisioning_outbox
            SET held_until = held_until - $1::interval WHERE held_until IS NOT NULL";
        self.execute(claims, &by).await;
    }

    async fn execute(&self, statement: &'static str, value: &str) {
        sqlx::query(AssertSqlSafe(statement))
            .bind(value)
            .execute(self.pool())
            .await
            .or_fail("the world cannot be changed");
    }
}
