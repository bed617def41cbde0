//! The compact form of one composite resource in the cache.
//!
//! An embedder may have tens of thousands of resources, and a sweep only needs to know whether each has changed. The
//! cache stores digests as arrays and ids as numbers, and drops the object itself.

use broker_domain::{ProjectId, ProvisionedResourceId, ReferencesDigest, XrName};
use broker_ports::{
    Arming, CachedXr, ConditionStatus, ObjectVersion, SpecState, XrStatus, XrTarget,
};
use broker_render::{Digest, NamespaceName, ProviderConfigScope, XrdScope, namespace};
use serde_json::Value;
use uuid::Uuid;

/// Prefix of a Project's namespace, followed by the Project id.
const NAMESPACE_PREFIX: &str = "plexsphere-project-";

/// A resource in its Project's namespace. The nil id, which no Project has, means cluster-scoped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Key {
    resource: Uuid,
    project: Uuid,
}

impl Key {
    pub(super) fn new(
        resource: ProvisionedResourceId,
        project: ProjectId,
        scope: XrdScope,
    ) -> Self {
        let project = if scope.is_namespaced() { project.as_uuid() } else { Uuid::nil() };
        Self { resource: resource.as_uuid(), project }
    }

    pub(super) fn for_config(target: &XrTarget, scope: ProviderConfigScope) -> Self {
        let project = match scope {
            ProviderConfigScope::Namespaced => target.project.as_uuid(),
            ProviderConfigScope::Cluster => Uuid::nil(),
        };
        Self { resource: target.resource.as_uuid(), project }
    }

    /// The key of an object. `None` if its name or namespace does not follow the broker's scheme.
    pub(super) fn from_object(object: &Value) -> Option<Self> {
        let metadata = object.get("metadata")?;
        let resource = XrName::id_of(metadata.get("name")?.as_str()?)?.as_uuid();
        let project = match metadata.get("namespace").and_then(Value::as_str) {
            None => Uuid::nil(),
            Some(namespace_name) => {
                let project: ProjectId =
                    namespace_name.strip_prefix(NAMESPACE_PREFIX)?.parse().ok()?;
                // One spelling per Project: an upper-case id would be another namespace.
                (namespace(project).as_str() == namespace_name).then_some(project.as_uuid())?
            }
        };
        Some(Self { resource, project })
    }

    pub(super) fn resource(self) -> Option<ProvisionedResourceId> {
        ProvisionedResourceId::new(self.resource).ok()
    }

    /// The name, and the namespace of a namespaced object.
    pub(super) fn name_and_namespace(self) -> Option<(XrName, Option<NamespaceName>)> {
        Some((self.resource()?.xr_name(), ProjectId::new(self.project).ok().map(namespace)))
    }
}

/// A [`CachedXr::Present`] without its strings.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct XrEntry {
    version: CompactVersion,
    generation: i64,
    ready_generation: Option<i64>,
    /// Set only for a resource that can never become ready.
    provisioning_failed: Option<Box<str>>,
    owned: [u8; 32],
    references: [u8; 32],
    armed: Arming,
    ready: Option<ConditionStatus>,
    synced: Option<ConditionStatus>,
    sync_failed: bool,
    deleting: bool,
    spec: SpecState,
}

impl XrEntry {
    /// `None` for an object without a uid or version, which no API server sends.
    pub(super) fn from_object(object: &Value, scope: XrdScope) -> Option<Self> {
        let Ok(CachedXr::Present { version, status, armed, owned, references, spec, .. }) =
            CachedXr::of(object, scope)
        else {
            return None;
        };
        Some(Self {
            version: CompactVersion::new(version),
            generation: status.generation,
            ready_generation: status.ready_generation,
            provisioning_failed: status.provisioning_failed.map(String::into_boxed_str),
            owned: *owned.as_bytes(),
            references: *references.as_bytes(),
            armed,
            ready: status.ready,
            synced: status.synced,
            sync_failed: status.sync_failed,
            deleting: status.deleting,
            spec,
        })
    }

    pub(super) const fn version(&self) -> &CompactVersion {
        &self.version
    }

    pub(super) const fn is_deleting(&self) -> bool {
        self.deleting
    }

    pub(super) fn to_cached_xr(&self) -> CachedXr {
        let mut status = XrStatus::new(self.generation);
        status.deleting = self.deleting;
        status.ready = self.ready;
        status.synced = self.synced;
        status.sync_failed = self.sync_failed;
        status.ready_generation = self.ready_generation;
        status.provisioning_failed = self.provisioning_failed.as_deref().map(str::to_owned);
        CachedXr::present(
            self.version.to_object_version(),
            status,
            self.armed,
            Digest::new(self.owned),
            ReferencesDigest::new(self.references),
        )
        .with_spec(self.spec)
    }
}

/// Uid and resource version as two numbers, which every known API server sends. Kubernetes promises only opaque text,
/// so any other form is stored as text.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum CompactVersion {
    Numbers { uid: Uuid, resource_version: u64 },
    Text(Box<ObjectVersion>),
}

impl CompactVersion {
    pub(super) fn new(version: ObjectVersion) -> Self {
        let uid = Uuid::try_parse(&version.uid).ok();
        let number = version.resource_version.parse().ok();
        match (uid, number) {
            (Some(uid), Some(resource_version)) => {
                let numbers = Self::Numbers { uid, resource_version };
                // The version may later be sent as a precondition, so the text must round-trip exactly.
                if numbers.to_object_version() == version {
                    numbers
                } else {
                    Self::Text(Box::new(version))
                }
            }
            (None, _) | (_, None) => Self::Text(Box::new(version)),
        }
    }

    pub(super) fn to_object_version(&self) -> ObjectVersion {
        match self {
            Self::Numbers { uid, resource_version } => {
                ObjectVersion::new(uid.to_string(), resource_version.to_string())
            }
            Self::Text(version) => (**version).clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const RESOURCE: &str = "0198a8e2-5d9f-7c31-8a4e-0f6d2b9c1e57";
    const PROJECT: &str = "5e0c4a36-7d0e-4c39-9c1c-3f3d6f1f2a10";

    fn object(uid: &str, version: &str) -> Value {
        json!({
            "metadata": {
                "name": format!("pr-{RESOURCE}"),
                "namespace": format!("{NAMESPACE_PREFIX}{PROJECT}"),
                "uid": uid,
                "resourceVersion": version,
                "generation": 4,
                "deletionTimestamp": "2026-01-02T03:04:05Z",
                "annotations": {"plexsphere.io/armed": "00000000-0000-0000-0000-000000000007"},
            },
            "spec": {"crossplane": {"resourceRefs": [
                {"apiVersion": "v1", "kind": "Part", "name": "a"},
            ]}},
            "status": {"conditions": [
                {"type": "Ready", "status": "False", "observedGeneration": 3},
                {"type": "ProvisioningFailed", "status": "True", "message": "no such region"},
                {"type": "Synced", "status": "False", "reason": "ReconcileError"},
            ]},
        })
    }

    #[test]
    fn entry_round_trips_the_cached_view() {
        let rows = [
            ("numbers", "7f3f1d0e-1c4b-4b1a-9d53-2f6f0f0f9a11", "812"),
            ("a uid in capitals", "7F3F1D0E-1C4B-4B1A-9D53-2F6F0F0F9A11", "812"),
            ("a version with a leading zero", "7f3f1d0e-1c4b-4b1a-9d53-2f6f0f0f9a11", "0812"),
            ("opaque texts", "some-uid", "some-version"),
        ];
        for (why, uid, version) in rows {
            let object = object(uid, version);
            for scope in XrdScope::ALL {
                let entry = XrEntry::from_object(&object, scope).unwrap();
                assert_eq!(
                    entry.to_cached_xr(),
                    CachedXr::of(&object, scope).unwrap(),
                    "{why}, {scope}"
                );
            }
        }
    }

    #[test]
    fn entry_fits_the_size_budget() {
        // Together with its key, the pointer and the sparsest hash map: below 256 bytes.
        assert!(size_of::<XrEntry>() <= 160, "{} bytes", size_of::<XrEntry>());
        assert_eq!(size_of::<Key>(), 32);
    }

    #[test]
    fn object_with_a_foreign_name_has_no_key() {
        let (resource, project) = (RESOURCE.parse().unwrap(), PROJECT.parse().unwrap());
        let key = |name: &str, namespace: Option<&str>| {
            Key::from_object(&json!({"metadata": {"name": name, "namespace": namespace}}))
        };
        let (name, project_namespace) =
            (format!("pr-{RESOURCE}"), format!("{NAMESPACE_PREFIX}{PROJECT}"));
        let namespaced = Key::new(resource, project, XrdScope::Namespaced);
        assert_eq!(key(&name, Some(&project_namespace)), Some(namespaced));
        assert_eq!(key(&name, None), Some(Key::new(resource, project, XrdScope::Cluster)));
        assert_eq!(namespaced.resource(), Some(resource));
        for (why, name, namespace) in [
            ("a composed object", format!("{name}-x7f"), project_namespace.clone()),
            ("a foreign namespace", name.clone(), "kube-system".to_owned()),
            ("an upper-case Project id", name.clone(), project_namespace.to_uppercase()),
            ("a Project without an id", name.clone(), NAMESPACE_PREFIX.to_owned()),
        ] {
            assert_eq!(key(&name, Some(&namespace)), None, "{why}");
        }
    }

    #[test]
    fn object_without_a_version_has_no_entry() {
        assert!(
            XrEntry::from_object(&json!({"metadata": {"uid": "u"}}), XrdScope::Namespaced)
                .is_none()
        );
    }
}
