//! How explanations read: within 80 columns for people, within the documented schema for programs, and without
//! a secret for anybody.

use std::time::Duration;

use broker_app::explain::{Explanation, Verdict};
use broker_domain::Phase;
use broker_memory::Behaviour;
use broker_ports::ClusterEvent;
use broker_tests::world::{NODE, World, declaration};
use secrecy::ExposeSecret;
use serde_json::Value;

use super::scenes;

/// The schemas of `docs/explain.md`, in their order: explanation, plan.
pub(super) fn schema(place: usize) -> jsonschema::Validator {
    let page = include_str!("../../../../docs/explain.md");
    let block = page.split("```json\n").nth(place + 1).unwrap();
    let schema: Value = serde_json::from_str(block.split("```").next().unwrap()).unwrap();
    jsonschema::validator_for(&schema).unwrap()
}

#[tokio::test]
async fn every_explanation_fits_its_schema_and_80_columns() {
    let schema = schema(0);
    for verdict in Verdict::ALL.iter().copied() {
        let explained = scenes::of(verdict).await.explain().await;
        let json = explained.to_json();
        let errors: Vec<_> = schema.iter_errors(&json).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{verdict}: {errors:?}");
        assert_eq!(json["verdict"], verdict.as_str());
        let text = explained.to_string();
        let widest = text.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(widest <= 80, "{verdict}: {widest} columns\n{text}");
        let (paragraph, tree) = text.split_once("\n\n").unwrap();
        assert!(paragraph.ends_with('.') && tree.contains("└─ facts"), "{text}");
    }
}

#[tokio::test]
async fn the_schema_takes_nothing_else() {
    let schema = schema(0);
    let sound = scenes::of(Verdict::FunctionFailing).await.explain().await.to_json();
    assert!(schema.is_valid(&sound));
    for key in ["resource", "verdict", "party", "action", "facts"] {
        let mut broken = sound.clone();
        broken.as_object_mut().unwrap().remove(key);
        assert!(!schema.is_valid(&broken), "without {key}");
    }
    let mut odd = sound.clone();
    odd["verdict"] = "no such code".into();
    assert!(!schema.is_valid(&odd));
}

#[tokio::test]
async fn a_token_that_a_provider_repeats_appears_nowhere() {
    let world = World::new();
    let declared = world.declare(&declaration(NODE)).await.unwrap();
    world.cluster.behave_for(declared.id(), Behaviour::never_ready());
    let resource = world.until(declared.id(), Phase::Provisioning).await;
    let token = world.cluster.bootstrap_token_of(resource.id()).unwrap();
    let plaintext = token.secret().expose_secret().to_owned();
    let words = format!("cannot boot with {plaintext}");
    world.cluster.behave_for(resource.id(), Behaviour::stuck(words.clone()));
    let xr = world.xr(&resource);
    world.cluster.say(&xr, ClusterEvent::new(None, "Boot", words.clone()).as_warning());
    for _ in 0..3 {
        world.cluster.tick();
    }

    let explained = world.explain(resource.id()).await;
    assert_eq!(explained.verdict, Verdict::ComposedNotReady);
    assert!(explained.to_string().contains("cannot boot with █"), "{explained}");
    hides(&explained, &plaintext);

    // Without the composite resource nobody knows what to take out of the words of others.
    world.cluster.forbid(broker_memory::Verb::Get, "Machine");
    let blind = world.explain(resource.id()).await;
    assert!(blind.to_string().contains("withheld"), "{blind}");
    hides(&blind, &plaintext);
    world.cluster.allow_everything();

    // The words of a refusal are kept in the schedule, and were scrubbed before that.
    world.cluster.deny("Machine", words);
    world.cluster.patch_as(
        "kubectl",
        &xr,
        &serde_json::json!({"metadata": {"labels": {"app.kubernetes.io/managed-by": "me"}}}),
    );
    world.reconciler.reconcile(resource.id()).await.unwrap_err();
    world.clock.advance(Duration::from_secs(1));
    let refused = world.explain(resource.id()).await;
    assert_eq!(refused.verdict, Verdict::WebhookRefused);
    hides(&refused, &plaintext);
}

fn hides(explained: &Explanation, secret: &str) {
    let everywhere = format!("{explained} {} {explained:?}", explained.to_json());
    assert!(!everywhere.contains(secret), "{everywhere}");
}
