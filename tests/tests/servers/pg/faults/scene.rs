//! One database in which there is something to do for every operation, and that can be had back as it was.

use std::error::Error;
use std::time::Duration;

use broker_domain::ProvisionedResourceId;
use broker_pg::{DatabaseError, PgMesh, PgStore, PgTokenIssuer};
use broker_ports::{
    Acknowledged, Brake, ClaimEvents, ClaimRequest, ClaimTarget, ClaimedEvent, Created, Issue,
    IssueRequest, LeaseEpoch, NodeId, Outbox, PassOutcome, PeerId, PortError, Released, Repository,
    Schedule, TokenIssuer, Write, Written,
};
use broker_testkit::builders::{
    ResourceBuilder, attribution, cluster, resource, rows, second, worker,
};
use broker_testkit::store::StoreUnderTest;
use broker_tests::{TestDatabase, TestPostgres};
use sqlx::PgPool;
use sqlx::postgres::PgConnectOptions;

use super::fault::SABOTAGE;
use super::operation::{Operation, remark};
use super::picture::Picture;
use crate::servers::pg::migrated;
use crate::servers::pg::store::world::World;

/// Longer than any test.
pub(super) const HOUR: Duration = Duration::from_hours(1);

/// Who is who: the things that the operations work on.
pub(super) mod cast {
    use super::{ProvisionedResourceId, ResourceBuilder, resource};
    use broker_testkit::builders::id;

    /// Not stored yet.
    pub(crate) fn new() -> ResourceBuilder {
        resource().numbered(1).requested_as("order-1")
    }
    /// Not stored yet, and to be stored by a host.
    pub(crate) fn new_of_host() -> ResourceBuilder {
        resource().numbered(2).requested_as("order-2")
    }
    /// Held by a worker.
    pub(crate) fn enrolling() -> ResourceBuilder {
        resource().numbered(3).enrolling().with_token()
    }
    /// Held by a worker, without a token.
    pub(crate) fn held() -> ResourceBuilder {
        resource().numbered(4)
    }
    /// The only one that is being torn down.
    pub(crate) fn leaving() -> ResourceBuilder {
        resource().numbered(5).deregistering()
    }
    /// Nothing of it stands anywhere.
    pub(crate) fn bare() -> ResourceBuilder {
        resource().numbered(6)
    }
    /// Held by a worker when somebody asks for its deletion.
    pub(crate) fn ready() -> ResourceBuilder {
        resource().numbered(7).ready()
    }
    /// Nobody's, and somebody wrote about it.
    pub(crate) fn idle() -> ResourceBuilder {
        resource().numbered(8)
    }
    /// Held by a worker whose pass fails.
    pub(crate) fn failing() -> ResourceBuilder {
        resource().numbered(9)
    }
    /// Left to the sweep.
    pub(crate) fn resting() -> ResourceBuilder {
        resource().numbered(10)
    }
    pub(crate) fn paused() -> ResourceBuilder {
        resource().numbered(11)
    }
    /// Its event is on its way.
    pub(crate) fn delivered() -> ResourceBuilder {
        resource().numbered(12)
    }
    /// Its event is on its way, and nobody will take it.
    pub(crate) fn poisoned() -> ResourceBuilder {
        resource().numbered(13)
    }
    /// Its event was set aside.
    pub(crate) fn aside() -> ResourceBuilder {
        resource().numbered(14)
    }
    /// Deleted, and everybody knows.
    pub(crate) fn gone() -> ResourceBuilder {
        resource().numbered(15).deleted()
    }
    /// Another one takes its place.
    pub(crate) fn replaced() -> ResourceBuilder {
        resource().numbered(17).ready()
    }
    /// Not stored yet, and to take the place of another one.
    pub(crate) fn new_in_its_place() -> ResourceBuilder {
        resource().numbered(18).requested_as("order-3")
    }
    /// Was never given a token.
    pub(crate) fn without_token() -> ProvisionedResourceId {
        id(19)
    }
    /// Has an open token that nobody heard of.
    pub(crate) fn issued() -> ProvisionedResourceId {
        id(20)
    }
    /// Has an open token.
    pub(crate) fn closed() -> ProvisionedResourceId {
        id(21)
    }
    /// Its Node is in the mesh.
    pub(crate) fn enrolled() -> ProvisionedResourceId {
        id(22)
    }
}

pub(super) struct Scene {
    world: World,
    pub(super) node: NodeId,
    pub(super) peer: PeerId,
}

/// Copies every table. Everything that is put there later is forgotten by [`RESTORE`].
const KEEP: &str = "CREATE SCHEMA kept;
DO $$
DECLARE
    kept text;
BEGIN
    FOR kept IN SELECT tablename FROM pg_tables WHERE schemaname = 'plexsphere' LOOP
        EXECUTE format('CREATE TABLE kept.%1$I AS TABLE plexsphere.%1$I', kept);
    END LOOP;
END
$$";

const RESTORE: &str = "DO $$
DECLARE
    kept text;
BEGIN
    SET LOCAL session_replication_role = replica;
    FOR kept IN SELECT tablename FROM pg_tables WHERE schemaname = 'kept' LOOP
        EXECUTE format('DELETE FROM plexsphere.%I', kept);
        EXECUTE format('INSERT INTO plexsphere.%1$I OVERRIDING SYSTEM VALUE TABLE kept.%1$I', kept);
    END LOOP;
END
$$";

impl Scene {
    pub(super) async fn new() -> Self {
        Self::on(&TestPostgres::shared().await).await
    }

    pub(super) async fn on(postgres: &TestPostgres) -> Self {
        let world = World::over(postgres.database_from(&migrated()).await.into());
        for new in [cast::new(), cast::new_of_host(), cast::new_in_its_place()] {
            world.know(&new.declaration()).await.unwrap();
        }
        store(&world, &[cast::gone()]).await;
        deliver_all(&world.store).await;
        let with_claimed_events = [
            cast::enrolling(),
            cast::held(),
            cast::leaving(),
            cast::bare(),
            cast::ready(),
            cast::failing(),
            cast::resting(),
            cast::paused(),
            cast::delivered(),
            cast::poisoned(),
            cast::aside(),
            cast::replaced(),
        ];
        store(&world, &with_claimed_events).await;
        let events = claim_events(&world.store).await;
        let aside = events.iter().find(|event| event.resource == cast::aside().id()).unwrap();
        let set = world.store.set_aside_event(&aside.claim, "nobody takes it").await.unwrap();
        assert_eq!(set, Acknowledged::Done);
        store(&world, &[cast::idle(), resource().numbered(16)]).await;
        remark(&world.store, cast::idle().id()).await;
        plan(&world.store).await;
        let (node, peer) = tokens(world.pool()).await;
        for script in [KEEP, SABOTAGE] {
            sqlx::raw_sql(script).execute(world.pool()).await.unwrap();
        }
        Self { world, node, peer }
    }

    /// Past every fault.
    pub(super) fn pool(&self) -> &PgPool {
        self.world.pool()
    }

    pub(super) fn database(&self) -> &TestDatabase {
        self.world.database()
    }

    pub(super) fn options(&self) -> PgConnectOptions {
        self.database().options()
    }

    pub(super) async fn restore(&self) {
        sqlx::raw_sql(RESTORE).execute(self.pool()).await.unwrap();
    }

    pub(super) async fn picture(&self) -> Picture {
        Picture::of(self.pool()).await
    }

    /// What an operation alone leaves behind. It leaves something.
    pub(super) async fn picture_after(&self, operation: Operation) -> Picture {
        self.restore().await;
        let before = self.picture().await;
        let adapters = super::Adapters::over(self.pool());
        let answer = operation.run(self, &adapters).await.unwrap();
        assert_eq!(answer, operation.done(), "{operation:?} without any fault");
        let after = self.picture().await;
        assert_ne!(after, before, "{operation:?} changes nothing");
        after
    }
}

/// What the server said, if it did.
pub(super) fn sqlstate(error: &PortError) -> Option<&str> {
    let said: &DatabaseError = error.source()?.downcast_ref()?;
    Some(said.sqlstate())
}

/// Stores resources with everything that led them to where they stand.
async fn store(world: &World, resources: &[ResourceBuilder]) {
    let by = attribution();
    for builder in resources {
        world.know(&builder.declaration()).await.unwrap();
        let created = world.store.create(&builder.admitted()).await.unwrap();
        assert_eq!(created, Created::Stored);
        for (kind, change) in &builder.life().then {
            let write = Write::by_caller(change, &by);
            let written = world.store.write(*kind, &write).await;
            assert_eq!(written.unwrap(), Written::Committed);
        }
    }
}

async fn claim_events(store: &PgStore) -> Vec<ClaimedEvent> {
    let request = ClaimEvents::new(worker("relay"), rows(100), HOUR);
    store.claim_events(&request).await.unwrap()
}

async fn deliver_all(store: &PgStore) {
    loop {
        let events = claim_events(store).await;
        if events.is_empty() {
            return;
        }
        for event in events {
            let taken = store.acknowledge_event(&event.claim).await.unwrap();
            assert_eq!(taken, Acknowledged::Done);
        }
    }
}

/// Leases, a pause and a brake.
async fn plan(store: &PgStore) {
    let by = attribution();
    for builder in
        [cast::enrolling(), cast::held(), cast::ready(), cast::failing(), cast::resting()]
    {
        let target = ClaimTarget::One(builder.id());
        let request = ClaimRequest::new(worker("holder"), target, HOUR);
        let lease = store.claim(&request).await.unwrap().pop().unwrap();
        if builder.id() == cast::resting().id() {
            let rests = PassOutcome::Succeeded { due_in: None };
            let version = builder.build().version();
            let released = store.release(&lease, version, &rests).await.unwrap();
            assert_eq!(released, Released::Done);
        }
    }
    assert!(store.set_paused(cast::paused().id(), true, &by).await.unwrap());
    store.set_brake(&cluster(1), &Brake::new(5, 10, second(1)), &by).await.unwrap();
}

/// Open tokens, and a Node with a Peer.
async fn tokens(pool: &PgPool) -> (NodeId, PeerId) {
    let (issuer, mesh) = (PgTokenIssuer::new(pool.clone()), PgMesh::new(pool.clone()));
    let mut last = None;
    for of in [cast::issued(), cast::closed(), cast::enrolled()] {
        let first = broker_domain::TokenOrdinal::FIRST;
        let request = IssueRequest::new(of, first, LeaseEpoch::new(1), HOUR);
        let Issue::Issued(token) = issuer.issue(&request).await.unwrap() else {
            panic!("the token of {of} was consumed before it was issued");
        };
        last = Some(token);
    }
    let node = mesh.enrol(last.unwrap().plaintext.secret()).await.unwrap();
    (node, mesh.join(node).await.unwrap())
}
