//! Promises of `record`.

use super::prelude::*;

pub(super) fn cases<W: StoreUnderTest + 'static>() -> Vec<Case<W>> {
    suite_of![
        every_line_is_kept,
        lines_keep_their_order_among_those_of_writes,
        a_line_has_the_time_of_the_store,
        an_audit_that_is_cut_off_says_so,
    ]
}

fn entry(action: AuditAction) -> AuditEntry {
    AuditEntry::new(action, attribution()).in_project(project(1)).about(id(1))
}

/// Also what is recorded twice, and what is about a resource that nobody stored or about none.
async fn every_line_is_kept(world: &World) -> Outcome {
    let refused = AuditEntry::new(AuditAction::DeclarationRefused, attribution());
    let of_project = refused.clone().in_project(project(1));
    let mut lines: Vec<_> = AuditAction::ALL.iter().map(|action| entry(*action)).collect();
    lines.extend([entry(AuditAction::TokenIssue), entry(AuditAction::TokenIssue)]);
    let about_one: Vec<_> = lines.iter().map(|line| line.action).collect();
    let mut full = entry(AuditAction::NodeDeregister).with_event_data("as Jane said");
    full.previous_phase = Some(Phase::Deregistering);
    full.new_phase = Some(Phase::Deprovisioning);
    full.failed_step = Some(Phase::Enrolling);
    lines.extend([refused, of_project, full.about(id(2))]);
    for line in &lines {
        world.audit().record(line).await?;
    }
    let kept = world.audit_trail().await?;
    let of_a_write = kept.iter().any(|line| line.version.is_some() || line.epoch.is_some());
    require(!of_a_write, "a line that is of no write names a version or an epoch")?;
    let kept: Vec<_> = kept.into_iter().map(|line| line.entry).collect();
    same("the audit is", &kept, &lines)?;
    same("the audit of the resource says", &world.actions(id(1)).await?, &about_one)
}

async fn lines_keep_their_order_among_those_of_writes(world: &World) -> Outcome {
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

async fn a_line_has_the_time_of_the_store(world: &World) -> Outcome {
    world.audit().record(&entry(AuditAction::TokenIssue)).await?;
    world.advance(HOUR).await?;
    world.audit().record(&entry(AuditAction::SubstrateApply)).await?;
    let history = world.repository().history(id(1)).await?;
    let [first, second] = &history[..] else {
        return Err(Violation::new(format!("there are {} lines", history.len())));
    };
    require(second.at >= first.at + HOUR / 2, "a line's time is not when it was stored")
}

async fn an_audit_that_is_cut_off_says_so(world: &World) -> Outcome {
    world.cut_off().await?;
    require_outage(world.audit().record(&entry(AuditAction::TokenIssue)).await, "record")
}
