//! Promises of `list` and `sweep_page`.

use broker_domain::OnFailure;
use broker_ports::{CompactRow, PageBytes};
use futures_util::future::try_join;

use super::prelude::*;

pub(super) fn cases<W: StoreUnderTest + 'static>() -> Vec<Case<W>> {
    suite_of![
        pages_come_in_the_order_of_ids_and_visit_each_once,
        filters_leave_out_the_others,
        pages_visit_each_once_while_rows_change,
        pages_do_not_drift_while_rows_leave_the_filter,
        updated_since_leaves_out_what_did_not_change,
        following_the_watermark_misses_no_change,
        a_reader_beside_writers_misses_no_change,
        what_is_at_rest_is_not_swept,
        list_pages_are_bounded_by_bytes,
        sweep_pages_visit_each_once,
        sweep_pages_are_bounded_by_bytes,
        sweep_pages_of_a_project_hold_its_rows_only,
        sweep_pages_do_not_drift_while_rows_come_to_rest,
        a_compact_row_says_what_its_resource_says,
        a_compact_row_shows_due_time_lease_and_pause,
    ]
}

type Ids = Vec<ProvisionedResourceId>;

/// A page of a listing: which rows it has, how many bytes of parameters, and where the next one begins.
struct Page {
    ids: Ids,
    bytes: usize,
    next: Option<ProvisionedResourceId>,
}

async fn page(world: &dyn StoreUnderTest, query: &ListQuery) -> Result<Page, Violation> {
    let page = world.repository().list(query).await?;
    let size = page.resources.len();
    require(size <= usize::from(query.limit.get()), "a page holds more than was asked for")?;
    require(size > 0 || page.next.is_none(), "an empty page is followed by another")?;
    Ok(Page {
        ids: page.resources.iter().map(ProvisionedResource::id).collect(),
        bytes: page.resources.iter().map(|it| it.parameters().as_json().len()).sum(),
        next: page.next,
    })
}

/// Follows a listing to its end.
async fn listed(world: &dyn StoreUnderTest, mut query: ListQuery) -> Result<Ids, Violation> {
    let mut seen = Vec::new();
    loop {
        let page = page(world, &query).await?;
        seen.extend(page.ids);
        let Some(next) = page.next else { return Ok(seen) };
        query = query.after(next);
    }
}

/// Follows a sweep to its end, page by page.
async fn swept_pages(
    world: &dyn StoreUnderTest,
    mut query: SweepQuery,
) -> Result<Vec<Vec<CompactRow>>, Violation> {
    let mut pages = Vec::new();
    loop {
        let page = world.repository().sweep_page(&query).await?;
        let most = usize::from(query.limit.get());
        require(page.rows.len() <= most, "a page holds more than was asked for")?;
        let next_is_seen = page.next.is_none_or(|next| page.rows.iter().any(|row| row.id == next));
        require(next_is_seen, "the next page begins after a row that was not shown")?;
        pages.push(page.rows);
        let Some(next) = page.next else { return Ok(pages) };
        query.after = Some(next);
    }
}

async fn swept(
    world: &dyn StoreUnderTest,
    query: SweepQuery,
) -> Result<Vec<CompactRow>, Violation> {
    Ok(swept_pages(world, query).await?.into_iter().flatten().collect())
}

fn ids_of(rows: &[CompactRow]) -> Ids {
    rows.iter().map(|row| row.id).collect()
}

async fn watermark(world: &dyn StoreUnderTest) -> Result<Watermark, Violation> {
    Ok(world.repository().list(&ListQuery::new(rows(1))).await?.watermark)
}

/// Writes the next phase of the resource of a number.
async fn advance(world: &dyn StoreUnderTest, number: u128, phase: Phase, event: u128) -> Outcome {
    let stored = world.get(id(number)).await?;
    world.commit(WriteKind::Phase, &to(&stored, phase, event)?).await
}

async fn pages_come_in_the_order_of_ids_and_visit_each_once(world: &dyn StoreUnderTest) -> Outcome {
    same("at first there are", &listed(world, ListQuery::new(rows(10))).await?, &vec![])?;
    world.store_all([4, 2, 6, 1, 5, 3].map(numbered)).await?;
    for size in [1, 2, 3, 4, 5, 6, 7] {
        let seen = listed(world, ListQuery::new(rows(size))).await?;
        same(&format!("pages of {size} visit"), &seen, &ids(1..=6))?;
    }
    // A full page that is the last one has no next.
    for (size, next) in [(6, None), (5, Some(id(5)))] {
        let page = page(world, &ListQuery::new(rows(size))).await?;
        same("the next page begins after", &page.next, &next)?;
    }
    Ok(())
}

/// Stores rows with large parameters, two of which are beyond what a sweep needs them for.
async fn stored_with_large_parameters(world: &dyn StoreUnderTest) -> Outcome {
    for (number, size) in (1..).zip([1_000, 1_500, 1_000, 5_000, 1_000, 1_000, 400]) {
        let parameters = format!(r#"{{"p":"{}"}}"#, "x".repeat(size - r#"{"p":""}"#.len()));
        let spoken = declaration().for_resource(number).with_parameters(&parameters);
        let phase = if number > 5 { Phase::Ready } else { Phase::Pending };
        world.stored(&numbered(number).declared_as(spoken).in_phase(phase)).await?;
    }
    Ok(())
}

/// A page ends before the row whose parameters would be too much, and has at least one row. It is not cut short
/// without need.
async fn list_pages_are_bounded_by_bytes(world: &dyn StoreUnderTest) -> Outcome {
    stored_with_large_parameters(world).await?;
    let mut query = ListQuery::new(rows(100)).within(PageBytes::new(2_500)?);
    for (last, numbers, bytes) in
        [(false, 1..=2, 2_500), (false, 3..=3, 1_000), (false, 4..=4, 5_000), (true, 5..=7, 2_400)]
    {
        let page = page(world, &query).await?;
        same("the page has", &(page.ids, page.bytes), &(ids(numbers), bytes))?;
        same("it is the last", &page.next.is_none(), &last)?;
        query.after = page.next;
    }
    // Whichever bound is reached first ends the page, with every set of filters.
    let since = watermark(world).await?;
    for query in [
        ListQuery::new(rows(2)).in_phase(Phase::Pending),
        ListQuery::new(rows(2)).updated_since(Watermark::new(since.at() - HOUR)),
    ] {
        let full_of_bytes = page(world, &query.clone().within(PageBytes::new(100)?)).await?;
        same("a page that is full of bytes goes on after", &full_of_bytes.next, &Some(id(1)))?;
        let full_of_rows = page(world, &query).await?;
        same("a page that is full of rows goes on after", &full_of_rows.next, &Some(id(2)))?;
    }
    Ok(())
}

async fn sweep_pages_are_bounded_by_bytes(world: &dyn StoreUnderTest) -> Outcome {
    stored_with_large_parameters(world).await?;
    let query = SweepQuery::new(rows(100)).within(PageBytes::new(2_500)?);
    let pages = swept_pages(world, query).await?;
    let bytes = |rows: &[CompactRow]| {
        rows.iter().flat_map(|row| &row.parameters).map(|text| text.as_json().len()).sum::<usize>()
    };
    let pages: Vec<_> = pages.iter().map(|rows| (ids_of(rows), bytes(rows))).collect();
    // What is Ready has no parameters in a sweep.
    let expected = [(1..=2, 2_500), (3..=3, 1_000), (4..=4, 5_000), (5..=7, 1_000)];
    same("the pages are", &pages, &expected.map(|(numbers, bytes)| (ids(numbers), bytes)).into())
}

async fn filters_leave_out_the_others(world: &dyn StoreUnderTest) -> Outcome {
    let builders = (1..=8).map(|number| {
        let phase = if number % 4 < 2 { Phase::Provisioning } else { Phase::Pending };
        numbered(number).in_project(project(1 + number % 2)).in_phase(phase)
    });
    world.store_all(builders).await?;
    for size in [1, 2, 3] {
        let everything = ListQuery::new(rows(size));
        let of_project = everything.clone().in_project(project(2));
        let rows = [
            ("a Project", of_project.clone(), ids([1, 3, 5, 7])),
            ("a phase", everything.in_phase(Phase::Provisioning), ids([1, 4, 5, 8])),
            ("both", of_project.in_phase(Phase::Pending), ids([3, 7])),
        ];
        for (what, query, expected) in rows {
            same(&format!("of {what} there are"), &listed(world, query).await?, &expected)?;
        }
    }
    Ok(())
}

async fn pages_visit_each_once_while_rows_change(world: &dyn StoreUnderTest) -> Outcome {
    world.store_all((1..=6).map(numbered)).await?;
    let mut query = ListQuery::new(rows(2));
    let mut seen = Vec::new();
    for round in 1.. {
        let page = page(world, &query).await?;
        seen.extend(page.ids);
        let Some(next) = page.next else { break };
        query = query.after(next);
        advance(world, round, Phase::Provisioning, round).await?;
        let ahead = world.get(id(7 - round)).await?;
        world.commit(WriteKind::DeletionIntent, &deletion(&ahead, 100 + round)?).await?;
    }
    same("the pages visit", &seen, &ids(1..=6))
}

/// Whoever counts rows instead of remembering the last one visits too few when visited rows leave the filter,
/// and too many when others come in behind.
async fn pages_do_not_drift_while_rows_leave_the_filter(world: &dyn StoreUnderTest) -> Outcome {
    let builders = (1..=9).map(|number| {
        numbered(number).in_phase(if number == 2 { Phase::Provisioning } else { Phase::Pending })
    });
    world.store_all(builders).await?;
    let query = ListQuery::new(rows(2)).in_phase(Phase::Pending);
    let leave = (&[1, 3][..], Phase::Provisioning, ids([1, 3, 4, 5, 6, 7, 8, 9]));
    let come_in_behind = (&[1, 2, 3][..], Phase::Pending, ids([4, 5, 6, 7, 8, 9]));
    for (event, (changed, phase, throughout)) in (1..).zip([leave, come_in_behind]) {
        let first = page(world, &query).await?;
        for number in changed {
            advance(world, *number, phase, 100 * event + number).await?;
        }
        let next = first.next.ok_or(Violation::new("there are more rows than a page holds"))?;
        let rest = listed(world, query.clone().after(next)).await?;
        let seen = [first.ids, rest].concat();
        same(&format!("while {changed:?} become {phase} the pages visit"), &seen, &throughout)?;
    }
    Ok(())
}

async fn sweep_pages_do_not_drift_while_rows_come_to_rest(world: &dyn StoreUnderTest) -> Outcome {
    world.store_all((1..=7).map(|number| numbered(number).deprovisioning())).await?;
    let mut query = SweepQuery::new(rows(2));
    let mut seen = Vec::new();
    for round in 1.. {
        let page = world.repository().sweep_page(&query).await?;
        seen.extend(ids_of(&page.rows));
        let Some(next) = page.next else { break };
        query = query.after(next);
        advance(world, round, Phase::Deleted, round).await?;
    }
    same("the pages visit", &seen, &ids(1..=7))
}

async fn updated_since_leaves_out_what_did_not_change(world: &dyn StoreUnderTest) -> Outcome {
    world.store_all((1..=3).map(numbered)).await?;
    world.advance(HOUR).await?;
    let since = watermark(world).await?;
    advance(world, 2, Phase::Provisioning, 1).await?;
    let changed = listed(world, ListQuery::new(rows(10)).updated_since(since)).await?;
    same("since then changed", &changed, &vec![id(2)])
}

async fn following_the_watermark_misses_no_change(world: &dyn StoreUnderTest) -> Outcome {
    let mut stored = world.stored(&resource()).await?;
    let mut since = watermark(world).await?;
    let phases = [Phase::Provisioning, Phase::Enrolling, Phase::Pending];
    for (number, phase) in (1..).zip(phases.into_iter().cycle().take(9)) {
        let change = to(&stored, phase, number)?;
        world.commit(WriteKind::Phase, &change).await?;
        stored = change.into_resource();
        let query = ListQuery::new(rows(10)).updated_since(since);
        let page = world.repository().list(&query).await?;
        let found: Vec<_> = page.resources.iter().map(ProvisionedResource::version).collect();
        same("since then there is version", &found, &vec![stored.version()])?;
        since = page.watermark;
    }
    Ok(())
}

async fn a_reader_beside_writers_misses_no_change(world: &dyn StoreUnderTest) -> Outcome {
    world.store_all((1..=8).map(numbered)).await?;
    let since = watermark(world).await?;
    let writer = async {
        for number in 1..=8 {
            advance(world, number, Phase::Provisioning, number).await?;
        }
        Ok::<_, Violation>(())
    };
    let reader = async {
        let mut since = since;
        let mut seen = BTreeSet::new();
        for _ in 0..16 {
            let query = ListQuery::new(rows(100)).updated_since(since);
            let page = world.repository().list(&query).await?;
            since = page.watermark;
            let changed = page.resources.into_iter();
            seen.extend(changed.filter(|found| found.version().get() > 1).map(|found| found.id()));
        }
        Ok::<_, Violation>((since, seen))
    };
    let ((), (since, mut seen)) = try_join(writer, reader).await?;
    seen.extend(listed(world, ListQuery::new(rows(100)).updated_since(since)).await?);
    same("the reader saw", &seen, &(1..=8).map(id).collect())
}

async fn what_is_at_rest_is_not_swept(world: &dyn StoreUnderTest) -> Outcome {
    let of_phase = |(number, phase)| numbered(number).in_phase(phase);
    let rolling_back = numbered(9).rolling_back().failed();
    world.store_all((1..).zip(Phase::ALL).map(of_phase).chain([rolling_back])).await?;
    let rows = swept(world, SweepQuery::new(rows(100))).await?;
    let phases: Vec<_> = rows.iter().map(|row| (row.phase, row.on_failure)).collect();
    let expected: Vec<_> = Phase::ALL
        .into_iter()
        .filter(|phase| !matches!(phase, Phase::Failed | Phase::Deleted))
        .map(|phase| (phase, OnFailure::Retain))
        .chain([(Phase::Failed, OnFailure::Rollback)])
        .collect();
    same("the sweep sees", &phases, &expected)
}

async fn sweep_pages_visit_each_once(world: &dyn StoreUnderTest) -> Outcome {
    let builders = (1..=9).map(|number| {
        numbered(number).in_phase(if number % 3 == 0 { Phase::Deleted } else { Phase::Pending })
    });
    world.store_all(builders).await?;
    for size in [1, 2, 3, 4, 6, 7] {
        let seen = swept(world, SweepQuery::new(rows(size))).await?;
        same(&format!("pages of {size} visit"), &ids_of(&seen), &ids([1, 2, 4, 5, 7, 8]))?;
    }
    Ok(())
}

async fn a_compact_row_says_what_its_resource_says(world: &dyn StoreUnderTest) -> Outcome {
    for (number, phase) in (1..).zip(Phase::ALL) {
        let spoken = declaration().for_resource(number).with_parameters(r#"{"size":"small"}"#);
        let builder = numbered(number).declared_as(spoken.rolling_back());
        world.stored(&builder.with_token().with_substrate().in_phase(phase)).await?;
    }
    for row in swept(world, SweepQuery::new(rows(100))).await? {
        let resource = world.get(row.id).await?;
        let renders = matches!(row.phase, Phase::Pending | Phase::Provisioning | Phase::Enrolling);
        let mut expected = CompactRow::new(
            resource.id(),
            resource.project_id(),
            resource.resource_id(),
            resource.blueprint_version_id(),
            resource.cloud_credential_id(),
            resource.mesh_role(),
            resource.phase(),
        );
        expected.version = resource.version();
        expected.on_failure = resource.on_failure();
        expected.bootstrap_token_id = resource.bootstrap_token_id();
        expected.token_closed = resource.token_closed();
        expected.cluster = resource.substrate().cluster().cloned();
        expected.references_digest = resource.substrate().references_digest().copied();
        expected.applied = resource.substrate().applied().cloned();
        expected.parameters = renders.then(|| resource.parameters().clone());
        expected.due_at = world.entry(row.id).await?.due_at;
        same("the compact row is", &row, &expected)?;
    }
    Ok(())
}

async fn a_compact_row_shows_due_time_lease_and_pause(world: &dyn StoreUnderTest) -> Outcome {
    let stored = world.store_all((1..=3).map(numbered)).await?;
    world.hold("a", id(1)).await?;
    world.pause(id(2), true).await?;
    world.pass(&stored[2], &went_well()).await?;
    let page = world.repository().sweep_page(&SweepQuery::new(rows(10))).await?;
    let shown: Vec<_> = page
        .rows
        .iter()
        .map(|row| {
            let held = row.lease_until.is_some_and(|until| until > page.now);
            let due = row.due_at.map(|due_at| due_at <= page.now);
            (row.id, due, held, row.paused)
        })
        .collect();
    let expected = vec![
        (id(1), Some(true), true, false),
        (id(2), Some(true), false, true),
        (id(3), None, false, false),
    ];
    same("the sweep sees id, due, held, paused", &shown, &expected)
}

/// Rows of other Projects lie between those of the Project; no page and no position names them.
async fn sweep_pages_of_a_project_hold_its_rows_only(world: &dyn StoreUnderTest) -> Outcome {
    let of_project = |number| numbered(number).in_project(project(1 + number % 3));
    world.store_all((1..=9).map(of_project)).await?;
    for (number, size, expected) in [
        (2, 1, &[1, 4, 7][..]),
        (2, 2, &[1, 4, 7]),
        (2, 3, &[1, 4, 7]),
        (2, 9, &[1, 4, 7]),
        (77, 9, &[]),
    ] {
        let query = SweepQuery::new(rows(size)).in_project(project(number));
        let seen = swept(world, query).await?;
        same(&format!("pages of {size} hold"), &ids_of(&seen), &ids(expected.iter().copied()))?;
    }
    Ok(())
}
