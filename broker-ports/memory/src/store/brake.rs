//! Persist: brakes, and permits for losses, in memory.

use std::collections::BTreeSet;

use broker_domain::{ClusterId, ProjectId, ProvisionedResource};
use time::OffsetDateTime;

use super::state::State;
use broker_ports::{
    Allowance, Attribution, AuditAction, AuditEntry, Brake, BrakeRelease, Loss, Permit,
    PermitRequest,
};

/// A granted permit or an accepted loss.
pub(super) struct PermitRecord {
    cluster: ClusterId,
    granted_at: OffsetDateTime,
    pub(super) accepted: bool,
}

impl State {
    pub(super) fn brakes_of(&self, cluster: &ClusterId) -> Vec<Brake> {
        let first = (cluster.clone(), None);
        let of_cluster = self.brakes.range(first..).take_while(|((owner, _), _)| owner == cluster);
        of_cluster.map(|(_, brake)| brake.clone()).collect()
    }

    pub(super) fn set_brake(&mut self, cluster: &ClusterId, brake: &Brake, by: &Attribution) {
        let key = (cluster.clone(), brake.project);
        if self.brakes.contains_key(&key) {
            return;
        }
        self.brakes.insert(key, brake.clone());
        self.append_audit(brake_audit(AuditAction::BrakeSet, brake.project, by), None, None);
    }

    pub(super) fn release_brake(&mut self, release: &BrakeRelease) -> bool {
        let BrakeRelease { cluster, project, accepted, by, .. } = release;
        let was_set = self.brakes.remove(&(cluster.clone(), *project)).is_some();
        if was_set {
            self.append_audit(brake_audit(AuditAction::BrakeReleased, *project, by), None, None);
        }
        let now = self.now;
        for loss in accepted {
            let Some(row) = self.rows.get_mut(&loss.resource) else { continue };
            row.schedule.reset(now);
            row.schedule.request_pass(now);
            let record = PermitRecord { cluster: cluster.clone(), granted_at: now, accepted: true };
            self.permits.insert(loss.clone(), record);
            self.listeners.notify(loss.resource);
        }
        was_set
    }

    pub(super) fn accepted_losses(&self, cluster: &ClusterId) -> BTreeSet<Loss> {
        let accepted =
            self.permits.iter().filter(|(_, record)| record.accepted && record.cluster == *cluster);
        accepted.map(|(loss, _)| loss.clone()).collect()
    }

    pub(super) fn permit(&mut self, request: &PermitRequest) -> Permit {
        let PermitRequest { lease, seen, cluster, lost, allowance, by, .. } = request;
        let Some(row) = self.rows.get(&lease.resource) else { return Permit::Stale };
        if row.schedule.epoch != lease.epoch {
            return Permit::LeaseLost;
        }
        let resource = &row.resource;
        if resource.version() != *seen {
            return Permit::Stale;
        }
        let project = resource.project_id();
        if self.brakes_of(cluster).iter().any(|brake| brake.holds(project, true)) {
            return Permit::Braked;
        }
        let loss = Loss { resource: lease.resource, lost: lost.clone() };
        // A permit that is older than the window is charged again.
        let is_in_force = |record: &PermitRecord| {
            record.accepted || record.granted_at + allowance.within > self.now
        };
        if self.permits.get(&loss).is_some_and(is_in_force) {
            return Permit::Granted;
        }
        if self.spent(cluster, *allowance) >= allowance.permits(self.fleet(cluster)) {
            return Permit::OverBudget;
        }
        let entry = AuditEntry::new(AuditAction::PermitTaken, by.clone())
            .in_project(project)
            .for_resource(lease.resource)
            .in_phase(resource.phase());
        self.append_audit(entry, None, Some(lease.epoch));
        let record =
            PermitRecord { cluster: cluster.clone(), granted_at: self.now, accepted: false };
        self.permits.insert(loss, record);
        Permit::Granted
    }

    /// The number of permits granted within the window, without accepted losses.
    fn spent(&self, cluster: &ClusterId, allowance: Allowance) -> u64 {
        let counts = |record: &&PermitRecord| {
            !record.accepted
                && record.cluster == *cluster
                && record.granted_at + allowance.within > self.now
        };
        self.permits.values().filter(counts).count() as u64
    }

    /// The number of converging resources that were applied on the cluster.
    fn fleet(&self, cluster: &ClusterId) -> u64 {
        let counts = |resource: &ProvisionedResource| {
            resource.phase().is_converging()
                && resource.substrate().applied().is_some()
                && resource.substrate().cluster() == Some(cluster)
        };
        self.rows.values().filter(|row| counts(&row.resource)).count() as u64
    }
}

fn brake_audit(action: AuditAction, project: Option<ProjectId>, by: &Attribution) -> AuditEntry {
    let entry = AuditEntry::new(action, by.clone());
    match project {
        Some(project) => entry.in_project(project),
        None => entry,
    }
}
