//! Back-off for hints about a resource whose last pass failed.
//!
//! A hint may mean that an operator fixed the cause, so waiting for the schedule's back-off is too slow. The failed pass
//! may also have caused the hint: if it modified its shell, it triggered its own watch event. Without a back-off, such a
//! pass would loop. A hint does not show its cause.
//!
//! So the runner follows a hint before the schedule's back-off ends, but each failed pass after a hint doubles the wait
//! for the next one. After the first failure, the runner notices a fix within a second. In the worst case hints double
//! the number of passes. The runner keeps a hint that arrives during the wait, and follows it afterwards.

use std::collections::BTreeMap;

use broker_domain::ProvisionedResourceId;
use broker_ports::Backoff;
use tokio::time::Instant;

/// Resources whose last pass on this replica failed.
pub(super) struct HintBackoff {
    failed: BTreeMap<ProvisionedResourceId, FailedPass>,
    backoff: Backoff,
}

struct FailedPass {
    /// Failed passes in a row that followed a hint.
    in_a_row: u32,
    /// The runner follows no hint before this time.
    not_before: Instant,
    /// Whether a hint arrived during the wait.
    has_hint: bool,
}

/// Why a pass runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    Hint,
    /// The resource was due, or a sweep found it.
    Schedule,
}

impl HintBackoff {
    pub(super) const fn new(backoff: Backoff) -> Self {
        Self { failed: BTreeMap::new(), backoff }
    }

    pub(super) fn record_failure(&mut self, resource: ProvisionedResourceId, cause: Cause) {
        let before = self.failed.remove(&resource);
        let in_a_row = before.map_or(0, |before| before.in_a_row);
        let in_a_row = in_a_row.saturating_add(u32::from(cause == Cause::Hint));
        let wait = self.backoff.ceiling(in_a_row.saturating_add(1));
        let not_before = Instant::now() + wait;
        self.failed.insert(resource, FailedPass { in_a_row, not_before, has_hint: false });
    }

    pub(super) fn record_success(&mut self, resource: ProvisionedResourceId) {
        self.failed.remove(&resource);
    }

    /// Whether to follow a hint now. Otherwise the hint waits.
    pub(super) fn may_follow(&mut self, resource: ProvisionedResourceId) -> bool {
        match self.failed.get_mut(&resource) {
            Some(failed) if Instant::now() < failed.not_before => {
                failed.has_hint = true;
                false
            }
            Some(_) | None => true,
        }
    }

    pub(super) fn next_due(&self) -> Option<Instant> {
        self.failed.values().filter(|failed| failed.has_hint).map(|failed| failed.not_before).min()
    }

    pub(super) fn take_due(&mut self) -> Vec<ProvisionedResourceId> {
        let now = Instant::now();
        let due = self.failed.iter_mut().filter(|(_, it)| it.has_hint && it.not_before <= now);
        due.map(|(resource, failed)| {
            failed.has_hint = false;
            *resource
        })
        .collect()
    }

    /// Drops resources that no longer have an error: a pass of another replica may have succeeded.
    pub(super) fn retain_failed(&mut self, has_failed: impl Fn(ProvisionedResourceId) -> bool) {
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
        let mut hints = HintBackoff::new(Backoff::default());
        assert!(hints.may_follow(id(1)), "no pass failed");
        hints.record_failure(id(1), Cause::Schedule);
        assert!(!hints.may_follow(id(1)), "the pass may have caused the hint");
        assert!(hints.may_follow(id(2)), "another resource failed");
        assert_eq!(hints.take_due(), []);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(hints.take_due(), [id(1)], "the early hint was kept");
        assert_eq!(hints.next_due(), None);
        assert!(hints.may_follow(id(1)));
    }

    #[tokio::test(start_paused = true)]
    async fn each_failure_after_a_hint_lengthens_the_back_off() {
        let mut hints = HintBackoff::new(Backoff::default());
        hints.record_failure(id(1), Cause::Schedule);
        let started = Instant::now();
        for _ in 0..4 {
            assert!(!hints.may_follow(id(1)));
            tokio::time::sleep_until(hints.next_due().unwrap()).await;
            assert_eq!(hints.take_due(), [id(1)]);
            hints.record_failure(id(1), Cause::Hint);
        }
        assert_eq!(started.elapsed().as_secs(), 1 + 2 + 4 + 8);
        // After its wait, a hint is followed at once, whatever the number of failures.
        tokio::time::advance(Duration::from_secs(16)).await;
        assert!(hints.may_follow(id(1)));
        // A success here or on another replica resets the back-off.
        hints.record_success(id(1));
        hints.record_failure(id(2), Cause::Hint);
        hints.retain_failed(|_| false);
        assert!(hints.may_follow(id(1)) && hints.may_follow(id(2)));
    }

    #[tokio::test(start_paused = true)]
    async fn scheduled_attempts_do_not_lengthen_the_hint_back_off() {
        let mut hints = HintBackoff::new(Backoff::default());
        for _ in 0..20 {
            hints.record_failure(id(1), Cause::Schedule);
        }
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(hints.may_follow(id(1)));
    }
}
