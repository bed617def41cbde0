//! Counts lost composite resources and decides which brakes they set. Pure.
//!
//! A loss is a composite resource that was applied, should exist, and is absent from the watch cache. A row does not
//! count if it is paused or behind a closed gate, because no pass re-creates its object.

use std::collections::{BTreeMap, BTreeSet};

use broker_domain::{BlueprintVersionId, ProjectId, ProvisionedResourceId, XrUid};
use broker_ports::{Brake, CachedXr, CompactRow, Loss, LostObject};
use time::OffsetDateTime;

use crate::observe::Gate;

/// A brake needs more losses than this, and more than a tenth of the expected ones.
const MAX_BELIEVED: u64 = 5;

#[derive(Default)]
pub(super) struct Losses {
    expected: BTreeMap<ProjectId, u64>,
    lost: BTreeMap<ProvisionedResourceId, LostXr>,
}

struct LostXr {
    project: ProjectId,
    blueprint: BlueprintVersionId,
    uid: XrUid,
}

/// Whether the composite resource should exist.
pub(crate) fn is_expected(row: &CompactRow) -> bool {
    row.phase.is_converging() && row.applied.is_some()
}

/// Whether the composite resource should exist and is absent from the cache.
pub(super) fn is_lost(row: &CompactRow, cached: &CachedXr) -> bool {
    is_expected(row) && matches!(cached, CachedXr::Absent)
}

impl Losses {
    pub(super) fn count(&mut self, row: &CompactRow, cached: &CachedXr, gate: Gate) {
        if row.paused || !is_expected(row) {
            return;
        }
        *self.expected.entry(row.project_id).or_default() += 1;
        if let (true, true, Some(uid)) = (is_lost(row, cached), gate.is_open(), &row.applied) {
            let lost = LostXr {
                project: row.project_id,
                blueprint: row.blueprint_version_id,
                uid: uid.clone(),
            };
            self.lost.insert(row.id, lost);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.lost.len()
    }

    /// One lost resource per blueprint, to check once per blueprint whether the kind still exists.
    pub(super) fn samples(&self) -> BTreeMap<BlueprintVersionId, ProvisionedResourceId> {
        self.lost.iter().map(|(id, lost)| (lost.blueprint, *id)).collect()
    }

    /// Drops the losses of a blueprint whose kind was removed: no pass can re-create these objects.
    pub(super) fn forget_blueprint(&mut self, blueprint: BlueprintVersionId) {
        self.lost.retain(|_, lost| lost.blueprint != blueprint);
    }

    pub(super) fn forget_accepted(&mut self, accepted: &BTreeSet<Loss>) {
        self.lost.retain(|id, lost| {
            !accepted.contains(&Loss { resource: *id, lost: LostObject::Xr(lost.uid.clone()) })
        });
    }

    /// The brakes that these losses set.
    ///
    /// One Project over its limit gets its own brake. Two such Projects, or smaller losses that together exceed the
    /// limit, set the brake of the cluster. So a tenant that deletes its own objects does not stop other Projects.
    pub(super) fn brakes(&self, now: OffsetDateTime) -> Vec<Brake> {
        let mut lost = BTreeMap::<ProjectId, u64>::new();
        for LostXr { project, .. } in self.lost.values() {
            *lost.entry(*project).or_default() += 1;
        }
        let expected = |project: &ProjectId| self.expected.get(project).copied().unwrap_or(0);
        let (over_limit, others): (BTreeMap<_, _>, BTreeMap<_, _>) =
            lost.iter().partition(|(project, lost)| too_many(**lost, expected(project)));
        let all_expected = self.expected.values().sum();
        let scattered = others.len() > 1 && too_many(others.values().copied().sum(), all_expected);
        if over_limit.len() > 1 || scattered {
            return vec![Brake::new(lost.values().sum(), all_expected, now)];
        }
        let project_brake = |(project, lost): (&ProjectId, &u64)| {
            Brake::new(*lost, expected(project), now).of_project(*project)
        };
        over_limit.into_iter().map(project_brake).collect()
    }
}

fn too_many(lost: u64, expected: u64) -> bool {
    lost > MAX_BELIEVED.max(expected / 10)
}

#[cfg(test)]
mod tests {
    use broker_domain::{MeshRole, Phase};
    use broker_ports::NamespacePhase;
    use broker_testkit::builders::id;
    use time::OffsetDateTime;

    use super::*;

    fn row(number: u128, project: u128) -> CompactRow {
        let role = MeshRole::Standalone;
        let mut row =
            CompactRow::new(id(number), id(project), id(1), id(project), id(1), role, Phase::Ready);
        row.applied = Some(XrUid::new(format!("uid-{number}")).unwrap());
        row
    }

    /// One entry per Project: the number of resources, and how many of them are lost.
    fn losses(projects: &[(u64, u64)]) -> Losses {
        let mut losses = Losses::default();
        let mut number = 0;
        for ((total, lost), project) in projects.iter().zip(1..) {
            for index in 0..*total {
                number += 1;
                let mut row = row(number, project);
                // Only `applied` and the phase decide what is expected.
                if index < *lost {
                    losses.count(&row, &CachedXr::Absent, Gate::Open);
                } else {
                    row.paused = false;
                    *losses.expected.entry(row.project_id).or_default() += 1;
                }
            }
        }
        losses
    }

    #[test]
    fn losses_over_a_limit_set_a_project_or_cluster_brake() {
        type Case = (&'static str, &'static [(u64, u64)], &'static [Option<u128>]);
        let cases: [Case; 9] = [
            ("nothing is lost", &[(100, 0)], &[]),
            ("five are within the limit", &[(5, 5)], &[]),
            ("six of eight exceed the limit", &[(8, 6)], &[Some(1)]),
            ("a tenth is within the limit", &[(100, 10)], &[]),
            ("a tenant deletes its own objects", &[(50, 50), (1_000, 0)], &[Some(1)]),
            (
                "a tenant deletes its own objects and another Project loses one",
                &[(500, 500), (500, 1)],
                &[Some(1)],
            ),
            ("two Projects lose too much", &[(8, 8), (8, 8), (1_000, 0)], &[None]),
            ("many Projects lose a little", &[(3, 3), (3, 3), (3, 3)], &[None]),
            ("two Projects lose little", &[(100, 4), (100, 4)], &[]),
        ];
        for (why, projects, expected) in cases {
            let brakes = losses(projects).brakes(OffsetDateTime::UNIX_EPOCH);
            let held: Vec<_> = brakes.iter().map(|brake| brake.project).collect();
            let expected: Vec<_> = expected.iter().map(|project| project.map(id)).collect();
            assert_eq!(held, expected, "{why}");
        }
    }

    #[test]
    fn losses_that_no_pass_re_creates_are_not_counted() {
        type Case = (&'static str, fn(&mut CompactRow), NamespacePhase, usize);
        use NamespacePhase::{Degraded, Ready, Terminating};
        let cases: [Case; 6] = [
            ("an applied row counts", |_| {}, Ready, 1),
            ("a Pending row counts", |row| row.phase = Phase::Pending, Ready, 1),
            ("a paused row does not", |row| row.paused = true, Ready, 0),
            ("a row of a terminating namespace does not", |_| {}, Terminating, 0),
            ("a row of a degraded namespace is re-created, so it counts", |_| {}, Degraded, 1),
            ("a row that was never applied does not", |row| row.applied = None, Ready, 0),
        ];
        for (why, change, phase, expected) in cases {
            let mut row = row(1, 1);
            change(&mut row);
            let mut losses = Losses::default();
            let gate = Gate::of_namespace(phase, row.applied.as_ref());
            losses.count(&row, &CachedXr::Absent, gate);
            assert_eq!(losses.len(), expected, "{why}");
        }
    }

    #[test]
    fn accepted_losses_and_removed_kinds_are_dropped() {
        let mut accepted = losses(&[(8, 8)]);
        let uid = XrUid::new("uid-1").unwrap();
        accepted.forget_accepted(&[Loss { resource: id(1), lost: LostObject::Xr(uid) }].into());
        assert_eq!(accepted.len(), 7, "one was accepted");
        let other = XrUid::new("uid-of-before").unwrap();
        accepted.forget_accepted(&[Loss { resource: id(2), lost: LostObject::Xr(other) }].into());
        assert_eq!(accepted.len(), 7, "a later loss counts again");
        let mut removed = losses(&[(8, 8), (2, 2)]);
        removed.forget_blueprint(id(1));
        assert_eq!(removed.len(), 2);
    }
}
