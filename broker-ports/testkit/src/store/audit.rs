//! Cases for `record`.

use super::prelude::*;

pub(super) fn cases<W: StoreUnderTest + 'static>() -> Vec<Case<W>> {
    suite_of![recorded_lines_are_all_kept, an_unreachable_audit_is_an_error,]
}

fn entry(action: AuditAction) -> AuditEntry {
    AuditEntry::new(action, attribution()).in_project(project(1)).for_resource(id(1))
}

/// Includes repeated lines, and lines with an unknown resource or without a resource.
async fn recorded_lines_are_all_kept(world: &World) -> Outcome {
    let without_project = AuditEntry::new(AuditAction::DeclarationRefused, attribution());
    let with_project = without_project.clone().in_project(project(1));
    let mut lines: Vec<_> = AuditAction::ALL.iter().map(|action| entry(*action)).collect();
    lines.extend([entry(AuditAction::TokenIssue), entry(AuditAction::TokenIssue)]);
    let resource_actions: Vec<_> = lines.iter().map(|line| line.action).collect();
    let mut complete = entry(AuditAction::NodeDeregister).with_event_data("as Jane said");
    complete.previous_phase = Some(Phase::Deregistering);
    complete.new_phase = Some(Phase::Deprovisioning);
    complete.failed_step = Some(Phase::Enrolling);
    lines.extend([without_project, with_project, complete.for_resource(id(2))]);
    for line in &lines {
        world.audit().record(line).await?;
    }
    let kept = world.audit_trail().await?;
    let names_write = kept.iter().any(|line| line.version.is_some() || line.epoch.is_some());
    require(!names_write, "a line without a write names a version or an epoch")?;
    let kept: Vec<_> = kept.into_iter().map(|line| line.entry).collect();
    equal("the audit trail", &kept, &lines)?;
    equal("the audited actions of the resource", &world.actions(id(1)).await?, &resource_actions)
}

async fn an_unreachable_audit_is_an_error(world: &World) -> Outcome {
    world.cut_off().await?;
    require_outage(world.audit().record(&entry(AuditAction::TokenIssue)).await, "record")
}
