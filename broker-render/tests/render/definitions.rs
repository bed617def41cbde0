//! Tests of several blueprints that share kinds and Composition names.

use broker_render::catalog::{Blueprint, Definitions};
use serde_json::{Value, json};

use crate::support::{cases, check, draft, text};

fn blueprint(slug: &str, changes: &Value) -> Blueprint {
    let mut blueprint = check(&draft(changes)).0.unwrap();
    slug.clone_into(&mut blueprint.slug);
    blueprint
}

/// The problems that a catalog reports for a second, changed blueprint.
fn problems_with_second(slug: &str, changes: &Value) -> Vec<String> {
    let mut definitions = Definitions::default();
    assert_eq!(definitions.add(&blueprint("vm", &json!({}))), []);
    definitions.add(&blueprint(slug, changes)).iter().map(ToString::to_string).collect()
}

#[test]
fn blueprints_of_one_kind_must_agree() {
    for case in cases("two_blueprints") {
        let slug = case.get("slug").map_or("db", text);
        assert_eq!(
            json!(problems_with_second(slug, &case["change"])),
            case["message"],
            "{}",
            case["why"]
        );
    }
}

#[test]
fn unserved_xrd_versions_are_compared_too() {
    let mut kept = draft(&json!({}))["xrd"]["spec"]["versions"][0].take();
    let mut served = kept.clone();
    served["name"] = json!("v2");
    (kept["served"], kept["referenceable"]) = (json!(false), json!(false));
    let changes = json!({
        "/composition/metadata/name": "other",
        "/composition/spec/compositeTypeRef/apiVersion": "example.org/v2",
        "/metadata/version": "v2",
        "/xrd/spec/versions": [kept, served],
    });
    assert_eq!(problems_with_second("db", &changes), [""; 0]);
    let mut changed_schema = changes;
    let schema = "/xrd/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/zone";
    changed_schema[schema] = json!({"type": "string"});
    assert_eq!(problems_with_second("db", &changed_schema).len(), 1);
}

#[test]
fn composition_of_another_served_version_is_a_warning() {
    let mut served = draft(&json!({}))["xrd"]["spec"]["versions"][0].take();
    let mut referenceable = served.clone();
    referenceable["name"] = json!("v2");
    served["referenceable"] = json!(false);
    let changes = json!({"/xrd/spec/versions": [referenceable, served]});
    let (blueprint, problems) = check(&draft(&changes));
    let warning = "warning: vm/composition.yaml: spec.compositeTypeRef: names v1, and the XRD marks v2 as \
                   referenceable; Crossplane expects that one";
    assert_eq!((blueprint.unwrap().xrd.version(), problems), ("v1", vec![warning.to_owned()]));
}

/// The problems when one blueprint composes another's composite resource; must not depend on their order.
fn problems_of_nested(listed: &Value) -> Vec<String> {
    let outer = blueprint(
        "estate",
        &json!({
            "/xrd/spec/names": {"kind": "Estate", "plural": "estates"},
            "/xrd/metadata/name": "estates.example.org",
            "/composition/metadata/name": "estate",
            "/composition/spec/compositeTypeRef/kind": "Estate",
            "/metadata/composedKinds": listed,
        }),
    );
    let server = json!({"apiVersion": "cloud.example.org/v1", "kind": "Server"});
    let composed = json!([server, {"apiVersion": "v1", "kind": "Secret"}]);
    let inner = blueprint("vm", &json!({"/metadata/composedKinds": composed}));
    let unlisted = |order: [&Blueprint; 2]| -> Vec<String> {
        let mut definitions = Definitions::default();
        assert!(order.iter().all(|blueprint| definitions.add(blueprint).is_empty()));
        definitions.unlisted().iter().map(ToString::to_string).collect()
    };
    let problems = unlisted([&outer, &inner]);
    assert_eq!(problems, unlisted([&inner, &outer]), "the order does not matter");
    problems
}

#[test]
fn nested_composite_kind_must_be_listed() {
    let machine = json!({"apiVersion": "example.org/v1", "kind": "Machine"});
    let server = |version: &str| json!({"apiVersion": format!("cloud.example.org/{version}"), "kind": "Server"});
    let missing = "error: estate/metadata.json: composedKinds: lists Machine (example.org/v1), which \
                   composes Server (cloud.example.org/v1); list that kind, too";
    assert_eq!(problems_of_nested(&json!([machine])), [missing]);
    assert_eq!(problems_of_nested(&json!([machine, server("v1")])), [""; 0]);
    assert_eq!(problems_of_nested(&json!([machine, server("v2")])), [""; 0], "another version");
    assert_eq!(problems_of_nested(&json!([server("v1")])), [""; 0], "it composes no other XR");
}
