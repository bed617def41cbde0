//! What stops every pass, whatever the phase: the end of a resource, a pause, a reference that is gone.

use broker_domain::{OnFailure, Phase};

use super::{Judge, Judgement};
use crate::decide::Mode;
use crate::explain::facts::{Reference, ReferenceKind};
use crate::explain::remedy::Remedy;
use crate::explain::verdict::Verdict;

impl Judge<'_> {
    /// A resource that no pass takes up again.
    pub(super) fn at_its_end(&mut self) -> Option<Judgement> {
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
                let mut over = Judgement::calm(Verdict::Deleted);
                if !left.is_empty() {
                    over = over.saying(format!("left to garbage collection: {}", left.join(", ")));
                }
                Some(self.events(over.since(Some(resource.phase_entered_at()))))
            }
            Phase::Failed if resource.on_failure() == OnFailure::Retain => {
                let failed = Judgement::new(Verdict::Failed, Remedy::Replace(resource.id()))
                    .about(self.facts.cluster.xr_reference.as_ref())
                    .since(Some(resource.phase_entered_at()));
                let reason = resource.failure().map(|failure| failure.reason().to_string());
                Some(failed.saying(reason.unwrap_or_default()))
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

    /// Somebody told the broker to let it be.
    pub(super) fn stopped_here(&mut self) -> Option<Judgement> {
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
                self.doubt("schedule", "it does not have the resource");
                None
            }
        }
    }

    /// A pass resolves its blueprint before it looks at anything else: which kind to read follows from it.
    pub(super) fn blueprint(&mut self) -> Option<Judgement> {
        self.unresolved(|kind| kind == ReferenceKind::Blueprint)
    }

    /// What an apply is rendered from. Any other pass goes on without it.
    pub(super) fn rendering(&mut self) -> Option<Judgement> {
        if let Some(missing) = self.unresolved(|kind| kind != ReferenceKind::Blueprint) {
            return Some(missing);
        }
        let Some(Err(message)) = &self.facts.desired else { return None };
        let remedy = Remedy::MendPass;
        Some(Judgement::new(Verdict::CannotRender, remedy).saying(message.as_str()))
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
                Reference::NotAsked => self.doubt("references", "nobody could be asked for them"),
            }
        }
        None
    }

    /// Whether its Node is there: a pass that has to know and cannot is over.
    pub(super) fn mesh(&mut self) -> Option<Judgement> {
        match self.facts.node.as_ref()? {
            Reference::Unanswered(message) | Reference::Unreadable(message) => {
                let silent = Judgement::new(Verdict::MeshUnreachable, Remedy::ReachMesh);
                Some(silent.saying(message.as_str()))
            }
            Reference::Found(_) | Reference::Missing => None,
            Reference::NotAsked => {
                self.doubt("node", "nobody could be asked for it");
                None
            }
        }
    }

    /// An event that was set aside holds up nothing but later events: it is the verdict only where nothing
    /// else is.
    pub(super) fn events(&mut self, otherwise: Judgement) -> Judgement {
        let facts = self.facts;
        match self.take("outbox", &facts.dead_letter) {
            Some(Some(event)) => {
                let id = facts.resource.id();
                let poisoned = Judgement::new(Verdict::OutboxPoisoned, Remedy::RedriveEvents(id));
                poisoned.saying(format!("{}: {}", event.event_type, event.reason))
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
    Judgement::new(verdict, Remedy::MendPass).saying(message)
}

pub(super) fn unanswered(who: String, message: &str) -> Judgement {
    let remedy = Remedy::RestoreCollaborator { who };
    Judgement::new(Verdict::CollaboratorUnreachable, remedy).saying(message)
}
