//! Obstacles to every pass in any phase: a terminal phase, a pause, a missing reference.

use broker_domain::{OnFailure, Phase};

use super::{Judge, Judgement};
use crate::decide::Mode;
use crate::explain::facts::{Reference, ReferenceKind};
use crate::explain::remedy::Remedy;
use crate::explain::verdict::Verdict;

impl Judge<'_> {
    /// A resource that no pass claims again.
    pub(super) fn terminal(&mut self) -> Option<Judgement> {
        let resource = &self.facts.resource;
        match resource.phase() {
            Phase::Deleted if resource.abandoned() => {
                let left = resource.substrate();
                let mut objects: Vec<_> = left.composed().iter().cloned().collect();
                objects.extend(left.provider_config().cloned());
                let over = Judgement::new(Verdict::Abandoned, Remedy::CleanUp(objects));
                let over = over.since(Some(resource.phase_entered_at()));
                Some(self.events(over))
            }
            Phase::Deleted => {
                let left: Vec<_> =
                    resource.substrate().plain_data().map(ToString::to_string).collect();
                let mut over = Judgement::no_action(Verdict::Deleted);
                if !left.is_empty() {
                    over = over
                        .with_message(format!("left to garbage collection: {}", left.join(", ")));
                }
                Some(self.events(over.since(Some(resource.phase_entered_at()))))
            }
            Phase::Failed if resource.on_failure() == OnFailure::Retain => {
                let failed = Judgement::new(Verdict::Failed, Remedy::Replace(resource.id()))
                    .with_object(self.facts.cluster.xr_reference.as_ref())
                    .since(Some(resource.phase_entered_at()));
                let reason = resource.failure().map(|failure| failure.reason().to_string());
                Some(failed.with_message(reason.unwrap_or_default()))
            }
            Phase::Pending
            | Phase::Provisioning
            | Phase::Enrolling
            | Phase::Ready
            | Phase::Failed
            | Phase::Deregistering
            | Phase::Deprovisioning => None,
        }
    }

    /// Dry-run mode, or a pause in the broker.
    pub(super) fn disabled(&mut self) -> Option<Judgement> {
        let facts = self.facts;
        if facts.mode == Mode::DryRun {
            return Some(Judgement::new(Verdict::DryRun, Remedy::LeaveDryRun));
        }
        let entry = self.take("schedule", &facts.schedule)?;
        match entry {
            Some(entry) if entry.paused => {
                let id = facts.resource.id();
                Some(Judgement::new(Verdict::PausedHere, Remedy::Resume(id)))
            }
            Some(_) => None,
            None => {
                self.doubt("schedule", "it has no entry for this resource");
                None
            }
        }
    }

    /// A pass resolves its blueprint first: the kind to read depends on it.
    pub(super) fn blueprint(&mut self) -> Option<Judgement> {
        self.unresolved(|kind| kind == ReferenceKind::Blueprint)
    }

    /// The references of an apply. Any other pass works without them.
    pub(super) fn rendering(&mut self) -> Option<Judgement> {
        if let Some(missing) = self.unresolved(|kind| kind != ReferenceKind::Blueprint) {
            return Some(missing);
        }
        let Some(Err(message)) = &self.facts.desired else { return None };
        let remedy = Remedy::MendPass;
        Some(Judgement::new(Verdict::CannotRender, remedy).with_message(message.as_str()))
    }

    fn unresolved(&mut self, among: impl Fn(ReferenceKind) -> bool) -> Option<Judgement> {
        let facts = self.facts;
        for (kind, reference) in facts.references.iter().filter(|(kind, _)| among(*kind)) {
            match reference {
                Reference::Found(()) => {}
                Reference::Missing => return Some(missing(*kind, facts)),
                Reference::Unreadable(message) => return Some(unreadable(*kind, message)),
                Reference::Unanswered(message) => {
                    let who = format!("{} resolver", kind.as_str());
                    return Some(unanswered(who, message));
                }
                Reference::NotAsked => self.doubt("references", "they were not queried"),
            }
        }
        None
    }

    /// Whether the Node is registered. A pass that needs this and cannot read it fails.
    pub(super) fn mesh(&mut self) -> Option<Judgement> {
        match self.facts.node.as_ref()? {
            Reference::Unanswered(message) | Reference::Unreadable(message) => {
                let silent = Judgement::new(Verdict::MeshUnreachable, Remedy::ReachMesh);
                Some(silent.with_message(message.as_str()))
            }
            Reference::Found(_) | Reference::Missing => None,
            Reference::NotAsked => {
                self.doubt("node", "it was not queried");
                None
            }
        }
    }

    /// A dead letter holds back only later events, so it is the verdict only if there is no other obstacle.
    pub(super) fn events(&mut self, otherwise: Judgement) -> Judgement {
        let facts = self.facts;
        match self.take("outbox", &facts.dead_letter) {
            Some(Some(event)) => {
                let id = facts.resource.id();
                let poisoned = Judgement::new(Verdict::OutboxPoisoned, Remedy::RedriveEvents(id));
                poisoned.with_message(format!("{}: {}", event.event_type, event.reason))
            }
            Some(None) | None => otherwise,
        }
    }
}

fn missing(kind: ReferenceKind, facts: &crate::explain::facts::Facts) -> Judgement {
    let resource = &facts.resource;
    let (verdict, what) = match kind {
        ReferenceKind::Blueprint => {
            let id = resource.blueprint_version_id();
            (Verdict::BlueprintMissing, format!("blueprint version {id}"))
        }
        ReferenceKind::Credential => {
            let (id, project) = (resource.cloud_credential_id(), resource.project_id());
            let what = format!("credential {id} and its assignment to project {project}");
            (Verdict::CredentialMissing, what)
        }
        ReferenceKind::Cloud => {
            let id = resource.cloud_credential_id();
            (Verdict::CloudMissing, format!("the cloud of credential {id}"))
        }
        ReferenceKind::Labels => {
            let (id, project) = (resource.resource_id(), resource.project_id());
            (Verdict::ResourceMissing, format!("resource {id} of project {project}"))
        }
    };
    Judgement::new(verdict, Remedy::RestoreReference { what })
}

fn unreadable(kind: ReferenceKind, message: &str) -> Judgement {
    let verdict = match kind {
        ReferenceKind::Blueprint => Verdict::BlueprintUnreadable,
        ReferenceKind::Credential | ReferenceKind::Cloud | ReferenceKind::Labels => {
            Verdict::CannotRender
        }
    };
    Judgement::new(verdict, Remedy::MendPass).with_message(message)
}

pub(super) fn unanswered(who: String, message: &str) -> Judgement {
    let remedy = Remedy::RestoreCollaborator { who };
    Judgement::new(Verdict::CollaboratorUnreachable, remedy).with_message(message)
}
