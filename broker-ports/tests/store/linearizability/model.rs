//! The store as it would be without any concurrency: small, obvious, and none of the real one's code.

use std::collections::BTreeMap;

use broker_domain::Phase;

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
    /// Ask for deletion.
    Delete { number: Number, version: u64 },
    /// Claim a resource.
    Claim { number: Number },
    /// Give it back.
    Release { number: Number, epoch: u64 },
    /// Pause or resume it.
    Pause { number: Number, paused: bool },
    /// Everything there is.
    List,
    /// How many lines does its audit have?
    History { number: Number },
    /// Claim every event that can be had.
    ClaimEvents,
    /// Acknowledge one.
    Acknowledge { number: Number, sequence: u64 },
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
    Leased(Option<u64>),
    Done,
    ThereIs(bool),
    Listed(Vec<(Number, u64)>),
    Lines(usize),
    /// Resource and sequence of each event, in the order of resources.
    Events(Vec<(Number, u64)>),
    ClaimLost,
    /// An error, which no right store gives to these calls.
    Refused,
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
            | Self::Leased(None)
            | Self::ThereIs(false)
            | Self::Listed(_)
            | Self::Lines(_)
            | Self::ClaimLost
            | Self::Refused => true,
            Self::Events(events) => events.is_empty(),
            Self::Stored
            | Self::Committed
            | Self::Leased(Some(_))
            | Self::Done
            | Self::ThereIs(true) => false,
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct Model {
    requests: BTreeMap<u8, (Number, u8)>,
    rows: BTreeMap<Number, Row>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Row {
    version: u64,
    phase: Phase,
    epoch: u64,
    held: bool,
    paused: bool,
    lines: usize,
    events: u64,
    acknowledged: u64,
    event_claimed: bool,
}

impl Row {
    fn changed(&mut self, phase: Phase) {
        self.version += 1;
        self.lines += 1;
        self.phase = phase;
        self.events += u64::from(matches!(phase, Phase::Ready | Phase::Deregistering));
    }
}

impl Model {
    /// What the store answers, and what it is afterwards.
    pub(super) fn apply(&mut self, call: &Call) -> Answer {
        match call {
            Call::Create { slot, number, wording } => self.create(*slot, *number, *wording),
            Call::Lookup { slot } => {
                let found = self.requests.get(slot).map(|(number, _)| number);
                let row = found.and_then(|number| Some((*number, self.rows.get(number)?)));
                Answer::Found(row.map(|(number, row)| (number, row.version, row.phase)))
            }
            Call::Advance { number, version, to, epoch } => {
                self.write(*number, *version, *to, *epoch)
            }
            Call::Delete { number, version } => {
                self.write(*number, *version, Phase::Deregistering, None)
            }
            Call::List => Answer::Listed(
                self.rows.iter().map(|(number, row)| (*number, row.version)).collect(),
            ),
            Call::History { number } => {
                Answer::Lines(self.rows.get(number).map_or(0, |row| row.lines))
            }
            Call::Claim { number } => self.claim(*number),
            Call::Release { number, epoch } => self.release(*number, *epoch),
            Call::Pause { number, paused } => self.pause(*number, *paused),
            Call::ClaimEvents => self.claim_events(),
            Call::Acknowledge { number, sequence } => self.acknowledge(*number, *sequence),
        }
    }

    fn create(&mut self, slot: u8, number: Number, wording: u8) -> Answer {
        if let Some((first, said)) = self.requests.get(&slot) {
            if *said != wording {
                return Answer::Conflict;
            }
            let version = self.rows.get(first).map_or(0, |row| row.version);
            return Answer::Replayed { number: *first, version };
        }
        self.requests.insert(slot, (number, wording));
        let row = Row {
            version: 1,
            phase: Phase::Pending,
            epoch: 0,
            held: false,
            paused: false,
            lines: 1,
            events: 1,
            acknowledged: 0,
            event_claimed: false,
        };
        self.rows.insert(number, row);
        Answer::Stored
    }

    fn write(&mut self, number: Number, version: u64, to: Phase, epoch: Option<u64>) -> Answer {
        let Some(row) = self.rows.get_mut(&number) else { return Answer::Stale };
        if epoch.is_some_and(|epoch| epoch != row.epoch) {
            return Answer::LeaseLost;
        }
        if row.version != version {
            return Answer::Stale;
        }
        row.changed(to);
        Answer::Committed
    }

    fn claim(&mut self, number: Number) -> Answer {
        Answer::Leased(match self.rows.get_mut(&number) {
            Some(row) if !row.held && !row.paused => {
                row.held = true;
                row.epoch += 1;
                Some(row.epoch)
            }
            Some(_) | None => None,
        })
    }

    fn release(&mut self, number: Number, epoch: u64) -> Answer {
        match self.rows.get_mut(&number) {
            Some(row) if row.held && row.epoch == epoch => {
                row.held = false;
                Answer::Done
            }
            Some(_) | None => Answer::LeaseLost,
        }
    }

    fn pause(&mut self, number: Number, paused: bool) -> Answer {
        let Some(row) = self.rows.get_mut(&number) else { return Answer::ThereIs(false) };
        row.lines += usize::from(row.paused != paused);
        row.paused = paused;
        Answer::ThereIs(true)
    }

    fn claim_events(&mut self) -> Answer {
        let mut events = Vec::new();
        for (number, row) in &mut self.rows {
            if row.acknowledged < row.events && !row.event_claimed {
                row.event_claimed = true;
                events.push((*number, row.acknowledged + 1));
            }
        }
        Answer::Events(events)
    }

    fn acknowledge(&mut self, number: Number, sequence: u64) -> Answer {
        match self.rows.get_mut(&number) {
            Some(row) if row.event_claimed && row.acknowledged + 1 == sequence => {
                row.event_claimed = false;
                row.acknowledged += 1;
                Answer::Done
            }
            Some(_) | None => Answer::ClaimLost,
        }
    }
}
