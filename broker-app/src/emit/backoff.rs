//! Back-off after a failed delivery, per event and for the whole relay.

use std::collections::BTreeSet;
use std::time::Duration;

use broker_domain::ProvisionedResourceId;

// The waits below are no settings: a receiver that wants other ones answers with `Retry-After`.

/// Wait after the first failure; each further failure doubles it.
const FIRST_WAIT: Duration = Duration::from_secs(1);

/// Longest wait that the relay chooses. After an outage, it retries within twice this time.
const LONGEST_WAIT: Duration = Duration::from_mins(1);

/// Longest `Retry-After` that the relay obeys.
const LONGEST_ASKED_FOR: Duration = Duration::from_mins(5);

/// Failures of this many resources without a success in between are an outage. Fewer may be events that the receiver
/// cannot process.
const OUTAGE: usize = 3;

/// The wait after a failed delivery.
///
/// The exponent is the number of the event's claim. The store keeps it, so every replica continues the back-off.
pub(super) fn event_wait(claim: u64, asked_for: Option<Duration>) -> Duration {
    wait(claim.saturating_sub(1), asked_for)
}

fn wait(failures_before: u64, asked_for: Option<Duration>) -> Duration {
    let doublings = u32::try_from(failures_before).unwrap_or(u32::MAX);
    let factor = 2_u32.checked_pow(doublings).unwrap_or(u32::MAX);
    let own = FIRST_WAIT.saturating_mul(factor).min(LONGEST_WAIT);
    own.max(asked_for.unwrap_or_default().min(LONGEST_ASKED_FOR))
}

/// Detects an outage of the receiver.
///
/// An outage starts with failures of several resources and ends with any answer about an event. During an outage the
/// relay sends one event at a time as a probe.
#[derive(Debug, Default)]
pub(super) struct ReceiverOutage {
    failing: BTreeSet<ProvisionedResourceId>,
    asked_for: Option<Duration>,
    probes: u64,
}

impl ReceiverOutage {
    /// Records a failure that the event did not cause.
    pub(super) fn failed(&mut self, resource: ProvisionedResourceId, asked_for: Option<Duration>) {
        self.asked_for = asked_for;
        // Keeps the set bounded: an outage needs no further names.
        if !self.is_on() {
            self.failing.insert(resource);
        }
    }

    /// The receiver accepted or rejected an event.
    pub(super) fn answered(&mut self) {
        *self = Self::default();
    }

    /// Records that events are sent. During an outage they are a probe; returns how long to wait for its outcome.
    pub(super) fn probed(&mut self) -> Option<Duration> {
        self.is_on().then(|| {
            self.probes = self.probes.saturating_add(1);
            wait(self.probes, self.asked_for)
        })
    }

    pub(super) fn is_on(&self) -> bool {
        self.failing.len() >= OUTAGE
    }

    /// The wait of the whole relay during an outage.
    pub(super) fn wait(&self) -> Option<Duration> {
        self.is_on().then(|| wait(self.probes, self.asked_for))
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
        for (claim, asked_for, expected) in rows {
            let waited = event_wait(claim, Some(seconds(asked_for)));
            assert_eq!(waited, seconds(expected), "claim {claim}, asked for {asked_for}");
        }
    }

    #[test]
    fn outage_starts_at_the_third_resource_and_ends_on_an_answer() {
        let mut outage = ReceiverOutage::default();
        for resource in [1, 1, 1, 2, 2] {
            outage.failed(id(resource), None);
            assert_eq!(outage.wait(), None, "resource {resource}");
        }
        outage.failed(id(3), None);
        assert_eq!(outage.wait(), Some(seconds(1)));
        assert_eq!(outage.probed(), Some(seconds(2)));
        outage.failed(id(4), Some(seconds(9_999)));
        assert_eq!(outage.wait(), Some(LONGEST_ASKED_FOR));
        outage.probed();
        outage.failed(id(5), None);
        assert_eq!(outage.wait(), Some(seconds(4)));
        outage.answered();
        assert_eq!((outage.wait(), outage.probed()), (None, None));
    }
}
