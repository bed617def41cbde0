//! A canary for every secret: it goes in, and shows nowhere but in the bytes for the API server.

use broker_domain::Error;
use broker_render::{
    InjectionStrategy, ParameterSchema, Precondition, inject_bootstrap, preserve_injection, scrub,
    xr,
};
use serde_json::{Value, json};

use crate::support::{Given, Injected, token_id, xrd_for};

const CANARY: &str = "canary-7f3a9b";

/// Everything that an error shows to anybody.
fn shown(error: &Error) -> String {
    format!("{error} {error:?} {error:#?} {}", error.reason())
}

#[test]
fn a_token_shows_in_no_error() {
    for strategy in InjectionStrategy::ALL {
        // Schemas that refuse whatever is injected, each for another reason.
        let refusals = [
            json!({"type": "string", "maxLength": 1}),
            json!({"type": "string", "enum": ["", "x"]}),
            json!({"type": "string", "pattern": "^$"}),
            json!({"type": "string", "not": {"minLength": 1}}),
            json!({"type": "string", "anyOf": [{"maxLength": 1}, {"maxLength": 2}]}),
            json!({"type": "string", "oneOf": [{"maxLength": 1}, {"maxLength": 2}]}),
            json!({"type": "string", "allOf": [{"maxLength": 1}]}),
        ];
        for refusal in refusals {
            let site = json!({"type": "object", "additionalProperties": refusal});
            let given = Given::node(strategy).with_parameters("{}").with_xrd(xrd_for(&json!({
                "type": "object",
                "properties": {
                    "userData": refusal,
                    "parameters": {"type": "object", "properties": {
                        "helmValues": site, "providerSecret": site,
                    }},
                },
            })));
            let rendered = xr(&given.input()).unwrap();
            let injected = Injected::token(CANARY);
            let error = inject_bootstrap(&rendered, &injected.bootstrap()).err().unwrap();
            assert!(!shown(&error).contains(CANARY), "{error}");
        }
    }
}

#[test]
fn an_unusable_token_is_not_repeated() {
    for token in [format!("{CANARY}\n"), format!("{CANARY}é"), CANARY.repeat(100)] {
        let given = Given::node(InjectionStrategy::CloudInitUserData);
        let rendered = xr(&given.input()).unwrap();
        let injected = Injected::token(&token);
        let error = inject_bootstrap(&rendered, &injected.bootstrap()).err().unwrap();
        assert!(!shown(&error).contains("canary"), "{error}");
    }
}

/// Invariant: a panic while a token is at hand does not show it.
#[test]
fn a_token_shows_in_no_panic() {
    let given = Given::node(InjectionStrategy::CloudInitUserData);
    let rendered = xr(&given.input()).unwrap();
    let injected = Injected::token(CANARY);
    let panic = std::panic::catch_unwind(|| {
        let sealed = inject_bootstrap(&rendered, &injected.bootstrap()).unwrap();
        panic!("{rendered:?} {:?} {:?}", sealed.reference(), injected.token);
    })
    .unwrap_err();
    let message = panic.downcast_ref::<String>().unwrap();
    assert!(message.contains("Machine"), "{message}");
    assert!(!message.contains(CANARY), "{message}");
}

#[test]
fn the_bytes_for_the_api_server_hold_it_and_nothing_else_does() {
    for strategy in InjectionStrategy::ALL {
        let given = Given::node(strategy);
        let rendered = xr(&given.input()).unwrap();
        let injected = Injected::token(CANARY);
        let sealed = inject_bootstrap(&rendered, &injected.bootstrap())
            .unwrap()
            .with_precondition(&Precondition::Absent);
        let bytes = String::from_utf8(sealed.expose_for_apply()).unwrap();
        assert!(bytes.contains(CANARY), "{strategy}");
        for open in [rendered.shell(1), rendered.armed(&broker_render::Armed::Token(token_id()))] {
            let bytes = String::from_utf8(open.to_bytes()).unwrap();
            assert!(!bytes.contains(CANARY), "{strategy}");
            assert!(!format!("{open:?}{rendered:?}").contains(CANARY));
        }
        // The refusal of an API server that repeats the whole object.
        let refusal = format!("Machine is invalid: {bytes}");
        assert!(!sealed.scrub(&refusal).contains(CANARY), "{strategy}");
        let live: Value = serde_json::from_str(&bytes).unwrap();
        let again = preserve_injection(&live, &rendered, token_id()).unwrap();
        assert!(!again.scrub(&refusal).contains(CANARY), "{strategy}, preserved");
    }
}

#[test]
fn a_literal_for_a_secret_parameter_is_not_repeated() {
    let schemas = [
        json!({"parameters": [{"name": "password", "type": "string", "secret": true}]}),
        json!({"type": "object", "properties": {"password": {"type": "string", "secret": true}}}),
    ];
    let literals = [
        json!(CANARY),
        json!([CANARY]),
        json!({CANARY: 1}),
        json!({"secretRef": CANARY}),
        json!({"secretRef": {CANARY: 1}}),
        json!({"secretRef": {"name": format!("{CANARY}!"), "key": "k"}}),
        json!({"secretRef": {"name": "n", "key": format!("{CANARY}!")}}),
        json!({"secretRef": {"name": "n", "key": "k"}, "value": CANARY}),
    ];
    for schema in &schemas {
        let schema = ParameterSchema::from_value(schema).unwrap();
        for literal in &literals {
            let error = schema.validate(&json!({"password": literal}).to_string()).unwrap_err();
            assert!(!shown(&error).contains("canary"), "{error}");
        }
        let reference = json!({"password": {"secretRef": {"name": "db.main", "key": "pass_word"}}});
        let valid = schema.validate(&reference.to_string()).unwrap();
        assert_eq!(valid.as_json(), reference.to_string());
    }
}

/// A secret that was typed into the wrong parameter is still a secret.
#[test]
fn a_refused_value_is_never_repeated() {
    let schema = json!({"parameters": [
        {"name": "a", "type": "string", "enum": ["x"]},
        {"name": "b", "type": "string", "pattern": "^x$", "maxLength": 1},
        {"name": "c", "type": "integer"},
    ]});
    let schema = ParameterSchema::from_value(&schema).unwrap();
    let values = json!({"a": CANARY, "b": CANARY, "c": CANARY});
    let error = schema.validate(&values.to_string()).unwrap_err();
    assert!(!shown(&error).contains(CANARY), "{error}");
    let broken = format!("{{\"a\": \"{CANARY}\" \"b\"}}");
    let twice = format!("{{\"{CANARY}\": 1, \"{CANARY}\": 2}}");
    let below = format!(r#"{{"a":[{{"{CANARY}":{{}},"{CANARY}":2}}]}}"#);
    for text in [broken, twice, below] {
        let error = schema.validate(&text).unwrap_err();
        assert!(!shown(&error).contains(CANARY), "{error}");
    }
}

#[test]
fn a_scrubbed_message_is_cut_after_it_was_scrubbed() {
    let message = format!("{}{CANARY}{CANARY}", "x".repeat(1020));
    let scrubbed = scrub(&message, &[CANARY]);
    assert!(scrubbed.len() <= 1024, "{}", scrubbed.len());
    assert!(!scrubbed.contains("canary"), "no beginning of it is left at the cut: {scrubbed}");
    let cut_by_others = format!("Invalid value: {}", &CANARY[..10]);
    assert_eq!(scrub(&cut_by_others, &[CANARY]), "Invalid value: █");
    assert_eq!(scrub("nothing to see", &[CANARY, ""]), "nothing to see");
}
