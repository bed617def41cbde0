//! Prepares the platform's objects: a database with the platform's rows, the kinds of the blueprints, and a
//! Project's namespace. Every step is idempotent.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;

use anyhow::{Context as _, Result};
use broker_app::domain::ProjectId;
use broker_app::render::catalog::{self, ComposedKind, Files};
use broker_app::render::{self, Provider, ProviderProfile, read_document};
use serde_json::json;

use crate::failure::cannot;
use crate::servers::{Api, ControlPlaneAccess, PostgresAccess, crd, run_sql};
use crate::tools::Tools;

/// The database of the broker and the platform.
pub(super) const DATABASE: &str = "broker";

/// The cloud of the sample Project; every sample blueprint supports it.
const PROVIDER: &str = "hetzner";

/// The error context of an invalid sample object.
const INVALID_SAMPLE: &str = "the sample platform is invalid";

const XRDS: &str = "/apis/apiextensions.crossplane.io/v2/compositeresourcedefinitions";
const COMPOSITIONS: &str = "/apis/apiextensions.crossplane.io/v1/compositions";

const PROJECT: &str = "0198f3c0-1000-7000-8000-000000000001";
const RESOURCE: &str = "0198f3c0-1000-7000-8000-000000000002";
const CLOUD: &str = "0198f3c0-1000-7000-8000-000000000003";
const CREDENTIAL: &str = "0198f3c0-1000-7000-8000-000000000004";

/// The ids that a declaration refers to.
pub(super) fn sample_ids() -> Vec<(String, String)> {
    [("SAMPLE_PROJECT", PROJECT), ("SAMPLE_RESOURCE", RESOURCE), ("SAMPLE_CREDENTIAL", CREDENTIAL)]
        .map(|(name, id)| (name.to_owned(), id.to_owned()))
        .into()
}

/// Creates an empty database and returns the broker's connection string.
pub(super) fn create_database(tools: &Tools, postgres: &PostgresAccess) -> Result<String> {
    run_sql(tools, postgres, "postgres", &format!("CREATE DATABASE {DATABASE}"))?;
    let PostgresAccess { host, port, user, password } = postgres;
    Ok(format!("postgres://{user}:{password}@{host}:{port}/{DATABASE}?sslmode=disable"))
}

/// Inserts a Project with a label, its Resource, a cloud, and a credential of the Project. The tables of the
/// neighbouring parts must exist.
pub(super) fn insert_project(tools: &Tools, postgres: &PostgresAccess) -> Result<()> {
    let namespace = render::namespace(project_id()?);
    let script = format!(
        "INSERT INTO plexsphere.projects (id) VALUES ('{PROJECT}') ON CONFLICT DO NOTHING;
        INSERT INTO plexsphere.project_labels (project_id, key, value)
            VALUES ('{PROJECT}', 'team', 'sample') ON CONFLICT DO NOTHING;
        INSERT INTO plexsphere.resources (id, project_id)
            VALUES ('{RESOURCE}', '{PROJECT}') ON CONFLICT DO NOTHING;
        INSERT INTO plexsphere.clouds (id, provider, endpoint)
            VALUES ('{CLOUD}', '{PROVIDER}', '{{\"region\": \"sample-1\"}}') ON CONFLICT DO NOTHING;
        INSERT INTO plexsphere.cloud_credentials (id, cloud_id, kv_mount, kv_path)
            VALUES ('{CREDENTIAL}', '{CLOUD}', 'kv', 'sample/cloud') ON CONFLICT DO NOTHING;
        INSERT INTO plexsphere.cloud_credential_assignments (project_id, cloud_credential_id)
            VALUES ('{PROJECT}', '{CREDENTIAL}') ON CONFLICT DO NOTHING;
        INSERT INTO plexsphere.namespace_assignments (project_id, namespace, namespace_phase)
            VALUES ('{PROJECT}', '{}', 'Ready') ON CONFLICT DO NOTHING;",
        namespace.as_str()
    );
    run_sql(tools, postgres, DATABASE, &script)
}

/// Creates the Project's namespace.
pub(super) fn create_namespace(control_plane: &ControlPlaneAccess) -> Result<()> {
    let name = render::namespace(project_id()?);
    let name = name.as_str();
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    Api::connect(control_plane)?.apply(&format!("/api/v1/namespaces/{name}"), &object)?;
    Ok(())
}

/// Grants a user the generated roles only: the writer in the Project's namespace, every other role on the whole
/// cluster.
pub(super) fn grant_roles(
    control_plane: &ControlPlaneAccess,
    generated: &str,
    user: &str,
) -> Result<()> {
    const GROUP: &str = "rbac.authorization.k8s.io";
    let api = Api::connect(control_plane)?;
    let project_namespace = render::namespace(project_id()?);
    for document in generated.split("---\n").skip(1) {
        let role = read_document("roles", document.as_bytes()).context(INVALID_SAMPLE)?;
        let name = role["metadata"]["name"].as_str().unwrap_or_default();
        api.apply(&format!("/apis/{GROUP}/v1/clusterroles/{name}"), &role)?;
        let is_per_project = name.ends_with("-writer") && !name.ends_with("-cluster-writer");
        let (kind, path) = if is_per_project {
            ("RoleBinding", format!("namespaces/{}/rolebindings", project_namespace.as_str()))
        } else {
            ("ClusterRoleBinding", "clusterrolebindings".to_owned())
        };
        let binding = json!({
            "apiVersion": format!("{GROUP}/v1"), "kind": kind, "metadata": {"name": name},
            "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": name},
            "subjects": [{"apiGroup": GROUP, "kind": "User", "name": user}],
        });
        api.apply(&format!("/apis/{GROUP}/v1/{path}/{name}"), &binding)?;
    }
    Ok(())
}

/// Without Crossplane: defines the kinds of the composite resources, the composed objects and the ProviderConfigs.
pub(super) fn define_kinds(control_plane: &ControlPlaneAccess, catalog: &Path) -> Result<()> {
    let api = Api::connect(control_plane)?;
    provider_configs(&api)?;
    for directory in directories(catalog)? {
        let [metadata, xrd, composition] =
            ["metadata.json", "xrd.yaml", "composition.yaml"].map(|name| read(&directory, name));
        let (metadata, xrd, composition) = (metadata?, xrd?, composition?);
        let slug = directory.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
        let files = Files { metadata: &metadata, xrd: &xrd, composition: &composition };
        let blueprint = catalog::read(&slug, files).context(INVALID_SAMPLE)?;
        let document = read_document("xrd.yaml", &xrd).context(INVALID_SAMPLE)?;
        api.install_crd(&crd::from_xrd(&document))?;
        for ComposedKind { api_version, kind } in &blueprint.composed_kinds {
            if let Some((group, version)) = api_version.split_once('/') {
                api.install_crd(&any_fields_crd(group, version, kind))?;
            }
        }
    }
    Ok(())
}

/// With Crossplane: installs the XRDs and Compositions and waits until their kinds are served.
pub(super) fn install_blueprints(control_plane: &ControlPlaneAccess, catalog: &Path) -> Result<()> {
    let api = Api::connect(control_plane)?;
    provider_configs(&api)?;
    let mut served = Vec::new();
    for directory in directories(catalog)? {
        let document =
            |name: &str| read_document(name, &read(&directory, name)?).context(INVALID_SAMPLE);
        let (xrd, composition) = (document("xrd.yaml")?, document("composition.yaml")?);
        for (object, kinds) in [(&xrd, XRDS), (&composition, COMPOSITIONS)] {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            api.apply(&format!("{kinds}/{name}"), object)?;
        }
        let spec = &xrd["spec"];
        let [group, version, plural] =
            [&spec["group"], &spec["versions"][0]["name"], &spec["names"]["plural"]]
                .map(|text| text.as_str().unwrap_or_default());
        served.push(format!("/apis/{group}/{version}/{plural}?limit=1"));
    }
    served.iter().try_for_each(|path| api.wait_for(path))
}

/// Defines the ProviderConfigs of the cloud.
fn provider_configs(api: &Api) -> Result<()> {
    let provider = Provider::new(PROVIDER).context(INVALID_SAMPLE)?;
    let profile = ProviderProfile::of(&provider);
    api.install_crd(&any_fields_crd(profile.group(), profile.version(), profile.kind()))
}

/// A loopback address without a listener.
pub(super) fn free_address() -> Result<String> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let address = listener.and_then(|listener| listener.local_addr());
    Ok(address.context("cannot listen on 127.0.0.1")?.to_string())
}

fn project_id() -> Result<ProjectId> {
    PROJECT.parse().context(INVALID_SAMPLE)
}

/// A definition whose plural is the kind with an `s`, Kubernetes' default.
fn any_fields_crd(group: &str, version: &str, kind: &str) -> serde_json::Value {
    crd::any_fields(group, version, kind, &format!("{}s", kind.to_lowercase()))
}

/// The blueprints of a catalog, by name.
fn directories(catalog: &Path) -> Result<Vec<std::path::PathBuf>> {
    let mut directories = Vec::new();
    for entry in fs::read_dir(catalog).with_context(cannot("read", catalog))? {
        let path = entry.with_context(cannot("read", catalog))?.path();
        if path.is_dir() {
            directories.push(path);
        }
    }
    directories.sort();
    Ok(directories)
}

fn read(directory: &Path, name: &str) -> Result<Vec<u8>> {
    let path = directory.join(name);
    fs::read(&path).with_context(cannot("read", &path))
}
