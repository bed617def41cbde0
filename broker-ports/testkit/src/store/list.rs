//! Promises of `list` and `sweep_page`.

use broker_domain::OnFailure;
use broker_ports::{CompactRow, PageBytes};
use futures_util::future::try_join;

use super::prelude::*;

pub(super) fn cases<W: StoreUnderTest + 'static>() -> Vec<Case<W>> {
    suite_of![
        pages_come_in_the_order_of_ids_and_visit_each_once,
        a_full_page_that_is_the_last_has_no_next,
        an_empty_store_lists_nothing,
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

/// Follows a listing to its end.
async fn listed(
    world: &dyn StoreUnderTest,
    query: ListQuery,
) -> Result<Vec<ProvisionedResourceId>, Violation> {
    let mut query = query;
    let mut seen = Vec::new();
    loop {
        let page = world.repository().list(&query).await?;
        let size = page.resources.len();
        require(size <= usize::from(query.limit.get()), "a page holds more than was asked for")?;
        seen.extend(page.resources.iter().map(ProvisionedResource::id));
        let Some(next) = page.next else { return Ok(seen) };
        require(size > 0, "an empty page is followed by another")?;
        query = query.after(next);
    }
}

/// Follows a sweep to its end.
async fn swept(world: &dyn StoreUnderTest, limit: u16) -> Result<Vec<CompactRow>, Violation> {
    swept_from(world, SweepQuery::new(rows(limit))).await
}

async fn swept_from(
    world: &dyn StoreUnderTest,
    mut query: SweepQuery,
) -> Result<Vec<CompactRow>, Violation> {
    let mut seen = Vec::new();
    loop {
        let page = world.repository().sweep_page(&query).await?;
        let most = usize::from(query.limit.get());
        require(page.rows.len() <= most, "a page holds more than was asked for")?;
        let next_is_seen = page.next.is_none_or(|next| page.rows.iter().any(|row| row.id == next));
        require(next_is_seen, "the next page begins after a row that was not shown")?;
        seen.extend(page.rows);
        let Some(next) = page.next else { return Ok(seen) };
        query.after = Some(next);
    }
}

async fn watermark(world: &dyn StoreUnderTest) -> Result<Watermark, Violation> {
    Ok(world.repository().list(&ListQuery::new(rows(1))).await?.watermark)
}

async fn pages_come_in_the_order_of_ids_and_visit_each_once(world: &dyn StoreUnderTest) -> Outcome {
    for number in [4, 2, 6, 1, 5, 3] {
        world.stored(&resource().numbered(number)).await?;
    }
    let everything: Vec<ProvisionedResourceId> = (1..=6).map(id).collect();
    for size in [1, 2, 3, 4, 5, 6, 7] {
        let seen = listed(world, ListQuery::new(rows(size))).await?;
        same(&format!("pages of {size} visit"), &seen, &everything)?;
    }
    Ok(())
}

async fn a_full_page_that_is_the_last_has_no_next(world: &dyn StoreUnderTest) -> Outcome {
    for number in 1..=4 {
        world.stored(&resource().numbered(number)).await?;
    }
    let page = world.repository().list(&ListQuery::new(rows(4))).await?;
    same("the next page begins after", &page.next, &None)?;
    let page = world.repository().list(&ListQuery::new(rows(3))).await?;
    same("the next page begins after", &page.next, &Some(id(3)))
}

/// Parameters whose text has so many bytes.
fn parameters(bytes: usize) -> String {
    format!(r#"{{"p":"{}"}}"#, "x".repeat(bytes - r#"{"p":""}"#.len()))
}

/// The rows of each page, by their numbers, and the bytes of parameters in it.
type Pages = Vec<(Vec<ProvisionedResourceId>, usize)>;

/// Stores rows with large parameters, two of which are beyond what a sweep needs them for.
async fn stored_with_large_parameters(world: &dyn StoreUnderTest) -> Outcome {
    let sizes = [1_000, 1_500, 1_000, 5_000, 1_000, 1_000, 400];
    for (number, size) in (1..).zip(sizes) {
        let spoken = declaration().for_resource(number).with_parameters(&parameters(size));
        let phase = if number > 5 { Phase::Ready } else { Phase::Pending };
        world.stored(&resource().numbered(number).declared_as(spoken).in_phase(phase)).await?;
    }
    Ok(())
}

/// A page ends before the row whose parameters would be too much, and has at least one row. It is not cut short
/// without need.
async fn list_pages_are_bounded_by_bytes(world: &dyn StoreUnderTest) -> Outcome {
    stored_with_large_parameters(world).await?;
    let mut query = ListQuery::new(rows(100)).within(PageBytes::new(2_500)?);
    let mut pages = Pages::new();
    loop {
        let page = world.repository().list(&query).await?;
        let ids = page.resources.iter().map(ProvisionedResource::id).collect();
        pages.push((ids, page.resources.iter().map(|it| it.parameters().as_json().len()).sum()));
        let Some(next) = page.next else { break };
        query = query.after(next);
    }
    let expected = [(&[1, 2][..], 2_500), (&[3], 1_000), (&[4], 5_000), (&[5, 6, 7], 2_400)];
    same("the pages are", &pages, &numbered(&expected))?;
    // Whichever bound is reached first ends the page, with every set of filters.
    let since = watermark(world).await?;
    for query in [
        ListQuery::new(rows(2)).in_phase(Phase::Pending),
        ListQuery::new(rows(2)).updated_since(Watermark::new(since.at() - HOUR)),
    ] {
        let page = world.repository().list(&query.clone().within(PageBytes::new(100)?)).await?;
        same("a page that is full of bytes goes on after", &page.next, &Some(id(1)))?;
        let page = world.repository().list(&query).await?;
        same("a page that is full of rows goes on after", &page.next, &Some(id(2)))?;
    }
    Ok(())
}

async fn sweep_pages_are_bounded_by_bytes(world: &dyn StoreUnderTest) -> Outcome {
    stored_with_large_parameters(world).await?;
    let mut query = SweepQuery::new(rows(100)).within(PageBytes::new(2_500)?);
    let mut pages = Pages::new();
    loop {
        let page = world.repository().sweep_page(&query).await?;
        let texts = page.rows.iter().flat_map(|row| &row.parameters);
        let bytes = texts.map(|text| text.as_json().len()).sum();
        pages.push((page.rows.iter().map(|row| row.id).collect(), bytes));
        let Some(next) = page.next else { break };
        query = query.after(next);
    }
    // What is Ready has no parameters in a sweep.
    let expected = [(&[1, 2][..], 2_500), (&[3], 1_000), (&[4], 5_000), (&[5, 6, 7], 1_000)];
    same("the pages are", &pages, &numbered(&expected))
}

fn numbered(pages: &[(&[u128], usize)]) -> Pages {
    let ids = |numbers: &[u128]| numbers.iter().map(|number| id(*number)).collect();
    pages.iter().map(|(numbers, bytes)| (ids(numbers), *bytes)).collect()
}

async fn an_empty_store_lists_nothing(world: &dyn StoreUnderTest) -> Outcome {
    same("there are", &listed(world, ListQuery::new(rows(10))).await?, &vec![])
}

async fn filters_leave_out_the_others(world: &dyn StoreUnderTest) -> Outcome {
    for number in 1..=8 {
        let phase = if number % 4 < 2 { Phase::Provisioning } else { Phase::Pending };
        let builder = resource().numbered(number).in_project(project(1 + number % 2));
        world.stored(&builder.in_phase(phase)).await?;
    }
    let ids = |numbers: &[u128]| numbers.iter().map(|number| id(*number)).collect::<Vec<_>>();
    for size in [1, 2, 3] {
        let everything = ListQuery::new(rows(size));
        let of_project = everything.clone().in_project(project(2));
        same("a Project has", &listed(world, of_project.clone()).await?, &ids(&[1, 3, 5, 7]))?;
        let in_phase = everything.in_phase(Phase::Provisioning);
        same("a phase has", &listed(world, in_phase).await?, &ids(&[1, 4, 5, 8]))?;
        let both = of_project.in_phase(Phase::Pending);
        same("both have", &listed(world, both).await?, &ids(&[3, 7]))?;
    }
    Ok(())
}

async fn pages_visit_each_once_while_rows_change(world: &dyn StoreUnderTest) -> Outcome {
    for number in 1..=6 {
        world.stored(&resource().numbered(number)).await?;
    }
    let mut query = ListQuery::new(rows(2));
    let mut seen = Vec::new();
    for round in 1.. {
        let page = world.repository().list(&query).await?;
        seen.extend(page.resources.iter().map(ProvisionedResource::id));
        let Some(next) = page.next else { break };
        query = query.after(next);
        let visited = world.get(id(round)).await?;
        world.commit(WriteKind::Phase, &to(&visited, Phase::Provisioning, round)?).await?;
        let ahead = world.get(id(7 - round)).await?;
        world.commit(WriteKind::DeletionIntent, &deletion(&ahead, 100 + round)?).await?;
    }
    same("the pages visit", &seen, &(1..=6).map(id).collect())
}

/// Whoever counts rows instead of remembering the last one visits too few when visited rows leave the filter,
/// and too many when others come in behind.
async fn pages_do_not_drift_while_rows_leave_the_filter(world: &dyn StoreUnderTest) -> Outcome {
    for number in 1..=9 {
        let phase = if number == 2 { Phase::Provisioning } else { Phase::Pending };
        world.stored(&resource().numbered(number).in_phase(phase)).await?;
    }
    let query = ListQuery::new(rows(2)).in_phase(Phase::Pending);
    let first = world.repository().list(&query).await?;
    let mut seen: Vec<_> = first.resources.iter().map(ProvisionedResource::id).collect();
    for number in [1, 3] {
        let visited = world.get(id(number)).await?;
        world.commit(WriteKind::Phase, &to(&visited, Phase::Provisioning, number)?).await?;
    }
    let next = first.next.ok_or(Violation::new("there are more rows than a page holds"))?;
    seen.extend(listed(world, query.clone().after(next)).await?);
    let throughout: Vec<_> = [1, 3, 4, 5, 6, 7, 8, 9].map(id).to_vec();
    same("when visited rows leave, the pages visit", &seen, &throughout)?;

    let first = world.repository().list(&query).await?;
    let mut seen: Vec<_> = first.resources.iter().map(ProvisionedResource::id).collect();
    for number in [1, 2, 3] {
        let back = world.get(id(number)).await?;
        world.commit(WriteKind::Phase, &to(&back, Phase::Pending, 100 + number)?).await?;
    }
    let next = first.next.ok_or(Violation::new("there are more rows than a page holds"))?;
    seen.extend(listed(world, query.after(next)).await?);
    let throughout: Vec<_> = [4, 5, 6, 7, 8, 9].map(id).to_vec();
    same("when rows come in behind, the pages visit", &seen, &throughout)
}

async fn sweep_pages_do_not_drift_while_rows_come_to_rest(world: &dyn StoreUnderTest) -> Outcome {
    for number in 1..=7 {
        world.stored(&resource().numbered(number).deprovisioning()).await?;
    }
    let mut query = SweepQuery::new(rows(2));
    let mut seen = Vec::new();
    for round in 1.. {
        let page = world.repository().sweep_page(&query).await?;
        seen.extend(page.rows.iter().map(|row| row.id));
        let Some(next) = page.next else { break };
        query = query.after(next);
        let visited = world.get(id(round)).await?;
        world.commit(WriteKind::Phase, &to(&visited, Phase::Deleted, round)?).await?;
    }
    same("the pages visit", &seen, &(1..=7).map(id).collect())
}

async fn updated_since_leaves_out_what_did_not_change(world: &dyn StoreUnderTest) -> Outcome {
    for number in 1..=3 {
        world.stored(&resource().numbered(number)).await?;
    }
    world.advance(HOUR).await?;
    let since = watermark(world).await?;
    let stored = world.get(id(2)).await?;
    world.commit(WriteKind::Phase, &to(&stored, Phase::Provisioning, 1)?).await?;
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
    for number in 1..=8 {
        world.stored(&resource().numbered(number)).await?;
    }
    let since = watermark(world).await?;
    let writer = async {
        for number in 1..=8 {
            let stored = world.get(id(number)).await?;
            world.commit(WriteKind::Phase, &to(&stored, Phase::Provisioning, number)?).await?;
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
    for (number, phase) in (1..).zip(Phase::ALL) {
        world.stored(&resource().numbered(number).in_phase(phase)).await?;
    }
    world.stored(&resource().numbered(9).rolling_back().failed()).await?;
    let rows = swept(world, 100).await?;
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
    for number in 1..=9 {
        let phase = if number % 3 == 0 { Phase::Deleted } else { Phase::Pending };
        world.stored(&resource().numbered(number).in_phase(phase)).await?;
    }
    let expected: Vec<ProvisionedResourceId> = [1, 2, 4, 5, 7, 8].map(id).to_vec();
    for size in [1, 2, 3, 4, 6, 7] {
        let seen: Vec<_> = swept(world, size).await?.iter().map(|row| row.id).collect();
        same(&format!("pages of {size} visit"), &seen, &expected)?;
    }
    Ok(())
}

async fn a_compact_row_says_what_its_resource_says(world: &dyn StoreUnderTest) -> Outcome {
    for (number, phase) in (1..).zip(Phase::ALL) {
        let spoken = declaration().for_resource(number).with_parameters(r#"{"size":"small"}"#);
        let builder = resource().numbered(number).declared_as(spoken.rolling_back());
        world.stored(&builder.with_token().with_substrate().in_phase(phase)).await?;
    }
    for row in swept(world, 100).await? {
        let resource = world.get(row.id).await?;
        let entry = world.entry(row.id).await?;
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
        expected.due_at = entry.due_at;
        same("the compact row is", &row, &expected)?;
    }
    Ok(())
}

async fn a_compact_row_shows_due_time_lease_and_pause(world: &dyn StoreUnderTest) -> Outcome {
    let held = world.stored(&resource()).await?;
    let paused = world.stored(&resource().numbered(2)).await?;
    let at_ease = world.stored(&resource().numbered(3)).await?;
    world.pass(&at_ease, &went_well()).await?;
    world.hold("a", held.id()).await?;
    world.schedule().set_paused(paused.id(), true, &attribution()).await?;
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
        (held.id(), Some(true), true, false),
        (paused.id(), Some(true), false, true),
        (at_ease.id(), None, false, false),
    ];
    same("the sweep sees id, due, held, paused", &shown, &expected)
}

/// Rows of other Projects lie between those of the Project; no page and no position names them.
async fn sweep_pages_of_a_project_hold_its_rows_only(world: &dyn StoreUnderTest) -> Outcome {
    for number in 1..=9 {
        world.stored(&resource().numbered(number).in_project(project(1 + number % 3))).await?;
    }
    let own: Vec<ProvisionedResourceId> = [1, 4, 7].map(id).into();
    for size in [1, 2, 3, 9] {
        let query = SweepQuery::new(rows(size)).in_project(project(2));
        let seen = swept_from(world, query).await?;
        let seen: Vec<_> = seen.into_iter().map(|row| row.id).collect();
        same(&format!("pages of {size} hold"), &seen, &own)?;
    }
    let nobodys = SweepQuery::new(rows(9)).in_project(project(77));
    require(swept_from(world, nobodys).await?.is_empty(), "an unknown project has rows")
}
