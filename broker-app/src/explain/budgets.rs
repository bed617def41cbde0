//! Time budgets per phase. They only affect explanations: a phase follows from facts, never from time.

use std::time::Duration;

use broker_domain::Phase;
use time::OffsetDateTime;

/// Time limits after which an explanation reports a phase as too slow. Start from the default:
///
/// ```
/// use std::time::Duration;
///
/// use broker_app::explain::Budgets;
///
/// let mut budgets = Budgets::default();
/// budgets.provisioning = Duration::from_mins(45);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Budgets {
    /// From the declaration to the composite resource. Default: 5 min.
    pub pending: Duration,
    /// Until Crossplane reports the substrate ready. Default: 30 min.
    pub provisioning: Duration,
    /// Until the agent enrols: the time to live of a token. Default: 1 h.
    pub enrolling: Duration,
    /// Until the Node has left the mesh. Default: 10 min.
    pub deregistering: Duration,
    /// Until every object is proven absent. Default: 30 min.
    pub deprovisioning: Duration,
    /// Until a provider reports anything about an object that it should create. Default: 2 min.
    pub provider_silence: Duration,
}

impl Default for Budgets {
    fn default() -> Self {
        Self {
            pending: Duration::from_mins(5),
            provisioning: Duration::from_mins(30),
            enrolling: Duration::from_hours(1),
            deregistering: Duration::from_mins(10),
            deprovisioning: Duration::from_mins(30),
            provider_silence: Duration::from_mins(2),
        }
    }
}

impl Budgets {
    /// The defaults, except for the time to live of tokens.
    #[must_use]
    pub fn with_token_ttl(ttl: Duration) -> Self {
        Self { enrolling: ttl, ..Self::default() }
    }

    /// Each budget with its name in the configuration.
    pub(crate) const fn fields(&self) -> [(&'static str, Duration); 6] {
        [
            ("budgets.pending", self.pending),
            ("budgets.provisioning", self.provisioning),
            ("budgets.enrolling", self.enrolling),
            ("budgets.deregistering", self.deregistering),
            ("budgets.deprovisioning", self.deprovisioning),
            ("budgets.provider_silence", self.provider_silence),
        ]
    }

    /// The budget of a phase; `None` for a phase that a resource may stay in.
    pub const fn of(&self, phase: Phase) -> Option<Duration> {
        match phase {
            Phase::Pending => Some(self.pending),
            Phase::Provisioning => Some(self.provisioning),
            Phase::Enrolling => Some(self.enrolling),
            Phase::Deregistering => Some(self.deregistering),
            Phase::Deprovisioning => Some(self.deprovisioning),
            Phase::Ready | Phase::Failed | Phase::Deleted => None,
        }
    }
}

/// The used part of a phase's budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct BudgetUse {
    /// The phase.
    pub phase: Phase,
    /// When the resource entered the phase.
    pub since: OffsetDateTime,
    /// Time spent in the phase.
    pub used: Duration,
    /// The limit; `None` if there is none.
    pub allowed: Option<Duration>,
}

impl BudgetUse {
    pub(crate) fn of(
        budgets: &Budgets,
        phase: Phase,
        since: OffsetDateTime,
        now: OffsetDateTime,
    ) -> Self {
        // With clock skew, a local clock behind the writer's gives zero.
        let used = Duration::try_from(now - since).unwrap_or_default();
        Self { phase, since, used, allowed: budgets.of(phase) }
    }

    /// Whether the resource has been in the phase for longer than its budget.
    pub fn is_over(&self) -> bool {
        self.allowed.is_some_and(|allowed| self.used > allowed)
    }
}

/// A duration in its two largest non-zero units.
pub(super) fn human_duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (days, hours) = (seconds / 86_400, seconds / 3_600 % 24);
    let (minutes, rest) = (seconds / 60 % 60, seconds % 60);
    let parts = [(days, "d"), (hours, "h"), (minutes, "m"), (rest, "s")];
    let mut words: Vec<_> = parts
        .iter()
        .skip_while(|(count, _)| *count == 0)
        .take(2)
        .filter(|(count, _)| *count > 0)
        .map(|(count, unit)| format!("{count}{unit}"))
        .collect();
    if words.is_empty() {
        words.push("0s".to_owned());
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duration_is_shown_in_two_units() {
        let rows = [
            (0, "0s"),
            (59, "59s"),
            (61, "1m 1s"),
            (3_600, "1h"),
            (3_661, "1h 1m"),
            (90_000, "1d 1h"),
        ];
        for (seconds, expected) in rows {
            assert_eq!(human_duration(Duration::from_secs(seconds)), expected);
        }
    }

    #[test]
    fn only_transient_phases_have_budgets_and_skew_uses_none() {
        let budgets = Budgets::with_token_ttl(Duration::from_mins(7));
        assert_eq!(budgets.of(Phase::Enrolling), Some(Duration::from_mins(7)));
        assert_eq!(budgets.of(Phase::Ready), None);
        let since = OffsetDateTime::UNIX_EPOCH;
        let behind = BudgetUse::of(&budgets, Phase::Pending, since, since - Duration::from_secs(9));
        assert_eq!((behind.used, behind.is_over()), (Duration::ZERO, false));
        let late = BudgetUse::of(&budgets, Phase::Pending, since, since + Duration::from_mins(6));
        assert!(late.is_over());
    }
}
