//! What is checked: every setting in full, and each rule by the history that comes back without it.

use broker_domain::MeshRole::{Node, Standalone};
use broker_domain::OnFailure::{Retain, Rollback};
use broker_tests::{K, is_nightly};
use stateright::{Checker, HasDiscoveries, Model};

use super::protocol::Setting;
use super::rule::Rule;
use super::world::Left;

const NOBODY_MEDDLES: Left =
    Left { deletions: 0, failures: 0, drifts: 0, pauses: 0, configs: 0, retries: 0 };
const SOMEBODY_DELETES: Left = Left { deletions: 1, ..NOBODY_MEDDLES };

/// How many distinct states a run has to go through, in all settings together.
const NORMAL: usize = 100_000;
const NIGHTLY: usize = 1_000_000;

/// A rule, where it is switched off, and what is found then: one of these at least.
type History = (Rule, fn() -> Setting, &'static [&'static str]);

/// What a check came to.
struct Checked {
    states: usize,
    /// The most passes that it took from any state until everything was settled.
    longest: u8,
    /// What was found, each with the way there.
    found: Vec<(&'static str, Vec<String>)>,
}

fn check(setting: Setting) -> Checked {
    check_until(setting, HasDiscoveries::AnyFailures, usize::MAX)
}

/// Ends when enough was found, or when every state within so many steps was visited.
fn check_until(setting: Setting, enough: HasDiscoveries, steps: usize) -> Checked {
    let checker = setting.check().checker().threads(2).target_max_depth(steps);
    let checker = checker.finish_when(enough).spawn_bfs().join();
    let found = checker.discoveries().into_iter();
    let found = found.map(|(name, way)| {
        (name, way.into_actions().iter().map(|event| format!("{event:?}")).collect())
    });
    let longest = checker.model().longest_way();
    Checked { states: checker.unique_state_count(), longest, found: found.collect() }
}

fn a_node() -> Setting {
    Setting::one(Node, Retain)
}

fn deleted_by_somebody() -> Setting {
    Setting { adrift: 0, left: SOMEBODY_DELETES, ..a_node() }
}

fn paused_by_somebody() -> Setting {
    Setting { adrift: 0, left: Left { pauses: 1, ..NOBODY_MEDDLES }, ..a_node() }
}

/// The ProviderConfig is deleted once, at any time.
fn without_config() -> Setting {
    let left = Left { configs: 1, ..NOBODY_MEDDLES };
    Setting { left, ..Setting::one(Standalone, Retain) }
}

/// It fails, and its failure is retried.
fn retried() -> Setting {
    let left = Left { failures: 1, retries: 1, ..NOBODY_MEDDLES };
    Setting { adrift: 0, left, ..a_node() }
}

/// Lost twice, with one permit.
fn lost_twice() -> Setting {
    let left = Left { deletions: 2, ..NOBODY_MEDDLES };
    let alone = Setting::one(Standalone, Retain);
    Setting { adrift: 0, left, allowance: Some(1), ..alone }
}

/// It composes a Secret alone, and an operator deletes the composite resource, in the background or not.
fn composes_a_secret() -> Setting {
    let alone = Setting::one(Standalone, Retain);
    Setting { left: SOMEBODY_DELETES, composes_secret: true, ..alone }
}

fn two_in_a_project() -> Setting {
    let resources = vec![(Standalone, Retain), (Standalone, Retain)];
    Setting { resources, adrift: 0, ..a_node() }
}

/// Each setting, and how many states it has at least: fewer means that something is not tried any more.
fn settings() -> Vec<(&'static str, Setting, usize)> {
    let failing = Left { failures: 1, ..NOBODY_MEDDLES };
    let drifting = Left { drifts: 1, ..NOBODY_MEDDLES };
    let everything = Left { deletions: 1, failures: 1, drifts: 1, ..NOBODY_MEDDLES };
    let rolled_back = Setting { left: failing, ..Setting::one(Node, Rollback) };
    let alone = Setting { left: SOMEBODY_DELETES, ..Setting::one(Standalone, Retain) };
    let drifting_alone = Setting { adrift: 0, left: drifting, ..Setting::one(Standalone, Retain) };
    let mut all = vec![
        ("a node", a_node(), 25_000),
        ("a node, everything twice", Setting { twice: true, ..a_node() }, 26_000),
        ("a node that fails and is rolled back", rolled_back, 95_000),
        ("a node that somebody deletes", deleted_by_somebody(), 140_000),
        ("a node that somebody pauses", paused_by_somebody(), 10_000),
        ("something without a node that somebody deletes", alone, 42_000),
        ("something without a node that drifts", drifting_alone, 3_000),
        ("something without a node that is lost twice", lost_twice(), 3_000),
        ("a node that fails and is retried", retried(), 10_000),
        ("something without a node whose ProviderConfig is deleted", without_config(), 3_000),
        ("something without a node that composes a Secret", composes_a_secret(), 3_000),
    ];
    if is_nightly() {
        let deleted_late = Setting { adrift: 1, ..deleted_by_somebody() };
        let all_at_once = Setting { left: everything, ..Setting::one(Standalone, Rollback) };
        all.extend([
            ("a node that drifts", Setting { left: drifting, ..a_node() }, 92_000),
            ("a node that somebody deletes, with late requests", deleted_late, 800_000),
            ("something without a node, everything at once", all_at_once, 680_000),
        ]);
    }
    all
}

#[test]
fn every_order_of_events_keeps_every_promise() {
    let (mut states, mut too_few) = (0, Vec::new());
    for (why, setting, least) in settings() {
        let checked = check(setting);
        assert!(checked.found.is_empty(), "{why}: {}", in_words(&checked.found));
        println!("{why}: {} states, home in {} passes", checked.states, checked.longest);
        assert!((3..=K).contains(&checked.longest), "{why}: {} passes", checked.longest);
        if checked.states < least {
            too_few.push(format!("{why}: {} states, not {least}", checked.states));
        }
        states += checked.states;
    }
    assert!(too_few.is_empty(), "{}", too_few.join("\n"));
    let least = if is_nightly() { NIGHTLY } else { NORMAL };
    println!("proof: {states} distinct states of one resource in all settings");
    assert!(states >= least, "{states} states in all, not {least}");
}

/// Two that share a namespace, which comes and goes, and two workers: everything within some steps; the nightly run goes
/// to the end. Their objects have names of their own, so that they share nothing else.
#[test]
fn two_in_a_project_share_its_namespace_and_the_workers() {
    let (steps, least) = if is_nightly() { (usize::MAX, 3_200_000) } else { (18, 20_000) };
    let setting = Setting { gate_moves: true, ..two_in_a_project() };
    let checked = check_until(setting, HasDiscoveries::AnyFailures, steps);
    assert!(checked.found.is_empty(), "{}", in_words(&checked.found));
    println!("proof: {} of two resources", checked.states);
    assert!(checked.states >= least, "{} states, not {least}", checked.states);
}

/// The same with a Node beside something without one, each with a request adrift: everything within some steps, further
/// by night.
#[test]
fn a_node_and_something_without_one_share_their_namespace_and_the_workers() {
    let (steps, least) = if is_nightly() { (23, 1_000_000) } else { (16, 80_000) };
    let resources = vec![(Node, Retain), (Standalone, Retain)];
    let setting = Setting { resources, gate_moves: true, ..a_node() };
    let checked = check_until(setting, HasDiscoveries::AnyFailures, steps);
    assert!(checked.found.is_empty(), "{}", in_words(&checked.found));
    println!("proof: {} of a node and something without one", checked.states);
    assert!(checked.states >= least, "{} states, not {least}", checked.states);
}

/// The settings themselves are checked with all rules by the test above, so each history is reachable without its
/// rule, and only then.
#[test]
fn every_rule_has_its_history() {
    let late = a_node;
    let twice = || Setting { twice: true, ..a_node() };
    let rows: [History; 19] = [
        (Rule::Shell, late, &["nothing is armed with a dead token"]),
        (Rule::Shell, late, &["S9 no life after Deleted"]),
        (Rule::Touch, late, &["nothing is armed with a dead token"]),
        (Rule::IssuerEpoch, late, &["nothing is armed with a dead token"]),
        (Rule::IssuerClosed, late, &["S4 no token after close"]),
        (Rule::IssueChecked, twice, &["nothing is armed with a dead token"]),
        (Rule::VersionGuard, late, &["S1 legal edges only, sinks stay"]),
        (Rule::LeaseGuard, late, &["S16 no write without a lease"]),
        (Rule::Consumed, deleted_by_somebody, &["S11 Ready speaks of the machine that stands"]),
        (Rule::ArmedTells, paused_by_somebody, &["S8 no healthy Node is told to leave"]),
        (
            Rule::CloseFirst,
            late,
            &["S4 no token after close", "S5 no live Node under deleted substrate"],
        ),
        (Rule::ConfigLast, deleted_by_somebody, &["the ProviderConfig goes last"]),
        (
            Rule::LabelList,
            deleted_by_somebody,
            &["the ProviderConfig goes last", "S7 nothing is left when Deleted is written"],
        ),
        (Rule::DirectRead, late, &["S7 nothing is left when Deleted is written"]),
        (Rule::ActWithinLease, late, &["S7 nothing is left when Deleted is written"]),
        (Rule::ConfigRestored, without_config, &["L1, L2 everything is settled after K passes"]),
        (Rule::OrphansFound, late, &["L1, L2 everything is settled after K passes"]),
        (Rule::ForegroundSeen, composes_a_secret, &["S7 nothing is left when Deleted is written"]),
        (Rule::Permit, lost_twice, &["S17 no more is created again than the budget allows"]),
    ];
    for (rule, setting, expected) in rows {
        let setting = Setting { without: Some(rule), ..setting() };
        let enough = HasDiscoveries::AnyOf(expected.iter().copied().collect());
        let checked = check_until(setting, enough, usize::MAX);
        let found = checked.found.iter().any(|(name, _)| expected.contains(name));
        assert!(found, "without {rule:?}: {}", in_words(&checked.found));
    }
    println!("proof: {} histories of rules that were switched off", rows.len());
}

fn in_words(found: &[(&str, Vec<String>)]) -> String {
    if found.is_empty() {
        return "nothing was found".to_owned();
    }
    let ways =
        found.iter().map(|(name, way)| format!("{name} is broken by\n  {}", way.join("\n  ")));
    ways.collect::<Vec<_>>().join("\n")
}
