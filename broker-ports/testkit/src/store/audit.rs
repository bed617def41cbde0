//! Promises of `record`.

use super::prelude::*;

pub(super) fn cases<W: StoreUnderTest + 'static>() -> Vec<Case<W>> {
    suite_of![
        a_line_is_kept_as_it_was_recorded,
        every_line_is_kept,
        lines_keep_their_order_among_those_of_writes,
        lines_recorded_at_once_have_places_of_their_own,
        a_line_has_the_time_of_the_store,
        an_audit_that_is_cut_off_says_so,
    ]
}

fn entry(action: AuditAction) -> AuditEntry {
    AuditEntry::new(action, attribution()).in_project(project(1)).about(id(1))
}

async fn a_line_is_kept_as_it_was_recorded(world: &dyn StoreUnderTest) -> Outcome {
    world.stored(&resource().ready()).await?;
    let mut line = entry(AuditAction::NodeDeregister).with_event_data("as Jane said");
    line.previous_phase = Some(Phase::Deregistering);
    line.new_phase = Some(Phase::Deprovisioning);
    line.failed_step = Some(Phase::Enrolling);
    world.audit().record(&line).await?;
    let kept = world.last_line(id(1)).await?;
    same("the line is", &kept.entry, &line)?;
    same(
        "it is of no write, and so of no version and epoch",
        &(kept.version, kept.epoch),
        &(None, None),
    )
}

/// Also what is recorded twice, and what is about a resource that nobody stored or about none.
async fn every_line_is_kept(world: &dyn StoreUnderTest) -> Outcome {
    let refused = AuditEntry::new(AuditAction::DeclarationRefused, attribution());
    let of_project = refused.clone().in_project(project(1));
    let mut lines: Vec<_> = AuditAction::ALL.iter().map(|action| entry(*action)).collect();
    lines.extend([entry(AuditAction::TokenIssue), entry(AuditAction::TokenIssue)]);
    let about_one: Vec<_> = lines.iter().map(|line| line.action).collect();
    lines.extend([refused, of_project]);
    for line in &lines {
        world.audit().record(line).await?;
    }
    let kept: Vec<_> = world.audit_trail().await?.into_iter().map(|line| line.entry).collect();
    same("the audit is", &kept, &lines)?;
    same("the audit of the resource says", &world.actions(id(1)).await?, &about_one)
}

async fn lines_keep_their_order_among_those_of_writes(world: &dyn StoreUnderTest) -> Outcome {
    let builder = resource().provisioning();
    world.know(&builder.declaration()).await?;
    let _ = world.repository().create(&builder.admitted()).await?;
    world.audit().record(&entry(AuditAction::SubstrateApply)).await?;
    for (kind, change) in &builder.life().then {
        world.commit(*kind, change).await?;
    }
    world.audit().record(&entry(AuditAction::TokenIssue)).await?;
    let expected = vec![
        AuditAction::Declared,
        AuditAction::SubstrateApply,
        AuditAction::PhaseChanged,
        AuditAction::TokenIssue,
    ];
    same("the audit says", &world.actions(builder.id()).await?, &expected)
}

async fn lines_recorded_at_once_have_places_of_their_own(world: &dyn StoreUnderTest) -> Outcome {
    let lines: Vec<_> = (1..=16)
        .map(|number| AuditEntry::new(AuditAction::TokenIssue, attribution()).about(id(number)))
        .collect();
    try_join_all(lines.iter().map(|line| world.audit().record(line))).await?;
    let trail = world.audit_trail().await?;
    in_order(&trail)?;
    let mut about: Vec<_> = trail.into_iter().filter_map(|line| line.entry.resource).collect();
    about.sort_unstable();
    same("there are lines about", &about, &(1..=16).map(id).collect())
}

async fn a_line_has_the_time_of_the_store(world: &dyn StoreUnderTest) -> Outcome {
    world.audit().record(&entry(AuditAction::TokenIssue)).await?;
    world.advance(HOUR).await?;
    world.audit().record(&entry(AuditAction::SubstrateApply)).await?;
    let history = world.repository().history(id(1)).await?;
    let [first, second] = &history[..] else {
        return Err(Violation::new(format!("there are {} lines", history.len())));
    };
    require(second.at >= first.at + HOUR / 2, "a line's time is not when it was stored")
}

async fn an_audit_that_is_cut_off_says_so(world: &dyn StoreUnderTest) -> Outcome {
    world.cut_off().await?;
    require_outage(world.audit().record(&entry(AuditAction::TokenIssue)).await, "record")
}
