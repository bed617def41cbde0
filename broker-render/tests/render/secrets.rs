//! Secret-leak tests: a token appears only in the bytes for the API server.

use broker_render::{
    Agent, AgentFile, AgentProfile, AgentVariable, Armed, InjectionStrategy, Precondition,
    inject_bootstrap, preserve_injection, redacted, scrub, xr,
};
use serde_json::json;

use crate::support::{InjectionFixture, RenderFixture, text, token_id, value, xrd_for};

const CANARY: &str = "canary-7f3a9b";

#[test]
fn token_appears_in_no_error() {
    for strategy in InjectionStrategy::ALL {
        // Schemas that reject the injected values, each for another reason.
        let rejecting_schemas = [
            json!({"type": "string", "maxLength": 1}),
            json!({"type": "string", "enum": ["", "x"]}),
            json!({"type": "string", "pattern": "^$"}),
            json!({"type": "string", "not": {"minLength": 1}}),
            json!({"type": "string", "anyOf": [{"maxLength": 1}, {"maxLength": 2}]}),
            json!({"type": "string", "oneOf": [{"maxLength": 1}, {"maxLength": 2}]}),
            json!({"type": "string", "allOf": [{"maxLength": 1}]}),
        ];
        for schema in rejecting_schemas {
            let site = json!({"type": "object", "additionalProperties": schema});
            let fixture =
                RenderFixture::node(strategy).with_parameters("{}").with_xrd(xrd_for(&json!({
                    "type": "object",
                    "properties": {
                        "userData": schema,
                        "parameters": {"type": "object", "properties": {
                            "helmValues": site, "providerSecret": site,
                        }},
                    },
                })));
            let rendered = xr(&fixture.input()).unwrap();
            let injected = InjectionFixture::token(CANARY);
            let error = inject_bootstrap(&rendered, &injected.bootstrap()).err().unwrap();
            let shown = format!("{error} {error:?} {error:#?} {}", error.reason());
            assert!(!shown.contains(CANARY), "{error}");
        }
    }
}

#[test]
fn token_appears_only_in_apply_bytes() {
    for strategy in InjectionStrategy::ALL {
        let fixture = RenderFixture::node(strategy);
        let rendered = xr(&fixture.input()).unwrap();
        let injected = InjectionFixture::token(CANARY);
        let sealed = inject_bootstrap(&rendered, &injected.bootstrap())
            .unwrap()
            .with_precondition(&Precondition::Absent);
        let bytes = String::from_utf8(sealed.expose_for_apply()).unwrap();
        assert!(bytes.contains(CANARY), "{strategy}");
        for open in [rendered.shell(1), rendered.armed(&Armed::Token(token_id()))] {
            let shown = format!("{}{open:?}{rendered:?}", value(&open.to_bytes()));
            assert!(!shown.contains(CANARY), "{strategy}");
        }
        // An API server's error that repeats the whole object.
        let response = format!("Machine is invalid: {bytes}");
        assert!(!sealed.scrub(&response).contains(CANARY), "{strategy}");
        let reapplied =
            preserve_injection(&value(bytes.as_bytes()), &rendered, token_id()).unwrap();
        assert!(!reapplied.scrub(&response).contains(CANARY), "{strategy}, preserved");
    }
}

#[test]
fn message_is_cut_after_scrubbing() {
    let message = format!("{}{CANARY}{CANARY}", "x".repeat(1020));
    let scrubbed = scrub(&message, &[CANARY]);
    assert!(scrubbed.len() <= 1024, "{}", scrubbed.len());
    assert!(!scrubbed.contains("canary"), "no prefix of the token is left at the cut: {scrubbed}");
    let cut_by_others = format!("Invalid value: {}", &CANARY[..10]);
    assert_eq!(scrub(&cut_by_others, &[CANARY]), "Invalid value: █");
    assert_eq!(scrub("nothing to see", &[CANARY, ""]), "nothing to see");
}

/// A YAML file inside of the document adds a layer of escapes; so do the object and a message about it.
#[test]
fn token_in_a_yaml_file_is_scrubbed_below_every_layer() {
    let settings = AgentFile::yaml([("auth.token", AgentVariable::Token.into())]).unwrap();
    let profile = AgentProfile::new("meshd", [("/etc/meshd/agent.yaml", settings)]).unwrap();
    let fixture = RenderFixture::node(InjectionStrategy::CloudInitUserData);
    let rendered = xr(&fixture.input()).unwrap();
    let agent = Agent::default().with_profile(profile);
    let injected = InjectionFixture { agent, ..InjectionFixture::token("a\"b\\canary-7f3a9b") };
    let sealed = inject_bootstrap(&rendered, &injected.bootstrap()).unwrap();
    let live = value(&sealed.expose_for_apply());
    let preserved = preserve_injection(&live, &rendered, token_id()).unwrap();
    let document = text(&live["spec"]["userData"]);
    let token_line = document.lines().find(|line| line.contains("canary")).unwrap();
    for shown in [token_line.to_owned(), json!({"line": token_line}).to_string()] {
        for message in [shown.clone(), json!({"message": shown}).to_string()] {
            assert!(!sealed.scrub(&message).contains("canary"), "{message}");
            assert!(!preserved.scrub(&message).contains("canary"), "{message}");
        }
    }
    assert!(!redacted(&live).to_string().contains("canary"));
}
