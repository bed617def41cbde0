//! What exists on the cluster: the known names, and everything else.

use std::collections::BTreeSet;

use broker_domain::Phase;
use broker_render::PROJECT_LABEL;
use kube::ResourceExt;
use kube::api::{DynamicObject, ListParams};

use super::{Installation, Life};
use crate::crossplane::blueprint::{Blueprint, nop_resources};
use crate::failure::OrFail;

impl Installation {
    /// The names of all existing objects of these resources.
    pub async fn standing(&self, lives: &[Life]) -> Vec<String> {
        let mut standing = Vec::new();
        for life in lives {
            let composite = self.composite(life).await;
            let composed = self.composed(life).await;
            let config = self.provider_configs().get_opt(&life.xr_name()).await.or_fail("configs");
            let found = composite.into_iter().chain(composed).chain(config);
            standing.extend(found.map(|object| name(&object)));
        }
        standing
    }

    /// The same, plus every other composite resource, ProviderConfig, Secret and composed object in the
    /// Project's namespace, which only this installation uses.
    pub async fn left(&self, lives: &[Life]) -> Vec<String> {
        let (admin, home) = (&self.crossplane.admin, self.namespace());
        let mut kinds = vec![nop_resources(admin, home), self.secrets(), self.provider_configs()];
        kinds.extend(Blueprint::all().iter().map(|blueprint| blueprint.composites(admin, home)));
        let mut left: BTreeSet<String> = self.standing(lives).await.into_iter().collect();
        for objects in kinds {
            let found = match objects.list(&ListParams::default()).await {
                // Without its kind there are no objects.
                Err(kube::Error::Api(status)) if status.code == 404 => continue,
                answer => answer.or_fail("a list of what is left").items,
            };
            left.extend(found.iter().filter(|object| self.is_ours(object)).map(name));
        }
        left.into_iter().collect()
    }

    /// Deletes these resources and waits until nothing of them is left.
    pub async fn take_down(&self, lives: &[Life]) {
        for life in lives {
            self.deprovision(life).await;
        }
        self.assert_gone(lives).await;
    }

    /// Waits until these resources are Deleted, and nothing of them is left.
    pub async fn assert_gone(&self, lives: &[Life]) {
        for life in lives {
            self.until(life, Phase::Deleted).await;
        }
        assert_eq!(self.left(lives).await, Vec::<String>::new());
    }

    /// Cluster-scoped composite resources may belong to other installations.
    fn is_ours(&self, object: &DynamicObject) -> bool {
        object.namespace().as_deref() == Some(self.namespace())
            || object.labels().get(PROJECT_LABEL) == Some(&self.project.to_string())
    }
}

fn name(object: &DynamicObject) -> String {
    let kind = object.types.as_ref().map_or("", |types| &types.kind);
    format!("{kind} {}", object.name_any())
}
