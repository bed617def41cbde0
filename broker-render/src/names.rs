//! Names on the cluster: object names, namespaces, labels and annotations.

use std::fmt;

use broker_domain::{BlueprintVersionId, Error, ProjectId, ProvisionedResourceId, XrName};
use serde_json::{Map, Value};

use crate::canonical::Digest;
use crate::text::quoted;

/// The field manager of every server-side apply, and the value of [`MANAGED_BY_LABEL`].
pub const FIELD_MANAGER: &str = "plexsphere-provisioning-broker";

/// The label that selects the broker's objects. Its value is [`FIELD_MANAGER`].
pub const MANAGED_BY_LABEL: &str = "app.kubernetes.io/managed-by";

/// The label with the id of the owning resource.
pub const RESOURCE_LABEL: &str = "plexsphere.io/provisioned-resource-id";

/// The label with the id of the owning Project.
pub const PROJECT_LABEL: &str = "plexsphere.io/project-id";

/// The label with the id of the rendered blueprint version.
pub const BLUEPRINT_VERSION_LABEL: &str = "plexsphere.io/blueprint-version-id";

/// Every label that the broker sets.
pub const OWN_LABELS: [&str; 4] =
    [MANAGED_BY_LABEL, RESOURCE_LABEL, PROJECT_LABEL, BLUEPRINT_VERSION_LABEL];

/// Fields of a `spec` that Crossplane itself writes. The last seven are directly under `spec` in legacy
/// scope.
pub const CROSSPLANE_FIELDS: [&str; 8] = [
    "crossplane",
    "compositionRef",
    "compositionRevisionRef",
    "compositionRevisionSelector",
    "compositionSelector",
    "compositionUpdatePolicy",
    "publishConnectionDetailsTo",
    "resourceRefs",
];

/// The annotation that stops Crossplane from composing.
pub const PAUSED_ANNOTATION: &str = "crossplane.io/paused";

/// The annotation with the lease epoch of the worker that created or touched a shell.
pub const EPOCH_ANNOTATION: &str = "plexsphere.io/epoch";

/// The annotation that distinguishes an armed composite resource from a shell: the id of the injected token,
/// or `standalone`.
pub const ARMED_ANNOTATION: &str = "plexsphere.io/armed";

/// The annotation with the [digest](crate::Manifest::digest) of the applied fields of an armed composite
/// resource. Drift detection compares it without rendering.
pub const APPLIED_DIGEST_ANNOTATION: &str = "plexsphere.io/applied-digest";

/// The ids on every object of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Identity {
    /// The resource; object names derive from it.
    pub resource: ProvisionedResourceId,
    /// The Project, which owns the namespace.
    pub project: ProjectId,
    /// The blueprint version that the objects are rendered from.
    pub blueprint_version: BlueprintVersionId,
}

impl Identity {
    /// The name of the composite resource and of the ProviderConfig.
    pub fn xr_name(&self) -> XrName {
        self.resource.xr_name()
    }

    /// The namespace of the Project.
    pub fn namespace(&self) -> NamespaceName {
        namespace(self.project)
    }

    /// The labels of every object.
    pub(crate) fn labels(&self) -> Map<String, Value> {
        [
            (MANAGED_BY_LABEL, FIELD_MANAGER.to_owned()),
            (RESOURCE_LABEL, self.resource.to_string()),
            (PROJECT_LABEL, self.project.to_string()),
            (BLUEPRINT_VERSION_LABEL, self.blueprint_version.to_string()),
        ]
        .into_iter()
        .map(|(key, value)| (key.to_owned(), Value::String(value)))
        .collect()
    }
}

/// The labels of an object that the resources of a Project share.
pub(crate) fn project_labels(project: ProjectId) -> Map<String, Value> {
    let labels =
        [(MANAGED_BY_LABEL, FIELD_MANAGER.to_owned()), (PROJECT_LABEL, project.to_string())];
    labels.into_iter().map(|(key, value)| (key.to_owned(), Value::String(value))).collect()
}

/// The Project of a namespace; `None` if no Project has it.
pub fn project_of(namespace_name: &str) -> Option<ProjectId> {
    let project = namespace_name.strip_prefix("plexsphere-project-")?.parse().ok()?;
    // One spelling per Project: an upper-case id would be another namespace.
    (namespace(project).as_str() == namespace_name).then_some(project)
}

/// The namespace of a Project on its management cluster.
///
/// Always derived from the Project's id, so that no assignment, row or caller can redirect a write.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NamespaceName(String);

impl NamespaceName {
    /// The name as Kubernetes knows it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for NamespaceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Derives the namespace of a Project.
///
/// ```
/// use broker_domain::ProjectId;
///
/// let project: ProjectId = "5e0c4a36-7d0e-4c39-9c1c-3f3d6f1f2a10".parse()?;
/// assert_eq!(
///     broker_render::namespace(project).as_str(),
///     "plexsphere-project-5e0c4a36-7d0e-4c39-9c1c-3f3d6f1f2a10"
/// );
/// # Ok::<(), broker_domain::Error>(())
/// ```
pub fn namespace(project: ProjectId) -> NamespaceName {
    NamespaceName(format!("plexsphere-project-{project}"))
}

/// Accepts the namespace of an assignment if it equals the derived one.
///
/// # Errors
///
/// [`Error::InvalidInput`] for any other namespace.
pub fn assigned_namespace(project: ProjectId, assigned: &str) -> Result<NamespaceName, Error> {
    let own = namespace(project);
    if own.as_str() == assigned {
        return Ok(own);
    }
    let problem = format!("{} is not the project's own; use {own}", quoted(assigned));
    Err(Error::invalid("assignment.namespace", problem))
}

/// The name of the Secret with a cloud credential. Another component materialises the Secret from the
/// key-value store.
///
/// The name hashes the credential's location, never the credential, which the broker does not read. The NUL
/// byte separates mount `a` with path `b/c` from mount `a/b` with path `c`.
///
/// ```
/// let name = broker_render::secret_name("kv", "projects/a/hetzner");
/// assert!(name.starts_with("cloud-credentials-"));
/// assert_eq!(name.len(), "cloud-credentials-".len() + 16);
/// ```
pub fn secret_name(kv_mount: &str, kv_path: &str) -> String {
    let digest = Digest::of(format!("{kv_mount}\0{kv_path}").as_bytes()).to_string();
    format!("cloud-credentials-{}", &digest[..16])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computed with `printf '%s\0%s' MOUNT PATH | sha256sum | cut -c1-16`.
    #[test]
    fn secret_name_matches_sha256sum() {
        for (mount, path, hash) in [
            ("kv", "projects/a/hetzner", "e3401d76ab938ced"),
            ("secret", "clouds/aws/eu-1", "9c5929ef58998383"),
            ("a", "b/c", "bd4f6d7ab68654c8"),
            ("a/b", "c", "51a83b4c5b73e29f"),
            ("", "", "6e340b9cffb37a98"),
            ("mö", "päth", "3fc3f9bb4f4036f2"),
        ] {
            assert_eq!(
                secret_name(mount, path),
                format!("cloud-credentials-{hash}"),
                "{mount} {path}"
            );
        }
    }

    #[test]
    fn assigned_namespace_must_be_the_projects_own() {
        let project: ProjectId = "5e0c4a36-7d0e-4c39-9c1c-3f3d6f1f2a10".parse().unwrap();
        let own = "plexsphere-project-5e0c4a36-7d0e-4c39-9c1c-3f3d6f1f2a10";
        assert_eq!(assigned_namespace(project, own).unwrap().as_str(), own);
        for other in ["", "default", "kube-system", "plexsphere-project-"] {
            let error = assigned_namespace(project, other).unwrap_err().to_string();
            assert_eq!(
                error,
                format!("assignment.namespace: {other:?} is not the project's own; use {own}")
            );
        }
    }
}
