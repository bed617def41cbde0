//! A model of one shared ProviderConfig: users that register, wait, apply and leave, two removals, and late requests. The
//! removals run the product's own decisions ([`Removal`]). A disabled rule must have a counterexample.

use std::collections::BTreeSet;

use broker_app::decide::{Deleting, Removal, RemovalStep};
use broker_ports::DeletionMark;
use stateright::{Checker, HasDiscoveries, Model, Property};

/// Users of one name, one after another or together; each lives once.
const USERS: usize = 3;
const REMOVALS: usize = 2;
const MIN_STATES: usize = 400_000;

/// A rule that a setting can disable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rule {
    /// Only the last user to leave sets the mark.
    LastUserMarks,
    /// A new user waits while the mark is set.
    UserWaits,
    /// A user reads the mark before the object.
    MarkBeforeObject,
    /// A removal renews the mark before it deletes.
    MarkRenewed,
    /// A renewal changes the mark, and does not only compare it.
    RenewalChangesMark,
    /// A deletion names the uid.
    DeletionByUid,
    /// Only its own number clears a mark.
    ClearByNumber,
    /// The sweep marks an object without users.
    SweepMarks,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum User {
    Undeclared,
    /// Registered, and perhaps waiting.
    Declared,
    /// Its pass found no mark.
    FoundNoMark,
    /// Its pass read whether the object exists.
    ReadObject {
        exists: bool,
    },
    /// Its composite resource is armed: its provider needs the object.
    Armed,
    Deleted,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct State {
    users: [User; USERS],
    mark: Option<i64>,
    last_mark: i64,
    /// The uid of the object.
    object: Option<u8>,
    last_uid: u8,
    removals: [Option<Removal>; REMOVALS],
    /// Uids of deletions in flight.
    late_deletions: BTreeSet<u8>,
    /// A create is in flight whose worker died.
    late_create: bool,
    may_be_late: (bool, bool),
    may_crash: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    Declare(usize),
    ReadMark(usize),
    ReadObject(usize),
    /// The user creates the object, or arms because it exists.
    Apply(usize),
    /// The create is in flight, and its worker dies.
    ApplyLate(usize),
    Leave(usize),
    ArriveCreate,
    /// A removal starts from the mark of the store, or from the sweep's own.
    Start(usize),
    Step(usize),
    /// The deletion is in flight, and its worker dies.
    StepLate(usize),
    Crash(usize),
    ArriveDeletion(u8),
}

struct Sharing {
    without: Option<Rule>,
}

impl Sharing {
    fn has(&self, rule: Rule) -> bool {
        self.without != Some(rule)
    }

    fn start(&self, state: &mut State, removal: usize) -> Option<()> {
        if state.mark.is_none() {
            if state.object.is_none() || state.is_used() || !self.has(Rule::SweepMarks) {
                return None;
            }
            state.set_mark();
        }
        state.removals[removal] = state.mark.map(|mark| Removal::new(DeletionMark::new(mark)));
        Some(())
    }

    fn step(&self, state: &mut State, index: usize, late: bool) -> Option<()> {
        let removal = state.removals[index].clone()?;
        let next = removal.next();
        if late && !(matches!(next, RemovalStep::Delete(_)) && state.may_be_late.1) {
            return None;
        }
        state.removals[index] = match next {
            RemovalStep::ReadObject => {
                let uid = state.object.map(|uid| uid.to_string());
                Some(removal.with_object(uid.as_deref().map(|uid| (uid, Deleting::No))))
            }
            RemovalStep::RenewMark(own) if !self.has(Rule::MarkRenewed) => {
                Some(removal.with_mark(Some(own)))
            }
            RemovalStep::RenewMark(own) => {
                let holds = state.mark == Some(own.get());
                if holds && self.has(Rule::RenewalChangesMark) {
                    state.set_mark();
                }
                let renewed = state.mark.filter(|_| holds).map(DeletionMark::new);
                Some(removal.with_mark(renewed))
            }
            RemovalStep::Delete(uid) if late => {
                state.may_be_late.1 = false;
                state.late_deletions.insert(uid.parse().unwrap());
                None
            }
            RemovalStep::Delete(uid) => {
                self.delete(state, uid.parse().unwrap());
                Some(removal.with_deletion())
            }
            RemovalStep::Clear(mark) => {
                if state.mark == Some(mark.get()) || !self.has(Rule::ClearByNumber) {
                    state.mark = None;
                }
                None
            }
            RemovalStep::End => None,
        };
        Some(())
    }

    fn delete(&self, state: &mut State, uid: u8) {
        if state.object == Some(uid) || !self.has(Rule::DeletionByUid) {
            state.object = None;
        }
    }

    fn leave(&self, state: &mut State, user: usize) {
        state.users[user] = User::Deleted;
        let is_last = !state.is_used() || !self.has(Rule::LastUserMarks);
        if is_last && state.mark.is_none() {
            state.set_mark();
        }
    }

    /// What sweeps make of a state in which every user has left and no request is in flight.
    fn removes_everything(&self, state: &State) -> bool {
        let mut state = state.clone();
        state.removals = [None, None];
        for _ in 0..2 {
            if self.start(&mut state, 0).is_some() {
                while state.removals[0].is_some() && self.step(&mut state, 0, false).is_some() {}
            }
        }
        state.object.is_none() && state.mark.is_none()
    }
}

impl State {
    fn is_used(&self) -> bool {
        self.users.iter().any(|user| !matches!(user, User::Undeclared | User::Deleted))
    }

    const fn set_mark(&mut self) {
        self.last_mark += 1;
        self.mark = Some(self.last_mark);
    }

    const fn create(&mut self) {
        if self.object.is_none() {
            self.last_uid += 1;
            self.object = Some(self.last_uid);
        }
    }
}

impl Model for Sharing {
    type State = State;
    type Action = Event;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            users: [User::Undeclared; USERS],
            mark: None,
            last_mark: 0,
            object: None,
            last_uid: 0,
            removals: [None, None],
            late_deletions: BTreeSet::new(),
            late_create: false,
            may_be_late: (true, true),
            may_crash: true,
        }]
    }

    fn actions(&self, state: &State, events: &mut Vec<Event>) {
        for user in 0..USERS {
            events.extend([
                Event::Declare(user),
                Event::ReadMark(user),
                Event::ReadObject(user),
                Event::Apply(user),
                Event::ApplyLate(user),
                Event::Leave(user),
            ]);
        }
        for removal in 0..REMOVALS {
            events.extend([
                Event::Start(removal),
                Event::Step(removal),
                Event::StepLate(removal),
                Event::Crash(removal),
            ]);
        }
        events.push(Event::ArriveCreate);
        events.extend(state.late_deletions.iter().map(|uid| Event::ArriveDeletion(*uid)));
    }

    fn next_state(&self, before: &State, event: Event) -> Option<State> {
        let mut state = before.clone();
        match event {
            // Users are alike, so they declare in order.
            Event::Declare(user) => {
                let is_next = state.users[..user].iter().all(|it| *it != User::Undeclared);
                (is_next && state.users[user] == User::Undeclared).then_some(())?;
                state.users[user] = User::Declared;
            }
            Event::ReadMark(user) => {
                let may_apply = state.mark.is_none() || !self.has(Rule::UserWaits);
                (state.users[user] == User::Declared && may_apply).then_some(())?;
                state.users[user] = User::FoundNoMark;
            }
            Event::ReadObject(user) => {
                let user = &mut state.users[user];
                let may_read = *user == User::FoundNoMark
                    || (*user == User::Declared && !self.has(Rule::MarkBeforeObject));
                may_read.then_some(())?;
                *user = User::ReadObject { exists: state.object.is_some() };
            }
            Event::Apply(user) => {
                let User::ReadObject { exists } = state.users[user] else { return None };
                // Without the rule, the mark is read only now, after the object.
                if !self.has(Rule::MarkBeforeObject) && state.mark.is_some() {
                    return None;
                }
                match (exists, state.object) {
                    // The create conflicts, and the next pass reads again.
                    (false, Some(_)) => state.users[user] = User::Declared,
                    (false, None) => {
                        state.create();
                        state.users[user] = User::Armed;
                    }
                    (true, _) => state.users[user] = User::Armed,
                }
            }
            Event::ApplyLate(user) => {
                let late = state.users[user] == User::ReadObject { exists: false };
                (late && state.may_be_late.0).then_some(())?;
                state.may_be_late.0 = false;
                state.late_create = true;
                state.users[user] = User::Declared;
            }
            Event::Leave(user) => {
                (!matches!(state.users[user], User::Undeclared | User::Deleted)).then_some(())?;
                self.leave(&mut state, user);
            }
            Event::ArriveCreate => {
                state.late_create.then_some(())?;
                state.late_create = false;
                state.create();
            }
            Event::Start(removal) => {
                state.removals[removal].is_none().then_some(())?;
                self.start(&mut state, removal)?;
            }
            Event::Step(removal) => self.step(&mut state, removal, false)?,
            Event::StepLate(removal) => self.step(&mut state, removal, true)?,
            Event::Crash(removal) => {
                state.may_crash.then_some(())?;
                state.may_crash = false;
                state.removals[removal].take()?;
            }
            Event::ArriveDeletion(uid) => {
                state.late_deletions.remove(&uid).then_some(())?;
                self.delete(&mut state, uid);
            }
        }
        // The removals are alike, too.
        state.removals.sort_by_key(|removal| format!("{removal:?}"));
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("an armed user has its ProviderConfig", |_, state: &State| {
                state.object.is_some() || !state.users.contains(&User::Armed)
            }),
            Property::always(
                "nothing is left after the last user",
                |model: &Self, state: &State| {
                    let is_over = state.users.iter().all(|user| *user == User::Deleted)
                        && !state.late_create
                        && state.late_deletions.is_empty();
                    !is_over || model.removes_everything(state)
                },
            ),
        ]
    }
}

fn check(without: Option<Rule>) -> (usize, Vec<(&'static str, String)>) {
    let checker = Sharing { without }.checker().threads(2);
    let checker = checker.finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    let found = checker.discoveries().into_iter();
    let found = found.map(|(name, path)| (name, format!("{:?}", path.into_actions())));
    (checker.unique_state_count(), found.collect())
}

#[test]
fn shared_config_exists_exactly_while_it_is_used() {
    let (states, found) = check(None);
    assert!(found.is_empty(), "{found:?}");
    println!("proof: {states} states of a shared ProviderConfig");
    assert!(states >= MIN_STATES, "{states} states, not {MIN_STATES}");
}

#[test]
fn every_disabled_rule_of_a_shared_config_has_a_counterexample() {
    let (needed, left) =
        ("an armed user has its ProviderConfig", "nothing is left after the last user");
    let rows = [
        (Rule::LastUserMarks, needed),
        (Rule::UserWaits, needed),
        (Rule::MarkBeforeObject, needed),
        (Rule::MarkRenewed, needed),
        (Rule::RenewalChangesMark, needed),
        (Rule::DeletionByUid, needed),
        (Rule::ClearByNumber, needed),
        (Rule::SweepMarks, left),
    ];
    for (rule, expected) in rows {
        let (_, found) = check(Some(rule));
        assert!(found.iter().any(|(name, _)| *name == expected), "without {rule:?}: {found:?}");
    }
    println!("proof: {} counterexamples of disabled rules of a shared ProviderConfig", rows.len());
}
