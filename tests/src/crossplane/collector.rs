//! The garbage collector looks for new kinds every half minute. What it does not know, it does not wait for: an owner
//! that is deleted in the foreground is gone at once, and what it owned lives on until the collector has learnt of it.

use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use crate::failure::OrFail;
use crate::wait::until;

/// A kind that is installed after all others: when the collector knows it, it knows them too.
const GROUP: &str = "collector.tests.plexsphere.io";

/// Keeps a probe until it was looked at.
const HOLD: &str = "tests.plexsphere.io/hold";

/// The last kind.
pub(super) fn last_kind() -> Value {
    broker_test_servers::servers::crd::plain(GROUP, "v1", "Probe", "probes")
}

/// Waits until the collector knows every kind that was installed for all tests.
///
/// # Panics
///
/// When it does not learn of them.
pub async fn wait_until_collected(admin: &Client, namespace: &str) {
    until("the garbage collector to know all kinds", || is_known(admin, namespace)).await;
}

/// Deletes an owner in the foreground, and sees whether it waits for what it owns.
async fn is_known(admin: &Client, namespace: &str) -> Option<()> {
    let kind =
        |group: &str, kind: &str| ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1", kind));
    let (of_owner, of_probe) = (kind("", "ConfigMap"), kind(GROUP, "Probe"));
    let owners = Api::<DynamicObject>::namespaced_with(admin.clone(), namespace, &of_owner);
    let probes = Api::<DynamicObject>::namespaced_with(admin.clone(), namespace, &of_probe);
    let create = PostParams::default();
    let owner = named(DynamicObject::new("", &of_owner));
    let owner = owners.create(&create, &owner).await.or_fail("an owner");
    let reference = json!([{
        "apiVersion": of_owner.api_version, "kind": of_owner.kind,
        "name": owner.name_any(), "uid": owner.uid(), "blockOwnerDeletion": true,
    }]);
    let mut probe = named(DynamicObject::new("", &of_probe));
    probe.metadata.owner_references = serde_json::from_value(reference).or_fail("a reference");
    probe.metadata.finalizers = Some(vec![HOLD.to_owned()]);
    let probe = probes.create(&create, &probe).await.or_fail("a probe");

    let deleted = owners.delete(&owner.name_any(), &DeleteParams::foreground()).await;
    deleted.or_fail("an owner stays");
    let known = until("the collector to look", || async {
        let owner = owners.get_opt(&owner.name_any()).await.or_fail("an owner");
        let probe = probes.get(&probe.name_any()).await.or_fail("a probe");
        let told = probe.metadata.deletion_timestamp.is_some();
        (told || owner.is_none()).then_some(owner.is_some())
    })
    .await;
    let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    let freed = probes.patch(&probe.name_any(), &PatchParams::default(), &free).await;
    freed.or_fail("a probe stays");
    known.then_some(())
}

/// With a name that the API server chooses.
fn named(mut object: DynamicObject) -> DynamicObject {
    object.metadata.name = None;
    object.metadata.generate_name = Some("probe-".to_owned());
    object
}
