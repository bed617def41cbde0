//! Obstacles of the whole cluster, and the errors of the last pass.

use broker_ports::{NamespacePhase, NamespaceState, Refusal};
use broker_render::namespace;

use super::{Judge, Judgement};
use crate::explain::facts::{LastError, Reference};
use crate::explain::remedy::Remedy;
use crate::explain::verdict::Verdict;
use crate::observe::Gate;

/// The generated role with the broker's read permissions.
const READER: &str = "plexsphere-provisioning-broker-reader";

impl Judge<'_> {
    /// Whether the cluster answers, accepts the credentials, and is the right one.
    pub(super) fn cluster_outage(&mut self) -> Option<Judgement> {
        let facts = self.facts;
        if let Some(outage) = &facts.cluster.outage {
            let found = match outage.refusal {
                Some(Refusal::Unauthenticated) => {
                    Judgement::new(Verdict::ClusterUnauthenticated, Remedy::RenewCredentials)
                }
                _ if outage.silent => {
                    Judgement::new(Verdict::ClusterUnreachable, Remedy::ReachCluster)
                }
                // This process could not send the request, but the replicas may be able to.
                _ => {
                    self.add_doubt("cluster", &outage.message);
                    return None;
                }
            };
            return Some(found.with_message(outage.message.as_str()));
        }
        let own = facts.resource.substrate().cluster()?;
        let here = self.known_or_doubt("cluster identity", &facts.cluster.identity)?;
        (here != own).then(|| {
            let remedy = Remedy::ConnectTo(own.clone());
            let found = Judgement::new(Verdict::WrongCluster, remedy);
            found.with_message(format!("the broker is connected to cluster {here}"))
        })
    }

    /// Whether the Project's namespace takes new objects.
    pub(super) fn namespace_obstacle(&mut self) -> Option<Judgement> {
        let facts = self.facts;
        let name = namespace(facts.resource.project_id()).as_str().to_owned();
        match &facts.assignment {
            Reference::Found(phase) => {
                let applied = facts.resource.substrate().applied();
                if !Gate::of_namespace(*phase, applied).is_open() {
                    let found =
                        Judgement::new(Verdict::NamespaceNotReady, Remedy::ReadyNamespace(name));
                    let rule = match phase {
                        NamespacePhase::Degraded => ", which takes no new resource",
                        NamespacePhase::Pending
                        | NamespacePhase::Provisioning
                        | NamespacePhase::Ready
                        | NamespacePhase::Terminating
                        | NamespacePhase::Deleted => "",
                    };
                    let words = format!("its phase is {phase}{rule}; the resource waits for Ready");
                    return Some(found.with_message(words));
                }
            }
            Reference::Missing => {
                let what = format!("the assignment of project {}", facts.resource.project_id());
                let remedy = Remedy::RestoreReference { what };
                return Some(Judgement::new(Verdict::AssignmentMissing, remedy));
            }
            Reference::Unreadable(message) => {
                let found = Judgement::new(Verdict::CannotRender, Remedy::MendPass);
                return Some(found.with_message(message.as_str()));
            }
            Reference::Unanswered(message) => {
                return Some(super::gates::collaborator_unreachable(
                    "assignment reader".to_owned(),
                    message,
                ));
            }
            Reference::NotQueried => self.add_doubt("assignment", "it was not queried"),
        }
        let namespaced = facts.cluster.xr_reference.as_ref()?.namespace().is_some();
        if !namespaced {
            return None;
        }
        match self.known_or_doubt("namespace", &facts.cluster.namespace)? {
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
                self.add_doubt("namespace", "this release does not know its state");
                None
            }
        }
    }

    /// A brake prevents creation.
    pub(super) fn brake_obstacle(&mut self) -> Option<Judgement> {
        let facts = self.facts;
        let brake = self.known_or_doubt("brake", &facts.brake)?.as_ref()?;
        let cluster = facts.cluster.identity.known()?.clone();
        let found = Judgement::new(Verdict::Brake, Remedy::ReleaseBrake(cluster, brake.project));
        let words = match (brake.project, brake.absent, brake.expected) {
            // Its counts cover all Projects, and the caller may see only one.
            (None, ..) => "the brake of the whole cluster is set".to_owned(),
            (Some(_), 0, 0) => "an operator set the brake of this Project".to_owned(),
            (Some(_), absent, expected) => {
                format!(
                    "{absent} of {expected} composite resources were lost in this Project at once"
                )
            }
        };
        Some(found.with_message(words).since(Some(brake.since)))
    }

    /// An admission webhook vetoed a request. In a teardown it may be the webhook of a Crossplane Usage.
    fn veto_obstacle(&self, message: &str) -> Judgement {
        let object = self.facts.cluster.xr_reference.as_ref();
        let by_usage = message.to_lowercase().contains("usage");
        let found = match object {
            Some(object) if by_usage && self.facts.resource.phase().is_teardown() => {
                Judgement::new(Verdict::Usage, Remedy::RemoveUsage(object.clone()))
            }
            Some(_) | None => Judgement::new(Verdict::WebhookRefused, Remedy::MendWebhook),
        };
        found.with_object(object).with_message(message)
    }

    /// A permission is missing. No generated role covers a kind that the blueprint does not list. In a namespace that is
    /// being deleted, Kubernetes removes the broker's `RoleBinding` before other objects.
    fn missing_permission(&self, message: &str) -> Judgement {
        if let Some(NamespaceState::Terminating) = self.facts.cluster.namespace.known() {
            let name = namespace(self.facts.resource.project_id()).as_str().to_owned();
            let remedy = Remedy::ReplaceNamespace(name);
            return Judgement::new(Verdict::NamespaceTerminating, remedy).with_message(message);
        }
        let found = Judgement::new(Verdict::Forbidden, Remedy::GrantRight);
        let mut unlisted = self.facts.unlisted.iter();
        let Some(object) = unlisted.find(|it| message.contains(it.name())) else {
            return found.with_message(message);
        };
        let (kind, api_version) = (object.kind(), object.api_version());
        let words = format!(
            "the composedKinds of the blueprint do not list {kind} ({api_version}), so the role {READER} does not \
             grant get and list on it: {message}"
        );
        found.with_object(Some(object)).with_message(words)
    }

    /// The failure of the last pass, unless current facts show that its cause is gone.
    pub(super) fn last_pass_error(&mut self) -> Option<Judgement> {
        let facts = self.facts;
        let LastError { reason, refusal, message } = facts.last_error()?;
        let found = |verdict, remedy| Some(Judgement::new(verdict, remedy).with_message(message));
        match refusal {
            Some(Refusal::Forbidden) => return Some(self.missing_permission(message)),
            Some(Refusal::Schema) => return found(Verdict::SchemaRefused, Remedy::AlignSchema),
            Some(Refusal::Vetoed) => return Some(self.veto_obstacle(message)),
            // The kind of the composite resource was checked before, so this is the ProviderConfig's kind.
            Some(Refusal::KindAbsent) => {
                let reference = facts.cluster.provider_config_reference.as_ref()?;
                let exists = matches!(facts.cluster.provider_config.known(), Some(Some(_)));
                if exists {
                    return None;
                }
                let remedy = Remedy::InstallKind {
                    api_version: reference.api_version().to_owned(),
                    kind: reference.kind().to_owned(),
                };
                return found(Verdict::KindMissing, remedy)
                    .map(|found| found.with_object(Some(reference)));
            }
            // If one of these still holds, an earlier check has found it.
            Some(
                Refusal::NamespaceAbsent | Refusal::NamespaceTerminating | Refusal::Unauthenticated,
            ) => return None,
            Some(_) | None => {}
        }
        let checked_now = [
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
        let resolver_reasons =
            ["_resolver_", "assignment_reader_", "resource_reader_", "node_deregistrar_"];
        let is_outdated = checked_now.contains(&reason)
            || resolver_reasons.iter().any(|part| reason.contains(part))
            // The kind was checked above.
            || (reason == "cluster_rejected" && message.contains("is not installed on the cluster"));
        if is_outdated {
            return None;
        }
        if reason == "node_deregistration_failed" {
            return found(Verdict::DeregistrationFailed, Remedy::MendDraining);
        }
        found(Verdict::PassFailing, Remedy::MendPass)
    }
}
