//! The control plane reports why it refused an agent.

use broker_domain::{Phase, ProvisionedResource};
use broker_ports::AuditAction;
use broker_testkit::builders::{id, project};
use broker_tests::world::{NODE, World, caller_of, declaration, operator};
use secrecy::ExposeSecret as _;

async fn enrolling(world: &World) -> ProvisionedResource {
    world.declare_until(Phase::Enrolling, &declaration(NODE)).await
}

/// The reasons in the audit, oldest first.
async fn reasons(world: &World, resource: &ProvisionedResource) -> Vec<String> {
    let lines = world.service.history(&operator(), resource.id()).await.unwrap().into_iter();
    let refused = lines.filter(|line| line.entry.action == AuditAction::EnrolmentRefused);
    refused.map(|line| line.entry.event_data.unwrap()).collect()
}

#[tokio::test]
async fn refusal_is_scrubbed_bounded_and_stored_once_per_reason() {
    let world = World::new();
    let resource = enrolling(&world).await;
    let token = resource.bootstrap_token_id().unwrap();
    let secret = world.cluster.agent_documents().remove(0).token;
    let secret = secret.secret().expose_secret();
    let report = async |reason: &str| {
        world.service.report_enrolment_refusal(&operator(), token, reason).await
    };
    report(&format!("401\nno token {secret}")).await.unwrap();
    report(&format!("401\nno token {secret}")).await.unwrap();
    report(&"x".repeat(5_000)).await.unwrap();
    let stored = reasons(&world, &resource).await;
    assert_eq!(stored.len(), 2, "a repeated reason is a no-op: {stored:?}");
    assert_eq!(stored[0], "401 no token █");
    assert!(stored[1].len() <= broker_render::MAX_MESSAGE_BYTES && stored[1].starts_with("xxx"));
    for number in 0..20 {
        report(&format!("reason {number}")).await.unwrap();
    }
    assert_eq!(
        reasons(&world, &resource).await.len(),
        8,
        "an agent that repeats cannot fill the audit"
    );
    let explanation = world.service.explain(&operator(), resource.id()).await.unwrap().to_string();
    let explanation: Vec<_> = explanation.split_whitespace().collect();
    let explanation = explanation.join(" ");
    assert!(explanation.contains("the control plane refused its agent at "), "{explanation}");
    assert!(explanation.contains("reason 5"), "the last one is shown: {explanation}");
}

#[tokio::test]
async fn refusal_without_a_composite_resource_is_withheld() {
    let world = World::new();
    let resource = enrolling(&world).await;
    world.cluster.delete_in_background(&world.xr(&resource));
    for _ in 0..20 {
        world.cluster.tick();
    }
    assert!(world.cluster.object(&world.xr(&resource)).is_none());
    let token = resource.bootstrap_token_id().unwrap();
    let context = operator();
    world.service.report_enrolment_refusal(&context, token, "403 secret").await.unwrap();
    let stored = reasons(&world, &resource).await;
    assert!(stored.len() == 1 && stored[0].starts_with("(withheld"), "{stored:?}");
}

#[tokio::test]
async fn refusal_of_an_unknown_token_or_scope_is_invalid() {
    let world = World::new();
    let resource = enrolling(&world).await;
    let token = resource.bootstrap_token_id().unwrap();
    for (why, context, token, reason) in [
        ("an unknown token", operator(), id(0xdead), "403 token_revoked"),
        ("another Project", caller_of(project(2)), token, "403 token_revoked"),
        ("no reason", operator(), token, " \n"),
    ] {
        let error =
            world.service.report_enrolment_refusal(&context, token, reason).await.unwrap_err();
        assert_eq!(error.reason(), "invalid_input", "{why}");
    }
    assert_eq!(reasons(&world, &resource).await, [""; 0]);
    let own = caller_of(resource.project_id());
    world.service.report_enrolment_refusal(&own, token, "409 conflict").await.unwrap();
    assert_eq!(reasons(&world, &resource).await, ["409 conflict"]);
}
