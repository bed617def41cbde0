//! What the store puts into words of the domain, beyond what the contract of its port asks for.

use broker_ports::{FailureClass, Repository};
use broker_testkit::builders::resource;
use broker_testkit::store::StoreUnderTest;
use uuid::Uuid;

use crate::servers::pg::store::world::World;

#[tokio::test]
async fn an_id_whose_events_are_still_there_is_taken() {
    let world = World::alone().await;
    world.know(&resource().declaration()).await.unwrap();
    let id = resource().id();
    let event = "INSERT INTO plexsphere.provisioning_outbox
            (event_id, provisioned_resource_id, sequence, event_type, occurred_at, payload)
        VALUES ($1, $2, 1, 'broker.ProvisionedResourceRequested', now(), '{}')";
    let event = sqlx::query(event).bind(Uuid::from_u128(0x00dd)).bind(id.as_uuid());
    event.execute(world.pool()).await.unwrap();
    let error = world.store.create(&resource().admitted()).await.unwrap_err();
    assert_eq!(error.class(), FailureClass::Rejected, "{error}");
    let words = error.domain().map(ToString::to_string);
    assert_eq!(words, Some(format!("id: {id} is taken; use a new one")));
}
