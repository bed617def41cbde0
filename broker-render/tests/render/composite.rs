//! Composite resources: versions, scopes, shells, tags without a place, and preconditions.

use broker_domain::MeshRole;
use broker_render::{
    Armed, InjectionStrategy, Precondition, Provider, Scope, TagSkip, Xrd, armed, cloud_tags,
    inject_bootstrap, preserve_injection, xr,
};
use serde_json::{Value, json};

use crate::support::{Given, Injected, labels, token_id, xrd_document, xrd_for};

fn value(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap()
}

#[test]
fn the_served_version_is_taken_and_among_several_the_referenceable_one() {
    let version = |name: &str, served: bool, referenceable: bool| {
        json!({"name": name, "served": served, "referenceable": referenceable,
               "schema": {"openAPIV3Schema": {"type": "object"}}})
    };
    for (why, versions, expected) in [
        (
            "the only served one",
            json!([version("v1", false, true), version("v2", true, false)]),
            "v2",
        ),
        (
            "the referenceable one",
            json!([version("v1", true, false), version("v2", true, true)]),
            "v2",
        ),
        ("the first one", json!([version("v1", true, false), version("v2", true, false)]), "v1"),
    ] {
        let mut document = xrd_document(&json!({}));
        document["spec"]["versions"] = versions;
        let xrd = Xrd::parse(document.to_string().as_bytes()).unwrap();
        assert_eq!(xrd.version(), expected, "{why}");
        assert_eq!(xrd.api_version(), format!("example.org/{expected}"));
        assert_eq!((xrd.group(), xrd.plural(), xrd.kind()), ("example.org", "machines", "Machine"));
    }
}

#[test]
fn a_scope_that_is_left_out_depends_on_the_api_version() {
    for (api, scope, expected) in [
        ("v2", None, Scope::Namespaced),
        ("v2", Some("Cluster"), Scope::Cluster),
        ("v1", None, Scope::LegacyCluster),
        ("v1", Some("Namespaced"), Scope::Namespaced),
        ("v1", Some("LegacyCluster"), Scope::LegacyCluster),
    ] {
        let mut document = xrd_document(&json!({}));
        document["apiVersion"] = json!(format!("apiextensions.crossplane.io/{api}"));
        if let Some(scope) = scope {
            document["spec"]["scope"] = json!(scope);
        }
        let xrd = Xrd::parse(document.to_string().as_bytes()).unwrap();
        assert_eq!(xrd.scope(), expected, "{api} {scope:?}");
    }
}

/// What the usual input comes to, without an injection.
fn pinned_spec() -> Value {
    let pinned = json!({"compositionRef": {"name": "sample-machine"}});
    json!({"crossplane": pinned, "parameters": {"size": "small"}})
}

#[test]
fn a_shell_is_paused_and_says_nothing_of_a_token() {
    for strategy in InjectionStrategy::ALL {
        let given = Given::node(strategy);
        let rendered = xr(&given.input()).unwrap();
        let shell = value(&rendered.shell(41).to_bytes());
        assert_eq!(
            shell["metadata"]["annotations"],
            json!({"crossplane.io/paused": "true", "plexsphere.io/epoch": "41"})
        );
        assert_eq!(armed(&shell), None);
        assert_eq!(shell["spec"], pinned_spec(), "no site, {strategy}");
        assert_ne!(
            rendered.shell(41).to_bytes(),
            rendered.shell(42).to_bytes(),
            "a touch changes it"
        );
    }
}

#[test]
fn arming_names_the_token_and_drops_pause_and_epoch() {
    let given = Given::node(InjectionStrategy::ProviderSecret);
    let rendered = xr(&given.input()).unwrap();
    let injected = Injected::token("token");
    let sealed = inject_bootstrap(&rendered, &injected.bootstrap()).unwrap();
    let live = value(&sealed.expose_for_apply());
    let applied = rendered.armed(&Armed::Token(token_id())).digest();
    assert_eq!(
        live["metadata"]["annotations"],
        json!({
            "plexsphere.io/armed": token_id().to_string(),
            "plexsphere.io/applied-digest": applied.to_string(),
        })
    );
    assert_eq!(armed(&live), Some(Armed::Token(token_id()).to_string().as_str()));
    assert_eq!(live["spec"]["parameters"]["providerSecret"], json!({"bootstrapToken": "token"}));

    let standalone = Given { mesh_role: MeshRole::Standalone, ..given };
    let rendered = xr(&standalone.input()).unwrap();
    let live = value(&rendered.armed(&Armed::Standalone).to_bytes());
    assert_eq!(armed(&live), Some("standalone"));
    assert_eq!(live["spec"], pinned_spec());
}

#[test]
fn every_apply_is_conditional() {
    let given = Given::node(InjectionStrategy::HelmValues);
    let rendered = xr(&given.input()).unwrap();
    let first = value(&rendered.shell(1).with_precondition(&Precondition::Absent).to_bytes());
    assert_eq!(first["metadata"]["resourceVersion"], "1");
    assert_eq!(first["metadata"].get("uid"), None);
    let seen = Precondition::Unchanged { uid: "u-1".to_owned(), resource_version: "77".to_owned() };
    let injected = Injected::token("token");
    let sealed =
        inject_bootstrap(&rendered, &injected.bootstrap()).unwrap().with_precondition(&seen);
    let again = value(&sealed.expose_for_apply());
    assert_eq!(again["metadata"]["resourceVersion"], "77");
    assert_eq!(again["metadata"]["uid"], "u-1");
}

/// Only what we injected is taken over, so that fields of others stay theirs.
#[test]
fn a_re_apply_takes_over_our_own_fields_only() {
    let given = Given::node(InjectionStrategy::HelmValues);
    let rendered = xr(&given.input()).unwrap();
    let ours = json!({"bootstrapToken": "token", "apiUrl": "u", "plexdImage": "i"});
    let mut live = value(&rendered.armed(&Armed::Token(token_id())).to_bytes());
    live["spec"]["userData"] = json!("of somebody else");
    live["spec"]["parameters"]["helmValues"] = ours.clone();
    live["spec"]["parameters"]["helmValues"]["replicas"] = json!(3);
    let sealed = preserve_injection(&live, &rendered, token_id()).unwrap();
    let again = value(&sealed.expose_for_apply());
    assert_eq!(again["spec"]["parameters"]["helmValues"], ours);
    assert_eq!(again["spec"].get("userData"), None);
    assert_eq!(sealed.scrub("it said token"), "it said █");
}

/// What has one owner as a whole is sent as a whole, defaults included; elsewhere defaults are not ours.
#[test]
fn defaults_are_sent_only_where_their_surroundings_have_one_owner() {
    let defaulted = json!({"type": "object", "properties": {
        "a": {"type": "string"}, "b": {"type": "string", "default": "d"},
    }});
    let list = |kind: &str| {
        json!({"type": "array", "items": defaulted, "x-kubernetes-list-type": kind,
               "x-kubernetes-list-map-keys": ["a"]})
    };
    let mut whole = defaulted.clone();
    whole["x-kubernetes-map-type"] = json!("atomic");
    let schema = json!({"type": "object", "properties": {
        "userData": {"type": "string"},
        "parameters": {"type": "object", "properties": {
            "granular": defaulted, "whole": whole, "plain": list("atomic"), "keyed": list("map"),
        }},
    }});
    let text =
        r#"{"granular":{"a":"x"},"keyed":[{"a":"x"}],"plain":[{"a":"x"}],"whole":{"a":"x"}}"#;
    let given = Given::node(InjectionStrategy::CloudInitUserData)
        .with_xrd(xrd_for(&schema))
        .with_parameters(text);
    let rendered = xr(&given.input()).unwrap();
    let (bare, filled) = (json!({"a": "x"}), json!({"a": "x", "b": "d"}));
    assert_eq!(
        value(&rendered.shell(1).to_bytes())["spec"]["parameters"],
        json!({"granular": bare, "keyed": [bare], "plain": [filled], "whole": filled})
    );
}

#[test]
fn tags_without_a_place_become_skip_records() {
    let string = json!({"type": "string"});
    let site = json!({"type": "object", "properties": {"size": string}});
    let tags =
        cloud_tags(&Provider::new("aws").unwrap(), &labels(&[("team", "blue"), ("tier", "1")]));
    let render = |cloud_tags: Option<Value>| {
        let mut schema =
            json!({"type": "object", "properties": {"parameters": site, "userData": string}});
        if let Some(cloud_tags) = cloud_tags {
            schema["properties"]["cloudTags"] = cloud_tags;
        }
        let mut given =
            Given::node(InjectionStrategy::CloudInitUserData).with_xrd(xrd_for(&schema));
        given.tags = tags.clone();
        let rendered = xr(&given.input()).unwrap();
        let sent = value(&rendered.armed(&Armed::Standalone).to_bytes());
        let skipped: Vec<_> = rendered.skipped_tags().to_vec();
        (sent["spec"].get("cloudTags").cloned(), skipped)
    };
    let (sent, skipped) = render(None);
    assert_eq!(sent, None, "absent when empty");
    assert_eq!(skipped.len(), 2);
    assert!(skipped.iter().all(|skip| skip.reason == TagSkip::Undeclared));
    assert_eq!(skipped[0].to_string(), "label \"plexsphere:team\" is no cloud tag: undeclared");
    let declared = json!({"type": "object", "properties": {"plexsphere:team": string}});
    let (sent, skipped) = render(Some(declared));
    assert_eq!(sent, Some(json!({"plexsphere:team": "blue"})));
    assert_eq!(skipped[0].key, "plexsphere:tier");
    let (sent, skipped) = render(Some(json!({"type": "object", "additionalProperties": string})));
    assert_eq!(sent, Some(json!({"plexsphere:team": "blue", "plexsphere:tier": "1"})));
    assert_eq!(skipped, []);
}

#[test]
fn each_reason_for_a_skipped_label() {
    let long = "k".repeat(200);
    for (provider, key, text, reason) in [
        ("aws", long.as_str(), "v", "key_too_long"),
        ("aws", "a<b", "v", "key_invalid"),
        ("aws", "", "v", "key_invalid"),
        ("aws", "k", " padded", "value_invalid"),
        ("gcp", "k", "Capital", "value_invalid"),
        ("gcp", "Key", "v", "key_invalid"),
        ("hcloud", "team/a", "v", "key_invalid"),
        ("hcloud", "k", "-v", "value_invalid"),
        ("hcloud", "k", &long, "value_too_long"),
        ("azure", "a/b", "v", "key_invalid"),
        ("openstack", "a/b", "v", "key_invalid"),
        ("somewhere", "a.b", "v", "key_invalid"),
    ] {
        let result = cloud_tags(&Provider::new(provider).unwrap(), &labels(&[(key, text)]));
        assert!(result.tags.is_empty(), "{provider} {key}");
        assert_eq!(result.skipped[0].reason.as_str(), reason, "{provider} {key}={text}");
    }
    let azure =
        cloud_tags(&Provider::new("azure").unwrap(), &labels(&[("Team", "a"), ("team", "b")]));
    assert_eq!(azure.tags, labels(&[("plexsphere:Team", "a")]));
    assert_eq!(azure.skipped[0].reason, TagSkip::KeyTaken);
    let many: Vec<(String, String)> =
        (0..51).map(|n| (format!("k{n:02}"), "v".to_owned())).collect();
    let aws = cloud_tags(&Provider::new("aws").unwrap(), &many.into_iter().collect());
    assert_eq!(aws.tags.len(), 50);
    assert_eq!((aws.skipped[0].key.as_str(), aws.skipped[0].reason), ("k50", TagSkip::TooMany));
}

#[test]
fn skipped_tags_hold_the_reasons_of_the_provider_and_of_the_xrd() {
    let given_labels = labels(&[("team", "Blue"), ("tier", "1")]);
    let mut given = Given::node(InjectionStrategy::CloudInitUserData).with_xrd(xrd_for(&json!({
        "type": "object",
        "properties": {
            "userData": {"type": "string"},
            "parameters": {"type": "object", "properties": {"size": {"type": "string"}}},
        },
    })));
    given.tags = cloud_tags(&Provider::new("gcp").unwrap(), &given_labels);
    let rendered = xr(&given.input()).unwrap();
    let skipped: Vec<_> = rendered.skipped_tags().iter().map(ToString::to_string).collect();
    assert_eq!(
        skipped,
        [
            "label \"team\" is no cloud tag: value_invalid",
            "label \"plexsphere-tier\" is no cloud tag: undeclared",
        ]
    );
}

#[test]
fn composition_is_pinned_where_the_scope_keeps_it_and_kept_as_it_stands() {
    for (api, scope, path) in [
        ("v2", "Namespaced", "/spec/crossplane/compositionRef"),
        ("v2", "Cluster", "/spec/crossplane/compositionRef"),
        ("v1", "LegacyCluster", "/spec/compositionRef"),
    ] {
        let mut document = xrd_document(&json!({
            "type": "object",
            "properties": {
                "userData": {"type": "string"},
                "parameters": {"type": "object", "properties": {"size": {"type": "string"}}},
            },
        }));
        document["apiVersion"] = json!(format!("apiextensions.crossplane.io/{api}"));
        document["spec"]["scope"] = json!(scope);
        let xrd = Xrd::parse(document.to_string().as_bytes()).unwrap();
        let given = Given::node(InjectionStrategy::CloudInitUserData).with_xrd(xrd);
        let rendered = xr(&given.input()).unwrap();
        let injected = inject_bootstrap(&rendered, &Injected::token("t").bootstrap()).unwrap();
        let armed = rendered.armed(&Armed::Standalone);
        let pinned = json!({"name": "sample-machine"});
        for sent in [rendered.shell(1).to_bytes(), armed.to_bytes(), injected.expose_for_apply()] {
            assert_eq!(value(&sent).pointer(path), Some(&pinned), "{scope}");
        }
        let mut live = value(&armed.to_bytes());
        *live.pointer_mut(path).unwrap() = json!({"name": "another"});
        let kept = rendered.kept(&live, &Armed::Standalone);
        assert_eq!(value(&kept.to_bytes()), live, "{scope}");
        assert_eq!(kept.digest(), armed.digest(), "{scope}: it is no drift");
        live["spec"] = json!({});
        let kept = value(&rendered.kept(&live, &Armed::Standalone).to_bytes());
        assert_eq!(kept.pointer(path), None, "{scope}");
    }
}
