//! The broker's own cost per sweep and its growth, for up to a million Ready machines, without servers.
//!
//! Rows and objects are generated on request and not stored. The baseline generates the same rows and objects and
//! ignores them.

use std::sync::Arc;

use async_trait::async_trait;
use broker_domain::{
    BootstrapTokenId, ClusterId, MeshRole, Phase, ProjectId, ProvisionedResource,
    ProvisionedResourceId, ReferencesDigest, RequestId, Version, XrUid,
};
use broker_ports::{
    Admitted, Applied, ApplyRequest, Arming, Attribution, AuditRecord, CachedXr, Cluster,
    CompactRow, ConditionStatus, Created, DeleteRequest, Deleted, DeletionMark, DryRun, Hints,
    Inspection, ListPage, ListQuery, NodeDeregistrar, ObjectVersion, OwnedPage, OwnedQuery,
    PageSize, PortError, PurgeRequest, Reading, Replaced, Replacement, Repository, SharedConfig,
    SharedConfigRef, StoredRequest, SweepPage, SweepQuery, Target, Watermark, Write, WriteKind,
    Written, XrStatus, XrTarget,
};
use broker_render::{Armed, Digest};
use broker_testkit::builders::id;
use broker_tests::real::config;
use broker_tests::world::{NODE, World, xrd_of};
use sqlx::types::time::OffsetDateTime;
use uuid::Uuid;

use super::fixture::{Fixture, ServerCounts, parts};
use super::harness::{BenchOptions, Way};
use super::sweep::sweep;

/// The id of the first machine; the others follow consecutively.
const FIRST_ID: u128 = 0x0198_0000_0000_7000_8000_0000_0000_0000;

/// The distance from a machine's id to its token's id.
const TOKEN_OFFSET: u128 = 1 << 64;

pub(super) async fn run(options: BenchOptions) {
    let fixture = Fixture::new().await;
    for (name, count) in
        [("1,000", 1_000), ("10,000", 10_000), ("100,000", 100_000), ("1,000,000", 1_000_000)]
    {
        let count = options.size(count);
        let world = World::new();
        let rows =
            Arc::new(SyntheticRows { count, cluster: world.cluster.identity().await.unwrap() });
        let mut ports = world.ports.clone();
        ports.repository = rows.clone();
        ports.cluster = rows.clone();
        ports.nodes = rows.clone();
        let sweeper = parts(ports, config("sweeper")).sweeper;
        let case = options.case(&fixture, name, count);
        for round in case.rounds() {
            let not_counted = |_| ServerCounts::NOT_COUNTED;
            round.measure_counted(Way::Baseline, generate(&rows), not_counted).await;
            round.measure_counted(Way::Ours, sweep(&sweeper, count), not_counted).await;
        }
    }
}

/// Generates every row and object.
async fn generate(rows: &SyntheticRows) {
    let xrd = Arc::new(xrd_of("Machine", "machines"));
    let mut query = SweepQuery::new(PageSize::MAX);
    loop {
        let page = rows.sweep_page(&query).await.unwrap();
        let targets: Vec<_> = page
            .rows
            .iter()
            .map(|row| XrTarget::new(row.id, row.project_id, Arc::clone(&xrd)))
            .collect();
        assert_eq!(rows.observe_many(&targets).await.unwrap().len(), targets.len());
        match page.next {
            Some(next) => query.after = Some(next),
            None => return,
        }
    }
}

struct SyntheticRows {
    count: usize,
    cluster: ClusterId,
}

fn resource(number: usize) -> ProvisionedResourceId {
    id(FIRST_ID + number as u128)
}

fn token_of(resource: ProvisionedResourceId) -> BootstrapTokenId {
    id(resource.as_uuid().as_u128() + TOKEN_OFFSET)
}

fn uid_of(resource: ProvisionedResourceId) -> String {
    Uuid::from_u128(resource.as_uuid().as_u128() + 1).to_string()
}

fn references() -> ReferencesDigest {
    ReferencesDigest::new([7; 32])
}

fn row(number: usize) -> CompactRow {
    let resource = resource(number);
    let project: ProjectId = id(1);
    let mut row =
        CompactRow::new(resource, project, id(2), id(NODE), id(4), MeshRole::Node, Phase::Ready);
    row.version = Version::new(6).unwrap();
    row.bootstrap_token_id = Some(token_of(resource));
    row.references_digest = Some(references());
    row.applied = XrUid::new(uid_of(resource)).ok();
    row
}

/// Allocates its strings per call, as the watch cache does.
fn cached(target: &XrTarget) -> CachedXr {
    let mut status = XrStatus::new(4);
    status.ready = Some(ConditionStatus::True);
    status.synced = Some(ConditionStatus::True);
    status.ready_generation = Some(4);
    let armed = Arming::Armed(Armed::Token(token_of(target.resource)));
    let version = ObjectVersion::new(uid_of(target.resource), "1000000");
    CachedXr::present(version, status, armed, Digest::new([3; 32]), references())
}

fn unsupported<T>() -> Result<T, PortError> {
    Err(PortError::rejected("not simulated"))
}

#[async_trait]
impl Repository for SyntheticRows {
    async fn sweep_page(&self, query: &SweepQuery) -> Result<SweepPage, PortError> {
        let from = query.after.map_or(0, |after| {
            usize::try_from(after.as_uuid().as_u128() - FIRST_ID + 1).unwrap_or(self.count)
        });
        let to = self.count.min(from + usize::from(query.limit.get()));
        let rows = (from..to).map(row).collect();
        let next = (to < self.count).then(|| resource(to - 1));
        Ok(SweepPage::new(rows, next, OffsetDateTime::UNIX_EPOCH))
    }

    async fn list(&self, _: &ListQuery) -> Result<ListPage, PortError> {
        Ok(ListPage::new(Vec::new(), None, Watermark::new(OffsetDateTime::UNIX_EPOCH)))
    }

    async fn create(&self, _: &Admitted) -> Result<Created, PortError> {
        unsupported()
    }

    async fn get_by_id(
        &self,
        _: ProvisionedResourceId,
    ) -> Result<Option<ProvisionedResource>, PortError> {
        unsupported()
    }

    async fn get_in_project(
        &self,
        _: ProjectId,
        _: ProvisionedResourceId,
    ) -> Result<Option<ProvisionedResource>, PortError> {
        unsupported()
    }

    async fn get_by_request(
        &self,
        _: ProjectId,
        _: &RequestId,
    ) -> Result<Option<StoredRequest>, PortError> {
        unsupported()
    }

    async fn get_by_token(
        &self,
        _: BootstrapTokenId,
    ) -> Result<Option<ProvisionedResource>, PortError> {
        unsupported()
    }

    async fn write(&self, _: WriteKind, _: &Write<'_>) -> Result<Written, PortError> {
        unsupported()
    }

    async fn replace(&self, _: &Replacement) -> Result<Replaced, PortError> {
        unsupported()
    }

    async fn shared_config(
        &self,
        _: ProvisionedResourceId,
    ) -> Result<Option<SharedConfig>, PortError> {
        unsupported()
    }

    async fn shared_configs(&self, _: &[SharedConfigRef]) -> Result<Vec<SharedConfig>, PortError> {
        Ok(Vec::new())
    }

    async fn mark_shared_config(
        &self,
        _: &SharedConfigRef,
        _: Option<DeletionMark>,
    ) -> Result<Option<DeletionMark>, PortError> {
        unsupported()
    }

    async fn clear_shared_config(
        &self,
        _: &SharedConfigRef,
        _: DeletionMark,
    ) -> Result<(), PortError> {
        unsupported()
    }

    async fn history(&self, _: ProvisionedResourceId) -> Result<Vec<AuditRecord>, PortError> {
        unsupported()
    }

    async fn scrub_audit(
        &self,
        _: ProvisionedResourceId,
        _: &Attribution,
    ) -> Result<u64, PortError> {
        unsupported()
    }

    async fn purge_deleted(
        &self,
        _: &PurgeRequest,
    ) -> Result<Vec<ProvisionedResourceId>, PortError> {
        unsupported()
    }
}

#[async_trait]
impl Cluster for SyntheticRows {
    async fn identity(&self) -> Result<ClusterId, PortError> {
        Ok(self.cluster.clone())
    }

    async fn observe_many(
        &self,
        targets: &[XrTarget],
    ) -> Result<Vec<Result<CachedXr, PortError>>, PortError> {
        Ok(targets.iter().map(|target| Ok(cached(target))).collect())
    }

    async fn read(&self, _: &Target) -> Result<Reading, PortError> {
        unsupported()
    }

    async fn inspect(&self, _: &Target) -> Result<Inspection, PortError> {
        unsupported()
    }

    async fn apply(&self, _: &ApplyRequest) -> Result<Applied, PortError> {
        unsupported()
    }

    async fn dry_run(&self, _: &ApplyRequest) -> Result<DryRun, PortError> {
        unsupported()
    }

    async fn delete(&self, _: &DeleteRequest<'_>) -> Result<Deleted, PortError> {
        unsupported()
    }

    async fn list_owned(&self, _: &OwnedQuery) -> Result<OwnedPage, PortError> {
        Ok(OwnedPage::default())
    }

    async fn hints(&self) -> Result<Hints, PortError> {
        unsupported()
    }

    async fn watch(&self) {
        std::future::pending::<()>().await;
    }
}

#[async_trait]
impl NodeDeregistrar for SyntheticRows {
    async fn deregister(&self, _: BootstrapTokenId) -> Result<(), PortError> {
        unsupported()
    }

    async fn node_registered(&self, _: BootstrapTokenId) -> Result<bool, PortError> {
        Ok(true)
    }

    async fn nodes_registered(
        &self,
        tokens: &[BootstrapTokenId],
    ) -> Result<Vec<Result<bool, PortError>>, PortError> {
        Ok(tokens.iter().map(|_| Ok(true)).collect())
    }
}
