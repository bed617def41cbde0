//! The store as it would be without any concurrency: small, obvious, and none of the real one's code.

mod table;

use broker_domain::Phase;
use broker_ports::Lane;

use self::table::Table;

/// A resource, by the number that its id is made of.
pub(super) type Number = u128;

/// What a task asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Call {
    /// Declare resource `number` under the request id of a slot, in one of two wordings.
    Create { slot: u8, number: Number, wording: u8 },
    /// What does a slot's request id stand for?
    Lookup { slot: u8 },
    /// Move a resource from a version to a phase; a worker names its epoch.
    Advance { number: Number, version: u64, to: Phase, epoch: Option<u64> },
    /// Put something on record, within its phase.
    Record { number: Number, version: u64, what: Recorded, epoch: Option<u64> },
    /// Ask for deletion.
    Delete { number: Number, version: u64 },
    /// Claim a resource.
    Claim { number: Number },
    /// Claim what is due in a lane.
    ClaimDue { lane: Lane, limit: u16 },
    /// Give it back, as it was seen, and leave it to the sweep.
    Release { number: Number, epoch: u64, seen: u64 },
    /// Set it due.
    Schedule { number: Number },
    /// Pause or resume it.
    Pause { number: Number, paused: bool },
    /// Everything there is.
    List,
    /// Everything that is not at rest.
    Sweep,
    /// How many lines does its audit have?
    History { number: Number },
    /// Claim every event that can be had.
    ClaimEvents,
    /// Acknowledge one.
    Acknowledge { number: Number, sequence: u64 },
    /// Remove what is Deleted and told.
    Purge { limit: u16 },
    /// Remove the events that were told.
    PurgeEvents,
}

/// What is put on record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Recorded {
    Token,
    Closed,
    Substrate,
}

/// What it was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    Stored,
    Replayed {
        number: Number,
        version: u64,
    },
    Conflict,
    Found(Option<(Number, u64, Phase)>),
    Committed,
    Stale,
    LeaseLost,
    /// Resource and epoch of each lease, in the order of resources.
    Leased(Vec<(Number, u64)>),
    Done,
    ThereIs(bool),
    Listed(Vec<(Number, u64)>),
    Swept(Vec<Glance>),
    Lines(usize),
    /// Resource and sequence of each event, in the order of resources.
    Events(Vec<(Number, u64)>),
    ClaimLost,
    /// What was removed, in the order of resources.
    Purged(Vec<Number>),
    PurgedEvents(u64),
    /// An error, which no right store gives to these calls.
    Refused,
}

/// What a sweep shows of a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Glance {
    pub(super) number: Number,
    pub(super) version: u64,
    pub(super) phase: Phase,
    pub(super) due: bool,
    pub(super) held: bool,
    pub(super) paused: bool,
}

impl Answer {
    /// Whatever was asked for, and in whatever state the store was: with this answer it changed nothing.
    pub(super) fn is_quiet(&self) -> bool {
        match self {
            Self::Replayed { .. }
            | Self::Conflict
            | Self::Found(_)
            | Self::Stale
            | Self::LeaseLost
            | Self::ThereIs(false)
            | Self::Listed(_)
            | Self::Swept(_)
            | Self::Lines(_)
            | Self::ClaimLost
            | Self::Refused => true,
            Self::Leased(leases) => leases.is_empty(),
            Self::Events(events) => events.is_empty(),
            Self::Purged(purged) => purged.is_empty(),
            Self::PurgedEvents(purged) => *purged == 0,
            Self::Stored | Self::Committed | Self::Done | Self::ThereIs(true) => false,
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct Model {
    requests: Table<u8, (Number, u8)>,
    rows: Table<Number, Row>,
    /// Audit lines outlive their resource.
    lines: Table<Number, usize>,
    /// Events that were told and not removed yet.
    told: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own, free of the others")]
pub(super) struct Row {
    pub(super) version: u64,
    pub(super) phase: Phase,
    pub(super) epoch: u64,
    pub(super) due: bool,
    /// Somebody asked for a pass since the last claim.
    pub(super) wished: bool,
    pub(super) held: bool,
    pub(super) paused: bool,
    pub(super) events: u64,
    pub(super) acknowledged: u64,
    pub(super) event_claimed: bool,
}

impl Row {
    /// A resource that was just declared.
    pub(super) const fn declared() -> Self {
        Self {
            version: 1,
            phase: Phase::Pending,
            epoch: 0,
            due: true,
            wished: false,
            held: false,
            paused: false,
            events: 1,
            acknowledged: 0,
            event_claimed: false,
        }
    }

    fn changed(&mut self, phase: Phase) {
        self.version += 1;
        self.phase = phase;
        self.due = true;
        let told = matches!(phase, Phase::Ready | Phase::Deregistering | Phase::Deleted);
        self.events += u64::from(told);
    }

    fn wish(&mut self) {
        self.due = true;
        self.wished = true;
    }

    fn take(&mut self) {
        self.held = true;
        self.epoch += 1;
        self.wished = false;
    }

    fn is_free(&self) -> bool {
        self.phase != Phase::Deleted && !self.held && !self.paused
    }

    fn lane(&self) -> Lane {
        if self.phase.is_teardown() { Lane::Teardown } else { Lane::Converge }
    }

    fn is_over(&self) -> bool {
        self.phase == Phase::Deleted && self.acknowledged == self.events
    }
}

impl Model {
    /// What stands before the first call.
    pub(super) fn prepare(&mut self, slot: u8, number: Number, row: Row, lines: usize) {
        self.requests.insert(slot, (number, 0));
        self.told += row.acknowledged;
        self.rows.insert(number, row);
        self.lines.insert(number, lines);
    }

    /// Whether the store may answer so, and what it is afterwards. Where it may choose, any choice is right.
    pub(super) fn explains(&mut self, call: &Call, answer: &Answer) -> bool {
        match (call, answer) {
            (Call::ClaimDue { lane, limit }, Answer::Leased(leases)) => {
                self.claim_due(*lane, *limit, leases)
            }
            (Call::Purge { limit }, Answer::Purged(purged)) => self.purge(*limit, purged),
            (call, answer) => self.apply(call).as_ref() == Some(answer),
        }
    }

    /// The one right answer, where there is one.
    fn apply(&mut self, call: &Call) -> Option<Answer> {
        Some(match call {
            Call::Create { slot, number, wording } => self.create(*slot, *number, *wording),
            Call::Lookup { slot } => {
                let found = self.requests.get(*slot).map(|(number, _)| *number);
                let row = found.and_then(|number| Some((number, self.rows.get(number)?)));
                Answer::Found(row.map(|(number, row)| (number, row.version, row.phase)))
            }
            Call::Advance { number, version, to, epoch } => {
                self.write(*number, *version, *epoch, |row| row.changed(*to))
            }
            Call::Record { number, version, epoch, .. } => {
                self.write(*number, *version, *epoch, |row| row.version += 1)
            }
            Call::Delete { number, version } => {
                self.write(*number, *version, None, |row| row.changed(Phase::Deregistering))
            }
            Call::List => Answer::Listed(
                self.rows.iter().map(|(number, row)| (number, row.version)).collect(),
            ),
            Call::Sweep => Answer::Swept(self.sweep()),
            Call::History { number } => {
                Answer::Lines(self.lines.get(*number).copied().unwrap_or_default())
            }
            Call::Claim { number } => self.claim(*number),
            Call::Release { number, epoch, seen } => self.release(*number, *epoch, *seen),
            Call::Schedule { number } => {
                let row = self.rows.get_mut(*number);
                Answer::ThereIs(row.map(Row::wish).is_some())
            }
            Call::Pause { number, paused } => self.pause(*number, *paused),
            Call::ClaimEvents => self.claim_events(),
            Call::Acknowledge { number, sequence } => self.acknowledge(*number, *sequence),
            Call::PurgeEvents => Answer::PurgedEvents(std::mem::take(&mut self.told)),
            Call::ClaimDue { .. } | Call::Purge { .. } => return None,
        })
    }

    fn create(&mut self, slot: u8, number: Number, wording: u8) -> Answer {
        if let Some((first, said)) = self.requests.get(slot).copied() {
            if said != wording {
                return Answer::Conflict;
            }
            let version = self.rows.get(first).map_or(0, |row| row.version);
            return Answer::Replayed { number: first, version };
        }
        self.requests.insert(slot, (number, wording));
        self.rows.insert(number, Row::declared());
        self.audit(number);
        Answer::Stored
    }

    fn audit(&mut self, number: Number) {
        let lines = self.lines.get(number).copied().unwrap_or_default();
        self.lines.insert(number, lines + 1);
    }

    fn write(
        &mut self,
        number: Number,
        version: u64,
        epoch: Option<u64>,
        change: impl FnOnce(&mut Row),
    ) -> Answer {
        let Some(row) = self.rows.get_mut(number) else { return Answer::Stale };
        if epoch.is_some_and(|epoch| epoch != row.epoch) {
            return Answer::LeaseLost;
        }
        if row.version != version {
            return Answer::Stale;
        }
        change(row);
        self.audit(number);
        Answer::Committed
    }

    fn sweep(&self) -> Vec<Glance> {
        let rows = self.rows.iter().filter(|(_, row)| row.phase != Phase::Deleted);
        rows.map(|(number, row)| Glance {
            number,
            version: row.version,
            phase: row.phase,
            due: row.due,
            held: row.held,
            paused: row.paused,
        })
        .collect()
    }

    fn claim(&mut self, number: Number) -> Answer {
        Answer::Leased(match self.rows.get_mut(number) {
            Some(row) if row.is_free() => {
                row.take();
                vec![(number, row.epoch)]
            }
            Some(_) | None => Vec::new(),
        })
    }

    /// As many as were asked for, or all that are due; which ones is a matter of fairness, not of order.
    fn claim_due(&mut self, lane: Lane, limit: u16, leases: &[(Number, u64)]) -> bool {
        let due = |row: &Row| row.due && row.is_free() && row.lane() == lane;
        let candidates = self.rows.iter().filter(|(_, row)| due(row)).count();
        if leases.len() != candidates.min(limit.into()) {
            return false;
        }
        leases.iter().all(|(number, epoch)| match self.rows.get_mut(*number) {
            Some(row) if due(row) && row.epoch + 1 == *epoch => {
                row.take();
                true
            }
            Some(_) | None => false,
        })
    }

    fn release(&mut self, number: Number, epoch: u64, seen: u64) -> Answer {
        match self.rows.get_mut(number) {
            Some(row) if row.held && row.epoch == epoch => {
                row.held = false;
                // Whoever changed it or asked for it meanwhile wants it looked at.
                row.due &= row.wished || row.version != seen;
                Answer::Done
            }
            Some(_) | None => Answer::LeaseLost,
        }
    }

    fn pause(&mut self, number: Number, paused: bool) -> Answer {
        let Some(row) = self.rows.get_mut(number) else { return Answer::ThereIs(false) };
        if row.paused != paused {
            row.paused = paused;
            if !paused {
                row.wish();
            }
            self.audit(number);
        }
        Answer::ThereIs(true)
    }

    fn claim_events(&mut self) -> Answer {
        let mut events = Vec::new();
        for (number, row) in self.rows.iter_mut() {
            if row.acknowledged < row.events && !row.event_claimed {
                row.event_claimed = true;
                events.push((number, row.acknowledged + 1));
            }
        }
        Answer::Events(events)
    }

    fn acknowledge(&mut self, number: Number, sequence: u64) -> Answer {
        match self.rows.get_mut(number) {
            Some(row) if row.event_claimed && row.acknowledged + 1 == sequence => {
                row.event_claimed = false;
                row.acknowledged += 1;
                self.told += 1;
                Answer::Done
            }
            Some(_) | None => Answer::ClaimLost,
        }
    }

    /// As many as were asked for, or all that are over.
    fn purge(&mut self, limit: u16, purged: &[Number]) -> bool {
        let over = self.rows.iter().filter(|(_, row)| row.is_over()).count();
        if purged.len() != over.min(limit.into()) {
            return false;
        }
        purged.iter().all(|number| {
            let is_over = self.rows.remove(*number).is_some_and(|row| row.is_over());
            self.requests.retain(|(stands_for, _)| stands_for != number);
            self.audit(*number);
            is_over
        })
    }
}
