//! The objects that exist on the cluster.

use std::collections::BTreeSet;

use broker_domain::Phase;
use broker_render::PROJECT_LABEL;
use kube::ResourceExt;
use kube::api::{DynamicObject, ListParams};

use super::{DeclaredResource, Installation};
use crate::crossplane::blueprint::{Blueprint, nop_resources};
use crate::failure::OrFail;

impl Installation {
    /// The names of these resources' objects.
    pub async fn existing_objects(&self, resources: &[DeclaredResource]) -> Vec<String> {
        let mut names = Vec::new();
        for resource in resources {
            let composite = self.composite(resource).await;
            let composed = self.composed(resource).await;
            let config = self
                .provider_configs()
                .get_opt(&resource.xr_name())
                .await
                .or_fail("cannot read a ProviderConfig");
            let found = composite.into_iter().chain(composed).chain(config);
            names.extend(found.map(|object| name(&object)));
        }
        names
    }

    /// The names of these resources' objects, and of every other composite resource, ProviderConfig, Secret
    /// and composed object of this installation's Project.
    pub async fn remaining_objects(&self, resources: &[DeclaredResource]) -> Vec<String> {
        let (admin, namespace) = (&self.crossplane.admin, self.namespace());
        let mut kinds =
            vec![nop_resources(admin, namespace), self.secrets(), self.provider_configs()];
        kinds.extend(
            Blueprint::all().iter().map(|blueprint| blueprint.composites(admin, namespace)),
        );
        let mut names: BTreeSet<String> =
            self.existing_objects(resources).await.into_iter().collect();
        for objects in kinds {
            let found = match objects.list(&ListParams::default()).await {
                // The kind is not installed.
                Err(kube::Error::Api(status)) if status.code == 404 => continue,
                result => result.or_fail("cannot list remaining objects").items,
            };
            names.extend(found.iter().filter(|object| self.is_ours(object)).map(name));
        }
        names.into_iter().collect()
    }

    /// Deletes these resources and waits until they and their objects are deleted.
    pub async fn deprovision_all(&self, resources: &[DeclaredResource]) {
        for resource in resources {
            self.deprovision(resource).await;
        }
        self.assert_deleted(resources).await;
    }

    /// Waits until these resources are Deleted, and asserts that no object remains.
    pub async fn assert_deleted(&self, resources: &[DeclaredResource]) {
        for resource in resources {
            self.wait_for_phase(resource, Phase::Deleted).await;
        }
        assert_eq!(self.remaining_objects(resources).await, Vec::<String>::new());
    }

    /// Whether an object belongs to this installation. A cluster-scoped one may belong to another.
    fn is_ours(&self, object: &DynamicObject) -> bool {
        object.namespace().as_deref() == Some(self.namespace())
            || object.labels().get(PROJECT_LABEL) == Some(&self.project.to_string())
    }
}

fn name(object: &DynamicObject) -> String {
    let kind = object.types.as_ref().map_or("", |types| &types.kind);
    format!("{kind} {}", object.name_any())
}
