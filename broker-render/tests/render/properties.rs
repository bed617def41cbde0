//! Property tests of the renderer, for arbitrary input.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use broker_domain::Parameters;
use broker_render::{
    APPLIED_DIGEST_ANNOTATION, Armed, CloudTags, InjectionStrategy, Manifest, ParameterSchema,
    Precondition, Provider, TagSkip, XrdScope, cloud_tags, inject_bootstrap, is_applied,
    is_drifted, owned_digest, preserve_injection, references, scrub, xr,
};
use proptest::prelude::*;
use regex::Regex;
use serde_json::{Map, Value, json};

use crate::support::{InjectionFixture, RenderFixture, token_id, value};

fn any_value() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-1000_i32..1000).prop_map(|number| json!(f64::from(number) / 8.0)),
        any::<String>().prop_map(Value::from),
    ];
    scalar.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(any_key(), inner, 1..4).prop_map(|map| json!(map)),
        ]
    })
}

/// Parameter names, hostile ones included.
fn any_key() -> impl Strategy<Value = String> {
    const HOSTILE: [&str; 9] =
        ["crossplane", "metadata", "spec", "userData", "../x", "a.b", "", "$", "labels"];
    prop_oneof![
        "[a-z]{1,6}",
        any::<String>(),
        prop::sample::select(&HOSTILE[..]).prop_map(str::to_owned),
    ]
}

fn any_parameters() -> impl Strategy<Value = BTreeMap<String, Value>> {
    prop::collection::btree_map(any_key(), any_value(), 0..5).prop_map(|mut map| {
        map.retain(|name, _| !["helmValues", "providerSecret"].contains(&name.as_str()));
        map
    })
}

/// Validates with a schema that accepts every parameter.
fn validated(text: &str) -> Parameters {
    ParameterSchema::parse(br#"{"type": "object"}"#).unwrap().validate(text).unwrap().into()
}

fn fixture_with(parameters: &BTreeMap<String, Value>) -> RenderFixture {
    let mut fixture = RenderFixture::node(InjectionStrategy::CloudInitUserData);
    fixture.parameters = validated(&json!(parameters).to_string());
    fixture
}

fn manifest_value(manifest: &Manifest) -> Value {
    value(&manifest.to_bytes())
}

/// Adds the `managedFields` that an apply of this object records: one leaf per scalar, array and empty
/// object.
fn with_managed_fields(mut object: Value) -> Value {
    let mut fields = field_set(&object);
    for known in ["f:apiVersion", "f:kind"] {
        fields.as_object_mut().unwrap().remove(known);
    }
    let metadata = fields["f:metadata"].as_object_mut().unwrap();
    metadata.retain(|key, _| ["f:labels", "f:annotations"].contains(&key.as_str()));
    object["metadata"]["managedFields"] = json!([
        {"manager": "plexsphere-provisioning-broker", "operation": "Apply", "fieldsV1": fields},
        {"manager": "crossplane", "operation": "Update", "fieldsV1": {"f:spec": {"f:crossplane": {}}}},
    ]);
    object
}

fn field_set(value: &Value) -> Value {
    let Value::Object(object) = value else { return json!({}) };
    object.iter().map(|(key, value)| (format!("f:{key}"), field_set(value))).collect()
}

/// The paths of all sent fields, down to scalars and arrays.
fn collect_paths(value: &Value, path: &mut Vec<String>, found: &mut Vec<Vec<String>>) {
    match value.as_object().filter(|object| !object.is_empty()) {
        Some(object) => {
            for (key, value) in object {
                path.push(key.clone());
                collect_paths(value, path, found);
                path.pop();
            }
        }
        None => found.push(path.clone()),
    }
}

fn value_at<'a>(value: &'a mut Value, path: &[String]) -> &'a mut Value {
    path.iter().fold(value, |value, key| &mut value[key.as_str()])
}

/// Removes a field from a tree of field names, and its emptied parents.
fn disown(tree: &mut Value, path: &[String]) {
    let (Some((first, rest)), Some(fields)) = (path.split_first(), tree.as_object_mut()) else {
        return;
    };
    disown(&mut fields[first], rest);
    if rest.is_empty() || fields[first] == json!({}) {
        fields.remove(first);
    }
}

/// Adds foreign fields to a live object at every level.
fn add_foreign_fields(object: &mut Value) {
    if let Value::Object(fields) = object {
        fields.values_mut().for_each(add_foreign_fields);
        fields.insert("added-by-others".to_owned(), json!({"a": [1, 2]}));
    }
}

fn with_foreign_fields(mut object: Value) -> Value {
    let managed =
        object["metadata"].as_object_mut().and_then(|metadata| metadata.remove("managedFields"));
    add_foreign_fields(&mut object);
    object["status"] = json!({"conditions": [{"type": "Ready", "status": "True"}]});
    object["spec"]["crossplane"]["resourceRefs"] = json!([]);
    object["metadata"]["generation"] = json!(4);
    if let Some(managed) = managed {
        object["metadata"]["managedFields"] = managed;
    }
    object
}

fn escaped(text: &str) -> String {
    let quoted = json!(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

fn go_escaped(escaped: &str) -> String {
    escaped.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

proptest! {
    #[test]
    fn rendering_ignores_key_order(parameters in any_parameters()) {
        let entry = |(key, value): (&String, &Value)| format!("{}: {value}", json!(key));
        let forward: Vec<_> = parameters.iter().map(entry).collect();
        let backward: Vec<_> = forward.iter().rev().cloned().collect();
        let one = validated(&format!("{{{}}}", forward.join(", ")));
        let other = validated(&format!("{{ {} }}", backward.join(" , ")));
        prop_assert_eq!(one.as_json(), other.as_json());
        let revalidated = validated(one.as_json());
        prop_assert_eq!(revalidated.as_json(), one.as_json(), "canonical text is stable");
        let (one, other) = (fixture_with(&parameters), fixture_with(&parameters));
        let (one, other) = (xr(&one.input()).unwrap(), xr(&other.input()).unwrap());
        prop_assert_eq!(one.shell(3).to_bytes(), other.shell(3).to_bytes());
        prop_assert_eq!(one.shell(3).digest(), other.shell(3).digest());
    }

    /// Invariant: values of a caller appear only below `spec.parameters`.
    #[test]
    fn caller_values_stay_below_parameters(parameters in any_parameters()) {
        let (with, without) = (fixture_with(&parameters), fixture_with(&BTreeMap::new()));
        let armed = |fixture: &RenderFixture| {
            let mut armed = manifest_value(&xr(&fixture.input()).unwrap().armed(&Armed::Standalone));
            // The digest depends on the values but contains none.
            let annotations = armed["metadata"]["annotations"].as_object_mut().unwrap();
            annotations.remove(APPLIED_DIGEST_ANNOTATION).unwrap();
            armed
        };
        let (mut with, without) = (armed(&with), armed(&without));
        let sent = with["spec"].as_object_mut().unwrap().remove("parameters").unwrap_or(json!({}));
        prop_assert_eq!(&with, &without);
        let pinned = json!({"compositionRef": {"name": "sample-machine"}});
        prop_assert_eq!(&with["spec"]["crossplane"], &pinned);
        let expected: Value = serde_json::from_str(fixture_with(&parameters).parameters.as_json()).unwrap();
        prop_assert_eq!(sent, expected);
    }

    #[test]
    fn foreign_additions_are_not_drift(parameters in any_parameters()) {
        let fixture = fixture_with(&parameters);
        let desired = xr(&fixture.input()).unwrap().armed(&Armed::Token(token_id()));
        let conditional = desired.clone().with_precondition(&Precondition::Absent);
        prop_assert_eq!(conditional.digest(), desired.digest());
        let applied = with_managed_fields(manifest_value(&desired));
        for (live, owned) in [
            (manifest_value(&desired), false),
            (applied.clone(), true),
            (with_foreign_fields(manifest_value(&desired)), false),
            (with_foreign_fields(applied), true),
        ] {
            prop_assert!(is_applied(&live, &desired));
            prop_assert!(is_applied(&live, &conditional), "a precondition is not a field");
            if owned {
                prop_assert_eq!(owned_digest(&live), Some(desired.digest()));
                prop_assert!(!is_drifted(&live, owned_digest(&live)));
            }
        }
    }

    #[test]
    fn any_change_to_a_sent_field_is_drift(
        parameters in any_parameters(),
        pick in any::<prop::sample::Index>(),
        replacement in any_value(),
    ) {
        let fixture = fixture_with(&parameters);
        let desired = xr(&fixture.input()).unwrap().armed(&Armed::Token(token_id()));
        let applied = manifest_value(&desired);
        let mut paths = Vec::new();
        collect_paths(&applied, &mut Vec::new(), &mut paths);
        // An empty spec has no field to change. A re-apply keeps the Composition, and the digest covers the
        // other fields.
        let pinned = ["spec", "crossplane"];
        let is_digest = |path: &Vec<String>| path.last().is_some_and(|key| key == APPLIED_DIGEST_ANNOTATION);
        paths.retain(|path| path != &["spec"] && path[..path.len().min(2)] != pinned && !is_digest(path));
        let path = pick.get(&paths);

        let mut changed = applied.clone();
        let field = value_at(&mut changed, path);
        let same_number = field.as_f64().is_some() && field.as_f64() == replacement.as_f64();
        // An object that replaces an empty one counts as an addition by another writer.
        let added = field.is_object() && replacement.is_object();
        prop_assume!(*field != replacement && !same_number && !added);
        *field = replacement;
        prop_assert!(!is_applied(&changed, &desired), "changed {path:?}");

        let mut removed = applied.clone();
        let (last, parent) = path.split_last().unwrap();
        value_at(&mut removed, parent).as_object_mut().unwrap().remove(last);
        prop_assert!(!is_applied(&removed, &desired), "removed {path:?}");
        let before = owned_digest(&with_managed_fields(applied));
        if ["spec", "metadata"].contains(&path[0].as_str()) && path.len() > 2 {
            let (removed, changed) = (with_managed_fields(removed), with_managed_fields(changed));
            prop_assert_ne!(owned_digest(&removed), before);
            prop_assert_ne!(owned_digest(&changed), before);
            prop_assert!(is_drifted(&removed, owned_digest(&removed)), "removed {path:?}");
            prop_assert!(is_drifted(&changed, owned_digest(&changed)), "changed {path:?}");
        }
    }

    /// Another writer that restores a field owns it, but nothing has drifted.
    #[test]
    fn restored_field_is_not_drift(
        parameters in any_parameters(),
        pick in any::<prop::sample::Index>(),
    ) {
        let fixture = fixture_with(&parameters);
        let desired = xr(&fixture.input()).unwrap().armed(&Armed::Token(token_id()));
        let mut live = with_managed_fields(manifest_value(&desired));
        let mut paths = Vec::new();
        collect_paths(&live["spec"]["parameters"], &mut Vec::new(), &mut paths);
        prop_assume!(paths.iter().all(|path| !path.is_empty()));
        let path: Vec<_> = ["spec", "parameters"].map(str::to_owned).into_iter().chain(pick.get(&paths).clone()).collect();
        let fields = path.iter().map(|key| format!("f:{key}")).collect::<Vec<_>>();
        let managed = &mut live["metadata"]["managedFields"];
        disown(&mut managed[0]["fieldsV1"], &fields);
        let taken = fields.iter().rev().fold(json!({}), |inner, key| json!({ key.as_str(): inner }));
        managed.as_array_mut().unwrap().push(json!({"manager": "kubectl", "operation": "Update", "fieldsV1": taken}));
        let owned = owned_digest(&live);
        prop_assert_ne!(owned, Some(desired.digest()));
        prop_assert!(!is_drifted(&live, owned), "{path:?}");
        *value_at(&mut live, &path) = json!("another value");
        prop_assert!(is_drifted(&live, owned_digest(&live)), "{path:?}");
    }

    /// A field that the broker applied earlier and no longer sends must be removed.
    #[test]
    fn stale_own_field_is_drift(parameters in any_parameters()) {
        let fixture = fixture_with(&parameters);
        let desired = xr(&fixture.input()).unwrap().armed(&Armed::Token(token_id()));
        let mut live = manifest_value(&desired);
        live["spec"]["cloudTags"] = json!({"plexsphere:gone": "x"});
        prop_assert!(is_applied(&live, &desired), "a foreign field does not count");
        let live = with_managed_fields(live);
        prop_assert!(!is_applied(&live, &desired), "a field of the broker counts");
        prop_assert_ne!(owned_digest(&live), Some(desired.digest()));
    }

    #[test]
    fn preserved_injection_is_not_drift(
        parameters in any_parameters(),
        token in "[ -~]{1,64}",
        strategy in prop::sample::select(&InjectionStrategy::ALL[..]),
    ) {
        let mut fixture = fixture_with(&parameters);
        fixture.strategy = strategy;
        let rendered = xr(&fixture.input()).unwrap();
        let injected = InjectionFixture::token(&token);
        let armed = inject_bootstrap(&rendered, &injected.bootstrap()).unwrap();
        let live = value(&armed.expose_for_apply());
        let live = with_foreign_fields(with_managed_fields(live));
        let reapplied = preserve_injection(&live, &rendered, token_id()).unwrap();
        prop_assert_eq!(reapplied.expose_for_apply(), armed.expose_for_apply());
        let desired = rendered.armed(&Armed::Token(token_id()));
        prop_assert!(is_applied(&live, &desired));
        prop_assert_eq!(owned_digest(&live), Some(desired.digest()));
        prop_assert!(!is_applied(&live, &rendered.shell(1)));
    }

    #[test]
    fn scrub_leaves_no_trace(
        token in "[ -~]{1,64}",
        before in ".{0,40}",
        after in ".{0,40}",
        padding in "[ -~]{0,5}",
    ) {
        let document = format!("{padding}{token}{after}");
        let encodings = [STANDARD.encode(&token), URL_SAFE.encode(&token)];
        let around = [token.clone(), STANDARD.encode(&document), URL_SAFE.encode(&document)];
        let all = encodings.iter().chain(&around);
        let message = all.fold(before, |text, encoding| format!("{text} {encoding} {after}"));
        let scrubbed = scrub(&message, &[&token]);
        prop_assert!(scrubbed.len() <= 1024);
        for encoding in [&encodings[..], &around[..1]].concat() {
            prop_assert!(!scrubbed.contains(&encoding), "{scrubbed}");
        }
        // A base64 digit that also depends on a neighbour may remain. Decoding the rest at each of the three
        // alignments must not reveal the token.
        if token.len() >= 6 {
            for word in scrubbed.split(|c: char| !(c.is_ascii_alphanumeric() || "+/-_".contains(c))) {
                let word = word.replace('-', "+").replace('_', "/");
                for skip in 0..4.min(word.len()) {
                    let whole = (word.len() - skip) / 4 * 4;
                    if let Ok(bytes) = STANDARD.decode(&word[skip..skip + whole]) {
                        let found = bytes.windows(token.len()).any(|window| window == token.as_bytes());
                        prop_assert!(!found, "{scrubbed}");
                    }
                }
            }
        }
    }

    #[test]
    fn token_is_scrubbed_below_three_json_layers(
        token in "[ -~]{8,64}",
        layers in 0_usize..=3,
        by_go in any::<[bool; 3]>(),
        cut in 8_usize..200,
    ) {
        let written = (0..layers).fold(token.clone(), |text, layer| {
            let escaped = escaped(&text);
            if by_go[layer] { go_escaped(&escaped) } else { escaped }
        });
        let whole = scrub(&format!("before{written}after"), &[&token]);
        prop_assert_eq!(&whole, "before█after");
        let cut = cut.min(written.len());
        let scrubbed = scrub(&format!("before{}\u{2026}\": too long", &written[..cut]), &[&token]);
        // Behind a token that ends in a backslash, the escapes of that backslash may remain.
        prop_assert_eq!(scrubbed.replace('\\', ""), "before█\u{2026}\": too long");
    }

    #[test]
    fn references_never_panic(live in any_value()) {
        for scope in XrdScope::ALL {
            let wrapped = json!({"metadata": live, "spec": {"resourceRefs": live, "crossplane": live}});
            drop(references(&wrapped, scope));
            drop(references(&live, scope));
        }
        let _ = owned_digest(&json!({"metadata": {"managedFields": live}}));
        let fields = json!([{"manager": "plexsphere-provisioning-broker", "operation": "Apply", "fieldsV1": live}]);
        let _ = owned_digest(&json!({"metadata": {"managedFields": fields}, "spec": live}));
    }
}

/// The providers' published rules: prefix, number of tags, and pattern and length of key and value.
fn published_rules(provider: &str) -> (&'static str, usize, [(&'static str, usize); 2]) {
    let aws = r"^[\p{L}\p{Z}\p{N}_.:/=+\-@]*$";
    let hcloud_key = r"^[a-z0-9.-]+/[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$";
    let hcloud_value = r"^(?:[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?$";
    let narrow =
        [(r"^[\p{Ll}\p{Lo}][\p{Ll}\p{Lo}\p{N}_-]*$", 63), (r"^[\p{Ll}\p{Lo}\p{N}_-]*$", 63)];
    match provider {
        "aws" => ("plexsphere:", 50, [(aws, 128), (aws, 256)]),
        "azure" => ("plexsphere:", 50, [(r"^[^\p{Cc}<>%&\\?/]*$", 128), (r"^\P{Cc}*$", 256)]),
        "openstack" => ("plexsphere:", 128, [("^[A-Za-z0-9_:. -]*$", 255), (r"^\P{Cc}*$", 255)]),
        "hcloud" => ("plexsphere.io/", 64, [(hcloud_key, 77), (hcloud_value, 63)]),
        "gcp" => ("plexsphere-", 64, narrow),
        _ => ("plexsphere-", 50, narrow),
    }
}

proptest! {
    // Each case has up to 70 labels.
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn tags_comply_and_every_label_is_accounted_for(
        labels in prop::collection::btree_map(
            "[a-zA-Z0-9:/._ ä<-]{0,80}|[a-z]{1,200}|[-_.]|\\PC{1,6}|[a-zA-Z0-9._-]{1,66}",
            "[a-z0-9-]{0,70}|.{0,20}|[é-ü]{250,260}|[-_.]|[a-zA-Z0-9._-]{0,66}",
            0..70,
        ),
        provider in prop::sample::select(&["aws", "azure", "gcp", "hcloud", "openstack", "other"][..]),
    ) {
        let CloudTags { tags, skipped, .. } = cloud_tags(&Provider::new(provider).unwrap(), &labels);
        let (prefix, count, rules) = published_rules(provider);
        let rules = rules.map(|(rule, longest)| (Regex::new(rule).unwrap(), longest));
        let complies = |key: &str, value: &str| {
            rules.iter().zip([key, value]).all(|((rule, longest), text)| {
                rule.is_match(text) && text.chars().count() <= *longest
            })
        };
        prop_assert!(tags.len() <= count);
        for (key, value) in &tags {
            prop_assert!(complies(key, value), "{key:?} {value:?}");
            let label = key.strip_prefix(prefix).unwrap();
            prop_assert_eq!(labels.get(label), Some(value), "nothing is rewritten");
        }
        if provider == "azure" {
            let distinct: BTreeSet<_> = tags.keys().map(|key| key.to_lowercase()).collect();
            prop_assert_eq!(distinct.len(), tags.len());
        }
        for skip in skipped.iter().filter(|skip| skip.reason != TagSkip::TooMany) {
            // These are exactly Hetzner's rules: every label that complies is sent.
            let kept = complies(&format!("{prefix}{}", skip.key), &labels[&skip.key]);
            prop_assert!(provider != "hcloud" || !kept, "{:?}", skip);
        }
        let sent = tags.keys().map(|key| key.strip_prefix(prefix).unwrap().to_owned());
        let accounted: BTreeSet<_> =
            sent.chain(skipped.iter().map(|skip| skip.key.clone())).collect();
        prop_assert_eq!(tags.len() + skipped.len(), labels.len());
        prop_assert_eq!(accounted, labels.keys().cloned().collect::<BTreeSet<_>>());
    }
}

/// Lists with keyed or unique items: only the broker's items count.
#[test]
fn foreign_list_items_keep_the_digest() {
    let object = |items: Value, fields: Value| {
        json!({
            "metadata": {"managedFields": [{
                "manager": "plexsphere-provisioning-broker", "operation": "Apply",
                "fieldsV1": {"f:spec": {"f:items": fields}},
            }]},
            "spec": {"items": items},
        })
    };
    let by_key = json!({"k:{\"name\":\"a\"}": {".": {}, "f:name": {}, "f:size": {}}});
    let alone = object(json!([{"name": "a", "size": 1}]), by_key.clone());
    let among =
        object(json!([{"name": "b"}, {"name": "a", "size": 1, "note": "x"}]), by_key.clone());
    assert_eq!(owned_digest(&alone), owned_digest(&among));
    let changed = object(json!([{"name": "a", "size": 2}]), by_key);
    assert_ne!(owned_digest(&alone), owned_digest(&changed));
    let members = json!({"v:\"x\"": {}});
    let alone = object(json!(["x"]), members.clone());
    assert_eq!(owned_digest(&alone), owned_digest(&object(json!(["y", "x"]), members)));
}

/// An object whose owners are recorded without the broker must be applied again.
#[test]
fn unowned_object_is_not_applied() {
    let fixture = fixture_with(&BTreeMap::new());
    let desired = xr(&fixture.input()).unwrap().armed(&Armed::Standalone);
    let mut live = manifest_value(&desired);
    assert!(is_applied(&live, &desired), "without a record of owners, values count");
    live["metadata"]["managedFields"] =
        json!([{"manager": "kubectl", "operation": "Apply", "fieldsV1": field_set(&live)}]);
    assert!(!is_applied(&live, &desired));
}

/// Without an entry for the broker, there is nothing to compare.
#[test]
fn never_applied_object_has_no_digest() {
    assert_eq!(owned_digest(&json!({})), None);
    assert_eq!(owned_digest(&json!({"metadata": {"managedFields": []}})), None);
    let others = json!([
        {"manager": "kubectl", "operation": "Apply", "fieldsV1": {"f:spec": {}}},
        {"manager": "plexsphere-provisioning-broker", "operation": "Update", "fieldsV1": {"f:spec": {}}},
        {"manager": "plexsphere-provisioning-broker", "operation": "Apply", "subresource": "status",
         "fieldsV1": {"f:status": {}}},
    ]);
    assert_eq!(
        owned_digest(&json!({"metadata": {"managedFields": others}, "spec": Map::new()})),
        None
    );
}
