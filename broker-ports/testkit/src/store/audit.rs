//! Cases for `record`.

use super::prelude::*;

pub(super) fn cases<W: StoreUnderTest + 'static>() -> Vec<Case<W>> {
    suite_of![every_line_is_kept, an_unreachable_audit_is_an_error,]
}

fn entry(action: AuditAction) -> AuditEntry {
    AuditEntry::new(action, attribution()).in_project(project(1)).about(id(1))
}

/// Includes repeated lines, and lines about an unknown resource or none.
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
    same("the audited actions of the resource", &world.actions(id(1)).await?, &about_one)
}

async fn an_unreachable_audit_is_an_error(world: &World) -> Outcome {
    world.cut_off().await?;
    require_outage(world.audit().record(&entry(AuditAction::TokenIssue)).await, "record")
}
