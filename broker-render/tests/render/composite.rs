//! Tests of composite resources: versions, scopes, shells, undeclared tags and preconditions.

use broker_render::{
    Armed, InjectionStrategy, Precondition, Provider, Xrd, XrdScope, armed, catalog, cloud_tags,
    inject_bootstrap, preserve_injection, xr,
};
use serde_json::json;

use crate::support::{
    InjectionFixture, RenderFixture, identity, labels, token_id, value, xrd_document, xrd_for,
};

#[test]
fn served_and_referenceable_version_is_selected() {
    let version = |name: &str, (served, referenceable): (bool, bool)| {
        json!({"name": name, "served": served, "referenceable": referenceable,
               "schema": {"openAPIV3Schema": {"type": "object"}}})
    };
    for (why, first, second, composed, expected) in [
        ("the only served one", (false, true), (true, false), None, "v2"),
        ("the referenceable one", (true, false), (true, true), None, "v2"),
        ("the first one", (true, false), (true, false), None, "v1"),
        ("the composed one", (true, false), (true, true), Some("example.org/v1"), "v1"),
        ("it is not served", (false, false), (true, true), Some("example.org/v1"), "v2"),
        ("it is unknown", (true, false), (true, true), Some("example.org/v3"), "v2"),
        ("another group", (true, false), (true, true), Some("sub.example.org/v1"), "v2"),
    ] {
        let mut document = xrd_document(&json!({}));
        document["spec"]["versions"] = json!([version("v1", first), version("v2", second)]);
        let composition = json!({"spec": {"compositeTypeRef": {"apiVersion": composed}}});
        let [document, composition] = [document, composition].map(|it| it.to_string());
        let xrd = catalog::xrd_of(document.as_bytes(), composition.as_bytes()).unwrap();
        assert_eq!(xrd.api_version(), format!("example.org/{expected}"), "{why}");
        if composed.is_none() {
            let xrd = Xrd::parse(document.as_bytes()).unwrap();
            assert_eq!(xrd.api_version(), format!("example.org/{expected}"), "{why}");
        }
    }
}

#[test]
fn default_scope_depends_on_the_api_version() {
    for (api, scope, expected) in [
        ("v2", None, XrdScope::Namespaced),
        ("v2", Some("Cluster"), XrdScope::Cluster),
        ("v1", None, XrdScope::LegacyCluster),
        ("v1", Some("Namespaced"), XrdScope::Namespaced),
        ("v1", Some("LegacyCluster"), XrdScope::LegacyCluster),
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

/// The goldens pin the manifests; this test pins what is parsed back from them.
#[test]
fn armed_annotation_is_parsed_back() {
    let fixture = RenderFixture::node(InjectionStrategy::ProviderSecret);
    let rendered = xr(&fixture.input()).unwrap();
    assert_eq!(armed(&value(&rendered.shell(41).to_bytes())), None);
    assert_ne!(rendered.shell(41).to_bytes(), rendered.shell(42).to_bytes(), "another epoch");
    for arming in [Armed::Token(token_id()), Armed::Standalone] {
        let live = value(&rendered.armed(&arming).to_bytes());
        assert_eq!(armed(&live), Some(arming.to_string().as_str()));
    }
}

#[test]
fn precondition_is_sent_in_the_metadata() {
    let fixture = RenderFixture::node(InjectionStrategy::HelmValues);
    let rendered = xr(&fixture.input()).unwrap();
    let first = value(&rendered.shell(1).with_precondition(&Precondition::Absent).to_bytes());
    assert_eq!(first["metadata"]["resourceVersion"], "1");
    assert_eq!(first["metadata"].get("uid"), None);
    let unchanged =
        Precondition::Unchanged { uid: "u-1".to_owned(), resource_version: "77".to_owned() };
    let injected = InjectionFixture::token("token");
    let sealed =
        inject_bootstrap(&rendered, &injected.bootstrap()).unwrap().with_precondition(&unchanged);
    let reapplied = value(&sealed.expose_for_apply());
    assert_eq!(reapplied["metadata"]["resourceVersion"], "77");
    assert_eq!(reapplied["metadata"]["uid"], "u-1");
}

/// Fields of other writers must stay theirs.
#[test]
fn reapply_copies_only_the_injection() {
    let fixture = RenderFixture::node(InjectionStrategy::HelmValues);
    let rendered = xr(&fixture.input()).unwrap();
    let earlier = json!({"bootstrapToken": "token", "apiUrl": "u", "plexdImage": "i"});
    let mut current = earlier.clone();
    current["projectId"] = json!("p");
    current["resourceHandle"] = json!("h");
    for (why, injection) in [("of an earlier release", earlier), ("of this release", current)] {
        let mut live = value(&rendered.armed(&Armed::Token(token_id())).to_bytes());
        live["spec"]["userData"] = json!("foreign");
        live["spec"]["parameters"]["helmValues"] = injection.clone();
        live["spec"]["parameters"]["helmValues"]["replicas"] = json!(3);
        let sealed = preserve_injection(&live, &rendered, token_id()).unwrap();
        let reapplied = value(&sealed.expose_for_apply());
        assert_eq!(reapplied["spec"]["parameters"]["helmValues"], injection, "{why}");
        assert_eq!(reapplied["spec"].get("userData"), None);
        assert_eq!(sealed.scrub("invalid: token"), "invalid: █");
    }
}

/// The other two fields belong to XRDs that declare them, whether the shell requires the site or not.
#[test]
fn helm_values_name_the_resource_where_the_xrd_declares_it() {
    let required = ["bootstrapToken", "apiUrl", "plexdImage"];
    for (why, optional, must) in [
        ("neither", &[][..], &[][..]),
        ("one", &["resourceHandle"][..], &[][..]),
        ("both", &["projectId", "resourceHandle"][..], &[][..]),
        ("both required", &["projectId", "resourceHandle"][..], &["projectId"][..]),
    ] {
        let mut expected: Vec<_> = [&required[..], optional].concat();
        expected.sort_unstable();
        let string = json!({"type": "string"});
        let properties: serde_json::Map<_, _> =
            expected.iter().map(|name| ((*name).to_owned(), string.clone())).collect();
        let site = json!({"type": "object", "properties": properties, "required": must});
        let parameters = json!({"type": "object", "properties": {"helmValues": site, "size": string},
                                "required": if must.is_empty() { json!([]) } else { json!(["helmValues"]) }});
        let schema = json!({"type": "object", "properties": {"parameters": parameters}});
        let fixture = RenderFixture::node(InjectionStrategy::HelmValues).with_xrd(xrd_for(&schema));
        let rendered = xr(&fixture.input()).unwrap();
        let injected = InjectionFixture::token("token");
        let sealed = inject_bootstrap(&rendered, &injected.bootstrap()).unwrap();
        let live = value(&sealed.expose_for_apply());
        let values = live["spec"]["parameters"]["helmValues"].as_object().unwrap();
        let names: Vec<_> = values.keys().map(String::as_str).collect();
        assert_eq!(names, expected, "{why}");
        let project = json!(identity().project.to_string());
        for (name, value) in [("projectId", project), ("resourceHandle", json!("true"))] {
            assert!(values.get(name).is_none_or(|sent| *sent == value), "{why}: {values:?}");
        }
        let reapplied = preserve_injection(&live, &rendered, token_id()).unwrap();
        assert_eq!(value(&reapplied.expose_for_apply()), live, "{why}");
        let shell = value(&rendered.shell(1).to_bytes());
        assert_eq!(shell["spec"]["parameters"].get("helmValues").is_some(), !must.is_empty());
    }
}

/// Invariant: an object that claims an injected token contains one.
#[test]
fn reapply_without_injection_is_rejected() {
    for strategy in InjectionStrategy::ALL {
        let fixture = RenderFixture::node(strategy);
        let rendered = xr(&fixture.input()).unwrap();
        let injected = InjectionFixture::token("token");
        let armed = inject_bootstrap(&rendered, &injected.bootstrap()).unwrap();
        let live = value(&armed.expose_for_apply());
        assert!(preserve_injection(&live, &rendered, token_id()).is_ok(), "{strategy}");
        let leaf = match strategy {
            InjectionStrategy::CloudInitUserData => "/spec/userData",
            InjectionStrategy::HelmValues => "/spec/parameters/helmValues/plexdImage",
            InjectionStrategy::ProviderSecret => "/spec/parameters/providerSecret/bootstrapToken",
        };
        for emptied in [json!(""), json!(null), json!(["token"])] {
            let mut live = live.clone();
            *live.pointer_mut(leaf).unwrap() = emptied;
            assert!(preserve_injection(&live, &rendered, token_id()).is_err(), "{strategy}");
        }
        for other in [rendered.shell(1), rendered.armed(&Armed::Standalone)] {
            let mut other = value(&other.to_bytes());
            other["spec"] = live["spec"].clone();
            assert!(
                preserve_injection(&other, &rendered, token_id()).is_err(),
                "{strategy}: {other}"
            );
        }
    }
}

/// A value with a single owner is sent with its defaults; other defaults belong to the API server.
#[test]
fn defaults_are_sent_only_in_atomic_values() {
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
    let fixture = RenderFixture::node(InjectionStrategy::CloudInitUserData)
        .with_xrd(xrd_for(&schema))
        .with_parameters(text);
    let rendered = xr(&fixture.input()).unwrap();
    let (bare, filled) = (json!({"a": "x"}), json!({"a": "x", "b": "d"}));
    assert_eq!(
        value(&rendered.shell(1).to_bytes())["spec"]["parameters"],
        json!({"granular": bare, "keyed": [bare], "plain": [filled], "whole": filled})
    );
}

#[test]
fn undeclared_tags_become_skip_records() {
    let string = json!({"type": "string"});
    let one = json!({"type": "object", "properties": {"plexsphere-tier": string}});
    let any = json!({"type": "object", "additionalProperties": string});
    let by_provider = r#"label "team" is not a cloud tag: value_invalid"#;
    let by_xrd = |key: &str| format!("label \"plexsphere-{key}\" is not a cloud tag: undeclared");
    for (cloud_tags_schema, sent, skipped) in [
        (None, None, vec![by_xrd("tier"), by_xrd("zone")]),
        (Some(one), Some(json!({"plexsphere-tier": "1"})), vec![by_xrd("zone")]),
        (Some(any), Some(json!({"plexsphere-tier": "1", "plexsphere-zone": "a"})), vec![]),
    ] {
        let parameters = json!({"type": "object", "properties": {"size": string}});
        let mut schema =
            json!({"type": "object", "properties": {"parameters": parameters, "userData": string}});
        if let Some(cloud_tags) = cloud_tags_schema {
            schema["properties"]["cloudTags"] = cloud_tags;
        }
        let mut fixture =
            RenderFixture::node(InjectionStrategy::CloudInitUserData).with_xrd(xrd_for(&schema));
        let labels_of_resource = labels(&[("team", "Blue"), ("tier", "1"), ("zone", "a")]);
        fixture.tags = cloud_tags(&Provider::new("gcp").unwrap(), &labels_of_resource);
        let rendered = xr(&fixture.input()).unwrap();
        let armed = value(&rendered.armed(&Armed::Standalone).to_bytes());
        assert_eq!(armed["spec"].get("cloudTags"), sent.as_ref());
        let records: Vec<_> = rendered.skipped_tags().iter().map(ToString::to_string).collect();
        assert_eq!(records, [vec![by_provider.to_owned()], skipped].concat());
    }
}

#[test]
fn composition_is_pinned_per_scope_and_kept_on_reapply() {
    for (api, scope, path) in [
        ("v2", "Namespaced", "/spec/crossplane/compositionRef"),
        ("v2", "Cluster", "/spec/crossplane/compositionRef"),
        ("v1", "LegacyCluster", "/spec/compositionRef"),
    ] {
        let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let mut document = xrd_document(&open);
        document["apiVersion"] = json!(format!("apiextensions.crossplane.io/{api}"));
        document["spec"]["scope"] = json!(scope);
        let xrd = Xrd::parse(document.to_string().as_bytes()).unwrap();
        let fixture = RenderFixture::node(InjectionStrategy::CloudInitUserData).with_xrd(xrd);
        let rendered = xr(&fixture.input()).unwrap();
        let armed = rendered.armed(&Armed::Standalone);
        let pinned = json!({"name": "sample-machine"});
        for sent in [rendered.shell(1), armed.clone()] {
            assert_eq!(value(&sent.to_bytes()).pointer(path), Some(&pinned), "{scope}");
        }
        let mut live = value(&armed.to_bytes());
        *live.pointer_mut(path).unwrap() = json!({"name": "another"});
        let kept = rendered.reapply(&live, &Armed::Standalone);
        assert_eq!(value(&kept.to_bytes()), live, "{scope}");
        assert_eq!(kept.digest(), armed.digest(), "{scope}: not a drift");
        live["spec"] = json!({});
        let kept = value(&rendered.reapply(&live, &Armed::Standalone).to_bytes());
        assert_eq!(kept.pointer(path), None, "{scope}");
    }
}
