//! Ways to the cluster that break a promise each.

mod applying;
mod inspecting;
mod listing;
mod reading;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use broker_domain::{ClusterId, ObjectReference};
use broker_ports::memory::MemoryCluster;
use broker_ports::{
    Applied, ApplyRequest, CachedXr, Cluster, DeleteRequest, Deleted, DryRun, Hints, Inspection,
    LiveObject, OwnedPage, OwnedQuery, PortError, Reading, Target, XrTarget,
};
use broker_render::Digest;
use serde_json::Value;

use crate::flaws::Flaw;
use crate::half_way::half_way;

/// A cluster that breaks one promise and keeps all others.
pub(crate) struct Flawed {
    flaw: Flaw,
    inner: MemoryCluster,
    /// The same cluster with every right, for doing what must not be done.
    behind: MemoryCluster,
    first_read: Mutex<BTreeMap<ObjectReference, Value>>,
    first_digest: Mutex<BTreeMap<String, Digest>>,
    vetoed: AtomicBool,
}

impl Flawed {
    pub(crate) fn new(flaw: Flaw, inner: MemoryCluster, behind: MemoryCluster) -> Self {
        Self {
            flaw,
            inner,
            behind,
            first_read: Mutex::default(),
            first_digest: Mutex::default(),
            vetoed: AtomicBool::default(),
        }
    }

    /// What came first under a key, and ever after.
    fn first<K: Ord, T: Clone>(of: &Mutex<BTreeMap<K, T>>, key: K, now: T) -> T {
        of.lock().unwrap_or_else(PoisonError::into_inner).entry(key).or_insert(now).clone()
    }
}

fn is_outage(error: &PortError) -> bool {
    error.to_string().contains("connection refused")
}

fn is_forbidden(error: &PortError) -> bool {
    error.to_string().contains("forbidden")
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
        self.flawed_observations(targets).await
    }

    async fn read(&self, target: &Target) -> Result<Reading, PortError> {
        self.flawed_reading(target).await
    }

    async fn inspect(&self, target: &Target) -> Result<Inspection, PortError> {
        self.flawed_inspection(target).await
    }

    async fn inspect_many(&self, targets: &[Target]) -> Vec<Result<Inspection, PortError>> {
        let mut answers = self.inner.inspect_many(targets).await;
        if self.flaw == Flaw::ShufflesInspections {
            answers.reverse();
        }
        answers
    }

    async fn apply(&self, request: &ApplyRequest) -> Result<Applied, PortError> {
        if self.flaw == Flaw::LeavesHalfAnApply {
            half_way(|| self.apply_half(request)).await;
        }
        self.flawed_apply(request).await
    }

    async fn dry_run(&self, request: &ApplyRequest) -> Result<DryRun, PortError> {
        match (self.flaw, self.inner.dry_run(request).await) {
            (Flaw::DryRunStores, Ok(DryRun::Accepted(shown))) => {
                let _ = self.inner.apply(request).await?;
                Ok(DryRun::Accepted(shown))
            }
            (Flaw::DryRunsAnywhere, Err(error)) if error.to_string().contains("not at home") => {
                Ok(DryRun::Conflict)
            }
            (Flaw::DryRunsPastPreconditions, Ok(DryRun::Conflict)) => {
                let live = self.behind.object(request.target()).unwrap_or_default();
                Ok(DryRun::Accepted(LiveObject::from_json(live)?))
            }
            (_, answer) => answer,
        }
    }

    async fn delete(&self, request: &DeleteRequest<'_>) -> Result<Deleted, PortError> {
        let target = request.target;
        if self.flaw == Flaw::DeletesInTheBackgroundWhenDropped {
            half_way(|| self.behind.delete_in_background(target)).await;
        }
        match (self.flaw, self.inner.delete(request).await) {
            (Flaw::TakesForbiddenForGone, Err(error)) if is_forbidden(&error) => Ok(Deleted::Gone),
            (Flaw::TakesAnOutageForGone, Err(error)) if is_outage(&error) => Ok(Deleted::Gone),
            (Flaw::TakesGoneForAnError, Ok(Deleted::Gone)) => {
                Err(PortError::rejected(format!("delete {target}: not found")))
            }
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
            (Flaw::DeletesForEver, Ok(Deleted::Accepted)) => {
                self.behind.hold(target, "for-ever");
                Ok(Deleted::Accepted)
            }
            (Flaw::DeletesTheWholeNamespace, Ok(Deleted::Accepted)) => {
                let objects = self.behind.objects().into_iter();
                for other in objects.filter(|other| other.namespace() == target.namespace()) {
                    self.behind.delete_in_background(&other);
                }
                Ok(Deleted::Accepted)
            }
            (Flaw::VetoesTheNextToo, Ok(vetoed @ Deleted::Vetoed { .. })) => {
                self.vetoed.store(true, Ordering::Relaxed);
                Ok(vetoed)
            }
            (Flaw::VetoesTheNextToo, Ok(_)) if self.vetoed.load(Ordering::Relaxed) => {
                Ok(Deleted::Vetoed { message: "something is in use".to_owned() })
            }
            (_, answer) => answer,
        }
    }

    async fn list_owned(&self, query: &OwnedQuery) -> Result<OwnedPage, PortError> {
        self.flawed_listing(query).await
    }

    async fn hints(&self) -> Result<Hints, PortError> {
        self.flawed_hints().await
    }
}
