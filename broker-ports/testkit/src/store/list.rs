//! Cases for `list` and `sweep_page`.

use broker_domain::OnFailure;
use broker_ports::{CompactRow, PageBytes};

use super::prelude::*;

pub(super) fn cases<W: StoreUnderTest + 'static>() -> Vec<Case<W>> {
    suite_of![
        pages_are_ordered_by_id_and_visit_each_row_once,
        filters_exclude_other_rows,
        a_credential_lists_the_resources_that_use_it,
        pages_skip_nothing_while_rows_leave_the_filter,
        a_follower_of_the_watermark_misses_no_change,
        settled_resources_are_not_swept,
        list_pages_are_bounded_by_bytes,
        sweep_pages_are_bounded_by_bytes,
        sweep_pages_visit_each_row_of_their_project_once,
        sweep_pages_skip_nothing_while_rows_settle,
        a_compact_row_equals_its_resource,
    ]
}

type Ids = Vec<ProvisionedResourceId>;

/// A page of a listing: its rows, their bytes of parameters, and the next cursor.
struct Page {
    ids: Ids,
    bytes: usize,
    next: Option<ProvisionedResourceId>,
}

async fn read_page(world: &World, query: &ListQuery) -> Checked<Page> {
    let page = world.repository().list(query).await?;
    let size = page.resources.len();
    require(size <= usize::from(query.limit.get()), "a page has more rows than its limit")?;
    require(size > 0 || page.next.is_none(), "an empty page has a next cursor")?;
    Ok(Page {
        ids: page.resources.iter().map(ProvisionedResource::id).collect(),
        bytes: page.resources.iter().map(|resource| resource.parameters().as_json().len()).sum(),
        next: page.next,
    })
}

/// The ids of all pages of a listing.
async fn list_all(world: &World, mut query: ListQuery) -> Checked<Ids> {
    let mut seen = Vec::new();
    loop {
        let page = read_page(world, &query).await?;
        seen.extend(page.ids);
        let Some(next) = page.next else { return Ok(seen) };
        query = query.after(next);
    }
}

/// All pages of a sweep.
async fn sweep_pages(world: &World, mut query: SweepQuery) -> Checked<Vec<Vec<CompactRow>>> {
    let mut pages = Vec::new();
    loop {
        let page = world.repository().sweep_page(&query).await?;
        let limit = usize::from(query.limit.get());
        require(page.rows.len() <= limit, "a page has more rows than its limit")?;
        let cursor_is_shown =
            page.next.is_none_or(|next| page.rows.iter().any(|row| row.id == next));
        require(cursor_is_shown, "the next cursor is not a row of the page")?;
        pages.push(page.rows);
        let Some(next) = page.next else { return Ok(pages) };
        query.after = Some(next);
    }
}

async fn sweep_all(world: &World, query: SweepQuery) -> Checked<Vec<CompactRow>> {
    Ok(sweep_pages(world, query).await?.into_iter().flatten().collect())
}

fn ids_of(rows: &[CompactRow]) -> Ids {
    rows.iter().map(|row| row.id).collect()
}

async fn watermark(world: &World) -> Checked<Watermark> {
    Ok(world.repository().list(&ListQuery::new(rows(1))).await?.watermark)
}

/// Moves a resource to a phase.
async fn write_phase(world: &World, number: u128, phase: Phase, event: u128) -> Outcome {
    let stored = world.get(id(number)).await?;
    world.commit(WriteKind::Phase, &phase_change(&stored, phase, event)?).await
}

async fn pages_are_ordered_by_id_and_visit_each_row_once(world: &World) -> Outcome {
    equal("the rows of no resource", &list_all(world, ListQuery::new(rows(10))).await?, &vec![])?;
    world.store_all([4, 2, 6, 1, 5, 3].map(nth_resource)).await?;
    for size in [1, 2, 3, 4, 5, 6, 7] {
        let seen = list_all(world, ListQuery::new(rows(size))).await?;
        equal(&format!("the rows visited by pages of {size}"), &seen, &ids(1..=6))?;
    }
    // A full last page has no next cursor.
    for (size, next) in [(6, None), (5, Some(id(5)))] {
        let page = read_page(world, &ListQuery::new(rows(size))).await?;
        equal("the next cursor", &page.next, &next)?;
    }
    Ok(())
}

/// Stores rows with large parameters. Two rows are Ready, so a sweep omits their parameters.
async fn store_large_parameters(world: &World) -> Outcome {
    for (number, size) in (1..).zip([1_000, 1_500, 1_000, 5_000, 1_000, 1_000, 400]) {
        let parameters = format!(r#"{{"p":"{}"}}"#, "x".repeat(size - r#"{"p":""}"#.len()));
        let declaration = declaration().for_resource(number).with_parameters(&parameters);
        let phase = if number > 5 { Phase::Ready } else { Phase::Pending };
        world.store(&nth_resource(number).declared_as(declaration).in_phase(phase)).await?;
    }
    Ok(())
}

/// A page ends before the row that exceeds its bytes, but has at least one row.
async fn list_pages_are_bounded_by_bytes(world: &World) -> Outcome {
    store_large_parameters(world).await?;
    let mut query = ListQuery::new(rows(100)).within(PageBytes::new(2_500)?);
    for (last, numbers, bytes) in
        [(false, 1..=2, 2_500), (false, 3..=3, 1_000), (false, 4..=4, 5_000), (true, 5..=7, 2_400)]
    {
        let page = read_page(world, &query).await?;
        equal("the rows and bytes of the page", &(page.ids, page.bytes), &(ids(numbers), bytes))?;
        equal("whether the page is the last", &page.next.is_none(), &last)?;
        query.after = page.next;
    }
    // Whichever bound is reached first ends the page, also with filters.
    let since = watermark(world).await?;
    for query in [
        ListQuery::new(rows(2)).in_phase(Phase::Pending),
        ListQuery::new(rows(2)).updated_since(Watermark::new(since.at() - HOUR)),
    ] {
        let full_of_bytes = read_page(world, &query.clone().within(PageBytes::new(100)?)).await?;
        equal("the cursor after a page full of bytes", &full_of_bytes.next, &Some(id(1)))?;
        let full_of_rows = read_page(world, &query).await?;
        equal("the cursor after a page full of rows", &full_of_rows.next, &Some(id(2)))?;
    }
    Ok(())
}

async fn sweep_pages_are_bounded_by_bytes(world: &World) -> Outcome {
    store_large_parameters(world).await?;
    let query = SweepQuery::new(rows(100)).within(PageBytes::new(2_500)?);
    let pages = sweep_pages(world, query).await?;
    let bytes = |rows: &[CompactRow]| {
        rows.iter().flat_map(|row| &row.parameters).map(|text| text.as_json().len()).sum::<usize>()
    };
    let pages: Vec<_> = pages.iter().map(|rows| (ids_of(rows), bytes(rows))).collect();
    // A Ready row has no parameters in a sweep.
    let expected = [(1..=2, 2_500), (3..=3, 1_000), (4..=4, 5_000), (5..=7, 1_000)];
    equal("the pages", &pages, &expected.map(|(numbers, bytes)| (ids(numbers), bytes)).into())
}

/// Alone and with every other filter, on pages of any size, and for a follower of the watermark.
async fn a_credential_lists_the_resources_that_use_it(world: &World) -> Outcome {
    let since = watermark(world).await?;
    let builders = (1..=8).map(|number| {
        let phase = if number > 4 { Phase::Provisioning } else { Phase::Pending };
        let used = declaration().for_resource(number).with_credential(40 + number % 2);
        let project = project(1 + u128::from(number % 4 == 0));
        nth_resource(number).declared_as(used).in_project(project).in_phase(phase)
    });
    world.store_all(builders).await?;
    for size in [1, 2, 5] {
        let even = ListQuery::new(rows(size)).with_credential(id(40));
        let since = Watermark::new(since.at() - HOUR);
        let rows = [
            ("a credential", even.clone(), ids([2, 4, 6, 8])),
            ("its Project", even.clone().in_project(project(2)), ids([4, 8])),
            ("its phase", even.clone().in_phase(Phase::Provisioning), ids([6, 8])),
            ("its changes", even.clone().updated_since(since), ids([2, 4, 6, 8])),
            ("an unused credential", even.with_credential(id(77)), ids([])),
        ];
        for (what, query, expected) in rows {
            let found = list_all(world, query).await?;
            equal(&format!("the rows of {what}"), &found, &expected)?;
        }
    }
    let since = watermark(world).await?;
    write_phase(world, 2, Phase::Provisioning, 500).await?;
    write_phase(world, 3, Phase::Provisioning, 501).await?;
    let query = ListQuery::new(rows(10)).with_credential(id(40)).updated_since(since);
    let found = list_all(world, query).await?;
    require(found.contains(&id(2)), "a follower of the watermark misses a change")?;
    require(!found.contains(&id(3)), "a change with another credential is listed")
}

async fn filters_exclude_other_rows(world: &World) -> Outcome {
    let builders = (1..=8).map(|number| {
        let phase = if number % 4 < 2 { Phase::Provisioning } else { Phase::Pending };
        nth_resource(number).in_project(project(1 + number % 2)).in_phase(phase)
    });
    world.store_all(builders).await?;
    for size in [1, 2, 3] {
        let all = ListQuery::new(rows(size));
        let in_project = all.clone().in_project(project(2));
        let rows = [
            ("a Project", in_project.clone(), ids([1, 3, 5, 7])),
            ("a phase", all.in_phase(Phase::Provisioning), ids([1, 4, 5, 8])),
            ("both", in_project.in_phase(Phase::Pending), ids([3, 7])),
        ];
        for (what, query, expected) in rows {
            equal(&format!("the rows of {what}"), &list_all(world, query).await?, &expected)?;
        }
    }
    Ok(())
}

/// Offset-based paging would skip rows while visited rows leave the filter, and repeat rows while new ones enter it.
async fn pages_skip_nothing_while_rows_leave_the_filter(world: &World) -> Outcome {
    let builders = (1..=9).map(|number| {
        nth_resource(number).in_phase(if number == 2 {
            Phase::Provisioning
        } else {
            Phase::Pending
        })
    });
    world.store_all(builders).await?;
    let query = ListQuery::new(rows(2)).in_phase(Phase::Pending);
    let leaving = (&[1, 3][..], Phase::Provisioning, ids([1, 3, 4, 5, 6, 7, 8, 9]));
    let entering = (&[1, 2, 3][..], Phase::Pending, ids([4, 5, 6, 7, 8, 9]));
    for (event, (changed, phase, throughout)) in (1..).zip([leaving, entering]) {
        let first = read_page(world, &query).await?;
        for number in changed {
            write_phase(world, *number, phase, 100 * event + number).await?;
        }
        let next = first.next.ok_or(Violation::new("the first page has no next cursor"))?;
        let rest = list_all(world, query.clone().after(next)).await?;
        let seen = [first.ids, rest].concat();
        equal(&format!("the rows visited while {changed:?} become {phase}"), &seen, &throughout)?;
    }
    Ok(())
}

async fn sweep_pages_skip_nothing_while_rows_settle(world: &World) -> Outcome {
    world.store_all((1..=7).map(|number| nth_resource(number).deprovisioning())).await?;
    let mut query = SweepQuery::new(rows(2));
    let mut seen = Vec::new();
    for round in 1.. {
        let page = world.repository().sweep_page(&query).await?;
        seen.extend(ids_of(&page.rows));
        let Some(next) = page.next else { break };
        query = query.after(next);
        write_phase(world, round, Phase::Deleted, round).await?;
    }
    equal("the visited rows", &seen, &ids(1..=7))
}

async fn a_follower_of_the_watermark_misses_no_change(world: &World) -> Outcome {
    world.store_all([2, 3].map(nth_resource)).await?;
    let mut stored = world.store(&resource()).await?;
    world.advance(HOUR).await?;
    let mut since = watermark(world).await?;
    let phases = [Phase::Provisioning, Phase::Enrolling, Phase::Pending];
    for (number, phase) in (1..).zip(phases.into_iter().cycle().take(9)) {
        let change = phase_change(&stored, phase, number)?;
        world.commit(WriteKind::Phase, &change).await?;
        stored = change.into_resource();
        let query = ListQuery::new(rows(10)).updated_since(since);
        let page = world.repository().list(&query).await?;
        let found: Vec<_> = page.resources.iter().map(ProvisionedResource::version).collect();
        equal("the versions since the watermark", &found, &vec![stored.version()])?;
        since = page.watermark;
    }
    Ok(())
}

async fn settled_resources_are_not_swept(world: &World) -> Outcome {
    let in_phase = |(number, phase)| nth_resource(number).in_phase(phase);
    let rolling_back = nth_resource(9).rolling_back().failed();
    world.store_all((1..).zip(Phase::ALL).map(in_phase).chain([rolling_back])).await?;
    let rows = sweep_all(world, SweepQuery::new(rows(100))).await?;
    let phases: Vec<_> = rows.iter().map(|row| (row.phase, row.on_failure)).collect();
    let expected: Vec<_> = Phase::ALL
        .into_iter()
        .filter(|phase| !matches!(phase, Phase::Failed | Phase::Deleted))
        .map(|phase| (phase, OnFailure::Retain))
        .chain([(Phase::Failed, OnFailure::Rollback)])
        .collect();
    equal("the swept phases", &phases, &expected)
}

async fn a_compact_row_equals_its_resource(world: &World) -> Outcome {
    for (number, phase) in (1..).zip(Phase::ALL) {
        let declaration = declaration().for_resource(number).with_parameters(r#"{"size":"small"}"#);
        let builder = nth_resource(number).declared_as(declaration.rolling_back());
        world.store(&builder.with_token().with_substrate().in_phase(phase)).await?;
    }
    world.take_lease("a", id(1)).await?;
    world.pause(id(2), true).await?;
    world.run_pass(&world.get(id(3)).await?, &successful_pass()).await?;
    for row in sweep_all(world, SweepQuery::new(rows(100))).await? {
        let resource = world.get(row.id).await?;
        let mut expected = CompactRow::of(&resource);
        let entry = world.entry(row.id).await?;
        expected.due_at = entry.due_at;
        expected.lease_until = entry.lease.map(|(_, until)| until);
        expected.paused = entry.paused;
        equal("the compact row", &row, &expected)?;
    }
    Ok(())
}

/// Rows of other Projects have ids between those of the Project. No page and no cursor contains them.
async fn sweep_pages_visit_each_row_of_their_project_once(world: &World) -> Outcome {
    let builders = (1..=9).map(|number| {
        let phase = if number % 4 == 0 { Phase::Deleted } else { Phase::Pending };
        nth_resource(number).in_project(project(1 + number % 3)).in_phase(phase)
    });
    world.store_all(builders).await?;
    for size in [1, 2, 3, 4, 9] {
        let all = SweepQuery::new(rows(size));
        let (own, none) = (all.in_project(project(2)), all.in_project(project(77)));
        for (query, expected) in
            [(all, ids([1, 2, 3, 5, 6, 7, 9])), (own, ids([1, 7])), (none, ids([]))]
        {
            let seen = ids_of(&sweep_all(world, query).await?);
            equal(&format!("the rows swept by pages of {size}"), &seen, &expected)?;
        }
    }
    Ok(())
}
