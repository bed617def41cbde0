//! The schedule: workers claim and give back, people pause and brake.

use std::time::Duration;

use broker_ports::{
    Brake, BrakeRelease, ClaimRequest, ClaimTarget, Due, Lease, Loss, Lost, PassOutcome,
};
use broker_testkit::builders::{attribution, cluster, id, second, worker, xr_uid};
use rand::RngExt;

use super::{LEASE, LEFT_ALONE, Player};

impl Player<'_> {
    pub(super) async fn claim(&mut self, target: ClaimTarget) {
        let name = worker(if self.random.random() { "one" } else { "other" });
        let claimed = self.world.schedule().claim(&ClaimRequest::new(name, target, LEASE)).await;
        for lease in claimed.iter().flatten() {
            self.leases.insert(lease.resource.as_uuid().as_u128(), lease.clone());
        }
        let claimed = claimed.map(|leases| {
            let words = |it: &Lease| (it.resource, it.epoch, it.attempts, it.takeover);
            leases.iter().map(words).collect::<Vec<_>>()
        });
        self.tell(&format!("claim {target:?}"), claimed);
    }

    pub(super) async fn release(&mut self, number: u128) {
        let (Some(lease), Some(known)) = (self.leases.get(&number), self.known.get(&number)) else {
            return self.place(number).await;
        };
        let outcome = match self.random.random_range(0..4) {
            0 => PassOutcome::Succeeded { due_in: None },
            1 => PassOutcome::Succeeded { due_in: Some(LEASE) },
            2 => PassOutcome::Succeeded { due_in: Some(Duration::ZERO) },
            _ => PassOutcome::Failed {
                reason: "cluster_transient".to_owned(),
                message: "the API server is away".to_owned(),
                retry_after: Some(LEFT_ALONE),
            },
        };
        let released = self.world.schedule().release(lease, known.version(), &outcome).await;
        self.tell(&format!("release {number}, {outcome:?}"), released);
    }

    pub(super) async fn steer(&mut self, number: u128) {
        let (schedule, by) = (self.world.schedule(), attribution());
        match self.random.random_range(0..4) {
            0 => {
                let there = schedule.schedule(id(number), Due::Now).await;
                self.tell(&format!("schedule {number} now"), there);
            }
            1 => {
                let there = schedule.schedule(id(number), Due::After(LEASE)).await;
                self.tell(&format!("schedule {number} later"), there);
            }
            2 => {
                let paused = self.random.random();
                let there = schedule.set_paused(id(number), paused, &by).await;
                self.tell(&format!("pause {number}: {paused}"), there);
            }
            _ => {
                let brake = Brake::new(9, 10, second(7));
                if self.random.random() {
                    let set = schedule.set_brake(&cluster(1), &brake, &by).await;
                    self.tell("set the brake", set);
                } else {
                    let accepted = Loss { resource: id(number), lost: Lost::Xr(xr_uid(number)) };
                    let release = BrakeRelease::new(cluster(1), None, vec![accepted], by);
                    let released = schedule.release_brake(&release).await;
                    self.tell("release the brake", released);
                }
                let now = schedule.brakes(&cluster(1)).await;
                self.tell("the brakes", now);
                let accepted = schedule.accepted_losses(&cluster(1)).await;
                self.tell("accepted losses", accepted);
            }
        }
    }

    /// Of times only whether they have come.
    pub(super) async fn place(&mut self, number: u128) {
        let entry = self.world.schedule().entry(id(number)).await;
        let entry = entry.map(|entry| {
            entry.map(|it| {
                let due = it.due_at.map(|due| due <= it.now);
                let lease = it.lease.map(|(worker, until)| (worker, until > it.now));
                (due, it.attempts, it.last_error, it.paused, it.epoch, lease)
            })
        });
        self.tell(&format!("the place of {number}"), entry);
    }
}
