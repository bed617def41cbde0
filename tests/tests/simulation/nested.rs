//! A composite resource that composes another one, which composes an object of a kind that the blueprint lists.

use broker_domain::{ObjectReference, Phase};
use broker_memory::{Behaviour, KindScope};
use broker_render::catalog::ComposedKind;
use broker_tests::K;
use broker_tests::world::{STANDALONE, World, declaration, operator, xrd_of};
use serde_json::json;

const INNER: (&str, &str) = ("other.example.org/v1", "Inner");
const NOP: (&str, &str) = ("nop.crossplane.io/v1alpha1", "NopResource");
const HELD: &str = "finalizer.managedresource.crossplane.io";

/// Both composite resources are gone, and no reference ever named what the inner one composed: only its label does.
#[tokio::test]
async fn residue_of_a_nested_composite_holds_the_teardown() {
    let world = World::new();
    let (api_version, kind) = INNER;
    world.cluster.install_kind(api_version, kind, KindScope::Namespaced);
    let inner = ComposedKind { api_version: api_version.to_owned(), kind: kind.to_owned() };
    let behaviour = Behaviour::ready_after(1).composing_kinds([inner]);
    world.cluster.behave(&xrd_of("Bucket", "buckets"), behaviour);
    let ready = world.brought_to(Phase::Ready, &declaration(STANDALONE)).await;
    let xr = world.xr(&ready);
    let name = format!("{}-inner-nop", xr.name());
    let residue = ObjectReference::new(NOP.0, NOP.1, name, xr.namespace()).unwrap();
    let labels = json!({"crossplane.io/composite": xr.name()});
    let object = json!({"metadata": {"labels": labels, "finalizers": [HELD]}});
    world.cluster.create_as("crossplane", &residue, &object);
    assert!(world.cluster.stands(&residue));

    world.service.deprovision(&operator(), ready.id()).await.unwrap();
    world.cluster.delete_in_background(&residue);
    for _ in 0..K {
        world.round(ready.id()).await.unwrap();
    }
    assert!(!world.cluster.stands(&xr), "it does not wait for what it did not compose");
    assert_eq!(world.get(ready.id()).await.phase(), Phase::Deprovisioning);

    world.cluster.let_go(&residue, HELD);
    world.until(ready.id(), Phase::Deleted).await;
    assert_eq!(world.standing(), []);
}
