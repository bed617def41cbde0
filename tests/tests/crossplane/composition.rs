//! Two blueprints for one kind: each resource is composed by its own blueprint's Composition.

use broker_domain::Phase;
use broker_tests::TestCluster;
use broker_tests::crossplane::{DeclaredResource, Installation};
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

/// Without a pinned Composition, Crossplane picks one of two at random. With 16 resources, the
/// chance that all are right is 1 in 65,536.
const PER_BLUEPRINT: usize = 8;

#[tokio::test(flavor = "multi_thread")]
async fn each_xr_uses_the_composition_of_its_blueprint() {
    let installation = Installation::new(TestCluster::with_crossplane().await).await;
    let _replica = installation.replica();
    let mut resources = Vec::new();
    for _ in 0..PER_BLUEPRINT {
        for slug in ["paired-north", "paired-south"] {
            resources.push(installation.provision(slug, &[]).await);
        }
    }
    for resource in &resources {
        installation.wait_for_phase(resource, Phase::Ready).await;
        let slug = resource.blueprint.slug.as_str();
        assert_eq!(composition_name(&installation, resource).await, slug);
        assert_eq!(composed_sides(&installation, resource).await, [slug]);
    }

    // Another party's change persists over many passes.
    let changed = &resources[0];
    let patch = json!({"spec": {"crossplane": {"compositionRef": {"name": "paired-south"}}}});
    let name = changed.xr_name();
    let composites = installation.composites(changed);
    composites.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    installation.run_pass(changed).await;
    installation.run_pass(changed).await;
    assert_eq!(composition_name(&installation, changed).await, "paired-south");
    let explained = installation.explain(changed).await;
    assert_eq!(explained["verdict"], "composition_foreign", "{explained}");

    installation.deprovision_all(&resources).await;
}

async fn composition_name(installation: &Installation, resource: &DeclaredResource) -> String {
    let xr = installation.composite(resource).await.unwrap();
    let name = xr.data.pointer("/spec/crossplane/compositionRef/name").and_then(Value::as_str);
    name.unwrap_or_default().to_owned()
}

async fn composed_sides(installation: &Installation, resource: &DeclaredResource) -> Vec<String> {
    let side = |object: &kube::api::DynamicObject| {
        let side = object.data.pointer("/spec/forProvider/fields/side").and_then(Value::as_str);
        side.unwrap_or_default().to_owned()
    };
    installation.composed(resource).await.iter().map(side).collect()
}
