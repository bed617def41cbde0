//! What agents are told, what labels a Resource inherits, and how a row that cannot be read is named.

use broker_domain::{BlueprintVersionId, CloudId};
use broker_pg::{EnrolError, JoinError};
use broker_ports::{
    BlueprintResolver, CloudResolver, FailureClass, LabelTagResolver, NodeId, PeerCommander,
    ResourceView, Retired, TokenIssuer,
};
use broker_testkit::token_issuer::TokenIssuerUnderTest;
use secrecy::SecretString;
use uuid::Uuid;

use super::world::World;

#[tokio::test]
async fn an_agent_is_told_why_it_is_not_let_in() {
    let world = World::fresh().await;
    let guess = SecretString::from("a guess");
    let refused = world.mesh.enrol(&guess).await.unwrap_err();
    assert!(matches!(refused, EnrolError::Unknown), "{refused}");

    let resource = World::new_resource();
    let replaced = world.issue(resource).await.unwrap();
    let token = world.issue(resource).await.unwrap();
    let refused = world.mesh.enrol(replaced.plaintext.secret()).await.unwrap_err();
    assert!(matches!(refused, EnrolError::Invalidated), "{refused}");

    world.mesh.enrol(token.plaintext.secret()).await.unwrap();
    let refused = world.mesh.enrol(token.plaintext.secret()).await.unwrap_err();
    assert!(matches!(refused, EnrolError::Consumed), "{refused}");

    let late = world.issue(World::new_resource()).await.unwrap();
    world.advance(world.tokens.ttl_window().await.unwrap().max).await.unwrap();
    let refused = world.mesh.enrol(late.plaintext.secret()).await.unwrap_err();
    assert!(matches!(refused, EnrolError::Expired), "{refused}");
}

#[tokio::test]
async fn a_node_keeps_its_peer_until_it_leaves() {
    let world = World::fresh().await;
    let token = world.issue(World::new_resource()).await.unwrap();
    let node = world.mesh.enrol(token.plaintext.secret()).await.unwrap();
    let peer = world.mesh.join(node).await.unwrap();
    assert_eq!(world.mesh.join(node).await.unwrap(), peer);
    world.mesh.leave(node).await.unwrap();
    assert_ne!(world.mesh.join(node).await.unwrap(), peer);
}

#[tokio::test]
async fn a_node_is_told_why_it_may_not_join() {
    let world = World::fresh().await;
    let nobody = NodeId::new(Uuid::from_u128(0x00dd)).unwrap();
    let refused = world.mesh.join(nobody).await.unwrap_err();
    assert!(matches!(refused, JoinError::Unknown), "{refused}");
    let refused = world.mesh.retire(nobody, None).await.unwrap_err();
    assert_eq!(refused.class(), FailureClass::Rejected, "{refused}");

    let token = world.issue(World::new_resource()).await.unwrap();
    let node = world.mesh.enrol(token.plaintext.secret()).await.unwrap();
    assert_eq!(world.mesh.retire(node, None).await.unwrap(), Retired::Done);
    let refused = world.mesh.join(node).await.unwrap_err();
    assert!(matches!(refused, JoinError::Deregistered), "{refused}");
}

#[tokio::test]
async fn a_resource_inherits_what_propagates_and_it_does_not_hide() {
    let world = World::fresh().await;
    let project = world.new_project().await.unwrap();
    let resource = world.new_resource_of(project).await.unwrap();
    let sibling = world.new_resource_of(project).await.unwrap();
    // Key, value, propagates; of the Project, then of the Resource.
    let inherited = [
        ("region", "eu", true),
        ("team", "platform", true),
        ("cost", "42", true),
        ("note", "internal", false),
    ];
    let own = [("team", "payments", true), ("cost", "43", false), ("note", "public", true)];
    for (key, value, propagates) in inherited {
        label(&world, "project", project.as_uuid(), key, value, propagates).await;
    }
    for (key, value, propagates) in own {
        label(&world, "resource", resource.as_uuid(), key, value, propagates).await;
    }
    let expect = |labels: &[(&str, &str)]| {
        let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        Some(ResourceView::new(labels.collect()))
    };
    assert_eq!(
        LabelTagResolver::resolve(&world.neighbours, project, resource).await.unwrap(),
        expect(&[("note", "public"), ("region", "eu"), ("team", "payments")]),
        "cost does not propagate, and hides the Project's that would"
    );
    assert_eq!(
        LabelTagResolver::resolve(&world.neighbours, project, sibling).await.unwrap(),
        expect(&[("cost", "42"), ("region", "eu"), ("team", "platform")]),
    );
}

async fn label(world: &World, of: &str, id: Uuid, key: &str, value: &str, propagates: bool) {
    let insert = match of {
        "project" => "INSERT INTO plexsphere.project_labels VALUES ($1, $2, $3, $4)",
        _ => "INSERT INTO plexsphere.resource_labels VALUES ($1, $2, $3, $4)",
    };
    let insert = sqlx::query(insert).bind(id).bind(key).bind(value).bind(propagates);
    insert.execute(world.pool()).await.unwrap();
}

#[tokio::test]
async fn a_row_that_cannot_be_read_is_named() {
    let world = World::fresh().await;
    let cloud: Uuid = sqlx::query_scalar(
        "INSERT INTO plexsphere.clouds (provider) VALUES ('Not A Label') RETURNING id",
    )
    .fetch_one(world.pool())
    .await
    .unwrap();
    let refused = CloudResolver::resolve(&world.neighbours, CloudId::new(cloud).unwrap()).await;
    let refused = refused.unwrap_err();
    assert_eq!(
        refused.to_string(),
        format!("plexsphere.clouds.provider of {cloud} breaks the domain's rules")
    );
    assert_eq!(refused.domain().unwrap().reason(), "invalid_input");

    let blueprint = published_with_kinds(&world, r#"[{"kind": "Server"}]"#).await;
    let refused = BlueprintResolver::resolve(&world.neighbours, blueprint).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        format!(
            "plexsphere.blueprint_versions.composed_kinds of {blueprint} breaks the domain's rules"
        )
    );
    assert_eq!(refused.class(), FailureClass::Rejected);
}

/// A blueprint that is fine but for the kinds that it is said to compose.
async fn published_with_kinds(world: &World, kinds: &str) -> BlueprintVersionId {
    let imported = super::catalog::Draft::of("vm").import(world.pool()).await.unwrap();
    let id = imported.published[0].id;
    let update = "UPDATE plexsphere.blueprint_versions SET composed_kinds = $2::text::jsonb \
                  WHERE id = $1";
    sqlx::query(update).bind(id.as_uuid()).bind(kinds).execute(world.pool()).await.unwrap();
    id
}
