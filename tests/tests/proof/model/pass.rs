//! A worker's pass: it claims, reads, drives the real step and executes its effects, or is cut off.

use broker_domain::{MeshRole, Phase};

use super::environment_moves::Changed;
use super::memo::Memo;
use super::rule::{Rule, Violation, Violations};
use super::vocabulary::{
    CheckpointId, Command, ObservationId, Operation, Reply, RowId, View, XrView,
};
use super::world::{Readiness, Resource};

/// Whether an object has changed since a worker read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Freshness {
    Same,
    Changed,
    /// Another object, or none.
    Gone,
}

/// A pass in progress, or the in-flight request of one that was cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Pass {
    pub(super) epoch: u8,
    pub(super) holds_lease: bool,
    pub(super) progress: Progress,
    /// Whether the worker's copy of the row is the stored row.
    pub(super) row_fresh: bool,
    pub(super) xr: Freshness,
    pub(super) config: Freshness,
    /// The violation that the decision of this pass causes.
    pub(super) decision_violation: Option<Violation>,
    /// Another worker's late request arrived after this pass had read.
    pub(super) missed_late_request: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Progress {
    Reading {
        row: RowId,
        xr: Option<XrView>,
        blind: bool,
    },
    Executing {
        checkpoint: CheckpointId,
        stage: Stage,
        operation: Operation,
    },
    /// The worker was cut off while this request was in flight.
    InFlight(Operation),
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
        self.passes.iter().position(|pass| pass.holds_lease)
    }

    pub(super) fn pending_requests(&self) -> usize {
        self.passes.iter().filter(|pass| !pass.holds_lease).count()
    }

    pub(super) fn claim(&mut self, rules: Rules<'_>, blind: bool) -> bool {
        if self.holder().is_some() || rules.memo.facts(self.world.row).terminal {
            return false;
        }
        self.world.epoch += 1;
        let pass = Pass {
            epoch: self.world.epoch,
            holds_lease: true,
            progress: Progress::Reading { row: self.world.row, xr: None, blind },
            row_fresh: true,
            xr: Freshness::Gone,
            config: Freshness::Gone,
            decision_violation: None,
            missed_late_request: false,
        };
        self.passes.push(pass);
        let index = self.passes.len() - 1;
        self.drive(rules, index, rules.memo.prepare(self.world.row), Stage::Prepare);
        true
    }

    pub(super) fn read_rest(&mut self, rules: Rules<'_>, index: usize) {
        let Progress::Reading { row, xr, blind } = self.passes[index].progress else { return };
        let facts = rules.memo.facts(row);
        let node = facts.token.and_then(|token| self.world.issuer.node(token)).copied();
        let view = View {
            xr,
            config: self.world.config && !blind,
            composed: if blind || rules.memo.composes_secret { 0 } else { self.world.composed() },
            registered: node.is_some_and(|node| !node.deregistered),
            gate_open: rules.gate_open,
        };
        let plan = rules.memo.plan(row, view);
        let pass = &mut self.passes[index];
        // Only a deletion depends on the read ProviderConfig.
        let deletes = plan.to == Phase::Deprovisioning;
        pass.config = if view.config && deletes { Freshness::Same } else { Freshness::Gone };
        if plan.to == Phase::Ready && facts.phase != Phase::Ready {
            let stale = xr.is_none_or(|xr| xr.ready != Readiness::Live);
            let orphaned = facts.role == MeshRole::Node
                && node.map(|node| node.machine) != xr.and_then(|xr| xr.refers_to);
            pass.decision_violation = match (stale, orphaned) {
                (true, _) => Some(Violation::StaleReady),
                (false, true) => Some(Violation::OrphanedMachine),
                (false, false) => None,
            };
        }
        self.drive(rules, index, plan.begin, Stage::Act(plan.seen, plan.to));
    }

    /// Advances a pass until it requests an effect on the environment, or ends.
    fn drive(&mut self, rules: Rules<'_>, index: usize, checkpoint: CheckpointId, stage: Stage) {
        let (mut checkpoint, mut stage) = (checkpoint, stage);
        loop {
            match (rules.memo.command(checkpoint), stage) {
                (Command::Perform(Operation::Unchanged(row)), _) => {
                    checkpoint = rules.memo.reply(checkpoint, Reply::Committed(row));
                }
                (Command::End | Command::Perform(Operation::Refused), _)
                | (Command::Continue, Stage::Persist(_)) => {
                    self.passes.remove(index);
                    return;
                }
                (Command::Perform(operation), _) => {
                    self.passes[index].progress =
                        Progress::Executing { checkpoint, stage, operation };
                    return;
                }
                (Command::Continue, Stage::Prepare) => {
                    self.read_xr(rules.memo.row_of(checkpoint), index);
                    return;
                }
                (Command::Continue, Stage::Act(seen, to)) => {
                    checkpoint = rules.memo.persist(checkpoint, seen, to);
                    stage = Stage::Persist(to);
                }
            }
        }
    }

    fn read_xr(&mut self, row: RowId, index: usize) {
        let pass = &mut self.passes[index];
        let blind = matches!(pass.progress, Progress::Reading { blind: true, .. });
        let xr = self.world.xr.filter(|_| !blind);
        pass.xr = if xr.is_some() { Freshness::Same } else { Freshness::Gone };
        pass.progress = Progress::Reading { row, xr: xr.map(|xr| xr.view()), blind };
    }

    /// Executes the requested effect this many times and returns one of the results.
    pub(super) fn perform(
        &mut self,
        rules: Rules<'_>,
        index: usize,
        times: Times,
        violations: &mut Violations,
    ) {
        let Progress::Executing { checkpoint, stage, operation } = self.passes[index].progress
        else {
            return;
        };
        let first = self.execute(rules, index, operation, violations);
        let reply = match times {
            Times::Once => first,
            Times::TwiceFirst => {
                self.execute(rules, index, operation, violations);
                first
            }
            Times::TwiceSecond => self.execute(rules, index, operation, violations),
        };
        // The pass reads the state of its token before it continues.
        let issuer = self.world.issuer;
        let dead = |reply: &Reply| matches!(reply, Reply::Issued(token) if !issuer.knows(*token));
        let reply = reply.filter(|reply| rules.lacks(Rule::IssueChecked) || !dead(reply));
        let Some(reply) = reply else {
            // The port refused: the pass fails and releases its lease.
            self.passes.remove(index);
            return;
        };
        self.drive(rules, index, rules.memo.reply(checkpoint, reply), stage);
    }

    /// Marks an object as changed in every pass that remembers its version, except `by`, which made
    /// the change.
    pub(super) fn mark_changed(&mut self, changed: Changed, by: Option<usize>) {
        for (index, pass) in self.passes.iter_mut().enumerate() {
            match changed {
                Changed::Xr if pass.xr == Freshness::Same && by != Some(index) => {
                    pass.xr = Freshness::Changed;
                }
                Changed::XrGone => pass.xr = Freshness::Gone,
                Changed::ConfigGone => pass.config = Freshness::Gone,
                Changed::Xr | Changed::Other => {}
            }
        }
    }

    /// Marks the row as changed in every pass except `by`, which wrote it.
    pub(super) fn wrote(&mut self, row: RowId, by: Option<usize>) {
        self.world.row = row;
        for (index, pass) in self.passes.iter_mut().enumerate() {
            if by != Some(index) {
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
