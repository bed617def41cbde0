//! Services over the real world with other ports, and access to single objects.

use broker_app::explain::Explanation;
use broker_app::{BrokerConfig, Service};
use broker_domain::{ObjectReference, ProvisionedResource, ProvisionedResourceId};
use broker_ports::Ports;
use kube::Api;
use kube::api::DynamicObject;
use kube::core::{ApiResource, GroupVersionKind};

use super::{RealWorld, config};
use crate::failure::OrFail;
use crate::world::operator;

impl RealWorld {
    /// A service with other ports and another configuration.
    #[must_use]
    pub fn service_with(
        &self,
        rewire: impl FnOnce(&mut Ports),
        reconfigure: impl FnOnce(&mut BrokerConfig),
    ) -> Service {
        let mut ports = self.ports.clone();
        rewire(&mut ports);
        let mut config = config("service");
        reconfigure(&mut config);
        Service::new(ports, config)
    }

    /// Explains a resource.
    pub async fn explain(&self, id: ProvisionedResourceId) -> Explanation {
        self.service.explain(&operator(), id).await.or_fail("no resource to explain")
    }

    /// The API of an object, and its name.
    #[must_use]
    pub fn object(&self, object: &ObjectReference) -> (Api<DynamicObject>, String) {
        let (group, version) = object.api_version().split_once('/').unwrap_or(("", "v1"));
        let kind = GroupVersionKind::gvk(group, version, object.kind());
        let plural = match object.kind() {
            "ProviderConfig" => "providerconfigs".to_owned(),
            other => format!("{}s", other.to_lowercase()),
        };
        let resource = ApiResource::from_gvk_with_plural(&kind, &plural);
        let api = match object.namespace() {
            Some(within) => Api::namespaced_with(self.admin.clone(), within, &resource),
            None => Api::all_with(self.admin.clone(), &resource),
        };
        (api, object.name().to_owned())
    }

    /// The composite resource's reference.
    #[must_use]
    pub fn xr(&self, resource: &ProvisionedResource) -> ObjectReference {
        let (kind, _) = self.kinds.of(resource.blueprint_version_id().as_uuid().as_u128());
        let namespace = broker_render::namespace(self.project);
        let api_version = format!("{}/v1", self.kinds.group());
        ObjectReference::new(
            api_version,
            kind,
            resource.xr_name().as_str(),
            Some(namespace.as_str()),
        )
        .or_fail("a complete name")
    }
}
