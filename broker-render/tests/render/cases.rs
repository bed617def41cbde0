//! Table tests: each row of a case file has an input and the exact message.

use broker_domain::{Error, MeshRole};
use broker_render::catalog::{self, ComposedKind, Files};
use broker_render::{
    ApiUrl, DebianPackage, Download, ImageReference, InjectionStrategy, ParameterSchema, Provider,
    ProviderConfigInput, ProviderProfile, Xrd, XrdScope, cloud_tags, inject_bootstrap,
    provider_config, xr,
};
use serde_json::{Value, json};

use crate::support::{
    Given, Injected, cases, check, draft, identity, labels, read_data, text, xrd_for,
};

fn message_of<T>(result: Result<T, Error>) -> Option<String> {
    let error = result.err()?;
    let message = error.to_string();
    assert!(!message.contains('\n'), "{message}");
    assert!(!format!("{error:?} {error:#?}").to_lowercase().contains("hunter2"), "{error:?}");
    Some(message)
}

#[test]
fn xrds() {
    let at = ".spec.versions[0].schema.openAPIV3Schema.properties.spec.properties";
    for case in cases("xrds") {
        let xrd = draft(&case["change"])["xrd"].to_string();
        let expected = format!("xrd{}", text(&case["says"]).replace("{at}", at));
        assert_eq!(message_of(Xrd::parse(xrd.as_bytes())), Some(expected));
    }
}

#[test]
fn documents() {
    for case in cases("documents") {
        for document in case["texts"].as_array().unwrap() {
            let expected = match text(&case["says"]) {
                "no apiVersion" => "xrd.apiVersion: is missing; use a non-empty string".to_owned(),
                says => format!("xrd: {says}"),
            };
            let says = message_of(Xrd::parse(text(document).as_bytes()));
            assert_eq!(says, Some(expected), "{document}");
        }
    }
}

#[test]
fn parameter_schemas() {
    for case in cases("parameter_schemas") {
        let expected = format!("parameterSchema{}", text(&case["says"]));
        let says = message_of(ParameterSchema::from_value(&case["schema"]));
        assert_eq!(says, Some(expected), "{}", case["schema"]);
    }
}

#[test]
fn parameter_values() {
    for case in cases("parameter_values") {
        let schema = ParameterSchema::from_value(&case["schema"]).unwrap();
        for row in case["values"].as_array().unwrap() {
            let values = text(&row[1]);
            let problem = row[0].as_str();
            let expected =
                problem.map(|problem| format!("parameter values are invalid: {problem}"));
            assert_eq!(message_of(schema.validate(values)), expected, "{values}");
        }
    }
}

#[test]
fn composite_resources() {
    for case in cases("composites") {
        let given = Given::node(InjectionStrategy::CloudInitUserData)
            .with_xrd(xrd_for(&case["schema"]))
            .with_parameters(&case["parameters"].to_string());
        assert_eq!(message_of(xr(&given.input())).as_deref(), case["says"].as_str());
    }
}

/// The same table is also tried on a real API server.
#[test]
fn check_matches_the_schema_pairs() {
    for pair in read_data("schema_pairs.yaml").as_array().unwrap() {
        let problems = xrd_for(&pair["schema"]).check(&pair["spec"]);
        let named: Vec<_> = problems.iter().map(|problem| problem.path.as_str()).collect();
        let refused: Vec<_> = pair["refused"].as_str().into_iter().collect();
        assert_eq!(named, refused, "{}: {problems:?}", pair["name"]);
    }
}

fn parsed(what: &str, text: &str) -> Option<String> {
    let profile = ProviderProfile::of(&Provider::new("aws").unwrap());
    match what {
        "provider" => message_of(Provider::new(text)),
        "group" => message_of(profile.with_group(text)),
        "version" => message_of(profile.with_version(text)),
        "kind" => message_of(profile.with_kind(text)),
        "secret key" => message_of(profile.with_secret_key(text)),
        "strategy" => message_of(InjectionStrategy::try_from(text)),
        "url" => message_of(ApiUrl::new(text)),
        "package" => message_of(DebianPackage::new(text)),
        "package version" => message_of(DebianPackage::new("plexd").unwrap().in_version(text)),
        "image" => message_of(ImageReference::new(text)),
        "sha256" => message_of(Download::new(ApiUrl::new("https://host/plexd").unwrap(), text)),
        "endpoint" => message_of(provider_config(&ProviderConfigInput {
            profile: &profile,
            identity: identity(),
            endpoint: text,
            secret_name: "cloud-credentials-0",
        })),
        _ => {
            let given = Given::node(InjectionStrategy::ProviderSecret);
            let rendered = xr(&given.input()).unwrap();
            message_of(inject_bootstrap(&rendered, &Injected::token(text).bootstrap()))
        }
    }
}

#[test]
fn texts() {
    for case in cases("texts") {
        for given in case["texts"].as_array().unwrap() {
            let expected = case["says"].as_str().map(|says| says.replace("{}", &given.to_string()));
            assert_eq!(parsed(text(&case["what"]), text(given)), expected, "{given}");
        }
    }
    let long = parsed("url", &format!("https://host/{}", "a".repeat(2048))).unwrap();
    assert!(long.starts_with("api_url: is longer than 2048 bytes; "), "{long}");
    assert_eq!(parsed("token", &"x".repeat(513)), parsed("token", ""));
}

#[test]
fn token_for_a_standalone_blueprint_is_refused() {
    let given =
        Given { mesh_role: MeshRole::Standalone, ..Given::node(InjectionStrategy::HelmValues) };
    let rendered = xr(&given.input()).unwrap();
    assert_eq!(
        message_of(inject_bootstrap(&rendered, &Injected::token("token").bootstrap())).as_deref(),
        Some("bootstrap_token: is given for a standalone blueprint; nothing is injected there")
    );
}

#[test]
fn label_that_breaks_a_rule_is_skipped_with_the_reason() {
    let tags = |provider: &Value, pairs: &[(&str, &str)]| {
        cloud_tags(&Provider::new(text(provider)).unwrap(), &labels(pairs))
    };
    for row in cases("tags") {
        let result = tags(&row[0], &[(text(&row[1]), text(&row[2]))]);
        let skipped: Vec<_> = result.skipped.iter().map(|skip| skip.reason.as_str()).collect();
        assert_eq!(skipped, [text(&row[3])], "{row}");
        assert!(result.tags.is_empty(), "{row}");
    }
    let good = [("a.b-c_d", "x"), ("k", ""), ("é", "a\u{3000}b½")];
    assert_eq!(tags(&json!("aws"), &good).skipped, []);
    let azure = tags(&json!("azure"), &[("Team", "a"), ("team", "b")]);
    assert_eq!(azure.tags, labels(&[("plexsphere:Team", "a")]));
    assert_eq!(azure.skipped[0].reason.as_str(), "key_taken");
    let many: Vec<_> = (0..51).map(|n| format!("k{n:02}")).collect();
    let many: Vec<_> = many.iter().map(|key| (key.as_str(), "v")).collect();
    let aws = tags(&json!("aws"), &many);
    assert_eq!(aws.tags.len(), 50);
    assert_eq!((&*aws.skipped[0].key, aws.skipped[0].reason.as_str()), ("k50", "too_many"));
}

#[test]
fn every_blueprint_problem_is_one_line() {
    for case in cases("blueprints") {
        let (blueprint, problems) = check(&draft(&case["change"]));
        assert_eq!(json!(problems), case["says"], "{}", case["why"]);
        let broken = problems.iter().any(|line| line.starts_with("error"));
        assert_eq!(blueprint.is_none(), broken, "{}: only an error refuses", case["why"]);
    }
    let files = Files { metadata: b"{}", xrd: b"{}", composition: b"{}" };
    let error = catalog::read("vm", files).unwrap_err();
    assert_eq!(error.to_string(), "vm/metadata.json: slug: is missing; use a non-empty string");
}

#[test]
fn valid_blueprint_has_no_problems() {
    let blueprint = check(&draft(&json!({}))).0.unwrap();
    assert_eq!(blueprint.injection_strategy, InjectionStrategy::CloudInitUserData);
    assert_eq!(blueprint.mesh_role, MeshRole::Node, "the default");
    assert_eq!(blueprint.xrd.scope(), XrdScope::Namespaced);
    let kind = |kind: &str| ComposedKind {
        api_version: "hcloud.crossplane.io/v1".to_owned(),
        kind: kind.to_owned(),
    };
    assert_eq!(blueprint.composed_kinds, [kind("Server"), kind("Volume")]);
    assert!(blueprint.parameter_schema.validate(r#"{"size": "small"}"#).is_ok());
}
