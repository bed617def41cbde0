//! Resources whose machines boot with tokens, as far as the store hears of them: so that every table holds something of
//! them when it is searched.

use std::time::Duration;

use broker_domain::{Change, FailureReason, Phase, ProvisionedResource, TokenOrdinal};
use broker_pg::PgStore;
use broker_ports::{
    Acknowledged, Brake, BrakeRelease, ClaimEvents, ClaimRequest, ClaimTarget, Created,
    IssuedToken, Lane, Loss, Lost, Outbox, PassOutcome, Released, Repository, Schedule, Write,
    WriteKind, Written,
};
use broker_render::scrub;
use broker_testkit::builders::{
    attribution, cluster, resource, rows, second, stamp, worker, xr_uid,
};
use broker_testkit::store::StoreUnderTest;
use secrecy::ExposeSecret;
use sqlx::PgPool;

use super::places::Places;
use crate::servers::pg::store::world::World;

/// What other contexts write, beside what a declaration refers to.
const NEIGHBOURS: &str = "
INSERT INTO plexsphere.project_labels (project_id, key, value)
    SELECT id, 'team', 'a' FROM plexsphere.projects;
INSERT INTO plexsphere.resource_labels (resource_id, key, value)
    SELECT id, 'tier', 'b' FROM plexsphere.resources;
INSERT INTO plexsphere.cloud_credential_assignments (project_id, cloud_credential_id)
    SELECT project.id, credential.id
    FROM plexsphere.projects AS project CROSS JOIN plexsphere.cloud_credentials AS credential;
INSERT INTO plexsphere.namespace_assignments (project_id, namespace, namespace_phase)
    SELECT id, 'team-a', 'Ready' FROM plexsphere.projects";

/// Longer than the test.
const HOUR: Duration = Duration::from_hours(1);

/// Tells the store of three resources, each with a token: a pass over one fails, and another one fails for good.
pub(super) async fn tell(places: &Places, pool: &PgPool, tokens: [&IssuedToken; 3]) {
    let teller = Teller { world: places.world(), store: PgStore::new(pool.clone()) };
    let mut provisioning = Vec::new();
    for (number, token) in (1..).zip(tokens) {
        provisioning.push(teller.provision(number, token).await);
    }
    sqlx::raw_sql(NEIGHBOURS).execute(teller.world.pool()).await.unwrap();
    let words = |token: &IssuedToken| {
        let plaintext = token.plaintext.secret().expose_secret();
        scrub(&format!("cannot boot with {plaintext}"), &[plaintext])
    };
    teller.try_again(&words(tokens[0])).await;
    teller.fail(&provisioning[1], &words(tokens[1])).await;
    teller.deliver(&words(tokens[2])).await;
    let brake = Brake::new(1, 2, second(9));
    teller.store.set_brake(&cluster(1), &brake, &attribution()).await.unwrap();
    let lost = Lost::Xr(xr_uid(1));
    let accepted = vec![Loss { resource: provisioning[2].id(), lost }];
    let release = BrakeRelease::new(cluster(2), None, accepted, attribution());
    teller.store.release_brake(&release).await.unwrap();
}

struct Teller {
    world: World,
    store: PgStore,
}

impl Teller {
    /// A resource that was declared, and whose machine is on its way with a token.
    async fn provision(&self, number: u128, token: &IssuedToken) -> ProvisionedResource {
        let builder = resource().numbered(number);
        self.world.know(&builder.declaration()).await.unwrap();
        let created = self.store.create(&builder.admitted()).await.unwrap();
        assert_eq!(created, Created::Stored);
        let (declared, by) = (builder.build(), attribution());
        let armed = declared.record_token(token.id, TokenOrdinal::FIRST, second(1)).unwrap();
        let written =
            self.store.write(WriteKind::Token, &Write::by_caller(&armed, &by)).await.unwrap();
        assert_eq!(written, Written::Committed);
        let sent = stamp(number * 1_000 + 500, 2);
        let sent = armed.resource().advance(Phase::Provisioning, sent).unwrap().unwrap();
        self.change_phase(sent).await
    }

    async fn change_phase(&self, change: Change) -> ProvisionedResource {
        let by = attribution();
        let written =
            self.store.write(WriteKind::Phase, &Write::by_caller(&change, &by)).await.unwrap();
        assert_eq!(written, Written::Committed);
        change.into_resource()
    }

    /// It fails for good.
    async fn fail(&self, resource: &ProvisionedResource, words: &str) {
        let reason = FailureReason::from_message(words);
        let failed = resource.fail(reason, stamp(9_000, 3)).unwrap().unwrap();
        self.change_phase(failed).await;
    }

    /// A pass over whatever is due fails, and is to be made again.
    async fn try_again(&self, words: &str) {
        let due = ClaimTarget::Due { lane: Lane::Converge, limit: rows(1) };
        let request = ClaimRequest::new(worker("canary"), due, HOUR);
        let lease = self.store.claim(&request).await.unwrap().pop().unwrap();
        let seen = self.store.get_by_id(lease.resource).await.unwrap().unwrap().version();
        let outcome = PassOutcome::Failed {
            reason: "cluster_transient".to_owned(),
            message: words.to_owned(),
            retry_after: Some(HOUR),
        };
        let released = self.store.release(&lease, seen, &outcome).await.unwrap();
        assert_eq!(released, Released::Done);
    }

    /// One event is taken, and one is set aside.
    async fn deliver(&self, words: &str) {
        let request = ClaimEvents::new(worker("relay"), rows(2), HOUR);
        let events = self.store.claim_events(&request).await.unwrap();
        let [taken, refused] = events.as_slice() else { panic!("two events wait: {events:?}") };
        let done = self.store.acknowledge_event(&taken.claim).await.unwrap();
        assert_eq!(done, Acknowledged::Done);
        let done = self.store.set_aside_event(&refused.claim, words).await.unwrap();
        assert_eq!(done, Acknowledged::Done);
    }
}
