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
    let stored = world.store(&resource().requested_as("order-1")).await?;
    if !world.corrupt(stored.id()).await? {
        return Ok(());
    }
    let (repository, id) = (world.repository(), stored.id());
    let request = RequestId::new("order-1")?;
    require_names_row(repository.get_by_id(id).await, id, "get_by_id")?;
    let by_request = repository.get_by_request(stored.project_id(), &request).await;
    require_names_row(by_request, id, "get_by_request")?;
    let own = repository.get_in_project(stored.project_id(), id).await;
    require_names_row(own, id, "get_in_project")?;
    let other = repository.get_in_project(project(2), id).await?;
    equal("the resource found in another Project", &other, &None)
}

async fn an_unreadable_row_affects_no_other(world: &World) -> Outcome {
    let corrupt = world.store(&resource()).await?;
    let sound = world.store(&nth_resource(2)).await?;
    if !world.corrupt(corrupt.id()).await? {
        return Ok(());
    }
    equal("the other resource", &world.get(sound.id()).await?, &sound)?;
    // A claim does not parse rows, so an unreadable one blocks no lane.
    let due = world.due_resources(Lane::Converge).await?;
    require(due.contains(&sound.id()), "an unreadable row blocks the claim of others")?;
    world.commit(WriteKind::Phase, &phase_change(&sound, Phase::Provisioning, 1)?).await?;
    let events = world.claim_events("relay", 10).await?;
    require(events.iter().any(|event| event.resource == sound.id()), "no event is claimed")
}

/// The query whose pages a case follows.
#[derive(PartialEq)]
enum Query {
    List,
    Sweep,
}

/// The readable and the unreadable rows of all pages. Each page has one row.
async fn follow_pages(
    world: &World,
    query: Query,
) -> Checked<(Vec<ProvisionedResourceId>, Vec<UnreadableRow>)> {
    let (mut readable, mut unreadable) = (Vec::new(), Vec::new());
    let (mut sweep, mut list) = (SweepQuery::new(rows(1)), ListQuery::new(rows(1)));
    for _ in 0..100 {
        let (ids, unreadable_rows, next): (Vec<_>, _, _) = if query == Query::Sweep {
            let page = world.repository().sweep_page(&sweep).await?;
            (page.rows.iter().map(|row| row.id).collect(), page.unreadable, page.next)
        } else {
            let page = world.repository().list(&list).await?;
            let ids = page.resources.iter().map(ProvisionedResource::id);
            (ids.collect(), page.unreadable, page.next)
        };
        require(ids.len() + unreadable_rows.len() <= 1, "a page has more rows than its limit")?;
        readable.extend(ids);
        unreadable.extend(unreadable_rows);
        let Some(next) = next else { return Ok((readable, unreadable)) };
        (sweep, list) = (sweep.after(next), list.after(next));
    }
    Err(Violation::new("the pages never end"))
}

/// Stores three resources, the second unreadable. `None` if the store cannot make a row unreadable.
async fn store_with_one_unreadable(world: &World) -> Checked<Option<[ProvisionedResourceId; 3]>> {
    world.store_all((1..=3).map(nth_resource)).await?;
    let [first, corrupt, last] = [id(1), id(2), id(3)];
    Ok(world.corrupt(corrupt).await?.then_some([first, corrupt, last]))
}

async fn a_listing_names_unreadable_rows_and_continues(world: &World) -> Outcome {
    let Some([first, corrupt, last]) = store_with_one_unreadable(world).await? else {
        return Ok(());
    };
    let (readable, unreadable) = follow_pages(world, Query::List).await?;
    require(readable == [first, last], "a readable row is missing")?;
    let Ok([row]) = <[_; 1]>::try_from(unreadable) else {
        return Err(Violation::new("the unreadable row is not named exactly once"));
    };
    require(row.id == corrupt, "another row is named")?;
    require_names_row(Err::<(), _>(row.error), corrupt, "list")
}

async fn a_sweep_continues_after_an_unreadable_row(world: &World) -> Outcome {
    let Some([first, corrupt, last]) = store_with_one_unreadable(world).await? else {
        return Ok(());
    };
    let (mut readable, unreadable) = follow_pages(world, Query::Sweep).await?;
    // The damage may be in a column that a sweep does not read. Then the row is listed as readable.
    for row in unreadable {
        readable.push(row.id);
        require_names_row(Err::<(), _>(row.error), row.id, "sweep_page")?;
    }
    readable.sort();
    require(readable == [first, corrupt, last], "a row is missing or repeated")
}

/// Checks that a read of an unreadable row is rejected, names the row, and has the domain error as its source.
fn require_names_row<T>(
    result: Result<T, PortError>,
    id: ProvisionedResourceId,
    what: &str,
) -> Outcome {
    let Err(error) = result else {
        return Err(Violation::new(format!("{what} succeeds for an unreadable row")));
    };
    let (text, hides_source) = (error.to_string(), error.domain().is_none());
    require_rejected(Err::<(), _>(error), what)?;
    require(!hides_source, &format!("{what} hides the domain error"))?;
    require(text.contains(&id.to_string()), &format!("{what} does not name the row: {text}"))
}
