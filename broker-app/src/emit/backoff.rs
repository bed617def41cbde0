//! Back-off after a failed delivery, per event and for the whole relay.

use std::collections::BTreeSet;
use std::time::Duration;

use broker_domain::ProvisionedResourceId;

// These waits are not settings: a receiver sets longer ones by `Retry-After`.

/// Wait after the first failure; each further failure doubles it.
const FIRST_WAIT: Duration = Duration::from_secs(1);

/// Longest wait that the relay chooses. After an outage, it retries within twice this time.
const LONGEST_WAIT: Duration = Duration::from_mins(1);

/// Longest `Retry-After` that the relay obeys.
const LONGEST_RETRY_AFTER: Duration = Duration::from_mins(5);

/// Failed deliveries of this many resources without a success in between are an outage. Fewer may be events that the
/// receiver cannot process.
const OUTAGE_THRESHOLD: usize = 3;

/// The wait after a failed delivery.
///
/// The exponent is the number of the event's claims, which the store counts. So every replica continues the back-off.
pub(super) fn event_wait(claim: u64, retry_after: Option<Duration>) -> Duration {
    wait(claim.saturating_sub(1), retry_after)
}

fn wait(failures_before: u64, retry_after: Option<Duration>) -> Duration {
    let doublings = u32::try_from(failures_before).unwrap_or(u32::MAX);
    let factor = 2_u32.checked_pow(doublings).unwrap_or(u32::MAX);
    let own = FIRST_WAIT.saturating_mul(factor).min(LONGEST_WAIT);
    own.max(retry_after.unwrap_or_default().min(LONGEST_RETRY_AFTER))
}

/// Detects an outage of the receiver.
///
/// An outage starts with failures of several resources and ends when the receiver accepts or rejects an event. During an
/// outage the relay sends one event at a time as a probe.
#[derive(Debug, Default)]
pub(super) struct ReceiverOutage {
    failing: BTreeSet<ProvisionedResourceId>,
    retry_after: Option<Duration>,
    probes: u64,
}

impl ReceiverOutage {
    /// Records a failure that the event did not cause.
    pub(super) fn record_failure(
        &mut self,
        resource: ProvisionedResourceId,
        retry_after: Option<Duration>,
    ) {
        self.retry_after = retry_after;
        // Keeps the set bounded: an active outage needs no further resources.
        if !self.is_active() {
            self.failing.insert(resource);
        }
    }

    /// The receiver accepted or rejected an event.
    pub(super) fn receiver_answered(&mut self) {
        *self = Self::default();
    }

    /// Records that the relay sends an event. During an outage this is a probe; returns the wait for its outcome.
    pub(super) fn start_probe(&mut self) -> Option<Duration> {
        self.is_active().then(|| {
            self.probes = self.probes.saturating_add(1);
            wait(self.probes, self.retry_after)
        })
    }

    pub(super) fn is_active(&self) -> bool {
        self.failing.len() >= OUTAGE_THRESHOLD
    }

    /// The wait of the whole relay during an outage.
    pub(super) fn wait(&self) -> Option<Duration> {
        self.is_active().then(|| wait(self.probes, self.retry_after))
    }
}

#[cfg(test)]
mod tests {
    use broker_testkit::builders::id;

    use super::*;

    const fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    #[test]
    fn event_wait_doubles_up_to_a_minute() {
        let waits = [1, 2, 3, 6, 7, 8, u64::MAX].map(|claim| event_wait(claim, None).as_secs());
        assert_eq!(waits, [1, 2, 4, 32, 60, 60, 60]);
    }

    #[test]
    fn retry_after_lengthens_a_wait_up_to_five_minutes() {
        let rows = [(1, 0, 1), (1, 17, 17), (8, 17, 60), (1, 300, 300), (1, 86_400, 300)];
        for (claim, retry_after, expected) in rows {
            let waited = event_wait(claim, Some(seconds(retry_after)));
            assert_eq!(waited, seconds(expected), "claim {claim}, asked for {retry_after}");
        }
    }

    #[test]
    fn outage_starts_at_the_third_resource_and_ends_on_an_answer() {
        let mut outage = ReceiverOutage::default();
        for resource in [1, 1, 1, 2, 2] {
            outage.record_failure(id(resource), None);
            assert_eq!(outage.wait(), None, "resource {resource}");
        }
        outage.record_failure(id(3), None);
        assert_eq!(outage.wait(), Some(seconds(1)));
        assert_eq!(outage.start_probe(), Some(seconds(2)));
        outage.record_failure(id(4), Some(seconds(9_999)));
        assert_eq!(outage.wait(), Some(LONGEST_RETRY_AFTER));
        outage.start_probe();
        outage.record_failure(id(5), None);
        assert_eq!(outage.wait(), Some(seconds(4)));
        outage.receiver_answered();
        assert_eq!((outage.wait(), outage.start_probe()), (None, None));
    }
}
