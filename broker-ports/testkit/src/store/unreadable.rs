//! Cases for unreadable rows: they are reported by id and affect no other row.

use broker_ports::UnreadableRow;

use super::prelude::*;

pub(super) fn cases<W: StoreUnderTest + 'static>() -> Vec<Case<W>> {
    suite_of![
        an_unreadable_row_is_rejected_with_its_id,
        an_unreadable_row_affects_no_other,
        a_listing_names_unreadable_rows_and_continues,
        a_sweep_continues_after_an_unreadable_row,
    ]
}

async fn an_unreadable_row_is_rejected_with_its_id(world: &World) -> Outcome {
    let stored = world.stored(&resource().requested_as("order-1")).await?;
    if !world.spoil(stored.id()).await? {
        return Ok(());
    }
    let (repository, id) = (world.repository(), stored.id());
    let request = RequestId::new("order-1")?;
    named(repository.get_by_id(id).await, id, "get_by_id")?;
    let by_request = repository.get_by_request(stored.project_id(), &request).await;
    named(by_request, id, "get_by_request")?;
    let own = repository.get_in_project(stored.project_id(), id).await;
    named(own, id, "get_in_project")?;
    let other = repository.get_in_project(project(2), id).await?;
    same("in another Project the id finds", &other, &None)
}

async fn an_unreadable_row_affects_no_other(world: &World) -> Outcome {
    let spoilt = world.stored(&resource()).await?;
    let sound = world.stored(&numbered(2)).await?;
    if !world.spoil(spoilt.id()).await? {
        return Ok(());
    }
    same("the other reads back as", &world.get(sound.id()).await?, &sound)?;
    // A claim does not parse rows, so an unreadable one blocks no lane.
    let due = world.due_in(Lane::Converge).await?;
    require(due.contains(&sound.id()), "an unreadable row blocks the claim of others")?;
    world.commit(WriteKind::Phase, &to(&sound, Phase::Provisioning, 1)?).await?;
    let events = world.claim_events("relay", 10).await?;
    require(events.iter().any(|event| event.resource == sound.id()), "no event is claimed")
}

/// Follows pages of one row to the end: the readable rows, and the errors of the others. An unreadable row also takes a
/// page.
async fn paged(
    world: &World,
    sweeps: bool,
) -> Checked<(Vec<ProvisionedResourceId>, Vec<UnreadableRow>)> {
    let (mut readable, mut unreadable) = (Vec::new(), Vec::new());
    let (mut sweep, mut list) = (SweepQuery::new(rows(1)), ListQuery::new(rows(1)));
    for _ in 0..100 {
        let (ids, odd, next): (Vec<_>, _, _) = if sweeps {
            let page = world.repository().sweep_page(&sweep).await?;
            (page.rows.iter().map(|row| row.id).collect(), page.unreadable, page.next)
        } else {
            let page = world.repository().list(&list).await?;
            let ids = page.resources.iter().map(ProvisionedResource::id);
            (ids.collect(), page.unreadable, page.next)
        };
        require(ids.len() + odd.len() <= 1, "a page is longer than asked")?;
        readable.extend(ids);
        unreadable.extend(odd);
        let Some(next) = next else { return Ok((readable, unreadable)) };
        (sweep, list) = (sweep.after(next), list.after(next));
    }
    Err(Violation::new("the pages never end"))
}

/// Three resources, the second unreadable; `None` if the world cannot do that.
async fn unreadable_between(world: &World) -> Checked<Option<[ProvisionedResourceId; 3]>> {
    world.store_all((1..=3).map(numbered)).await?;
    let [first, spoilt, last] = [id(1), id(2), id(3)];
    Ok(world.spoil(spoilt).await?.then_some([first, spoilt, last]))
}

async fn a_listing_names_unreadable_rows_and_continues(world: &World) -> Outcome {
    let Some([first, spoilt, last]) = unreadable_between(world).await? else { return Ok(()) };
    let (readable, unreadable) = paged(world, false).await?;
    require(readable == [first, last], "a row that cannot be read hides another")?;
    let Ok([row]) = <[_; 1]>::try_from(unreadable) else {
        return Err(Violation::new("the row that cannot be read is not named once"));
    };
    require(row.id == spoilt, "another row is named")?;
    named(Err::<(), _>(row.error), spoilt, "list")
}

async fn a_sweep_continues_after_an_unreadable_row(world: &World) -> Outcome {
    let Some([first, spoilt, last]) = unreadable_between(world).await? else { return Ok(()) };
    let (mut readable, unreadable) = paged(world, true).await?;
    // The damage may be in a column that a sweep does not read; the row must not be lost.
    for row in unreadable {
        readable.push(row.id);
        named(Err::<(), _>(row.error), row.id, "sweep_page")?;
    }
    readable.sort();
    require(readable == [first, spoilt, last], "a row is left out, or doubled")
}

/// It exists, so it is not absent. A retry fails, so it is not transient. The message names the row and the source is
/// the domain error.
fn named<T>(answer: Result<T, PortError>, id: ProvisionedResourceId, what: &str) -> Outcome {
    let Err(error) = answer else {
        return Err(Violation::new(format!("{what} succeeds for an unreadable row")));
    };
    let (text, hides) = (error.to_string(), error.domain().is_none());
    require_rejected(Err::<(), _>(error), what)?;
    require(!hides, &format!("{what} hides the domain error"))?;
    require(text.contains(&id.to_string()), &format!("{what} does not name the row: {text}"))
}
