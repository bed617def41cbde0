//! The checks: every setting exhaustively, and each rule by the violation that becomes reachable
//! without it.

use broker_domain::MeshRole::{Node, Standalone};
use broker_domain::OnFailure::{Retain, Rollback};
use broker_tests::{K, is_nightly};
use stateright::{Checker, HasDiscoveries, Model};

use super::protocol::Setting;
use super::rule::Rule;
use super::world::RemainingFaults;

const NO_INTERFERENCE: RemainingFaults =
    RemainingFaults { deletions: 0, failures: 0, drifts: 0, pauses: 0, configs: 0, retries: 0 };
const ONE_DELETION: RemainingFaults = RemainingFaults { deletions: 1, ..NO_INTERFERENCE };

/// How many distinct states a run must visit, over all settings.
const NORMAL_STATES: usize = 100_000;
const NIGHTLY_STATES: usize = 1_000_000;

/// A rule, the setting in which it is disabled, and the violations of which at least one must be
/// found.
type RuleCase = (Rule, fn() -> Setting, &'static [&'static str]);

struct CheckResult {
    states: usize,
    /// The most passes from any state until everything was settled.
    longest: u8,
    /// The violations, each with its path.
    found: Vec<(&'static str, Vec<String>)>,
}

fn check(setting: Setting) -> CheckResult {
    check_until(setting, HasDiscoveries::AnyFailures, usize::MAX)
}

/// Stops after enough violations, or when every state within `steps` steps was visited.
fn check_until(setting: Setting, enough: HasDiscoveries, steps: usize) -> CheckResult {
    let checker = setting.check().checker().threads(2).target_max_depth(steps);
    let checker = checker.finish_when(enough).spawn_bfs().join();
    let found = checker.discoveries().into_iter();
    let found = found.map(|(name, path)| {
        (name, path.into_actions().iter().map(|event| format!("{event:?}")).collect())
    });
    let longest = checker.model().longest_path();
    CheckResult { states: checker.unique_state_count(), longest, found: found.collect() }
}

fn single_node() -> Setting {
    Setting::one(Node, Retain)
}

fn deleted_by_another() -> Setting {
    Setting { pending: 0, remaining_faults: ONE_DELETION, ..single_node() }
}

fn paused_by_another() -> Setting {
    Setting {
        pending: 0,
        remaining_faults: RemainingFaults { pauses: 1, ..NO_INTERFERENCE },
        ..single_node()
    }
}

fn without_config() -> Setting {
    let remaining_faults = RemainingFaults { configs: 1, ..NO_INTERFERENCE };
    Setting { remaining_faults, ..Setting::one(Standalone, Retain) }
}

fn retried() -> Setting {
    let remaining_faults = RemainingFaults { failures: 1, retries: 1, ..NO_INTERFERENCE };
    Setting { pending: 0, remaining_faults, ..single_node() }
}

fn lost_twice() -> Setting {
    let remaining_faults = RemainingFaults { deletions: 2, ..NO_INTERFERENCE };
    let standalone = Setting::one(Standalone, Retain);
    Setting { pending: 0, remaining_faults, allowance: Some(1), ..standalone }
}

/// The XR composes only a Secret, and an operator deletes the XR in the background or foreground.
fn composes_a_secret() -> Setting {
    let standalone = Setting::one(Standalone, Retain);
    Setting { remaining_faults: ONE_DELETION, composes_secret: true, ..standalone }
}

fn two_in_a_project() -> Setting {
    let resources = vec![(Standalone, Retain), (Standalone, Retain)];
    Setting { resources, pending: 0, ..single_node() }
}

/// The settings, each with its minimum number of states: with fewer, the model has lost a case.
fn settings() -> Vec<(&'static str, Setting, usize)> {
    let failing = RemainingFaults { failures: 1, ..NO_INTERFERENCE };
    let drifting = RemainingFaults { drifts: 1, ..NO_INTERFERENCE };
    let everything = RemainingFaults { deletions: 1, failures: 1, drifts: 1, ..NO_INTERFERENCE };
    let rolled_back = Setting { remaining_faults: failing, ..Setting::one(Node, Rollback) };
    let standalone = Setting { remaining_faults: ONE_DELETION, ..Setting::one(Standalone, Retain) };
    let drifting_standalone =
        Setting { pending: 0, remaining_faults: drifting, ..Setting::one(Standalone, Retain) };
    let mut all = vec![
        ("a node", single_node(), 25_000),
        ("a node, every request twice", Setting { twice: true, ..single_node() }, 26_000),
        ("a node that fails and is rolled back", rolled_back, 95_000),
        ("a node deleted by another party", deleted_by_another(), 140_000),
        ("a node paused by another party", paused_by_another(), 10_000),
        ("a standalone resource deleted by another party", standalone, 42_000),
        ("a standalone resource that drifts", drifting_standalone, 3_000),
        ("a standalone resource that is lost twice", lost_twice(), 3_000),
        ("a node that fails and is retried", retried(), 10_000),
        ("a standalone resource whose ProviderConfig is deleted", without_config(), 3_000),
        ("a standalone resource that composes a Secret", composes_a_secret(), 3_000),
    ];
    if is_nightly() {
        let deleted_late = Setting { pending: 1, ..deleted_by_another() };
        let all_at_once =
            Setting { remaining_faults: everything, ..Setting::one(Standalone, Rollback) };
        all.extend([
            ("a node that drifts", Setting { remaining_faults: drifting, ..single_node() }, 92_000),
            ("a node deleted by another party, with late requests", deleted_late, 800_000),
            ("a standalone resource, all faults at once", all_at_once, 680_000),
        ]);
    }
    all
}

#[test]
fn every_order_of_events_keeps_every_promise() {
    let (mut states, mut too_few) = (0, Vec::new());
    for (why, setting, minimum) in settings() {
        let checked = check(setting);
        assert!(checked.found.is_empty(), "{why}: {}", describe(&checked.found));
        println!("{why}: {} states, settled after {} passes", checked.states, checked.longest);
        assert!((3..=K).contains(&checked.longest), "{why}: {} passes", checked.longest);
        if checked.states < minimum {
            too_few.push(format!("{why}: {} states, not {minimum}", checked.states));
        }
        states += checked.states;
    }
    assert!(too_few.is_empty(), "{}", too_few.join("\n"));
    let minimum = if is_nightly() { NIGHTLY_STATES } else { NORMAL_STATES };
    println!("proof: {states} distinct states of one resource in all settings");
    assert!(states >= minimum, "{states} states in all, not {minimum}");
}

/// Two resources with two workers and one namespace, which opens and closes. The normal run is
/// bounded in steps, the nightly run is exhaustive. The objects have different names, so the
/// resources share nothing else.
#[test]
fn two_resources_in_one_namespace_keep_every_promise() {
    let (steps, minimum) = if is_nightly() { (usize::MAX, 3_200_000) } else { (18, 20_000) };
    let setting = Setting { gate_moves: true, ..two_in_a_project() };
    let checked = check_until(setting, HasDiscoveries::AnyFailures, steps);
    assert!(checked.found.is_empty(), "{}", describe(&checked.found));
    println!("proof: {} of two resources", checked.states);
    assert!(checked.states >= minimum, "{} states, not {minimum}", checked.states);
}

/// A Node and a standalone resource, each with a request in flight. Both runs are bounded in steps.
#[test]
fn node_and_standalone_in_one_namespace_keep_every_promise() {
    let (steps, minimum) = if is_nightly() { (23, 1_000_000) } else { (16, 80_000) };
    let resources = vec![(Node, Retain), (Standalone, Retain)];
    let setting = Setting { resources, gate_moves: true, ..single_node() };
    let checked = check_until(setting, HasDiscoveries::AnyFailures, steps);
    assert!(checked.found.is_empty(), "{}", describe(&checked.found));
    println!("proof: {} of a node and a standalone resource", checked.states);
    assert!(checked.states >= minimum, "{} states, not {minimum}", checked.states);
}

/// The test above checks the same settings with all rules, so each violation is reachable only
/// without its rule.
#[test]
fn every_disabled_rule_has_a_counterexample() {
    let twice = || Setting { twice: true, ..single_node() };
    let rows: [RuleCase; 19] = [
        (Rule::Shell, single_node, &["no XR is armed with a dead token"]),
        (Rule::Shell, single_node, &["S9 no change after Deleted"]),
        (Rule::Touch, single_node, &["no XR is armed with a dead token"]),
        (Rule::IssuerEpoch, single_node, &["no XR is armed with a dead token"]),
        (Rule::IssuerClosed, single_node, &["S4 no token after close"]),
        (Rule::IssueChecked, twice, &["no XR is armed with a dead token"]),
        (Rule::VersionGuard, single_node, &["S1 legal edges only, terminal phases stay"]),
        (Rule::LeaseGuard, single_node, &["S16 no write without a lease"]),
        (Rule::Consumed, deleted_by_another, &["S11 Ready is about the existing machine"]),
        (Rule::ShellByToken, paused_by_another, &["S8 no healthy Node is deregistered"]),
        (
            Rule::CloseFirst,
            single_node,
            &["S4 no token after close", "S5 no live Node under deleted substrate"],
        ),
        (Rule::ConfigLast, deleted_by_another, &["the ProviderConfig is deleted last"]),
        (
            Rule::LabelList,
            deleted_by_another,
            &["the ProviderConfig is deleted last", "S7 no object is left when Deleted is written"],
        ),
        (Rule::DirectRead, single_node, &["S7 no object is left when Deleted is written"]),
        (Rule::ActWithinLease, single_node, &["S7 no object is left when Deleted is written"]),
        (Rule::ConfigRestored, without_config, &["L1, L2 everything is settled after K passes"]),
        (Rule::OrphansFound, single_node, &["L1, L2 everything is settled after K passes"]),
        (
            Rule::ForegroundSeen,
            composes_a_secret,
            &["S7 no object is left when Deleted is written"],
        ),
        (Rule::Permit, lost_twice, &["S17 re-creation stays within the budget"]),
    ];
    for (rule, setting, expected) in rows {
        let setting = Setting { without: Some(rule), ..setting() };
        let enough = HasDiscoveries::AnyOf(expected.iter().copied().collect());
        let checked = check_until(setting, enough, usize::MAX);
        let found = checked.found.iter().any(|(name, _)| expected.contains(name));
        assert!(found, "without {rule:?}: {}", describe(&checked.found));
    }
    println!("proof: {} counterexamples of disabled rules", rows.len());
}

fn describe(found: &[(&str, Vec<String>)]) -> String {
    if found.is_empty() {
        return "no violation".to_owned();
    }
    let paths =
        found.iter().map(|(name, path)| format!("{name} is violated by\n  {}", path.join("\n  ")));
    paths.collect::<Vec<_>>().join("\n")
}
