//! Resources: created, read, and written from what somebody remembers of them.

use broker_domain::{
    Change, FailureReason, Phase, ProvisionedResource, ReferencesDigest, TokenOrdinal,
};
use broker_ports::{Created, Replaced, Replacement, Write, WriteKind, Written};
use broker_testkit::builders::{attribution, cluster, composed, id};
use rand::RngExt;

use super::{Player, RESOURCES, declared, words};

impl Player<'_> {
    pub(super) async fn create(&mut self, number: u128) {
        let wording = self.random.random_range(0..3).min(1);
        let admitted = declared(number, wording).admitted();
        let created = self.world.repository().create(&admitted).await;
        let created = created.map(|created| match created {
            Created::Stored => "stored".to_owned(),
            Created::Replayed(first) => format!("replayed {}", words(&first)),
            Created::Conflict => "conflict".to_owned(),
        });
        self.tell(&format!("create {number} as {wording}"), created);
    }

    /// Replaces a remembered resource by another one.
    pub(super) async fn replace(&mut self, number: u128) {
        let Some(known) = self.known.get(&number).cloned() else { return self.read(number).await };
        let new = number % RESOURCES + 1;
        let what = format!("replace {number} at {} by {new}", known.version());
        let admitted = declared(new, 0).admitted();
        let replacement = match Replacement::new(&known, admitted, self.stamp()) {
            Ok(replacement) => replacement,
            Err(error) => return self.tell::<()>(&what, Err(error.into())),
        };
        let replaced = self.world.repository().replace(&replacement).await;
        let replaced = replaced.map(|replaced| match replaced {
            Replaced::Created(Created::Stored) => "stored".to_owned(),
            Replaced::Created(Created::Replayed(first)) => format!("replayed {}", words(&first)),
            Replaced::Created(Created::Conflict) => "conflict".to_owned(),
            Replaced::Stale => "stale".to_owned(),
        });
        self.tell(&what, replaced);
    }

    /// What is read is what somebody remembers from then on.
    pub(super) async fn read(&mut self, number: u128) {
        let found = self.world.repository().get_by_id(id(number)).await;
        if let Ok(Some(row)) = &found {
            self.known.insert(number, row.clone());
        }
        self.tell(&format!("get {number}"), found.map(|row| row.as_ref().map(words)));
    }

    /// A write from what somebody remembers, by a caller or by a worker with the lease that it has or had.
    pub(super) async fn write(&mut self, number: u128) {
        let Some(known) = self.known.get(&number).cloned() else { return self.read(number).await };
        let (kind, change) = self.change(&known);
        let what = format!("{kind:?} of {number} at {}", known.version());
        let change = match change {
            Ok(Some(change)) => change,
            Ok(None) => return self.tell(&what, Ok("nothing to do")),
            Err(error) => return self.tell::<()>(&what, Err(error.into())),
        };
        let epoch = self.leases.get(&number).map(|lease| lease.epoch);
        let by = attribution();
        let write = match epoch.filter(|_| self.random.random_range(0..4) > 0) {
            Some(epoch) => Write::by_worker(&change, epoch, &by),
            None => Write::by_caller(&change, &by),
        };
        let repository = self.world.repository();
        let written = repository.write(kind, &write).await;
        if matches!(written, Ok(Written::Committed)) && self.random.random_range(0..4) > 0 {
            self.known.insert(number, change.into_resource());
        }
        self.tell(&what, written);
    }

    fn change(
        &mut self,
        known: &ProvisionedResource,
    ) -> (WriteKind, Result<Option<Change>, broker_domain::Error>) {
        let (at, stamp) = (self.at(), self.stamp());
        match self.random.random_range(0..10) {
            0 => (WriteKind::DeletionIntent, Ok(known.request_deletion(stamp))),
            1 => {
                let token = id(2_000_000 + self.step);
                (WriteKind::Token, known.record_token(token, TokenOrdinal::FIRST, at).map(Some))
            }
            2 => (WriteKind::Closed, known.record_closed(at)),
            3 | 4 => {
                let seen = known.substrate().clone();
                let seen = seen.about_to_apply(cluster(1), composed("config"));
                let part = composed(&format!("part-{}", self.random.random_range(0..3)));
                let seen = if known.phase().is_teardown() {
                    let gone = seen.composed().iter().cloned().chain([composed("config")]);
                    seen.clone().without(&gone.collect())
                } else {
                    seen.observed([part], ReferencesDigest::new([1; 32]))
                };
                (WriteKind::Substrate, known.record_substrate(seen, at))
            }
            5 if !known.phase().is_teardown() => {
                let reason = FailureReason::from_message("out of quota");
                (WriteKind::Phase, known.fail(reason, stamp))
            }
            _ => {
                let phases = [
                    Phase::Pending,
                    Phase::Provisioning,
                    Phase::Ready,
                    Phase::Deprovisioning,
                    Phase::Deleted,
                ];
                let legal = phases.into_iter().filter(|to| known.phase().can_become(*to));
                let legal: Vec<_> = legal.filter(|to| *to != known.phase()).collect();
                let Some(count) = std::num::NonZeroUsize::new(legal.len()) else {
                    return (WriteKind::Phase, Ok(None));
                };
                let to = legal[self.random.random_range(0..count.get())];
                (WriteKind::Phase, known.advance(to, stamp))
            }
        }
    }
}
