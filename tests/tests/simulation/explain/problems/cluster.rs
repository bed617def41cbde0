//! Problems of the cluster itself.
#![expect(clippy::wildcard_enum_match_arm, reason = "the next module handles the other verdicts")]

use std::sync::Arc;

use broker_app::explain::Verdict;
use broker_domain::{ClusterId, ObjectReference, Phase};
use broker_memory::{Behaviour, Verb};
use broker_render::{Xrd, namespace};
use broker_tests::world::{World, project};
use serde_json::{Value, json};

use super::super::fixture::Fixture;
use super::substrate;

pub(super) async fn create(fixture: &mut Fixture, verdict: Verdict) {
    let (world, cluster) = (&fixture.world, &fixture.world.cluster);
    let project_namespace = namespace(project());
    match verdict {
        Verdict::NamespaceNotReady => world.place(false),
        Verdict::NamespaceAbsent => cluster.terminate_namespace(project_namespace.as_str()),
        Verdict::NamespaceTerminating => {
            cluster.create_as("kubectl", &namespace_blocker(), &json!({"spec": {}}));
            cluster.add_finalizer(&namespace_blocker(), "example.org/blocker");
            cluster.terminate_namespace(project_namespace.as_str());
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
            cluster.behave_for(fixture.id, Behaviour::never_ready());
            let resource = world.until(fixture.id, Phase::Provisioning).await;
            change_size(world, &world.xr(&resource));
        }
        Verdict::ArmingForeign => {
            // The row is older than the object: its store was restored from a backup.
            let other = "00000000-0000-0000-0000-00000000beef";
            let changes = json!({"metadata": {"annotations": {"plexsphere.io/armed": other}}});
            cluster.patch_as("another-party", &fixture.xr().await, &changes);
        }
        Verdict::CompositionForeign => {
            let changes = json!({"spec": {"crossplane": {"compositionRef": {"name": "another"}}}});
            cluster.patch_as("kubectl", &fixture.xr().await, &changes);
        }
        other => Box::pin(substrate::create(fixture, other)).await,
    }
}

/// An object that blocks the deletion of the namespace.
pub(in super::super) fn namespace_blocker() -> ObjectReference {
    let project_namespace = namespace(project());
    let (api_version, kind) = ("nop.crossplane.io/v1alpha1", "NopResource");
    ObjectReference::new(api_version, kind, "blocker", Some(project_namespace.as_str())).unwrap()
}

/// The XRD of the blueprint with parameters, which accepts one size only.
pub(in super::super) fn narrow_xrd() -> Value {
    let mut xrd = broker_tests::world::xrd_document("example.org", "Cluster", "clusters");
    let schema = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/parameters";
    xrd.pointer_mut(schema).unwrap()["properties"]["size"]["enum"] = json!(["large"]);
    xrd
}

fn change_size(world: &World, xr: &ObjectReference) {
    world.cluster.patch_as("kubectl", xr, &json!({"spec": {"parameters": {"size": "huge"}}}));
}
