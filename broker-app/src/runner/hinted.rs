//! When a hint about a resource whose last pass failed is followed.
//!
//! Something changed on the cluster: perhaps somebody mended what the pass failed for, and does not want to wait
//! until its back-off ends. Perhaps the pass did it itself: one that touches its shell and then fails hints at
//! itself, and would go round for ever. A hint does not say which. So hints are followed before the back-off ends,
//! but each failure of a pass that followed one makes the next wait longer, as the schedule's own back-off does.
//! Whoever mends something is noticed within a second; what flaps costs at most as much again as it would without
//! hints. A hint that comes too early is not lost: it is followed when its time has come.

use std::collections::BTreeMap;

use broker_domain::ProvisionedResourceId;
use broker_ports::Backoff;
use tokio::time::Instant;

/// Resources whose last pass here failed.
#[derive(Default)]
pub(super) struct Hinted {
    failed: BTreeMap<ProvisionedResourceId, Failed>,
    backoff: Backoff,
}

struct Failed {
    /// How many passes that followed a hint failed in a row.
    in_a_row: u32,
    /// No hint is followed before.
    not_before: Instant,
    /// One came, and waits.
    waits: bool,
}

/// Why a pass was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// A hint.
    Hint,
    /// It was due, or a sweep asked for it.
    Schedule,
}

impl Hinted {
    /// A pass failed.
    pub(super) fn failed(&mut self, resource: ProvisionedResourceId, cause: Cause) {
        let before = self.failed.remove(&resource);
        let in_a_row = before.map_or(0, |before| before.in_a_row);
        let in_a_row = in_a_row.saturating_add(u32::from(cause == Cause::Hint));
        let wait = self.backoff.ceiling(in_a_row.saturating_add(1));
        let not_before = Instant::now() + wait;
        self.failed.insert(resource, Failed { in_a_row, not_before, waits: false });
    }

    /// A pass went through.
    pub(super) fn passed(&mut self, resource: ProvisionedResourceId) {
        self.failed.remove(&resource);
    }

    /// Whether a hint is followed now. One that is not waits.
    pub(super) fn may_follow(&mut self, resource: ProvisionedResourceId) -> bool {
        match self.failed.get_mut(&resource) {
            Some(failed) if Instant::now() < failed.not_before => {
                failed.waits = true;
                false
            }
            Some(_) | None => true,
        }
    }

    /// When the first hint that waits has its time.
    pub(super) fn next(&self) -> Option<Instant> {
        self.failed.values().filter(|failed| failed.waits).map(|failed| failed.not_before).min()
    }

    /// The hints that waited long enough.
    pub(super) fn take_ripe(&mut self) -> Vec<ProvisionedResourceId> {
        let now = Instant::now();
        let ripe = self.failed.iter_mut().filter(|(_, it)| it.waits && it.not_before <= now);
        ripe.map(|(resource, failed)| {
            failed.waits = false;
            *resource
        })
        .collect()
    }

    /// Forgets those that are in no trouble any more: another replica may have mended them.
    pub(super) fn forget_unless(&mut self, in_trouble: impl Fn(ProvisionedResourceId) -> bool) {
        self.failed.retain(|resource, _| in_trouble(*resource));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use broker_testkit::builders::id;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_hint_is_followed_at_once_unless_something_failed_just_now() {
        let mut hinted = Hinted::default();
        assert!(hinted.may_follow(id(1)), "it did not fail");
        hinted.failed(id(1), Cause::Schedule);
        assert!(!hinted.may_follow(id(1)), "this may be its own doing");
        assert!(hinted.may_follow(id(2)), "another's failure is none of its business");
        assert_eq!(hinted.take_ripe(), []);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(hinted.take_ripe(), [id(1)], "it was not lost");
        assert_eq!(hinted.next(), None);
        assert!(hinted.may_follow(id(1)));
    }

    #[tokio::test(start_paused = true)]
    async fn each_failure_after_a_hint_makes_the_next_one_wait_longer() {
        let mut hinted = Hinted::default();
        hinted.failed(id(1), Cause::Schedule);
        let started = Instant::now();
        for _ in 0..4 {
            assert!(!hinted.may_follow(id(1)));
            tokio::time::sleep_until(hinted.next().unwrap()).await;
            assert_eq!(hinted.take_ripe(), [id(1)]);
            hinted.failed(id(1), Cause::Hint);
        }
        assert_eq!(started.elapsed().as_secs(), 1 + 2 + 4 + 8);
        // Whoever waited long enough is followed at once, however often it failed.
        tokio::time::advance(Duration::from_secs(16)).await;
        assert!(hinted.may_follow(id(1)));
        // A success, or that somebody else mended it, begins anew.
        hinted.passed(id(1));
        hinted.failed(id(2), Cause::Hint);
        hinted.forget_unless(|_| false);
        assert!(hinted.may_follow(id(1)) && hinted.may_follow(id(2)));
    }

    #[tokio::test(start_paused = true)]
    async fn attempts_by_schedule_do_not_make_a_hint_wait_longer() {
        let mut hinted = Hinted::default();
        for _ in 0..20 {
            hinted.failed(id(1), Cause::Schedule);
        }
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(hinted.may_follow(id(1)));
    }
}
