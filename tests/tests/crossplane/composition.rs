//! Two blueprints for one kind: each resource is composed by its own blueprint's Composition.

use broker_domain::Phase;
use broker_tests::TestCluster;
use broker_tests::crossplane::{Installation, Life};
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

/// Without a pinned Composition, Crossplane picks one of two at random. With 16 resources, the
/// chance that all are right is 1 in 65,536.
const OF_EACH: usize = 8;

#[tokio::test(flavor = "multi_thread")]
async fn each_xr_uses_the_composition_of_its_blueprint() {
    let installation = Installation::on(TestCluster::with_crossplane().await).await;
    let _replica = installation.replica();
    let mut lives = Vec::new();
    for _ in 0..OF_EACH {
        for slug in ["paired-north", "paired-south"] {
            lives.push(installation.provision(slug, &[]).await);
        }
    }
    for life in &lives {
        installation.until(life, Phase::Ready).await;
        let slug = life.blueprint.slug.as_str();
        assert_eq!(named_by(&installation, life).await, slug);
        assert_eq!(composed_by(&installation, life).await, [slug]);
    }

    // Another party's change persists over many passes.
    let changed = &lives[0];
    let patch = json!({"spec": {"crossplane": {"compositionRef": {"name": "paired-south"}}}});
    let name = changed.xr_name();
    let composites = installation.composites(changed);
    composites.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    installation.pass(changed).await;
    installation.pass(changed).await;
    assert_eq!(named_by(&installation, changed).await, "paired-south");
    let explained = installation.explain(changed).await;
    assert_eq!(explained["verdict"], "composition_foreign", "{explained}");

    installation.take_down(&lives).await;
}

async fn named_by(installation: &Installation, life: &Life) -> String {
    let xr = installation.composite(life).await.unwrap();
    let name = xr.data.pointer("/spec/crossplane/compositionRef/name").and_then(Value::as_str);
    name.unwrap_or_default().to_owned()
}

async fn composed_by(installation: &Installation, life: &Life) -> Vec<String> {
    let side = |object: &kube::api::DynamicObject| {
        let side = object.data.pointer("/spec/forProvider/fields/side").and_then(Value::as_str);
        side.unwrap_or_default().to_owned()
    };
    installation.composed(life).await.iter().map(side).collect()
}
