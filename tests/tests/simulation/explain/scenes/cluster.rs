//! Problems of the cluster itself.
#![expect(clippy::wildcard_enum_match_arm, reason = "the next module takes the other verdicts")]

use std::sync::Arc;

use broker_app::explain::Verdict;
use broker_domain::{ClusterId, ObjectReference, Phase};
use broker_memory::{Behaviour, Verb};
use broker_render::{Xrd, namespace};
use broker_tests::world::{World, project};
use serde_json::{Value, json};

use super::super::scene::Scene;
use super::substrate;

pub(super) async fn lay(scene: &mut Scene, verdict: Verdict) {
    let (world, cluster) = (&scene.world, &scene.world.cluster);
    let home = namespace(project());
    match verdict {
        Verdict::NamespaceNotReady => world.place(false),
        Verdict::NamespaceAbsent => cluster.terminate_namespace(home.as_str()),
        Verdict::NamespaceTerminating => {
            cluster.create_as("kubectl", &keeper(), &json!({"spec": {}}));
            cluster.add_finalizer(&keeper(), "example.org/keeper");
            cluster.terminate_namespace(home.as_str());
        }
        Verdict::KindMissing => cluster.remove_kind("example.org/v1", "Machine"),
        Verdict::ClusterUnreachable => cluster.take_down(),
        Verdict::ClusterUnauthenticated => cluster.log_out(),
        Verdict::WrongCluster => cluster.swap_identity(ClusterId::new("another-uid").unwrap()),
        Verdict::Forbidden => cluster.forbid(Verb::Patch, "Machine"),
        // The service may not read the composite resource, and no pass has tried yet.
        Verdict::Unknown => cluster.forbid(Verb::Get, "Machine"),
        Verdict::SchemaRefused => {
            // The XRD on the cluster differs from the published one.
            let narrow = Xrd::parse(narrow_xrd().to_string().as_bytes()).unwrap();
            cluster.install_xrd(&Arc::new(narrow));
        }
        Verdict::WebhookRefused => cluster.deny("Machine", "no machines on Fridays"),
        Verdict::OwnershipConflict => {
            cluster.behave_for(scene.id, Behaviour::never_ready());
            let resource = world.until(scene.id, Phase::Provisioning).await;
            rewrite(world, &world.xr(&resource));
        }
        Verdict::ArmingForeign => {
            // The row is older than the object: its store was restored from a backup.
            let other = "00000000-0000-0000-0000-00000000beef";
            let changes = json!({"metadata": {"annotations": {"plexsphere.io/armed": other}}});
            cluster.patch_as("another-party", &scene.xr().await, &changes);
        }
        Verdict::CompositionForeign => {
            let changes = json!({"spec": {"crossplane": {"compositionRef": {"name": "another"}}}});
            cluster.patch_as("kubectl", &scene.xr().await, &changes);
        }
        other => Box::pin(substrate::lay(scene, other)).await,
    }
}

/// An object that blocks the deletion of the namespace.
pub(in super::super) fn keeper() -> ObjectReference {
    let home = namespace(project());
    let (api_version, kind) = ("nop.crossplane.io/v1alpha1", "NopResource");
    ObjectReference::new(api_version, kind, "keeper", Some(home.as_str())).unwrap()
}

/// The XRD of the blueprint with parameters, which accepts one size only.
pub(in super::super) fn narrow_xrd() -> Value {
    let mut xrd = broker_tests::world::xrd_document("example.org", "Cluster", "clusters");
    let schema = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/parameters";
    xrd.pointer_mut(schema).unwrap()["properties"]["size"]["enum"] = json!(["large"]);
    xrd
}

fn rewrite(world: &World, xr: &ObjectReference) {
    world.cluster.patch_as("kubectl", xr, &json!({"spec": {"parameters": {"size": "huge"}}}));
}
