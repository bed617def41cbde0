//! Sweeps of up to a million machines that are Ready, with store and cluster in memory: what is left is what the broker
//! itself takes, and how that grows.
//!
//! Rows and objects are made when they are asked for, and kept by nobody. The floor makes the same rows and objects and
//! looks at none of them.

use std::sync::Arc;

use async_trait::async_trait;
use broker_domain::{
    BootstrapTokenId, ClusterId, MeshRole, Phase, ProjectId, ProvisionedResource,
    ProvisionedResourceId, ReferencesDigest, RequestId, Version,
};
use broker_ports::{
    Admitted, Applied, ApplyRequest, Arming, Attribution, AuditRecord, CachedXr, Cluster,
    CompactRow, ConditionStatus, Created, DeleteRequest, Deleted, DryRun, Hints, Inspection,
    ListPage, ListQuery, NodeDeregistrar, ObjectVersion, OwnedPage, OwnedQuery, PageSize,
    PortError, PurgeRequest, Reading, Replaced, Replacement, Repository, StoredRequest, SweepPage,
    SweepQuery, Target, Watermark, Write, WriteKind, Written, XrStatus, XrTarget,
};
use broker_render::{Armed, Digest};
use broker_testkit::builders::id;
use broker_tests::real::config;
use broker_tests::world::{NODE, World, xrd_of};
use sqlx::types::time::OffsetDateTime;
use uuid::Uuid;

use super::lab::{Lab, Way};
use super::stand::{Counted, Stand, parts};
use super::sweep::sweep;

/// The first machine; the others follow.
const FIRST: u128 = 0x0198_0000_0000_7000_8000_0000_0000_0000;

/// So much further on is a machine's token.
const TOKEN: u128 = 1 << 64;

pub(super) async fn run(lab: Lab) {
    let stand = Stand::new().await;
    for (name, many) in
        [("1,000", 1_000), ("10,000", 10_000), ("100,000", 100_000), ("1,000,000", 1_000_000)]
    {
        let many = lab.many(many);
        let world = World::new();
        let crowd = Arc::new(Crowd { many, cluster: world.cluster.identity().await.unwrap() });
        let mut ports = world.ports.clone();
        ports.repository = crowd.clone();
        ports.cluster = crowd.clone();
        ports.nodes = crowd.clone();
        let sweeper = parts(ports, config("swept")).sweeper;
        let case = lab.case(&stand, name, many);
        for round in case.rounds() {
            // There are no servers that could count.
            round.measure_counted(Way::Floor, make(&crowd), |_| Counted::NOT).await;
            round.measure_counted(Way::Ours, sweep(&sweeper, many), |_| Counted::NOT).await;
        }
    }
}

/// Makes the rows and the objects, and looks at none of them.
async fn make(crowd: &Crowd) {
    let xrd = Arc::new(xrd_of("Machine", "machines"));
    let mut query = SweepQuery::new(PageSize::MAX);
    loop {
        let page = crowd.sweep_page(&query).await.unwrap();
        let targets: Vec<_> = page
            .rows
            .iter()
            .map(|row| XrTarget::new(row.id, row.project_id, Arc::clone(&xrd)))
            .collect();
        assert_eq!(crowd.observe_many(&targets).await.unwrap().len(), targets.len());
        match page.next {
            Some(next) => query.after = Some(next),
            None => return,
        }
    }
}

struct Crowd {
    many: usize,
    cluster: ClusterId,
}

fn resource(number: usize) -> ProvisionedResourceId {
    id(FIRST + number as u128)
}

fn token_of(resource: ProvisionedResourceId) -> BootstrapTokenId {
    id(resource.as_uuid().as_u128() + TOKEN)
}

fn references() -> ReferencesDigest {
    ReferencesDigest::new([7; 32])
}

fn row(number: usize) -> CompactRow {
    let id_of = resource(number);
    let project: ProjectId = id(1);
    let mut row =
        CompactRow::new(id_of, project, id(2), id(NODE), id(4), MeshRole::Node, Phase::Ready);
    row.version = Version::new(6).unwrap();
    row.bootstrap_token_id = Some(token_of(id_of));
    row.references_digest = Some(references());
    row
}

/// As a watch cache answers: with texts made for whoever asks.
fn seen(target: &XrTarget) -> CachedXr {
    let uid = Uuid::from_u128(target.resource.as_uuid().as_u128() + 1);
    let mut status = XrStatus::new(4);
    status.ready = Some(ConditionStatus::True);
    status.synced = Some(ConditionStatus::True);
    status.ready_generation = Some(4);
    let armed = Arming::Armed(Armed::Token(token_of(target.resource)));
    let version = ObjectVersion::new(uid.to_string(), "1000000");
    CachedXr::seen(version, status, armed, Digest::new([3; 32]), references())
}

fn not_played<T>() -> Result<T, PortError> {
    Err(PortError::rejected("nobody plays this"))
}

#[async_trait]
impl Repository for Crowd {
    async fn sweep_page(&self, query: &SweepQuery) -> Result<SweepPage, PortError> {
        let from = query.after.map_or(0, |after| {
            usize::try_from(after.as_uuid().as_u128() - FIRST + 1).unwrap_or(self.many)
        });
        let to = self.many.min(from + usize::from(query.limit.get()));
        let rows = (from..to).map(row).collect();
        let next = (to < self.many).then(|| resource(to - 1));
        Ok(SweepPage::new(rows, next, OffsetDateTime::UNIX_EPOCH))
    }

    async fn list(&self, _: &ListQuery) -> Result<ListPage, PortError> {
        Ok(ListPage::new(Vec::new(), None, Watermark::new(OffsetDateTime::UNIX_EPOCH)))
    }

    async fn create(&self, _: &Admitted) -> Result<Created, PortError> {
        not_played()
    }

    async fn get_by_id(
        &self,
        _: ProvisionedResourceId,
    ) -> Result<Option<ProvisionedResource>, PortError> {
        not_played()
    }

    async fn get_in_project(
        &self,
        _: ProjectId,
        _: ProvisionedResourceId,
    ) -> Result<Option<ProvisionedResource>, PortError> {
        not_played()
    }

    async fn get_by_request(
        &self,
        _: ProjectId,
        _: &RequestId,
    ) -> Result<Option<StoredRequest>, PortError> {
        not_played()
    }

    async fn write(&self, _: WriteKind, _: &Write<'_>) -> Result<Written, PortError> {
        not_played()
    }

    async fn replace(&self, _: &Replacement) -> Result<Replaced, PortError> {
        not_played()
    }

    async fn history(&self, _: ProvisionedResourceId) -> Result<Vec<AuditRecord>, PortError> {
        not_played()
    }

    async fn scrub_audit(
        &self,
        _: ProvisionedResourceId,
        _: &Attribution,
    ) -> Result<u64, PortError> {
        not_played()
    }

    async fn purge_deleted(
        &self,
        _: &PurgeRequest,
    ) -> Result<Vec<ProvisionedResourceId>, PortError> {
        not_played()
    }
}

#[async_trait]
impl Cluster for Crowd {
    async fn identity(&self) -> Result<ClusterId, PortError> {
        Ok(self.cluster.clone())
    }

    async fn observe_many(
        &self,
        targets: &[XrTarget],
    ) -> Result<Vec<Result<CachedXr, PortError>>, PortError> {
        Ok(targets.iter().map(|target| Ok(seen(target))).collect())
    }

    async fn read(&self, _: &Target) -> Result<Reading, PortError> {
        not_played()
    }

    async fn inspect(&self, _: &Target) -> Result<Inspection, PortError> {
        not_played()
    }

    async fn apply(&self, _: &ApplyRequest) -> Result<Applied, PortError> {
        not_played()
    }

    async fn dry_run(&self, _: &ApplyRequest) -> Result<DryRun, PortError> {
        not_played()
    }

    async fn delete(&self, _: &DeleteRequest<'_>) -> Result<Deleted, PortError> {
        not_played()
    }

    async fn list_owned(&self, _: &OwnedQuery) -> Result<OwnedPage, PortError> {
        Ok(OwnedPage::default())
    }

    async fn hints(&self) -> Result<Hints, PortError> {
        not_played()
    }
}

#[async_trait]
impl NodeDeregistrar for Crowd {
    async fn deregister(&self, _: BootstrapTokenId) -> Result<(), PortError> {
        not_played()
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
