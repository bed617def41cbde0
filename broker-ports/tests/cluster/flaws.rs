//! Ways to the cluster that break a promise each.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use broker_domain::{ClusterId, ObjectReference};
use broker_ports::memory::MemoryCluster;
use broker_ports::{
    Applied, ApplyRequest, CachedXr, Cluster, DeleteRequest, Deleted, DryRun, Hints, Inspection,
    LiveXr, ObjectVersion, OwnedPage, OwnedQuery, PortError, Reading, Standing, Target, XrReading,
    XrTarget,
};
use broker_render::{FIELD_MANAGER, Precondition};
use serde_json::{Map, Value, json};

use crate::world::IDENTITY;

/// What is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flaw {
    OverwritesOnConflict,
    CreatesOnReapply,
    OverwritesNamesakes,
    OverwritesFieldsOfOthers,
    LosesTheInjection,
    KeepsThePause,
    LeavesTheProject,
    CreatesNamespaces,
    EchoesTheToken,
    RefusesTransiently,
    DryRunStores,
    DeletesInTheBackground,
    DeletesNamesakes,
    DeletesComposedObjects,
    OverridesVetoes,
    TakesForbiddenForGone,
    TakesForbiddenForAbsent,
    TakesAnOutageForGone,
    TakesAnOutageForAbsent,
    ReadsFromACache,
    ReadsHalf,
    TakesAbsentKindsForAbsentObjects,
    TakesAbsentNamespacesForAbsentObjects,
    ForgetsLabelledObjects,
    ForgetsRecordedObjects,
    ShufflesObservations,
    FailsObservationsTogether,
    ListsOnePageOnly,
    NeverHints,
    InventsAbsenceWhenInspecting,
    EmptiesItsCacheInAnOutage,
    NamesAnotherCluster,
}

impl Flaw {
    pub(crate) const ALL: [Self; 32] = [
        Self::OverwritesOnConflict,
        Self::CreatesOnReapply,
        Self::OverwritesNamesakes,
        Self::OverwritesFieldsOfOthers,
        Self::LosesTheInjection,
        Self::KeepsThePause,
        Self::LeavesTheProject,
        Self::CreatesNamespaces,
        Self::EchoesTheToken,
        Self::RefusesTransiently,
        Self::DryRunStores,
        Self::DeletesInTheBackground,
        Self::DeletesNamesakes,
        Self::DeletesComposedObjects,
        Self::OverridesVetoes,
        Self::TakesForbiddenForGone,
        Self::TakesForbiddenForAbsent,
        Self::TakesAnOutageForGone,
        Self::TakesAnOutageForAbsent,
        Self::ReadsFromACache,
        Self::ReadsHalf,
        Self::TakesAbsentKindsForAbsentObjects,
        Self::TakesAbsentNamespacesForAbsentObjects,
        Self::ForgetsLabelledObjects,
        Self::ForgetsRecordedObjects,
        Self::ShufflesObservations,
        Self::FailsObservationsTogether,
        Self::ListsOnePageOnly,
        Self::NeverHints,
        Self::InventsAbsenceWhenInspecting,
        Self::EmptiesItsCacheInAnOutage,
        Self::NamesAnotherCluster,
    ];
}

/// A cluster that breaks one promise and keeps all others.
pub(crate) struct Flawed {
    flaw: Flaw,
    inner: MemoryCluster,
    /// The same cluster with every right, for doing what must not be done.
    behind: MemoryCluster,
    first_read: Mutex<BTreeMap<ObjectReference, Value>>,
}

impl Flawed {
    pub(crate) fn new(flaw: Flaw, inner: MemoryCluster, behind: MemoryCluster) -> Self {
        Self { flaw, inner, behind, first_read: Mutex::default() }
    }

    /// Writes a manifest past every precondition.
    fn force(&self, request: &ApplyRequest) -> Applied {
        let target = request.target();
        let object = sent(request);
        self.behind.create_as(FIELD_MANAGER, target, &object);
        self.behind.patch_as(FIELD_MANAGER, target, &object);
        let live = self.behind.object(target).unwrap_or_default();
        ObjectVersion::of(&live).map_or(Applied::Conflict, Applied::Done)
    }

    fn after_apply(&self, request: &ApplyRequest) {
        let target = request.target();
        let live = self.behind.object(target).unwrap_or_default();
        let extra = |path: &[&str]| unsent(&live, &sent(request), path);
        if self.flaw == Flaw::OverwritesFieldsOfOthers {
            let (labels, annotations) =
                (extra(&["metadata", "labels"]), extra(&["metadata", "annotations"]));
            let patch = json!({
                "metadata": {"labels": labels, "annotations": annotations},
                "spec": {"parameters": extra(&["spec", "parameters"])},
            });
            self.behind.patch_as(FIELD_MANAGER, target, &patch);
        }
        if self.flaw == Flaw::LosesTheInjection {
            let patch = json!({"spec": {"userData": Value::Null}});
            self.behind.patch_as(FIELD_MANAGER, target, &patch);
        }
        if self.flaw == Flaw::KeepsThePause {
            self.behind.pause(target);
        }
    }
}

fn sent(request: &ApplyRequest) -> Value {
    serde_json::from_slice(&request.expose_for_apply()).unwrap()
}

fn is_outage(error: &PortError) -> bool {
    error.to_string().contains("connection refused")
}

/// A reading by which nothing stands.
fn nothing(cluster: ClusterId) -> Reading {
    Reading {
        cluster,
        xr: XrReading::Absent,
        provider_config: None,
        recorded: BTreeMap::new(),
        labelled: [].into(),
    }
}

/// The entries of a map that stand and are not sent, as a patch that removes them.
fn unsent(live: &Value, sent: &Value, path: &[&str]) -> Value {
    let map = |object: &Value| {
        let found = path.iter().try_fold(object, |value, key| value.get(key));
        found.and_then(Value::as_object).cloned().unwrap_or_default()
    };
    let (live, sent): (Map<_, _>, Map<_, _>) = (map(live), map(sent));
    let extra = live.into_iter().filter(|(key, _)| !sent.contains_key(key));
    Value::Object(extra.map(|(key, _)| (key, Value::Null)).collect())
}

#[async_trait]
impl Cluster for Flawed {
    async fn identity(&self) -> Result<ClusterId, PortError> {
        if self.flaw == Flaw::NamesAnotherCluster {
            return Ok(ClusterId::new("another")?);
        }
        self.inner.identity().await
    }

    async fn observe_many(
        &self,
        targets: &[XrTarget],
    ) -> Result<Vec<Result<CachedXr, PortError>>, PortError> {
        let mut seen = self.inner.observe_many(targets).await?;
        if self.flaw == Flaw::ShufflesObservations {
            seen.reverse();
        }
        if self.flaw == Flaw::EmptiesItsCacheInAnOutage && self.behind.identity().await.is_err() {
            seen = targets.iter().map(|_| Ok(CachedXr::Absent)).collect();
        }
        if self.flaw == Flaw::FailsObservationsTogether {
            let all: Result<Vec<_>, _> = seen.into_iter().collect();
            return Ok(all?.into_iter().map(Ok).collect());
        }
        Ok(seen)
    }

    async fn read(&self, target: &Target) -> Result<Reading, PortError> {
        let mut reading = match (self.flaw, self.inner.read(target).await) {
            (Flaw::TakesForbiddenForAbsent, Err(_)) => nothing(self.behind.identity().await?),
            (Flaw::TakesAnOutageForAbsent, Err(error)) if is_outage(&error) => {
                nothing(ClusterId::new(IDENTITY)?)
            }
            (Flaw::ReadsHalf, Err(_)) => {
                let half = Target { composed_kinds: [].into(), ..target.clone() };
                self.inner.read(&half).await?
            }
            (_, answer) => answer?,
        };
        match (self.flaw, &reading.xr) {
            (Flaw::ReadsFromACache, XrReading::Present(live)) => {
                let mut cache = self.first_read.lock().unwrap_or_else(PoisonError::into_inner);
                let key = target.xr.reference()?;
                let old = cache.entry(key).or_insert_with(|| live.object.expose().clone());
                let old = LiveXr::from_json(old.clone(), target.xr.xrd.scope())?;
                reading.xr = XrReading::Present(Box::new(old));
            }
            (Flaw::TakesAbsentKindsForAbsentObjects, XrReading::KindAbsent)
            | (Flaw::TakesAbsentNamespacesForAbsentObjects, XrReading::NamespaceAbsent) => {
                reading.xr = XrReading::Absent;
            }
            (Flaw::ForgetsLabelledObjects, _) => reading.labelled.clear(),
            (Flaw::ForgetsRecordedObjects, _) => {
                reading.recorded.values_mut().for_each(|standing| *standing = Standing::Gone);
            }
            _ => {}
        }
        Ok(reading)
    }

    async fn inspect(&self, target: &Target) -> Result<Inspection, PortError> {
        let mut inspection = self.inner.inspect(target).await?;
        if self.flaw == Flaw::InventsAbsenceWhenInspecting {
            inspection.xr = inspection.xr.or(Ok(None));
            inspection.provider_config = inspection.provider_config.or(Ok(None));
        }
        Ok(inspection)
    }

    async fn apply(&self, request: &ApplyRequest) -> Result<Applied, PortError> {
        let answer = self.inner.apply(request).await;
        let reapply = matches!(request.precondition(), Precondition::Unchanged { .. });
        let stands = self.behind.stands(request.target());
        match (self.flaw, answer) {
            (Flaw::OverwritesOnConflict, Ok(Applied::Conflict)) if stands => {
                Ok(self.force(request))
            }
            (Flaw::CreatesOnReapply, Ok(Applied::Conflict)) if reapply && !stands => {
                Ok(self.force(request))
            }
            (Flaw::OverwritesNamesakes, Ok(Applied::NameTaken))
            | (Flaw::LeavesTheProject, Err(_)) => Ok(self.force(request)),
            (Flaw::CreatesNamespaces, Err(error)) if error.to_string().contains("namespaces") => {
                self.behind.create_namespace(request.target().namespace().unwrap_or_default());
                self.inner.apply(request).await
            }
            (Flaw::EchoesTheToken, Err(_)) => {
                let body = String::from_utf8(request.expose_for_apply()).unwrap();
                Err(PortError::rejected(format!("could not apply {body}")))
            }
            (Flaw::RefusesTransiently, Err(error)) => Err(PortError::transient(error.to_string())),
            (_, answer) => {
                if matches!(answer, Ok(Applied::Done(_))) {
                    self.after_apply(request);
                }
                answer
            }
        }
    }

    async fn dry_run(&self, request: &ApplyRequest) -> Result<DryRun, PortError> {
        let answer = self.inner.dry_run(request).await;
        if self.flaw == Flaw::DryRunStores && matches!(answer, Ok(DryRun::Accepted(_))) {
            let _ = self.inner.apply(request).await?;
        }
        answer
    }

    async fn delete(&self, request: &DeleteRequest<'_>) -> Result<Deleted, PortError> {
        let target = request.target;
        match (self.flaw, self.inner.delete(request).await) {
            (Flaw::TakesForbiddenForGone, Err(error))
                if error.to_string().contains("forbidden") =>
            {
                Ok(Deleted::Gone)
            }
            (Flaw::TakesAnOutageForGone, Err(error)) if is_outage(&error) => Ok(Deleted::Gone),
            (Flaw::DeletesNamesakes, Ok(Deleted::Replaced))
            | (Flaw::DeletesComposedObjects, Err(_))
            | (Flaw::OverridesVetoes, Ok(Deleted::Vetoed { .. })) => {
                self.behind.delete_in_background(target);
                Ok(Deleted::Accepted)
            }
            (Flaw::DeletesInTheBackground, Ok(Deleted::Accepted)) => {
                self.behind.let_go(target, "foregroundDeletion");
                Ok(Deleted::Accepted)
            }
            (_, answer) => answer,
        }
    }

    async fn list_owned(&self, query: &OwnedQuery) -> Result<OwnedPage, PortError> {
        let mut page = self.inner.list_owned(query).await?;
        if self.flaw == Flaw::ListsOnePageOnly {
            page.next = None;
        }
        Ok(page)
    }

    async fn hints(&self) -> Result<Hints, PortError> {
        if self.flaw == Flaw::NeverHints {
            return Ok(Box::pin(futures_util::stream::pending()));
        }
        self.inner.hints().await
    }
}
