//! Table tests: each row of a case file has an input and the exact message.

use broker_domain::{Error, MeshRole};
use broker_render::catalog::{self, ComposedKind, Files};
use broker_render::{
    AgentFile, AgentProfile, AgentVariable, ApiUrl, DebianPackage, Download, ImageReference,
    InjectionStrategy, ParameterSchema, Provider, ProviderConfigInput, ProviderProfile, Xrd,
    XrdScope, cloud_tags, inject_bootstrap, provider_config, xr,
};
use serde_json::{Value, json};

use crate::support::{
    InjectionFixture, RenderFixture, cases, check, draft, identity, labels, read_data, text,
    xrd_for,
};

fn message_of<T>(result: Result<T, Error>) -> Option<String> {
    let error = result.err()?;
    let message = error.to_string();
    assert!(!message.contains('\n'), "{message}");
    assert!(!format!("{error:?} {error:#?}").to_lowercase().contains("hunter2"), "{error:?}");
    Some(message)
}

#[test]
fn invalid_xrd_returns_its_message() {
    let at = ".spec.versions[0].schema.openAPIV3Schema.properties.spec.properties";
    for case in cases("xrds") {
        let xrd = draft(&case["change"])["xrd"].to_string();
        let expected = format!("xrd{}", text(&case["message"]).replace("{at}", at));
        assert_eq!(message_of(Xrd::parse(xrd.as_bytes())), Some(expected));
    }
}

#[test]
fn unreadable_document_returns_its_message() {
    for case in cases("documents") {
        for document in case["texts"].as_array().unwrap() {
            let expected = match text(&case["message"]) {
                "no apiVersion" => "xrd.apiVersion: is missing; use a non-empty string".to_owned(),
                message => format!("xrd: {message}"),
            };
            let message = message_of(Xrd::parse(text(document).as_bytes()));
            assert_eq!(message, Some(expected), "{document}");
        }
    }
}

#[test]
fn invalid_parameter_schema_returns_its_message() {
    for case in cases("parameter_schemas") {
        let expected = format!("parameterSchema{}", text(&case["message"]));
        let message = message_of(ParameterSchema::from_value(&case["schema"]));
        assert_eq!(message, Some(expected), "{}", case["schema"]);
    }
}

#[test]
fn parameter_values_are_accepted_or_return_a_message() {
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
fn undeclared_spec_is_rejected_with_its_message() {
    for case in cases("composites") {
        let fixture = RenderFixture::node(InjectionStrategy::CloudInitUserData)
            .with_xrd(xrd_for(&case["schema"]))
            .with_parameters(&case["parameters"].to_string());
        assert_eq!(message_of(xr(&fixture.input())).as_deref(), case["message"].as_str());
    }
}

/// Another test sends the table to a real API server.
#[test]
fn check_agrees_with_the_schema_pairs() {
    for pair in read_data("schema_pairs.yaml").as_array().unwrap() {
        let problems = xrd_for(&pair["schema"]).check(&pair["spec"]);
        let named: Vec<_> = problems.iter().map(|problem| problem.path.as_str()).collect();
        let refused: Vec<_> = pair["refused"].as_str().into_iter().collect();
        assert_eq!(named, refused, "{}: {problems:?}", pair["name"]);
    }
}

fn custom_profile(service: &str, path: &str) -> Result<AgentProfile, Error> {
    AgentProfile::new(service, [(path, AgentFile::text(AgentVariable::Token))])
}

fn parse_error(kind: &str, text: &str) -> Option<String> {
    let profile = ProviderProfile::of(&Provider::new("aws").unwrap());
    match kind {
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
        "profile" => message_of(AgentProfile::shipped(text)),
        "service" => message_of(custom_profile(text, "/etc/meshd/token")),
        "profile path" => message_of(custom_profile("meshd", text)),
        "profile key" => {
            message_of(AgentFile::yaml([("a.b", "x".into()), (text, AgentVariable::Token.into())]))
        }
        "argument" => message_of(AgentProfile::plexd().with_arguments([text.into()])),
        "capability" => message_of(AgentProfile::plexd().with_capabilities([text])),
        "state directory" => message_of(AgentProfile::plexd().with_state_directory(text)),
        "endpoint" => message_of(provider_config(&ProviderConfigInput {
            profile: &profile,
            identity: identity(),
            endpoint: text,
            secret_name: "cloud-credentials-0",
        })),
        _ => {
            let fixture = RenderFixture::node(InjectionStrategy::ProviderSecret);
            let rendered = xr(&fixture.input()).unwrap();
            message_of(inject_bootstrap(&rendered, &InjectionFixture::token(text).bootstrap()))
        }
    }
}

#[test]
fn parsed_text_is_accepted_or_returns_a_message() {
    for case in cases("texts") {
        for input in case["texts"].as_array().unwrap() {
            let expected =
                case["message"].as_str().map(|message| message.replace("{}", &input.to_string()));
            assert_eq!(parse_error(text(&case["what"]), text(input)), expected, "{input}");
        }
    }
    let long = parse_error("url", &format!("https://host/{}", "a".repeat(2048))).unwrap();
    assert!(long.starts_with("api_url: is longer than 2048 bytes; "), "{long}");
    assert_eq!(parse_error("token", &"x".repeat(513)), parse_error("token", ""));
}

#[test]
fn token_for_a_standalone_blueprint_is_rejected() {
    let fixture = RenderFixture {
        mesh_role: MeshRole::Standalone,
        ..RenderFixture::node(InjectionStrategy::HelmValues)
    };
    let rendered = xr(&fixture.input()).unwrap();
    assert_eq!(
        message_of(inject_bootstrap(&rendered, &InjectionFixture::token("token").bootstrap()))
            .as_deref(),
        Some("bootstrap_token: is given for a standalone blueprint; only a node has a token")
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
fn blueprint_problems_equal_the_expected_lines() {
    for case in cases("blueprints") {
        let (blueprint, problems) = check(&draft(&case["change"]));
        assert_eq!(json!(problems), case["message"], "{}", case["why"]);
        if let (Some(blueprint), Some(expected)) = (&blueprint, case["provider_config"].as_str()) {
            assert_eq!(blueprint.provider_config.to_string(), expected, "{}", case["why"]);
        }
        let broken = problems.iter().any(|line| line.starts_with("error"));
        assert_eq!(blueprint.is_none(), broken, "{}: only an error rejects", case["why"]);
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
