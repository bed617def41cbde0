//! Obstacles to every pass in any phase: a terminal phase, a pause, a missing reference.

use broker_domain::{OnFailure, Phase};
use broker_ports::Withdrawal;

use super::{Judge, Judgement};
use crate::decide::Mode;
use crate::explain::facts::{Reference, ReferenceKind};
use crate::explain::remedy::Remedy;
use crate::explain::verdict::Verdict;

impl Judge<'_> {
    /// The resource is terminal: no pass claims it again.
    pub(super) fn terminal(&mut self) -> Option<Judgement> {
        let resource = &self.facts.resource;
        match resource.phase() {
            Phase::Deleted if resource.abandoned() => {
                let mut objects: Vec<_> = resource.substrate().composed().iter().cloned().collect();
                // Other resources may use a shared one.
                objects.extend(resource.own_provider_config().cloned());
                let found = Judgement::new(Verdict::Abandoned, Remedy::CleanUp(objects));
                let found = found.since(Some(resource.phase_entered_at()));
                Some(self.dead_letter_or(found))
            }
            Phase::Deleted => {
                let left: Vec<_> =
                    resource.substrate().plain_data().map(ToString::to_string).collect();
                let mut found = Judgement::no_action(Verdict::Deleted);
                if !left.is_empty() {
                    found = found
                        .with_message(format!("left to garbage collection: {}", left.join(", ")));
                }
                Some(self.dead_letter_or(found.since(Some(resource.phase_entered_at()))))
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
        let entry = self.known_or_doubt("schedule", &facts.schedule)?;
        match entry {
            Some(entry) if entry.paused => {
                let id = facts.resource.id();
                Some(Judgement::new(Verdict::PausedHere, Remedy::Resume(id)))
            }
            Some(_) => None,
            None => {
                self.add_doubt("schedule", "it has no entry for this resource");
                None
            }
        }
    }

    /// A pass resolves its blueprint first, because the kinds to read depend on it.
    pub(super) fn missing_blueprint(&mut self) -> Option<Judgement> {
        self.unresolved(|kind| kind == ReferenceKind::Blueprint)
    }

    /// A reference that an apply needs is missing, or rendering fails. Other passes need neither.
    pub(super) fn rendering_obstacle(&mut self) -> Option<Judgement> {
        if let Some(missing) = self.unresolved(|kind| kind != ReferenceKind::Blueprint) {
            return Some(missing);
        }
        let Some(Err(message)) = &self.facts.desired else { return None };
        let remedy = Remedy::MendPass;
        Some(Judgement::new(Verdict::CannotRender, remedy).with_message(message.as_str()))
    }

    /// Nothing more may be created with its credential.
    pub(super) fn withdrawn_credential(&mut self) -> Option<Judgement> {
        let facts = self.facts;
        let withdrawal = (*self.known_or_doubt("credential", facts.withdrawal.as_ref()?)?)?;
        let verdict = match withdrawal {
            Withdrawal::Expired => Verdict::CredentialExpired,
            Withdrawal::Revoked => Verdict::CredentialRevoked,
            Withdrawal::NotApproved(_) => Verdict::CredentialNotApproved,
        };
        let what = format!("credential {}: {withdrawal}", facts.resource.cloud_credential_id());
        Some(Judgement::new(verdict, Remedy::RestoreReference { what }))
    }

    /// Former users left the shared ProviderConfig to be deleted; a pass waits until it is gone.
    pub(super) fn leaving_config(&mut self) -> Option<Judgement> {
        let facts = self.facts;
        let object =
            self.known_or_doubt("shared ProviderConfig", &facts.leaving_config)?.as_ref()?;
        let remedy = Remedy::FinishDeletion(object.clone());
        Some(Judgement::new(Verdict::SharedConfigLeaving, remedy).with_object(Some(object)))
    }

    fn unresolved(&mut self, is_checked: impl Fn(ReferenceKind) -> bool) -> Option<Judgement> {
        let facts = self.facts;
        for (kind, reference) in facts.references.iter().filter(|(kind, _)| is_checked(*kind)) {
            match reference {
                Reference::Found(()) => {}
                Reference::Missing => return Some(missing(*kind, facts)),
                Reference::Unreadable(message) => return Some(unreadable(*kind, message)),
                Reference::Unanswered(message) => {
                    let who = format!("{} resolver", kind.as_str());
                    return Some(collaborator_unreachable(who, message));
                }
                Reference::NotQueried => self.add_doubt("references", "they were not queried"),
            }
        }
        None
    }

    /// The mesh does not report whether the Node is registered, so every pass fails.
    pub(super) fn mesh_outage(&mut self) -> Option<Judgement> {
        match self.facts.node.as_ref()? {
            Reference::Unanswered(message) | Reference::Unreadable(message) => {
                let found = Judgement::new(Verdict::MeshUnreachable, Remedy::ReachMesh);
                Some(found.with_message(message.as_str()))
            }
            Reference::Found(_) | Reference::Missing => None,
            Reference::NotQueried => {
                self.add_doubt("node", "it was not queried");
                None
            }
        }
    }

    /// A dead letter delays only later events, so it is the verdict only without another obstacle.
    pub(super) fn dead_letter_or(&mut self, otherwise: Judgement) -> Judgement {
        let facts = self.facts;
        match self.known_or_doubt("outbox", &facts.dead_letter) {
            Some(Some(event)) => {
                let id = facts.resource.id();
                let poisoned = Judgement::new(Verdict::OutboxPoisoned, Remedy::RedriveEvents(id));
                poisoned.with_message(format!("{}: {}", event.event_type, event.reason))
            }
            Some(None) | None => otherwise,
        }
    }
}

fn missing(kind: ReferenceKind, facts: &crate::explain::facts::ExplainInput) -> Judgement {
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
        ReferenceKind::Resource => {
            let (id, project) = (resource.resource_id(), resource.project_id());
            (Verdict::ResourceMissing, format!("resource {id} of project {project}"))
        }
    };
    Judgement::new(verdict, Remedy::RestoreReference { what })
}

fn unreadable(kind: ReferenceKind, message: &str) -> Judgement {
    let verdict = match kind {
        ReferenceKind::Blueprint => Verdict::BlueprintUnreadable,
        ReferenceKind::Credential | ReferenceKind::Cloud | ReferenceKind::Resource => {
            Verdict::CannotRender
        }
    };
    Judgement::new(verdict, Remedy::MendPass).with_message(message)
}

pub(super) fn collaborator_unreachable(who: String, message: &str) -> Judgement {
    let remedy = Remedy::RestoreCollaborator { who };
    Judgement::new(Verdict::CollaboratorUnreachable, remedy).with_message(message)
}
