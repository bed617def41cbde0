//! Blueprints beside each other: what their Compositions read, and the kinds and names that they share.

use broker_render::catalog::{Blueprint, Definitions};
use serde_json::{Value, json};

use crate::catalog::{Draft, xrd_spec};

const UNREAD: &str = "warning: vm/composition.yaml: spec.pipeline: no patch reads \
                      spec.parameters.size; the parameter does nothing";

/// A blueprint whose parameter `size` is read by these patches alone.
fn with_patches(patches: Value, sets: Value) -> Draft {
    let mut draft = Draft::new();
    let input = &mut draft.composition["spec"]["pipeline"][0]["input"];
    input["resources"][1]["patches"][0] = json!({"fromFieldPath": "metadata.name"});
    input["resources"][2]["patches"] = patches;
    input["patchSets"] = sets;
    draft
}

#[test]
fn parameter_is_read_only_by_a_patch_from_the_composite() {
    let size = "spec.parameters.size";
    let combined = json!({"variables": [{"fromFieldPath": size}], "strategy": "string"});
    let rows = [
        ("by default", json!({"fromFieldPath": size}), true),
        ("by name", json!({"type": "FromCompositeFieldPath", "fromFieldPath": size}), true),
        ("in double quotes", json!({"fromFieldPath": "spec.parameters[\"size\"]"}), true),
        ("in brackets", json!({"fromFieldPath": "spec.parameters[size]"}), true),
        ("below it", json!({"fromFieldPath": "spec.parameters.size[0].x"}), true),
        ("around it", json!({"fromFieldPath": "spec.parameters"}), true),
        ("combined", json!({"type": "CombineFromComposite", "combine": combined}), true),
        ("in a set", json!({"type": "PatchSet", "patchSetName": "used"}), true),
        ("in a set that is not used", json!({"fromFieldPath": "spec.x"}), false),
        ("to the composite", json!({"type": "ToCompositeFieldPath", "fromFieldPath": size}), false),
        ("combined to it", json!({"type": "CombineToComposite", "combine": combined}), false),
        (
            "from the environment",
            json!({"type": "FromEnvironmentFieldPath", "fromFieldPath": size}),
            false,
        ),
    ];
    let sets = json!([{"name": "used", "patches": [{"fromFieldPath": size}]}]);
    for (why, patch, read) in rows {
        let (_, problems) = with_patches(json!([patch]), sets.clone()).check();
        let expected: &[&str] = if read { &[] } else { &[UNREAD] };
        assert_eq!(problems, expected, "{why}");
    }
}

#[test]
fn parameter_of_a_function_that_cannot_be_read_is_not_reported() {
    let mut draft = with_patches(json!([]), json!([]));
    draft.composition["spec"]["pipeline"][1]["functionRef"]["name"] = json!("function-kcl");
    draft.metadata["composedKinds"] = json!([{"apiVersion": "v1", "kind": "Pod"}]);
    assert_eq!(draft.check().1, [""; 0]);
}

#[test]
fn token_that_is_only_written_goes_nowhere() {
    let mut draft = Draft::new();
    let input = &mut draft.composition["spec"]["pipeline"][0]["input"];
    input["resources"][0]["patches"][0]["type"] = json!("ToCompositeFieldPath");
    let expected = "warning: vm/composition.yaml: spec.pipeline: no patch reads spec.userData; the \
                    token would go nowhere";
    assert_eq!(draft.check().1, [expected]);
}

#[test]
fn patch_with_a_bad_path_is_an_error() {
    let draft = with_patches(json!([{"fromFieldPath": "spec.parameters[size"}]), json!([]));
    let bad =
        "error: vm/composition.yaml: spec.pipeline: \"spec.parameters[size\" is no field path";
    assert_eq!(draft.check().1, [bad, UNREAD]);
}

/// What a catalog says of two blueprints, of which the second was changed.
fn together(slug: &str, change: impl FnOnce(&mut Draft)) -> Vec<String> {
    let mut other = Draft::new();
    other.composition["metadata"]["name"] = json!("other");
    change(&mut other);
    let (first, mut second) = (blueprint(&Draft::new()), blueprint(&other));
    slug.clone_into(&mut second.slug);
    let mut definitions = Definitions::default();
    assert_eq!(definitions.add(&first), []);
    definitions.add(&second).iter().map(ToString::to_string).collect()
}

fn blueprint(draft: &Draft) -> Blueprint {
    draft.check().0.unwrap()
}

#[test]
fn blueprints_of_one_kind_agree_on_its_schema() {
    let differs = "error: db/xrd.yaml: spec.versions: blueprint \"vm\" has another schema for v1 of \
                   Machine of example.org; use the same, or a new version name";
    assert_eq!(together("db", |_| {}), [""; 0], "two Compositions for one kind");
    let widened = |draft: &mut Draft| {
        xrd_spec(draft)["properties"]["parameters"]["properties"]["zone"] =
            json!({"type": "string"});
    };
    assert_eq!(together("db", widened), [differs]);
    let ruled = |draft: &mut Draft| {
        xrd_spec(draft)["x-kubernetes-validations"] = json!([{"rule": "has(self.userData)"}]);
    };
    assert_eq!(together("db", ruled), [differs], "a rule that only the API server reads");
    let described =
        |draft: &mut Draft| xrd_spec(draft)["properties"]["userData"]["description"] = json!("!");
    assert_eq!(together("db", described), [""; 0], "people read it");
    let named = |draft: &mut Draft| {
        xrd_spec(draft)["properties"]["parameters"]["properties"]["description"] =
            json!({"type": "string"});
    };
    assert_eq!(together("db", named), [differs], "a field of that name is no description");
}

#[test]
fn versions_that_an_xrd_only_keeps_count_as_well() {
    let second = |draft: &mut Draft| {
        let mut version = draft.xrd["spec"]["versions"][0].clone();
        version["name"] = json!("v2");
        draft.xrd["spec"]["versions"][0]["referenceable"] = json!(false);
        draft.xrd["spec"]["versions"][0]["served"] = json!(false);
        draft.xrd["spec"]["versions"].as_array_mut().unwrap().push(version);
        draft.metadata["version"] = json!("v2");
        draft.composition["spec"]["compositeTypeRef"]["apiVersion"] = json!("example.org/v2");
    };
    assert_eq!(together("db", second), [""; 0]);
    let drifted = |draft: &mut Draft| {
        second(draft);
        xrd_spec(draft)["properties"]["zone"] = json!({"type": "string"});
    };
    assert_eq!(together("db", drifted).len(), 1);
}

#[test]
fn blueprints_of_one_kind_agree_on_its_scope() {
    let cluster = |draft: &mut Draft| draft.xrd["spec"]["scope"] = json!("Cluster");
    let differs = "error: db/xrd.yaml: spec: blueprint \"vm\" gives Machine of example.org another \
                   plural or scope";
    assert_eq!(together("db", cluster), [differs]);
}

#[test]
fn composition_name_belongs_to_one_blueprint() {
    let other = |draft: &mut Draft| {
        draft.composition["metadata"]["name"] = json!("vm");
        draft.composition["spec"]["pipeline"][1]["step"] = json!("another");
    };
    let taken = "error: db/composition.yaml: metadata.name: blueprint \"vm\" has another Composition \
                 of this name; use a name of its own";
    assert_eq!(together("db", other), [taken]);
    assert_eq!(together("vm", other), [""; 0], "a version of the same blueprint");
    let same = |draft: &mut Draft| draft.composition["metadata"]["name"] = json!("vm");
    assert_eq!(together("db", same), [""; 0], "the same Composition");
}

/// What a catalog says of a blueprint that composes the composite resources of another, whichever is added first.
fn nested(listed: &Value) -> Vec<String> {
    let mut outer = Draft::new();
    outer.xrd["spec"]["names"] = json!({"kind": "Estate", "plural": "estates"});
    outer.xrd["metadata"]["name"] = json!("estates.example.org");
    outer.composition["metadata"]["name"] = json!("estate");
    outer.composition["spec"]["compositeTypeRef"]["kind"] = json!("Estate");
    outer.metadata["composedKinds"] = listed.clone();
    let mut inner = Draft::new();
    inner.metadata["composedKinds"] = json!([
        {"apiVersion": "cloud.example.org/v1", "kind": "Server"}, {"apiVersion": "v1", "kind": "Secret"}
    ]);
    let (mut outer, inner) = (blueprint(&outer), blueprint(&inner));
    "estate".clone_into(&mut outer.slug);
    let told = |order: [&Blueprint; 2]| -> Vec<String> {
        let mut definitions = Definitions::default();
        assert!(order.iter().all(|one| definitions.add(one).is_empty()));
        definitions.unlisted().iter().map(ToString::to_string).collect()
    };
    let one = told([&outer, &inner]);
    assert_eq!(one, told([&inner, &outer]), "the order makes a difference");
    one
}

#[test]
fn kind_that_a_nested_composite_composes_has_to_be_listed() {
    let machine = json!({"apiVersion": "example.org/v1", "kind": "Machine"});
    let server = |version: &str| json!({"apiVersion": format!("cloud.example.org/{version}"), "kind": "Server"});
    let missing = "error: estate/metadata.json: composedKinds: lists Machine (example.org/v1), which \
                   composes Server (cloud.example.org/v1); list that, too";
    assert_eq!(nested(&json!([machine])), [missing]);
    assert_eq!(nested(&json!([machine, server("v1")])), [""; 0]);
    assert_eq!(nested(&json!([machine, server("v2")])), [""; 0], "its objects are the same");
    assert_eq!(nested(&json!([server("v1")])), [""; 0], "it composes no composite resource");
}
