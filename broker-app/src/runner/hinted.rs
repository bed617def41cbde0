//! Back-off for hints about a resource whose last pass failed.
//!
//! A hint may mean that an operator fixed the cause, so waiting for the schedule's back-off is too slow. It may also
//! be self-inflicted: a pass that touches its shell and then fails triggers its own watch event, and without back-off
//! it would loop. A hint does not tell which.
//!
//! So a hint is followed before the schedule's back-off ends, but each failed pass after a hint doubles the wait for
//! the next one. A fix is noticed within a second after the first failure. A flapping resource costs at most twice
//! the passes of the schedule alone. A hint that arrives early is kept and followed when its wait is over.

use std::collections::BTreeMap;

use broker_domain::ProvisionedResourceId;
use broker_ports::Backoff;
use tokio::time::Instant;

/// Resources whose last pass on this replica failed.
pub(super) struct Hinted {
    failed: BTreeMap<ProvisionedResourceId, Failed>,
    backoff: Backoff,
}

struct Failed {
    /// Failed passes in a row that followed a hint.
    in_a_row: u32,
    /// No hint is followed before this time.
    not_before: Instant,
    /// A hint is waiting.
    waiting: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    Hint,
    /// It was due, or a sweep found it.
    Schedule,
}

impl Hinted {
    pub(super) const fn new(backoff: Backoff) -> Self {
        Self { failed: BTreeMap::new(), backoff }
    }

    pub(super) fn failed(&mut self, resource: ProvisionedResourceId, cause: Cause) {
        let before = self.failed.remove(&resource);
        let in_a_row = before.map_or(0, |before| before.in_a_row);
        let in_a_row = in_a_row.saturating_add(u32::from(cause == Cause::Hint));
        let wait = self.backoff.ceiling(in_a_row.saturating_add(1));
        let not_before = Instant::now() + wait;
        self.failed.insert(resource, Failed { in_a_row, not_before, waiting: false });
    }

    pub(super) fn passed(&mut self, resource: ProvisionedResourceId) {
        self.failed.remove(&resource);
    }

    /// Whether to follow a hint now. Otherwise the hint waits.
    pub(super) fn may_follow(&mut self, resource: ProvisionedResourceId) -> bool {
        match self.failed.get_mut(&resource) {
            Some(failed) if Instant::now() < failed.not_before => {
                failed.waiting = true;
                false
            }
            Some(_) | None => true,
        }
    }

    pub(super) fn next(&self) -> Option<Instant> {
        self.failed.values().filter(|failed| failed.waiting).map(|failed| failed.not_before).min()
    }

    pub(super) fn take_due(&mut self) -> Vec<ProvisionedResourceId> {
        let now = Instant::now();
        let due = self.failed.iter_mut().filter(|(_, it)| it.waiting && it.not_before <= now);
        due.map(|(resource, failed)| {
            failed.waiting = false;
            *resource
        })
        .collect()
    }

    /// Forgets resources whose error is gone: a pass of another replica may have succeeded.
    pub(super) fn forget_unless(&mut self, has_failed: impl Fn(ProvisionedResourceId) -> bool) {
        self.failed.retain(|resource, _| has_failed(*resource));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use broker_testkit::builders::id;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn hint_is_followed_at_once_unless_the_last_pass_failed() {
        let mut hinted = Hinted::new(Backoff::default());
        assert!(hinted.may_follow(id(1)), "it did not fail");
        hinted.failed(id(1), Cause::Schedule);
        assert!(!hinted.may_follow(id(1)), "the pass may have caused the hint");
        assert!(hinted.may_follow(id(2)), "another resource failed");
        assert_eq!(hinted.take_due(), []);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(hinted.take_due(), [id(1)], "it was not lost");
        assert_eq!(hinted.next(), None);
        assert!(hinted.may_follow(id(1)));
    }

    #[tokio::test(start_paused = true)]
    async fn each_failure_after_a_hint_lengthens_the_back_off() {
        let mut hinted = Hinted::new(Backoff::default());
        hinted.failed(id(1), Cause::Schedule);
        let started = Instant::now();
        for _ in 0..4 {
            assert!(!hinted.may_follow(id(1)));
            tokio::time::sleep_until(hinted.next().unwrap()).await;
            assert_eq!(hinted.take_due(), [id(1)]);
            hinted.failed(id(1), Cause::Hint);
        }
        assert_eq!(started.elapsed().as_secs(), 1 + 2 + 4 + 8);
        // After its wait, a hint is followed at once, whatever the number of failures.
        tokio::time::advance(Duration::from_secs(16)).await;
        assert!(hinted.may_follow(id(1)));
        // A success here or on another replica resets the back-off.
        hinted.passed(id(1));
        hinted.failed(id(2), Cause::Hint);
        hinted.forget_unless(|_| false);
        assert!(hinted.may_follow(id(1)) && hinted.may_follow(id(2)));
    }

    #[tokio::test(start_paused = true)]
    async fn scheduled_attempts_do_not_lengthen_the_hint_back_off() {
        let mut hinted = Hinted::new(Backoff::default());
        for _ in 0..20 {
            hinted.failed(id(1), Cause::Schedule);
        }
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(hinted.may_follow(id(1)));
    }
}
