//! The cluster as a whole, and what it refused in the last pass.

use broker_ports::{NamespaceState, Refusal};
use broker_render::namespace;

use super::{Judge, Judgement};
use crate::explain::facts::{LastError, Reference};
use crate::explain::remedy::Remedy;
use crate::explain::verdict::Verdict;

/// The generated role that lets the broker read.
const READER: &str = "plexsphere-provisioning-broker-reader";

impl Judge<'_> {
    /// Whether the cluster answers, knows us, and is the right one.
    pub(super) fn cluster_itself(&mut self) -> Option<Judgement> {
        let facts = self.facts;
        if let Some(outage) = &facts.cluster.outage {
            let found = match outage.refusal {
                Some(Refusal::Unauthenticated) => {
                    Judgement::new(Verdict::ClusterUnauthenticated, Remedy::RenewCredentials)
                }
                _ if outage.silent => {
                    Judgement::new(Verdict::ClusterUnreachable, Remedy::ReachCluster)
                }
                // Whoever asks here cannot; that says nothing about the replicas.
                _ => {
                    self.doubt("cluster", &outage.message);
                    return None;
                }
            };
            return Some(found.saying(outage.message.as_str()));
        }
        let own = facts.resource.substrate().cluster()?;
        let here = self.take("cluster identity", &facts.cluster.identity)?;
        (here != own).then(|| {
            let remedy = Remedy::ConnectTo(own.clone());
            let wrong = Judgement::new(Verdict::WrongCluster, remedy);
            wrong.saying(format!("this is cluster {here}"))
        })
    }

    /// Whether anything new may be put into the Project's namespace.
    pub(super) fn home(&mut self) -> Option<Judgement> {
        let facts = self.facts;
        let name = namespace(facts.resource.project_id()).as_str().to_owned();
        match &facts.assignment {
            Reference::Found(true) => {}
            Reference::Found(false) => {
                let remedy = Remedy::ReadyNamespace(name);
                return Some(Judgement::new(Verdict::NamespaceNotReady, remedy));
            }
            Reference::Missing => {
                let what = format!("the assignment of project {}", facts.resource.project_id());
                let remedy = Remedy::RestoreReference { what };
                return Some(Judgement::new(Verdict::AssignmentMissing, remedy));
            }
            Reference::Unreadable(message) => {
                let unfit = Judgement::new(Verdict::CannotRender, Remedy::MendPass);
                return Some(unfit.saying(message.as_str()));
            }
            Reference::Unanswered(message) => {
                return Some(super::gates::unanswered("assignment reader".to_owned(), message));
            }
            Reference::NotAsked => self.doubt("assignment", "nobody could be asked for it"),
        }
        let namespaced = facts.cluster.xr_reference.as_ref()?.namespace().is_some();
        if !namespaced {
            return None;
        }
        match self.take("namespace", &facts.cluster.namespace)? {
            NamespaceState::Active => None,
            NamespaceState::Absent => {
                let remedy = Remedy::CreateNamespace(name);
                Some(Judgement::new(Verdict::NamespaceAbsent, remedy))
            }
            NamespaceState::Terminating => {
                let remedy = Remedy::ReplaceNamespace(name);
                Some(Judgement::new(Verdict::NamespaceTerminating, remedy))
            }
            _ => {
                self.doubt("namespace", "it is in a state that this release does not know");
                None
            }
        }
    }

    /// The brake holds back whatever would be created.
    pub(super) fn brake(&mut self) -> Option<Judgement> {
        let facts = self.facts;
        let brake = self.take("brake", &facts.brake)?.as_ref()?;
        let cluster = facts.cluster.identity.known()?.clone();
        let found = Judgement::new(Verdict::Brake, Remedy::ReleaseBrake(cluster, brake.project));
        let words = match (brake.project, brake.absent, brake.expected) {
            // Its counts are over all Projects, and the caller may see only one.
            (None, ..) => "the brake of the whole cluster is set".to_owned(),
            (Some(_), 0, 0) => "an operator set it in this Project".to_owned(),
            (Some(_), absent, expected) => {
                format!(
                    "{absent} of {expected} composite resources were lost in this Project at once"
                )
            }
        };
        Some(found.saying(words).since(Some(brake.since)))
    }

    /// On the way down a Usage of Crossplane vetoes through a webhook of its own.
    fn vetoed(&self, message: &str) -> Judgement {
        let object = self.facts.cluster.xr_reference.as_ref();
        let by_usage = message.to_lowercase().contains("usage");
        let found = match object {
            Some(object) if by_usage && self.facts.resource.phase().is_teardown() => {
                Judgement::new(Verdict::Usage, Remedy::RemoveUsage(object.clone()))
            }
            Some(_) | None => Judgement::new(Verdict::WebhookRefused, Remedy::MendWebhook),
        };
        found.about(object).saying(message)
    }

    /// A right is missing. For a kind that the blueprint does not list, no generated role has it. A namespace that is
    /// being deleted loses the broker's `RoleBinding` before its other objects.
    fn forbidden(&self, message: &str) -> Judgement {
        if let Some(NamespaceState::Terminating) = self.facts.cluster.namespace.known() {
            let name = namespace(self.facts.resource.project_id()).as_str().to_owned();
            let remedy = Remedy::ReplaceNamespace(name);
            return Judgement::new(Verdict::NamespaceTerminating, remedy).saying(message);
        }
        let found = Judgement::new(Verdict::Forbidden, Remedy::GrantRight);
        let mut unlisted = self.facts.unlisted.iter();
        let Some(object) = unlisted.find(|it| message.contains(it.name())) else {
            return found.saying(message);
        };
        let (kind, api_version) = (object.kind(), object.api_version());
        let words = format!(
            "the composedKinds of the blueprint do not list {kind} ({api_version}), so the role {READER} does not \
             grant get and list on it: {message}"
        );
        found.about(Some(object)).saying(words)
    }

    /// What stopped the last pass, unless what is known now says that it is gone.
    pub(super) fn last_pass(&mut self) -> Option<Judgement> {
        let facts = self.facts;
        let LastError { reason, refusal, message } = facts.last_error()?;
        let found = |verdict, remedy| Some(Judgement::new(verdict, remedy).saying(message));
        match refusal {
            Some(Refusal::Forbidden) => return Some(self.forbidden(message)),
            Some(Refusal::Schema) => return found(Verdict::SchemaRefused, Remedy::AlignSchema),
            Some(Refusal::Vetoed) => return Some(self.vetoed(message)),
            // The kind of the composite resource was looked at; what is left is the ProviderConfig's.
            Some(Refusal::KindAbsent) => {
                let reference = facts.cluster.provider_config_reference.as_ref()?;
                let stands = matches!(facts.cluster.provider_config.known(), Some(Some(_)));
                if stands {
                    return None;
                }
                let remedy = Remedy::InstallKind {
                    api_version: reference.api_version().to_owned(),
                    kind: reference.kind().to_owned(),
                };
                return found(Verdict::KindMissing, remedy)
                    .map(|found| found.about(Some(reference)));
            }
            // Each of these shows in what was asked just now, if it still holds.
            Some(
                Refusal::NamespaceAbsent | Refusal::NamespaceTerminating | Refusal::Unauthenticated,
            ) => return None,
            Some(_) | None => {}
        }
        let asked_just_now = [
            "cluster_transient",
            "cluster_unknown",
            "repository_transient",
            "repository_unknown",
            "schedule_transient",
            "schedule_unknown",
            "blueprint_not_found",
            "credential_not_found",
            "cloud_not_found",
            "assignment_not_found",
            "resource_not_found",
            "cluster_mismatch",
        ];
        let neighbours = ["_resolver_", "assignment_reader_", "node_deregistrar_"];
        let is_past = asked_just_now.contains(&reason)
            || neighbours.iter().any(|part| reason.contains(part))
            // That the kind is not installed was said without asking for anything; it was asked for now.
            || (reason == "cluster_rejected" && message.contains("is not installed on the cluster"));
        if is_past {
            return None;
        }
        if reason == "node_deregistration_failed" {
            return found(Verdict::DeregistrationFailed, Remedy::MendDraining);
        }
        found(Verdict::PassFailing, Remedy::MendPass)
    }
}
