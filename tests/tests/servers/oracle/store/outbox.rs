//! The outbox: relays claim, acknowledge, delay and set aside, people resume.

use broker_ports::{ClaimEvents, DeliveryFailure, EventsOf, Resume};
use broker_testkit::builders::{attribution, id, rows, worker};
use rand::RngExt;

use super::{LEASE, Player};

impl Player<'_> {
    pub(super) async fn claim_events(&mut self) {
        let limit = rows(self.random.random_range(1..4));
        let request = ClaimEvents::new(worker("relay"), limit, LEASE);
        let claimed = self.world.outbox().claim_events(&request).await;
        self.claims.extend(claimed.iter().flatten().map(|event| event.claim.clone()));
        let claimed = claimed.map(|events| {
            let words = events.iter().map(|it| {
                let payload = String::from_utf8_lossy(&it.payload).into_owned();
                (it.resource, it.sequence, it.event_type, it.attempts, it.occurred_at, payload)
            });
            words.collect::<Vec<_>>()
        });
        self.tell("claim events", claimed);
    }

    pub(super) async fn settle_event(&mut self) {
        if self.claims.is_empty() {
            return self.claim_events().await;
        }
        let claim = self.claims.remove(self.random.random_range(0..self.claims.len()));
        let outbox = self.world.outbox();
        match self.random.random_range(0..8) {
            0..4 => {
                let done = outbox.acknowledge_event(&claim).await;
                self.tell("acknowledge", done);
            }
            4 => {
                let done = outbox.delay_event(&claim, LEASE, DeliveryFailure::Rejected).await;
                self.tell("delay after a rejection", done);
            }
            5 => {
                let done = outbox.delay_event(&claim, LEASE, DeliveryFailure::Unavailable).await;
                self.tell("delay", done);
            }
            _ => {
                let done = outbox.set_aside_event(&claim, "nobody takes it").await;
                self.tell("set aside", done);
            }
        }
    }

    pub(super) async fn resume(&mut self, number: u128) {
        let how = if self.random.random() { Resume::Retry } else { Resume::Skip };
        let resumed = self.world.outbox().resume_events(id(number), how, &attribution()).await;
        self.tell(&format!("resume {number}, {how:?}"), resumed);
        let aside = self.world.outbox().set_aside_events(EventsOf::All, rows(10)).await;
        self.tell("set aside are", aside);
    }
}
