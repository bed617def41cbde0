//! What a task does next: anything that makes sense with what it has learnt.

use broker_domain::{MeshRole, Phase, ProvisionedResource};
use broker_ports::Lane;
use rand::RngExt;

use super::{SLOTS, Task, number_of};
use crate::linearizability::model::{Call, Number, Recorded};

impl Task {
    pub(super) fn choose(&mut self, name: Number) -> Call {
        let slot = self.random.random_range(0..SLOTS);
        let Some(known) = self.known.clone() else {
            return match self.random.random_range(0..9) {
                0..3 => {
                    Call::Create { slot, number: name, wording: self.random.random_range(0..2) }
                }
                3..7 => Call::Lookup { slot },
                _ => self.choose_for_all(),
            };
        };
        let (number, version) = (number_of(&known), known.version().get());
        match self.random.random_range(0..16) {
            0 => Call::Lookup { slot },
            1 => Call::History { number },
            2 => Call::Pause { number, paused: self.random.random() },
            3 => Call::Schedule { number },
            4 => Call::Claim { number },
            5 | 6 if self.lease.is_some() => {
                let epoch = self.lease.as_ref().map_or(0, |lease| lease.epoch.get());
                Call::Release { number: self.leased(), epoch, seen: version }
            }
            7 | 8 if !self.claims.is_empty() => {
                let (number, sequence, _) = self.claims[0];
                Call::Acknowledge { number, sequence }
            }
            9 if !known.phase().is_teardown() => Call::Delete { number, version },
            10..12 => self.choose_record(&known),
            12..14 => self.choose_advance(&known),
            _ => self.choose_for_all(),
        }
    }

    /// Calls that are about no resource in particular.
    fn choose_for_all(&mut self) -> Call {
        let limit = if self.random.random() { 1 } else { 1_000 };
        match self.random.random_range(0..8) {
            0 => Call::List,
            1 => Call::Sweep,
            2 => Call::ClaimDue { lane: Lane::Converge, limit },
            3 => Call::ClaimDue { lane: Lane::Teardown, limit },
            4 | 5 => Call::ClaimEvents,
            6 => Call::Purge { limit },
            _ => Call::PurgeEvents,
        }
    }

    fn choose_record(&mut self, known: &ProvisionedResource) -> Call {
        let converging = !known.phase().is_teardown();
        let what = match known.mesh_role() {
            MeshRole::Node if converging && self.random.random() => Recorded::Token,
            MeshRole::Node | MeshRole::Standalone if converging => Recorded::Substrate,
            MeshRole::Node | MeshRole::Standalone if !known.token_closed() => Recorded::Closed,
            MeshRole::Node | MeshRole::Standalone => {
                return Call::History { number: number_of(known) };
            }
        };
        let (number, version) = (number_of(known), known.version().get());
        Call::Record { number, version, what, epoch: self.own_epoch(number) }
    }

    fn choose_advance(&mut self, known: &ProvisionedResource) -> Call {
        let (number, version) = (number_of(known), known.version().get());
        let may_be_ready =
            known.mesh_role() == MeshRole::Standalone || known.bootstrap_token_id().is_some();
        let to = match known.phase() {
            Phase::Pending => Phase::Provisioning,
            Phase::Provisioning if may_be_ready => Phase::Ready,
            Phase::Provisioning | Phase::Ready => Phase::Pending,
            Phase::Deregistering if known.token_closed() => Phase::Deprovisioning,
            Phase::Deprovisioning if known.substrate().is_clear() => Phase::Deleted,
            Phase::Enrolling
            | Phase::Failed
            | Phase::Deregistering
            | Phase::Deprovisioning
            | Phase::Deleted => return Call::History { number },
        };
        Call::Advance { number, version, to, epoch: self.own_epoch(number) }
    }

    /// The epoch of the lease on a resource, if the task ever had one.
    fn own_epoch(&self, number: Number) -> Option<u64> {
        let own = self.lease.as_ref().filter(|_| self.leased() == number);
        own.map(|lease| lease.epoch.get())
    }
}
