//! The text of explanations: within 80 columns for people, valid by the documented schema for
//! programs, and without secrets.

use broker_app::explain::{Explanation, Verdict};
use broker_domain::Phase;
use broker_memory::Behaviour;
use broker_ports::ClusterEvent;
use broker_tests::world::{NODE, World, declaration};
use secrecy::ExposeSecret;
use serde_json::Value;

/// The schemas of `docs/explain.md`, in order: explanation, plan.
pub(super) fn schema(index: usize) -> jsonschema::Validator {
    let page = include_str!("../../../../docs/explain.md");
    let block = page.split("```json\n").nth(index + 1).unwrap();
    let schema: Value = serde_json::from_str(block.split("```").next().unwrap()).unwrap();
    jsonschema::validator_for(&schema).unwrap()
}

pub(super) fn assert_valid_text(explained: &Explanation, schema: &jsonschema::Validator) {
    let json = explained.to_json();
    let errors: Vec<_> = schema.iter_errors(&json).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{explained}: {errors:?}");
    assert_eq!(json["verdict"], explained.verdict.as_str());
    let text = explained.to_string();
    let widest = text.lines().map(|line| line.chars().count()).max().unwrap();
    assert!(widest <= 80, "{widest} columns\n{text}");
    let (paragraph, tree) = text.split_once("\n\n").unwrap();
    assert!(paragraph.ends_with('.') && tree.contains("└─ facts"), "{text}");
}

#[tokio::test]
async fn token_repeated_by_a_provider_is_redacted() {
    let world = World::new();
    let declared = world.declare(&declaration(NODE)).await.unwrap();
    world.cluster.behave_for(declared.id(), Behaviour::never_ready());
    let resource = world.until(declared.id(), Phase::Provisioning).await;
    let token = world.cluster.bootstrap_token_of(resource.id()).unwrap();
    let plaintext = token.secret().expose_secret().to_owned();
    let message = format!("cannot boot with {plaintext}");
    world.cluster.behave_for(resource.id(), Behaviour::stuck(message.clone()));
    let xr = world.xr(&resource);
    world.cluster.record_event(&xr, ClusterEvent::new(None, "Boot", message.clone()).as_warning());
    for _ in 0..3 {
        world.cluster.tick();
    }

    let explained = world.explain(resource.id()).await;
    assert_eq!(explained.verdict, Verdict::ComposedNotReady);
    assert!(explained.to_string().contains("cannot boot with █"), "{explained}");
    assert_hidden(&explained, &plaintext);

    // Without the composite resource, the broker does not know the token to redact from other
    // messages.
    world.cluster.forbid(broker_memory::Verb::Get, "Machine");
    let without_xr = world.explain(resource.id()).await;
    assert!(without_xr.to_string().contains("withheld"), "{without_xr}");
    assert_hidden(&without_xr, &plaintext);
}

fn assert_hidden(explained: &Explanation, secret: &str) {
    let all_output = format!("{explained} {} {explained:?}", explained.to_json());
    assert!(!all_output.contains(secret), "{all_output}");
}
