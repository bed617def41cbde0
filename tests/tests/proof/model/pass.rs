//! A worker's pass: it claims, reads, drives the real step and executes its effects, or is cut off.

use broker_domain::{MeshRole, Phase};

use super::memo::Memo;
use super::moves::Changed;
use super::rule::{Rule, Violation, Violations};
use super::words::{CheckpointId, Command, ObservationId, Operation, Reply, RowId, View, XrView};
use super::world::{Readiness, Resource};

/// Whether an object is still the one that a worker has read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Memory {
    Same,
    Changed,
    /// Another object, or none.
    Gone,
}

/// A pass in progress, or the in-flight request of one that was cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Pass {
    pub(super) epoch: u8,
    pub(super) holds: bool,
    pub(super) at: At,
    /// Whether its copy of the row is the stored one.
    pub(super) row_fresh: bool,
    pub(super) xr: Memory,
    pub(super) config: Memory,
    /// A violation in its decision.
    pub(super) mistaken: Option<Violation>,
    /// Another worker's late request arrived after it had read.
    pub(super) surprised: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum At {
    Reading {
        row: RowId,
        xr: Option<XrView>,
        blind: bool,
    },
    Talking {
        checkpoint: CheckpointId,
        stage: Stage,
        operation: Operation,
    },
    /// Its worker was cut off while this was in flight.
    Adrift(Operation),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Stage {
    Prepare,
    Act(ObservationId, Phase),
    Persist(Phase),
}

#[derive(Clone, Copy)]
pub(super) struct Rules<'a> {
    pub(super) memo: &'a Memo,
    pub(super) without: Option<Rule>,
    pub(super) gate_open: bool,
    /// The number of permits, in settings that count them.
    pub(super) allowance: Option<u8>,
}

impl Rules<'_> {
    pub(super) fn lacks(&self, rule: Rule) -> bool {
        self.without == Some(rule)
    }
}

impl Resource {
    pub(super) fn holder(&self) -> Option<usize> {
        self.passes.iter().position(|pass| pass.holds)
    }

    pub(super) fn pending_requests(&self) -> usize {
        self.passes.iter().filter(|pass| !pass.holds).count()
    }

    pub(super) fn claim(&mut self, rules: Rules<'_>, blind: bool) -> bool {
        if self.holder().is_some() || rules.memo.facts(self.world.row).at_rest {
            return false;
        }
        self.world.epoch += 1;
        let pass = Pass {
            epoch: self.world.epoch,
            holds: true,
            at: At::Reading { row: self.world.row, xr: None, blind },
            row_fresh: true,
            xr: Memory::Gone,
            config: Memory::Gone,
            mistaken: None,
            surprised: false,
        };
        self.passes.push(pass);
        let place = self.passes.len() - 1;
        self.follow(rules, place, rules.memo.prepare(self.world.row), Stage::Prepare);
        true
    }

    pub(super) fn read_rest(&mut self, rules: Rules<'_>, place: usize) {
        let At::Reading { row, xr, blind } = self.passes[place].at else { return };
        let facts = rules.memo.facts(row);
        let node = facts.token.and_then(|token| self.world.issuer.node(token)).copied();
        let view = View {
            xr,
            config: self.world.config && !blind,
            composed: if blind || rules.memo.composes_secret { 0 } else { self.world.composed() },
            registered: node.is_some_and(|node| !node.left),
            gate_open: rules.gate_open,
        };
        let plan = rules.memo.plan(row, view);
        let pass = &mut self.passes[place];
        // Only the deletion depends on the ProviderConfig that was read.
        let deletes = plan.to == Phase::Deprovisioning;
        pass.config = if view.config && deletes { Memory::Same } else { Memory::Gone };
        if plan.to == Phase::Ready && facts.phase != Phase::Ready {
            let stale = xr.is_none_or(|xr| xr.ready != Readiness::Live);
            let orphaned = facts.role == MeshRole::Node
                && node.map(|node| node.machine) != xr.and_then(|xr| xr.refers_to);
            pass.mistaken = match (stale, orphaned) {
                (true, _) => Some(Violation::StaleReady),
                (false, true) => Some(Violation::OrphanedMachine),
                (false, false) => None,
            };
        }
        self.follow(rules, place, plan.begin, Stage::Act(plan.seen, plan.to));
    }

    /// Advances a pass until it requests an effect outside, or ends.
    fn follow(&mut self, rules: Rules<'_>, place: usize, checkpoint: CheckpointId, stage: Stage) {
        let (mut checkpoint, mut stage) = (checkpoint, stage);
        loop {
            match (rules.memo.command(checkpoint), stage) {
                (Command::Perform(Operation::Unchanged(row)), _) => {
                    checkpoint = rules.memo.reply(checkpoint, Reply::Committed(row));
                }
                (Command::End | Command::Perform(Operation::Refused), _)
                | (Command::Continue, Stage::Persist(_)) => {
                    self.passes.remove(place);
                    return;
                }
                (Command::Perform(operation), _) => {
                    self.passes[place].at = At::Talking { checkpoint, stage, operation };
                    return;
                }
                (Command::Continue, Stage::Prepare) => {
                    self.read_xr(rules.memo.row_of(checkpoint), place);
                    return;
                }
                (Command::Continue, Stage::Act(seen, to)) => {
                    checkpoint = rules.memo.persist(checkpoint, seen, to);
                    stage = Stage::Persist(to);
                }
            }
        }
    }

    fn read_xr(&mut self, row: RowId, place: usize) {
        let pass = &mut self.passes[place];
        let blind = matches!(pass.at, At::Reading { blind: true, .. });
        let xr = self.world.xr.filter(|_| !blind);
        pass.xr = if xr.is_some() { Memory::Same } else { Memory::Gone };
        pass.at = At::Reading { row, xr: xr.map(|xr| xr.view()), blind };
    }

    /// Executes the requested effect this many times and returns one of the results.
    pub(super) fn perform(
        &mut self,
        rules: Rules<'_>,
        place: usize,
        times: Times,
        violations: &mut Violations,
    ) {
        let At::Talking { checkpoint, stage, operation } = self.passes[place].at else { return };
        let first = self.execute(rules, place, operation, violations);
        let reply = match times {
            Times::Once => first,
            Times::TwiceFirst => {
                self.execute(rules, place, operation, violations);
                first
            }
            Times::TwiceSecond => self.execute(rules, place, operation, violations),
        };
        // The pass reads the state of its token before it continues.
        let issuer = self.world.issuer;
        let dead = |reply: &Reply| matches!(reply, Reply::Issued(it) if !issuer.knows(*it));
        let reply = reply.filter(|reply| rules.lacks(Rule::IssueChecked) || !dead(reply));
        let Some(reply) = reply else {
            // The port refused: the pass fails and releases its lease.
            self.passes.remove(place);
            return;
        };
        self.follow(rules, place, rules.memo.reply(checkpoint, reply), stage);
    }

    /// Marks an object as changed in every pass that remembers its version, except `by`, which made
    /// the change.
    pub(super) fn mark_changed(&mut self, changed: Changed, by: Option<usize>) {
        for (place, pass) in self.passes.iter_mut().enumerate() {
            match changed {
                Changed::Xr if pass.xr == Memory::Same && by != Some(place) => {
                    pass.xr = Memory::Changed;
                }
                Changed::XrGone => pass.xr = Memory::Gone,
                Changed::ConfigGone => pass.config = Memory::Gone,
                Changed::Xr | Changed::Elsewhere => {}
            }
        }
    }

    /// Marks the row as changed in every pass except `by`, which wrote it.
    pub(super) fn wrote(&mut self, row: RowId, by: Option<usize>) {
        self.world.row = row;
        for (place, pass) in self.passes.iter_mut().enumerate() {
            if by != Some(place) {
                pass.row_fresh = false;
            }
        }
    }
}

/// How often a request is executed, and which result is returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Times {
    Once,
    TwiceFirst,
    TwiceSecond,
}
