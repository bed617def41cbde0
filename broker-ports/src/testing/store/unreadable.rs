//! Promises about rows that somebody else spoilt: they are reported by name, and concern nobody else.

use broker_domain::{Phase, ProvisionedResourceId};

use super::bench::{same, to};
use super::{Outcome, StoreUnderTest};
use crate::error::{FailureClass, PortError};
use crate::lease::Lane;
use crate::repository::WriteKind;
use crate::testing::Violation;
use crate::testing::builders::resource;
use crate::testing::cases::require;

pub(super) async fn a_row_that_cannot_be_read_is_rejected_by_name(
    world: &dyn StoreUnderTest,
) -> Outcome {
    let builder = resource().requested_as("order-1");
    let stored = world.stored(&builder).await?;
    if !world.spoil(stored.id()).await? {
        return Ok(());
    }
    let by_id = world.repository().get_by_id(stored.id()).await;
    require_named(by_id.map(drop), stored.id(), "get_by_id")?;
    let declaration = builder.declaration();
    let request = declaration.request_id.ok_or(Violation::new("the request has an id"))?;
    let by_request = world.repository().get_by_request(stored.project_id(), &request).await;
    require_named(by_request.map(drop), stored.id(), "get_by_request")
}

pub(super) async fn a_row_that_cannot_be_read_concerns_nobody_else(
    world: &dyn StoreUnderTest,
) -> Outcome {
    let spoilt = world.stored(&resource()).await?;
    let sound = world.stored(&resource().numbered(2)).await?;
    if !world.spoil(spoilt.id()).await? {
        return Ok(());
    }
    same("the other reads back as", &world.get(sound.id()).await?, &sound)?;
    // Whoever claims does not read the rows, so that one of them holds up no lane.
    let due = world.due_in(Lane::Converge).await?;
    require(due.contains(&sound.id()), "beside an unreadable row nothing is claimed")?;
    world.commit(WriteKind::Phase, &to(&sound, Phase::Provisioning, 1)?).await?;
    let events = world.claim_events("relay", 10).await?;
    require(events.iter().any(|event| event.resource == sound.id()), "no event is claimed")
}

/// It exists, so it is not absent; it gets no better by itself, so it is not transient; the message says where to
/// look, and the reason is in the domain's own words.
fn require_named(answer: Result<(), PortError>, id: ProvisionedResourceId, what: &str) -> Outcome {
    let Err(error) = answer else {
        return Err(Violation::new(format!("{what} answers for a row that cannot be read")));
    };
    require(
        error.class() == FailureClass::Rejected,
        &format!("{what} of a row that cannot be read is {}, not rejected", error.class()),
    )?;
    require(error.domain().is_some(), &format!("{what} hides the domain error"))?;
    let text = error.to_string();
    require(text.contains(&id.to_string()), &format!("{what} does not name the row: {text}"))
}
