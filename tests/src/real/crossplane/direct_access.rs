//! A test's own reads and changes on the cluster.

use broker_domain::{ProvisionedResourceId, XrName};
use broker_render::token_in;
use kube::ResourceExt;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use secrecy::SecretString;
use serde_json::Value;

use super::{Crossplane, OrLostRace, parameters};

impl Crossplane {
    /// The composite resource of a resource, if it exists.
    pub async fn composite(&self, id: ProvisionedResourceId) -> Option<DynamicObject> {
        let name = XrName::of(id).to_string();
        for (api, _) in &self.composites {
            let found = api.get_opt(&name).await.expect("the API server answers");
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// The token in the composite resource of a resource, whether or not its machine has booted.
    pub async fn token_of(&self, id: ProvisionedResourceId) -> Option<SecretString> {
        token_of_composite(&self.composite(id).await?)
    }

    /// The tokens in all composite resources.
    pub async fn tokens(&self) -> Vec<SecretString> {
        self.all_objects().await.iter().filter_map(token_of_composite).collect()
    }

    /// Deletes the composite resource of a resource as another client, and finalizes it with its composed object.
    pub async fn delete_by_hand(&self, id: ProvisionedResourceId) {
        let name = XrName::of(id).to_string();
        for (api, _) in &self.composites {
            if api.get_opt(&name).await.expect("the API server answers").is_some() {
                api.delete(&name, &DeleteParams::background())
                    .await
                    .expect("the composite resource can be deleted");
                while let Some(xr) = api.get_opt(&name).await.expect("the API server answers") {
                    self.finalize(api, &xr).await.or_lost_race();
                }
                return;
            }
        }
        panic!("{name} does not exist");
    }

    /// Patches a composite resource, as another client.
    pub async fn patch(&self, id: ProvisionedResourceId, patch: Value) {
        let xr = self.composite(id).await.expect("the composite resource exists");
        let kind = xr.types.as_ref().map(|types| types.kind.clone()).unwrap_or_default();
        let found = self.composites.iter().find(|(_, resource)| resource.kind == kind);
        let (api, _) = found.expect("a kind of this world");
        api.patch(&xr.name_any(), &parameters(), &Patch::Merge(patch))
            .await
            .expect("the API server accepts the patch");
    }

    /// Applies fields to a composite resource with this field manager, and forces conflicts.
    pub async fn apply_as(&self, manager: &str, id: ProvisionedResourceId, mut fields: Value) {
        let xr = self.composite(id).await.expect("the composite resource exists");
        let kind = xr.types.as_ref().map(|types| types.kind.clone()).unwrap_or_default();
        let found = self.composites.iter().find(|(_, resource)| resource.kind == kind);
        let (api, resource) = found.expect("a kind of this world");
        fields["apiVersion"] = resource.api_version.clone().into();
        fields["kind"] = resource.kind.clone().into();
        let forced = PatchParams::apply(manager).force();
        api.patch(&xr.name_any(), &forced, &Patch::Apply(fields))
            .await
            .expect("the API server accepts the apply");
    }

    /// The names of all composite resources, composed objects and ProviderConfigs.
    pub async fn existing_objects(&self) -> Vec<String> {
        let describe = |object: &DynamicObject| {
            let kind = object.types.as_ref().map_or("", |types| &types.kind);
            format!("{kind} {}", object.name_any())
        };
        let mut names: Vec<_> = self.all_objects().await.iter().map(describe).collect();
        names.sort();
        names
    }

    /// All composite resources, composed objects and ProviderConfigs.
    pub async fn all_objects(&self) -> Vec<DynamicObject> {
        let mut objects = Vec::new();
        let composites = self.composites.iter().map(|(api, _)| api);
        for api in composites.chain([&self.parts, &self.provider_configs]) {
            let listed = api.list(&ListParams::default()).await.expect("the API server lists");
            objects.extend(listed.items);
        }
        objects
    }
}

fn token_of_composite(object: &DynamicObject) -> Option<SecretString> {
    token_in(object.data.pointer("/spec/userData")?.as_str()?)
}
