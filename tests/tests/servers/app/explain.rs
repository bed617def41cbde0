//! Explanations and plans on real servers: the situations are made on the API server and in Postgres themselves.
//!
//! Two verdicts cannot be true here: a blueprint version or a cloud that a resource refers to cannot be removed
//! from tables with foreign keys.

mod broker;
mod cluster;
mod nodes;
mod planning;
mod references;
mod substrate;
mod teardown;

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

/// On real Crossplane with its provider stopped: the verdict names the composed object and its provider.
pub(crate) fn assert_names_provider(explained: &Explanation, kind: &str, provider: &str) {
    assert_eq!(explained.verdict, Verdict::ProviderSilent, "{explained}");
    let blocker = explained.blocker.as_ref().unwrap();
    assert_eq!(blocker.object.as_ref().unwrap().kind(), kind, "{explained}");
    assert_eq!(blocker.provider.as_deref(), Some(provider), "{explained}");
}
