//! Bulk fixtures: many Ready machines, created without the broker. Rows are inserted by the
//! thousand in one statement, objects by concurrent requests, so that a measurement does not
//! include convergence.

use std::collections::BTreeSet;

use broker_domain::{
    BootstrapTokenId, MeshRole, ObjectReference, Parameters, ProvisionedResourceId, XrName,
};
use broker_render::{
    Armed, CloudTags, CompositionName, FIELD_MANAGER, Identity, InjectionStrategy, Manifest,
    Provider, ProviderConfigInput, ProviderProfiles, XrInput, Xrd, provider_config, references,
    references_digest, secret_name, xr,
};
use futures::{StreamExt, stream};
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};
use serde_json::{Value, json};
use sqlx::Executor;
use uuid::Uuid;

use super::fixtures::new_id;
use super::{Crossplane, RealWorld};
use crate::failure::OrFail;
use crate::world::NODE;

/// A Ready machine whose Node enrolled with this token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Machine {
    /// The resource.
    pub id: ProvisionedResourceId,
    /// The token of its Node.
    pub token: BootstrapTokenId,
}

/// Rows per statement.
const ROWS_PER_STATEMENT: usize = 10_000;

/// Concurrent requests.
const CONCURRENCY: usize = 32;

const INSERT_NODES: &str = "WITH machine AS MATERIALIZED (
    SELECT id, token FROM unnest($1::uuid[], $2::uuid[]) AS m (id, token)
), ledger AS (
    INSERT INTO plexsphere.bootstrap_token_ledgers (provisioned_resource_id, highest_epoch)
    SELECT id, 1 FROM machine
), node AS (
    INSERT INTO plexsphere.nodes (id) SELECT token FROM machine
)
INSERT INTO plexsphere.bootstrap_tokens
    (id, provisioned_resource_id, ordinal, sha256, expires_at, consumed_at, consumed_by_node_id)
SELECT token, id, 1, sha256(token::text::bytea), clock_timestamp() + interval '1 hour', clock_timestamp(), token
FROM machine";

/// The uid of a composite resource is its token's id, as in the benchmarks' API server. [`RealWorld::create_machine_objects`]
/// records that of a real one.
const INSERT_RESOURCES: &str = "INSERT INTO plexsphere.provisioned_resources
    (id, resource_id, project_id, blueprint_version_id, cloud_credential_id, status, xr_name,
     bootstrap_token_id, xr_uid, parameters, mesh_role, substrate, references_digest, cluster_id,
     created_at, phase_entered_at, first_ready_at, event_sequence, version)
SELECT id, $4, $5, $6, $7, 'Ready', 'pr-' || id, token, token::text, '{}', 'node', substrate::jsonb, digest, $8,
    statement_timestamp(), statement_timestamp(), statement_timestamp(), 2, 6
FROM unnest($1::uuid[], $2::uuid[], $3::text[], $9::bytea[]) AS m (id, token, substrate, digest)";

impl RealWorld {
    /// Creates Ready machines in the tables and on the cluster.
    pub async fn create_machines(&self, many: usize) -> Vec<Machine> {
        let machines = self.create_machine_rows(many).await;
        self.create_machine_objects(&machines).await;
        machines
    }

    /// Creates the rows of Ready machines.
    pub async fn create_machine_rows(&self, many: usize) -> Vec<Machine> {
        let machines: Vec<_> =
            (0..many).map(|_| Machine { id: new_id(), token: new_id() }).collect();
        let xrd = self.kinds.xrd_of(NODE);
        let cluster = self.ports.cluster.identity().await.or_fail("the cluster's identity");
        for machines in machines.chunks(ROWS_PER_STATEMENT) {
            let (mut ids, mut tokens) = (Vec::new(), Vec::new());
            let (mut substrates, mut digests) = (Vec::new(), Vec::new());
            for machine in machines {
                let composite = self.composite_of(&xrd, machine);
                let composed = references(&composite, xrd.scope());
                ids.push(machine.id.as_uuid());
                tokens.push(machine.token.as_uuid());
                digests.push(references_digest(&composed).as_bytes().to_vec());
                substrates.push(self.substrate_of(machine, &composed).to_string());
            }
            let enrolled = sqlx::query(INSERT_NODES).bind(&ids).bind(&tokens);
            enrolled.execute(self.pool()).await.or_fail("Nodes cannot be enrolled");
            let ready = sqlx::query(INSERT_RESOURCES)
                .bind(&ids)
                .bind(&tokens)
                .bind(&substrates)
                .bind(Uuid::from_u128(2))
                .bind(self.project.as_uuid())
                .bind(Uuid::from_u128(NODE))
                .bind(Uuid::from_u128(4))
                .bind(cluster.as_str())
                .bind(&digests);
            ready.execute(self.pool()).await.or_fail("rows cannot be inserted");
        }
        self.settle().await;
        machines
    }

    /// Creates the objects of these machines on the cluster.
    pub async fn create_machine_objects(&self, machines: &[Machine]) {
        let xrd = self.kinds.xrd_of(NODE);
        let composites = self.composites_of(&self.admin, &xrd);
        let configs = self.configs(&self.admin);
        let ours = PatchParams::apply(FIELD_MANAGER).force();
        let (composites, configs, ours, xrd) = (&composites, &configs, &ours, &xrd);
        let applied: Vec<(Uuid, String)> = stream::iter(machines)
            .map(|machine| async move {
                let name = XrName::of(machine.id).to_string();
                let config = self.config_of(machine.id);
                let config = Patch::Apply(config.as_object());
                configs.patch(&name, ours, &config).await.or_fail("a ProviderConfig");
                let composite = Patch::Apply(self.composite_of(xrd, machine));
                let created = composites.patch(&name, ours, &composite).await;
                let created = created.or_fail("cannot create a composite resource");
                let status = Patch::Merge(json!({"status": Crossplane::ready_status(&created)}));
                let patched =
                    composites.patch_status(&name, &PatchParams::default(), &status).await;
                patched.or_fail("cannot write a composite resource's status");
                (machine.id.as_uuid(), created.metadata.uid.unwrap_or_default())
            })
            .buffer_unordered(CONCURRENCY)
            .collect()
            .await;
        let (ids, uids): (Vec<_>, Vec<_>) = applied.into_iter().unzip();
        let recorded = "UPDATE plexsphere.provisioned_resources AS r SET xr_uid = a.uid, version = r.version + 1
            FROM unnest($1::uuid[], $2::text[]) AS a (id, uid) WHERE r.id = a.id";
        let recorded = sqlx::query(recorded).bind(ids).bind(uids);
        recorded.execute(self.pool()).await.or_fail("uids cannot be recorded");
    }

    /// Removes all due times, and runs `VACUUM ANALYZE` on the new rows.
    pub async fn settle(&self) {
        let statements = [
            "UPDATE plexsphere.provisioned_resource_schedule SET due_at = NULL WHERE due_at IS NOT NULL",
            "VACUUM (ANALYZE) plexsphere.provisioned_resource_schedule",
            "VACUUM (ANALYZE) plexsphere.provisioned_resources",
            "VACUUM (ANALYZE) plexsphere.bootstrap_tokens",
            "VACUUM (ANALYZE) plexsphere.nodes",
        ];
        for statement in statements {
            self.pool().execute(statement).await.or_fail("the database cannot settle");
        }
    }

    /// The composite resources of a kind, without the broker.
    #[must_use]
    pub fn composites_of(&self, client: &Client, xrd: &Xrd) -> Api<DynamicObject> {
        let kind = GroupVersionKind::gvk(xrd.group(), xrd.version(), xrd.kind());
        let kind = ApiResource::from_gvk_with_plural(&kind, xrd.plural());
        Api::namespaced_with(client.clone(), &self.namespace(), &kind)
    }

    /// The ProviderConfigs, without the broker.
    #[must_use]
    pub fn configs(&self, client: &Client) -> Api<DynamicObject> {
        let group = self.kinds.provider_group();
        let kind = GroupVersionKind::gvk(&group, "v1beta1", "ProviderConfig");
        let kind = ApiResource::from_gvk_with_plural(&kind, "providerconfigs");
        Api::namespaced_with(client.clone(), &self.namespace(), &kind)
    }

    /// A machine's composite resource with its composed object, without a status.
    #[must_use]
    pub fn composite_of(&self, xrd: &Xrd, machine: &Machine) -> Value {
        let parameters = Parameters::from_canonical_json("{}").or_fail("no parameters");
        let tags = CloudTags::default();
        let rendered = xr(&XrInput {
            xrd,
            composition: CompositionName::new(xrd.plural()).or_fail("a name"),
            injection_strategy: InjectionStrategy::CloudInitUserData,
            mesh_role: MeshRole::Node,
            identity: self.identity_of(machine.id),
            parameters: &parameters,
            tags: &tags,
        });
        let manifest = rendered.or_fail("a composite resource").armed(&Armed::Token(machine.token));
        let mut composite = Value::Object(manifest.as_object().clone());
        let part = json!({
            "apiVersion": format!("{}/v1", self.kinds.group()), "kind": "Part",
            "name": format!("{}-part", XrName::of(machine.id)),
        });
        composite["spec"]["userData"] = "#cloud-config\n".into();
        composite["spec"]["crossplane"]["resourceRefs"] = json!([part]);
        composite
    }

    /// The ProviderConfig of a resource.
    #[must_use]
    pub fn config_of(&self, id: ProvisionedResourceId) -> Manifest {
        let provider = Provider::new(self.kinds.provider()).or_fail("a provider");
        let rendered = provider_config(&ProviderConfigInput {
            profile: &ProviderProfiles::default().of(&provider),
            identity: self.identity_of(id),
            endpoint: r#"{"region":"eu-1"}"#,
            secret_name: &secret_name("kv", "team/cloud"),
        });
        rendered.or_fail("a ProviderConfig")
    }

    /// The identity of a machine of this world.
    #[must_use]
    pub fn identity_of(&self, resource: ProvisionedResourceId) -> Identity {
        let blueprint_version = Uuid::from_u128(NODE).try_into().or_fail("a blueprint's id");
        Identity { resource, project: self.project, blueprint_version }
    }

    fn substrate_of(&self, machine: &Machine, composed: &BTreeSet<ObjectReference>) -> Value {
        let reference = |it: &ObjectReference| {
            json!({
                "apiVersion": it.api_version(), "kind": it.kind(), "name": it.name(),
                "namespace": it.namespace(),
            })
        };
        json!({
            "providerConfig": reference(self.config_of(machine.id).reference()),
            "composed": composed.iter().map(reference).collect::<Vec<_>>(),
        })
    }
}
