//! The values that flags accept. Each error names the allowed values.

use std::ops::RangeInclusive;
use std::time::Duration;

use broker_app::BrokerConfig;
use broker_domain::{OnFailure, Phase};
use broker_ports::Watermark;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tracing_subscriber::EnvFilter;

use crate::demo::Pace;

const RESOURCES: RangeInclusive<u16> = 1..=200;

/// A faster demo is unreadable; a slower one takes minutes longer.
const SPEEDS: RangeInclusive<f64> = 0.1..=100.0;

/// Faster polling overloads the store; slower polling reports changes too late.
const INTERVALS: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_mins(10);

/// One week.
const MAX_WAIT: Duration = Duration::from_hours(7 * 24);

pub(super) fn seed(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| format!("use a whole number from 0 to {}", u32::MAX))
}

pub(super) fn resources(text: &str) -> Result<u16, String> {
    let (min, max) = (RESOURCES.start(), RESOURCES.end());
    let number = text.parse().ok().filter(|number| RESOURCES.contains(number));
    number.ok_or_else(|| format!("use a whole number from {min} to {max}"))
}

pub(super) fn pace(text: &str) -> Result<Pace, String> {
    if text == "max" {
        return Ok(Pace::Max);
    }
    let (min, max) = (SPEEDS.start(), SPEEDS.end());
    let factor = text.parse().ok().filter(|factor| SPEEDS.contains(factor));
    factor.map(Pace::Times).ok_or_else(|| format!("use a number from {min} to {max}, or max"))
}

pub(super) fn id<T: TryFrom<uuid::Uuid>>(text: &str) -> Result<T, String> {
    let id = uuid::Uuid::try_parse(text).ok().and_then(|id| T::try_from(id).ok());
    id.ok_or_else(|| {
        "use a UUID that is not nil, such as 0198a8e2-5d9f-7c31-8a4e-0f6d2b9c1e57".to_owned()
    })
}

pub(super) fn phase(text: &str) -> Result<Phase, String> {
    let named = Phase::ALL.into_iter().find(|phase| phase.as_str().eq_ignore_ascii_case(text));
    named.ok_or_else(|| format!("use one of {}", Phase::ALL.map(Phase::as_str).join(", ")))
}

/// The phases that `--for` accepts, in their order.
const CONVERGE_PHASES: [Phase; 4] =
    [Phase::Pending, Phase::Provisioning, Phase::Enrolling, Phase::Ready];

pub(super) fn converge_phase(text: &str) -> Result<Phase, String> {
    let named = CONVERGE_PHASES.into_iter().find(|phase| phase.as_str().eq_ignore_ascii_case(text));
    named.ok_or_else(|| format!("use one of {}", CONVERGE_PHASES.map(Phase::as_str).join(", ")))
}

pub(super) fn on_failure(text: &str) -> Result<OnFailure, String> {
    OnFailure::try_from(text).map_err(|_| "use retain or rollback".to_owned())
}

pub(super) fn watermark(text: &str) -> Result<Watermark, String> {
    let watermark = OffsetDateTime::parse(text, &Rfc3339).map(Watermark::new);
    watermark.map_err(|_| "use an RFC 3339 time, such as 2026-09-21T13:33:20Z".to_owned())
}

pub(super) fn timeout(text: &str) -> Result<Duration, String> {
    let duration = humantime::parse_duration(text).ok();
    let duration = duration.filter(|duration| !duration.is_zero() && *duration <= MAX_WAIT);
    duration
        .ok_or_else(|| "use a duration of more than zero and up to 7days, such as 30m".to_owned())
}

pub(super) fn interval(text: &str) -> Result<Duration, String> {
    let duration =
        humantime::parse_duration(text).ok().filter(|duration| INTERVALS.contains(duration));
    duration.ok_or_else(|| "use a duration from 100ms to 10m, such as 2s".to_owned())
}

pub(super) fn retention(text: &str) -> Result<Duration, String> {
    let duration = humantime::parse_duration(text)
        .ok()
        .filter(|duration| *duration >= BrokerConfig::MIN_RETENTION);
    duration.ok_or_else(|| "use a duration of 1h or more, such as 90days".to_owned())
}

pub(super) fn migration(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| "use the number of a migration, or 0".to_owned())
}

pub(super) fn log_filter(text: &str) -> Result<String, String> {
    let valid = EnvFilter::builder().parse(text).is_ok();
    let allowed =
        "use a level (error, warn, info, debug, trace) or TARGET=LEVEL, separated by commas";
    if valid { Ok(text.to_owned()) } else { Err(allowed.to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speed_is_a_number_within_bounds_or_max() {
        assert_eq!(pace("max"), Ok(Pace::Max));
        assert_eq!(pace("0.1"), Ok(Pace::Times(0.1)));
        assert_eq!(pace("100"), Ok(Pace::Times(100.0)));
        for invalid in ["0", "0.09", "100.1", "-1", "inf", "NaN", "", "fast", "Max"] {
            assert_eq!(
                pace(invalid).unwrap_err(),
                "use a number from 0.1 to 100, or max",
                "{invalid}"
            );
        }
    }

    #[test]
    fn phase_is_accepted_in_lower_case() {
        assert_eq!(phase("ready"), Ok(Phase::Ready));
        assert_eq!(phase("Deregistering"), Ok(Phase::Deregistering));
    }
}
