//! An XR starts with the Composition of its blueprint. Later changes by other parties are kept.

use broker_domain::{ObjectReference, Phase};
use broker_memory::Behaviour;
use broker_render::{XrdScope, composition_ref};
use broker_tests::world::{NODE, SIZED, STANDALONE, World, declaration};
use serde_json::{Value, json};

fn composition(world: &World, xr: &ObjectReference) -> Option<String> {
    let live = world.cluster.object(xr).unwrap();
    composition_ref(&live, XrdScope::Namespaced).map(str::to_owned)
}

fn set_composition_ref(world: &World, xr: &ObjectReference, reference: &Value) {
    let change = json!({"spec": {"crossplane": {"compositionRef": reference}}});
    world.cluster.patch_as("kubectl", xr, &change);
}

#[tokio::test]
async fn composition_is_pinned_from_the_shell_to_ready() {
    for (blueprint, pinned) in [(NODE, "machines"), (STANDALONE, "buckets")] {
        let world = World::new();
        world.cluster.keep_versions();
        let ready = world.declare_until(Phase::Ready, &declaration(blueprint)).await;
        let xr = world.xr(&ready);
        assert_eq!(composition(&world, &xr).as_deref(), Some(pinned));
        for stored in world.cluster.versions().into_iter().filter(|version| version.reference == xr)
        {
            let object = stored.object;
            assert_eq!(composition_ref(&object, XrdScope::Namespaced), Some(pinned), "{object}");
        }
    }
}

#[tokio::test]
async fn composition_of_an_existing_shell_is_pinned_before_arming() {
    for reference in [json!({"name": "another"}), Value::Null] {
        let world = World::new();
        let declared = world.declare(&declaration(NODE)).await.unwrap();
        world.tokens.set_reachable(false);
        world.reconciler.reconcile(declared.id()).await.unwrap_err();
        let xr = world.xr(&declared);
        set_composition_ref(&world, &xr, &reference);
        world.tokens.set_reachable(true);
        world.expire_leases();
        world.until(declared.id(), Phase::Ready).await;
        assert_eq!(composition(&world, &xr).as_deref(), Some("machines"), "{reference}");
    }
}

#[tokio::test]
async fn composition_changed_by_another_survives_a_reapply() {
    let sized = || declaration(SIZED).with_parameters(r#"{"size":"small"}"#);
    for (declared, drift) in [
        (sized(), json!({"spec": {"parameters": {"size": "huge"}}})),
        (
            declaration(STANDALONE),
            json!({"metadata": {"labels": {"plexsphere.io/project-id": "x"}}}),
        ),
    ] {
        let world = World::new();
        let declared = world.declare(&declared).await.unwrap();
        world.cluster.behave_for(declared.id(), Behaviour::never_ready());
        let resource = world.until(declared.id(), Phase::Provisioning).await;
        let xr = world.xr(&resource);
        set_composition_ref(&world, &xr, &json!({"name": "another"}));
        world.cluster.patch_as("kubectl", &xr, &drift);
        let drifted = world.cluster.object(&xr).unwrap();
        world.round(resource.id()).await.unwrap();
        let live = world.cluster.object(&xr).unwrap();
        assert_ne!(drifted["metadata"]["resourceVersion"], live["metadata"]["resourceVersion"]);
        assert_ne!(live["spec"]["parameters"]["size"], "huge");
        assert_ne!(live["metadata"]["labels"]["plexsphere.io/project-id"], "x");
        assert_eq!(composition(&world, &xr).as_deref(), Some("another"));
    }
}
