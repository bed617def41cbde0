//! The refusals of agents, and the labels that a Resource inherits.

use broker_pg::{EnrolError, JoinError};
use broker_ports::{
    FailureClass, LabelTagResolver, NodeId, PeerCommander, ResourceView, Retired, TokenIssuer,
};
use broker_testkit::token_issuer::TokenIssuerUnderTest;
use secrecy::SecretString;
use uuid::Uuid;

use super::world::World;

#[tokio::test]
async fn refused_agent_gets_the_reason() {
    let world = World::fresh().await;
    let resource = World::new_resource();
    let replaced = world.issue(resource).await.unwrap();
    let token = world.issue(resource).await.unwrap();
    let node = world.mesh.enrol(token.plaintext.secret()).await.unwrap();
    let late = world.issue(World::new_resource()).await.unwrap();
    world.advance(world.tokens.ttl_window().await.unwrap().max).await.unwrap();
    let refusal = async |plaintext: &SecretString| world.mesh.enrol(plaintext).await.unwrap_err();
    assert!(matches!(refusal(&SecretString::from("a guess")).await, EnrolError::Unknown));
    assert!(matches!(refusal(replaced.plaintext.secret()).await, EnrolError::Invalidated));
    assert!(matches!(refusal(token.plaintext.secret()).await, EnrolError::Consumed));
    assert!(matches!(refusal(late.plaintext.secret()).await, EnrolError::Expired));

    let unknown = NodeId::new(Uuid::from_u128(0x00dd)).unwrap();
    assert!(matches!(world.mesh.join(unknown).await.unwrap_err(), JoinError::Unknown));
    let refused = world.mesh.retire(unknown, None).await.unwrap_err();
    assert_eq!(refused.class(), FailureClass::Rejected, "{refused}");
    assert_eq!(world.mesh.retire(node, None).await.unwrap(), Retired::Done);
    assert!(matches!(world.mesh.join(node).await.unwrap_err(), JoinError::Deregistered));
}

#[tokio::test]
async fn resource_inherits_propagated_labels_unless_it_has_its_own() {
    let world = World::fresh().await;
    let project = world.new_project().await.unwrap();
    let resource = world.new_resource_of(project).await.unwrap();
    let sibling = world.new_resource_of(project).await.unwrap();
    // Key, value, propagates.
    let inherited = "INSERT INTO plexsphere.project_labels SELECT $1, * FROM (VALUES
        ('region', 'eu', true), ('team', 'platform', true), ('cost', '42', true),
        ('note', 'internal', false)) AS label";
    let own = "INSERT INTO plexsphere.resource_labels SELECT $1, * FROM (VALUES
        ('team', 'payments', true), ('cost', '43', false), ('note', 'public', true)) AS label";
    for (insert, of) in [(inherited, project.as_uuid()), (own, resource.as_uuid())] {
        sqlx::query(insert).bind(of).execute(world.pool()).await.unwrap();
    }
    for (resource, why, expected) in [
        (
            resource,
            "cost does not propagate, and hides the Project's that would",
            [("note", "public"), ("region", "eu"), ("team", "payments")],
        ),
        (sibling, "the Project's", [("cost", "42"), ("region", "eu"), ("team", "platform")]),
    ] {
        let expected = expected.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let found = LabelTagResolver::resolve(&world.platform, project, resource).await.unwrap();
        assert_eq!(found, Some(ResourceView::new(expected.into())), "{why}");
    }
}
