//! Inspections that break a promise each.

use broker_domain::{ObjectReference, ProvisionedResourceId, XrName};
use broker_ports::{Cluster, Fact, Inspection, NamespaceState, ObjectReport, PortError, Target};

use super::{Flawed, is_outage};
use crate::flaws::Flaw;

impl Flawed {
    pub(super) async fn flawed_inspection(&self, target: &Target) -> Result<Inspection, PortError> {
        let mut inspection = match (self.flaw, self.inner.inspect(target).await) {
            (Flaw::InspectsAnOutageAsAbsence, Err(error)) if is_outage(&error) => {
                let mut nothing = Inspection::new();
                nothing.xr = Ok(None);
                nothing.provider_config = Ok(None);
                nothing
            }
            (_, inspection) => inspection?,
        };
        match self.flaw {
            Flaw::InventsAbsenceWhenInspecting => {
                inspection.xr = inspection.xr.or(Ok(None));
                inspection.provider_config = inspection.provider_config.or(Ok(None));
            }
            Flaw::NamesNoRivals => {
                change(&mut inspection.xr, |report| report.rival_managers.clear());
            }
            Flaw::HidesPauses => change(&mut inspection.xr, |report| report.paused = false),
            Flaw::HidesDeletions => {
                change(&mut inspection.xr, |report| report.deleting_since = None);
            }
            Flaw::TakesTerminatingForActive => {
                let active = |_| NamespaceState::Active;
                inspection.namespace = inspection.namespace.map(active);
            }
            Flaw::InspectsRecordedObjectsOnly => {
                inspection.composed.retain(|(name, _)| target.recorded.contains(name));
            }
            Flaw::TellsTheOldestFirst | Flaw::TellsEventsOfEverybody | Flaw::EchoesEvents => {
                self.misreport_events(target, &mut inspection).await?;
            }
            _ => {}
        }
        Ok(inspection)
    }

    async fn misreport_events(
        &self,
        target: &Target,
        inspection: &mut Inspection,
    ) -> Result<(), PortError> {
        let reference = target.xr.reference()?;
        let Ok(events) = &mut inspection.events else { return Ok(()) };
        match self.flaw {
            Flaw::TellsTheOldestFirst => events.reverse(),
            Flaw::TellsEventsOfEverybody => {
                for other in self.others_of_its_kind(&reference) {
                    let mut neighbour = target.clone();
                    neighbour.xr.resource = other;
                    events.extend(self.inner.inspect(&neighbour).await?.events?);
                }
            }
            _ => {
                let live = self.behind.object(&reference).unwrap_or_default();
                let injected = live["spec"]["userData"].as_str().unwrap_or_default();
                for event in events {
                    event.message.push_str(injected);
                }
            }
        }
        Ok(())
    }

    fn others_of_its_kind(&self, reference: &ObjectReference) -> Vec<ProvisionedResourceId> {
        let objects = self.behind.objects().into_iter();
        objects
            .filter(|other| other.kind() == reference.kind() && other != reference)
            .filter_map(|other| XrName::id_of(other.name()))
            .collect()
    }
}

fn change(fact: &mut Fact<Option<ObjectReport>>, edit: impl FnOnce(&mut ObjectReport)) {
    if let Ok(Some(report)) = fact {
        edit(report);
    }
}
