//! Readings that break a promise each.

use std::collections::BTreeMap;

use broker_domain::ClusterId;
use broker_ports::{Cluster, LiveObject, LiveXr, PortError, Reading, Standing, Target, XrReading};
use broker_render::MANAGED_BY_LABEL;
use serde_json::{Value, json};

use super::{Flawed, is_outage};
use crate::flaws::Flaw;
use crate::world::IDENTITY;

impl Flawed {
    pub(super) async fn flawed_reading(&self, target: &Target) -> Result<Reading, PortError> {
        let mut reading = match (self.flaw, self.inner.read(target).await) {
            (Flaw::TakesForbiddenForAbsent, Err(_)) => nothing(self.behind.identity().await?),
            (Flaw::TakesAnOutageForAbsent, Err(error)) if is_outage(&error) => {
                nothing(ClusterId::new(IDENTITY)?)
            }
            (Flaw::ReadsHalf, Err(_)) => self.inner.read(&target.clone().composing([])).await?,
            (_, answer) => answer?,
        };
        match self.flaw {
            Flaw::ForgetsLabelledObjects => reading.labelled.clear(),
            Flaw::ForgetsRecordedObjects => {
                reading.recorded.values_mut().for_each(|standing| *standing = Standing::Gone);
            }
            Flaw::RemembersRecordedObjects => {
                reading.recorded.values_mut().for_each(|standing| *standing = Standing::Present);
            }
            Flaw::ReadsByLabel => {
                reading.provider_config = reading.provider_config.filter(is_labelled);
            }
            _ => {}
        }
        reading.xr = self.misread(target, reading.xr)?;
        Ok(reading)
    }

    fn misread(&self, target: &Target, xr: XrReading) -> Result<XrReading, PortError> {
        let scoped = target.xr.xrd.scope().is_namespaced();
        let live = match (self.flaw, xr) {
            (Flaw::TakesAbsentKindsForAbsentObjects, XrReading::KindAbsent)
            | (Flaw::TakesAbsentNamespacesForAbsentObjects, XrReading::NamespaceAbsent) => {
                return Ok(XrReading::Absent);
            }
            (Flaw::TakesAbsentObjectsForAbsentKinds, XrReading::Absent) => {
                return Ok(XrReading::KindAbsent);
            }
            (Flaw::ReadsNothingOutsideOfNamespaces, XrReading::Present(_)) if !scoped => {
                return Ok(XrReading::Absent);
            }
            (Flaw::ReadsByLabel, XrReading::Present(live)) if !is_labelled(&live.object) => {
                return Ok(XrReading::Absent);
            }
            (_, XrReading::Present(live)) => live,
            (_, absent) => return Ok(absent),
        };
        let mut json = live.object.expose().clone();
        match self.flaw {
            Flaw::ReadsFromACache => {
                json = Self::first(&self.first_read, target.xr.reference()?, json);
            }
            Flaw::ReadsWithoutParameters => json["spec"]["parameters"] = json!({}),
            Flaw::ReadsWithoutAnnotations => json["metadata"]["annotations"] = json!({}),
            Flaw::ReadsWithoutReferences => json["spec"]["crossplane"] = Value::Null,
            _ => return Ok(XrReading::Present(live)),
        }
        let other = LiveXr::from_json(json, target.xr.xrd.scope())?;
        Ok(XrReading::Present(Box::new(other)))
    }
}

/// A reading by which nothing stands.
fn nothing(cluster: ClusterId) -> Reading {
    Reading::new(cluster, XrReading::Absent, None, BTreeMap::new(), [].into())
}

fn is_labelled(object: &LiveObject) -> bool {
    object.expose()["metadata"]["labels"].get(MANAGED_BY_LABEL).is_some()
}
