//! Explanations and plans on real servers: what the API server itself refuses or does not have, and what asking costs.
//! All other verdicts are told in memory.

mod cluster;
mod planning;

use broker_app::explain::{Explanation, Party, Verdict};

/// A verdict, who has to act, and the kind of the next action.
fn assert_told(explained: &Explanation, verdict: Verdict, party: Party, action: &str) {
    let found = (explained.verdict, explained.party, explained.action.kind());
    assert_eq!(found, (verdict, party, action), "{explained}");
}

/// Nothing stands in its way any more.
fn assert_goes_on(explained: &Explanation) {
    assert!(!explained.verdict.is_blocked(), "{explained}");
}
