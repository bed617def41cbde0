//! Waits for the garbage collector of a real control plane.
//!
//! The collector builds a graph of owners from one watch per kind, and discovers new kinds every half
//! minute. A foreground deletion of an owner waits only for dependents in the graph. Without them, the API server removes
//! the owner at once, and its dependents stay until the collector discovers them.

use broker_test_servers::servers::crd;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{DynamicObject, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client, ResourceExt};
use serde_json::Value;
use uuid::Uuid;

use crate::failure::OrFail;
use crate::wait::until;

/// The group of the kind that is installed last: when the collector knows it, it knows all others.
const GROUP: &str = "collector.tests.plexsphere.io";

/// The CRD of the kind that is installed last.
pub(super) fn last_installed_kind() -> Value {
    crd::any_fields(GROUP, "v1", "Probe", "probes")
}

/// Waits until the collector knows every kind that all tests share.
pub async fn wait_until_collector_knows_kinds(admin: &Client, namespace: &str) {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk(GROUP, "v1", "Probe"));
    let probes = Api::namespaced_with(admin.clone(), namespace, &kind);
    let probe = DynamicObject::new(&format!("probe-{}", Uuid::now_v7()), &kind);
    create_and_wait_for_collector(&probes, probe).await;
}

/// Creates an object and waits until it is in the collector's graph.
///
/// The object gets an additional owner that does not exist. The collector removes that owner reference when
/// it processes the object; an object without another owner is deleted.
pub async fn create_and_wait_for_collector(api: &Api<DynamicObject>, mut object: DynamicObject) {
    let absent = OwnerReference {
        api_version: "v1".to_owned(),
        kind: "ConfigMap".to_owned(),
        name: "absent".to_owned(),
        uid: Uuid::now_v7().to_string(),
        ..OwnerReference::default()
    };
    object.owner_references_mut().push(absent.clone());
    let created = api.create(&PostParams::default(), &object).await;
    let created = created.or_fail("cannot create an owned object");
    until(format!("the garbage collector to see {}", created.name_any()), || async {
        let live = api.get_opt(&created.name_any()).await.or_fail("cannot read an owned object");
        let has_absent = live.is_some_and(|live| live.owner_references().contains(&absent));
        (!has_absent).then_some(())
    })
    .await;
}
