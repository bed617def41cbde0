//! The hot statements, on what, and what each may cost.
//!
//! An index of 100,000 rows is three pages high, and a row is one page more: to find something by its key
//! touches four. Bounds leave room for half as much again.

/// A statement with values, in the population of `population.sql`.
pub(super) struct Case {
    /// Its name.
    pub(super) statement: &'static str,
    /// What this case is about.
    pub(super) why: &'static str,
    /// What happens before, in the same transaction.
    pub(super) before: &'static str,
    /// Its values, as `EXECUTE` takes them.
    pub(super) values: &'static str,
    /// How many rows it gives.
    pub(super) rows: u64,
    /// How many pages it may touch, whatever it gives.
    pub(super) pages: u64,
    /// And how many more for every row that it gives.
    pub(super) pages_per_row: u64,
}

const NOTHING: &str = "SELECT";

/// Leaves 20 of the resources on their way down due, each of another Project.
const TWENTY_DUE: &str =
    "UPDATE plexsphere.provisioned_resource_schedule SET due_at = now() - interval '1 s'
    WHERE provisioned_resource_id IN (
        SELECT md5('resource ' || 20000 + 2 * n)::uuid FROM generate_series(1, 20) AS n)";

const LEASED: &str = "UPDATE plexsphere.provisioned_resource_schedule
    SET lease_owner = 'w', lease_epoch = 1, lease_until = now() + interval '1 h'
    WHERE provisioned_resource_id = md5('resource 7')::uuid";

const CLAIMED: &str = "UPDATE plexsphere.provisioning_outbox
    SET claimed_by = 'w', held_until = now() + interval '1 h', claims = 1
    WHERE event_id = md5('event 50 2')::uuid";

/// A page of 100 begins in the middle and asks for one more.
macro_rules! page {
    ($filters:literal) => {
        concat!("('80000000-0000-0000-0000-000000000000', 101, ", $filters, ", 8388608)")
    };
}

pub(super) const CASES: &[Case] = &[
    Case {
        statement: "repository.get_by_id",
        why: "one row by its key",
        before: NOTHING,
        values: "(md5('resource 7')::uuid)",
        rows: 1,
        pages: 6,
        pages_per_row: 0,
    },
    Case {
        statement: "repository.get_in_project",
        why: "one row by its key, in its own Project",
        before: NOTHING,
        values: "(md5('project 1')::uuid, md5('resource 7')::uuid)",
        rows: 1,
        pages: 6,
        pages_per_row: 0,
    },
    Case {
        statement: "repository.get_by_request",
        why: "one row by its other key",
        before: NOTHING,
        values: "(md5('project 1')::uuid, 'request-7')",
        rows: 1,
        pages: 6,
        pages_per_row: 0,
    },
    Case {
        statement: "repository.list",
        why: "everything",
        before: NOTHING,
        values: page!("NULL, NULL, NULL"),
        rows: 101,
        pages: 6,
        pages_per_row: 1,
    },
    Case {
        statement: "repository.list.phase",
        why: "one resource in twenty",
        before: NOTHING,
        values: page!("NULL, 'Failed', NULL"),
        rows: 101,
        pages: 6,
        pages_per_row: 1,
    },
    Case {
        statement: "repository.list.project",
        why: "the largest Project",
        before: NOTHING,
        values: page!("md5('project 1')::uuid, NULL, NULL"),
        rows: 101,
        pages: 6,
        pages_per_row: 1,
    },
    Case {
        statement: "repository.list.project.phase",
        why: "a phase that nothing of the largest Project is in",
        before: NOTHING,
        values: page!("md5('project 1')::uuid, 'Ready', NULL"),
        rows: 0,
        pages: 6,
        pages_per_row: 1,
    },
    Case {
        statement: "repository.list.since",
        why: "the hundred that changed within the hour, of which some come after the page's beginning",
        before: NOTHING,
        values: page!("NULL, NULL, now() - interval '1 h'"),
        rows: 40,
        pages: 12,
        pages_per_row: 6,
    },
    Case {
        statement: "repository.list.since",
        why: "everything changed: all of the index, a fiftieth of a page for each",
        before: NOTHING,
        values: page!("NULL, NULL, now() - interval '1 year'"),
        rows: 101,
        pages: 2_000,
        pages_per_row: 6,
    },
    Case {
        statement: "repository.list.phase.since",
        why: "of what changed, one phase",
        before: NOTHING,
        values: page!("NULL, 'Ready', now() - interval '1 h'"),
        rows: 33,
        pages: 12,
        pages_per_row: 6,
    },
    Case {
        statement: "repository.list.project.since",
        why: "of what changed, one Project",
        before: NOTHING,
        values: page!("md5('project 1')::uuid, NULL, now() - interval '1 h'"),
        rows: 6,
        pages: 12,
        pages_per_row: 6,
    },
    Case {
        statement: "repository.list.project.phase.since",
        why: "of what changed, nothing",
        before: NOTHING,
        values: page!("md5('project 1')::uuid, 'Ready', now() - interval '1 h'"),
        rows: 0,
        pages: 12,
        pages_per_row: 6,
    },
    Case {
        statement: "repository.sweep_page",
        why: "two tables side by side, from the page's beginning on; one row in ten is at rest",
        before: NOTHING,
        values: "('80000000-0000-0000-0000-000000000000', 101, 8388608)",
        rows: 101,
        pages: 30,
        pages_per_row: 2,
    },
    Case {
        statement: "repository.sweep_page",
        why: "one row in nine has parameters, and three of those fit: few rows behind them are given",
        before: NOTHING,
        values: "('80000000-0000-0000-0000-000000000000', 101, 120)",
        rows: 31,
        pages: 30 + 2 * 101,
        pages_per_row: 0,
    },
    Case {
        statement: "repository.list",
        why: "parameters of 40 bytes, of which two fit, and two more that say so",
        before: NOTHING,
        values: "('80000000-0000-0000-0000-000000000000', 101, NULL, NULL, NULL, 80)",
        rows: 4,
        pages: 6 + 101,
        pages_per_row: 1,
    },
    Case {
        statement: "repository.sweep_page_of_project",
        why: "the Project's index, and each row's place in the schedule by its key",
        before: NOTHING,
        values: "('80000000-0000-0000-0000-000000000000', 101, 8388608, md5('project 1')::uuid)",
        rows: 101,
        pages: 30,
        pages_per_row: 8,
    },
    Case {
        statement: "repository.write",
        why: "a change of phase with its audit line; the triggers find rows by key, too",
        before: LEASED,
        values: "(md5('resource 7')::uuid, 3, 1, '{Provisioning}', 'Enrolling', NULL, NULL, NULL, 1, false, '{}',
            NULL, NULL, NULL, NULL, now(), NULL, false, 1, 4, NULL, NULL, NULL, NULL, 'phase_changed', 'a', 'c', NULL,
            NULL)",
        rows: 1,
        pages: 60,
        pages_per_row: 0,
    },
    Case {
        statement: "repository.history",
        why: "the audit of one resource",
        before: NOTHING,
        values: "(md5('resource 7')::uuid)",
        rows: 1,
        pages: 6,
        pages_per_row: 0,
    },
    Case {
        statement: "repository.purge_deleted",
        why: "the oldest of 4,425 that are gone, of which a fifth has events under way",
        before: NOTHING,
        values: "(3600000000, 32, 'purged', 'a', 'c')",
        rows: 32,
        pages: 20,
        pages_per_row: 25,
    },
    Case {
        statement: "schedule.claim.due",
        why: "one Project has 10,000 that are due and 500 have one: each Project is looked at",
        before: NOTHING,
        values: "('converge', 32, 'w', 60000000, 'cluster-1')",
        rows: 32,
        pages: 512 + 501 * 12,
        pages_per_row: 40,
    },
    Case {
        statement: "schedule.claim.due",
        why: "most of what is due is bound to another cluster: an index tells, and the rest is served",
        before: NOTHING,
        values: "('converge', 32, 'w', 60000000, 'cluster-2')",
        rows: 32,
        pages: 512 + 501 * 12,
        pages_per_row: 40,
    },
    Case {
        statement: "schedule.claim.due",
        why: "nothing is due: no Project is looked at",
        before: NOTHING,
        values: "('teardown', 32, 'w', 60000000, 'cluster-1')",
        rows: 0,
        pages: 6,
        pages_per_row: 0,
    },
    Case {
        statement: "schedule.claim.due",
        why: "twenty are due: theirs are the only Projects that are looked at",
        before: TWENTY_DUE,
        values: "('teardown', 32, 'w', 60000000, 'cluster-1')",
        rows: 20,
        pages: 20,
        pages_per_row: 50,
    },
    Case {
        statement: "schedule.claim.one",
        why: "one row by its key",
        before: NOTHING,
        values: "(md5('resource 7')::uuid, 'w', 60000000, 'cluster-1', false)",
        rows: 1,
        pages: 40,
        pages_per_row: 0,
    },
    Case {
        statement: "schedule.release",
        why: "two rows by their keys",
        before: LEASED,
        values: "(md5('resource 7')::uuid, 1, 3, NULL, 'r', 'm', 1000000, 60000000, true)",
        rows: 1,
        pages: 50,
        pages_per_row: 0,
    },
    Case {
        statement: "outbox.claim_events",
        why: "1,900 wait behind nothing",
        before: NOTHING,
        values: "('w', 32, 60000000)",
        rows: 32,
        pages: 20,
        pages_per_row: 40,
    },
    Case {
        statement: "outbox.acknowledge_event",
        why: "one row by its key",
        before: CLAIMED,
        values: "(md5('event 50 2')::uuid, 'w', 1)",
        rows: 1,
        pages: 32,
        pages_per_row: 0,
    },
    Case {
        statement: "outbox.delay_event",
        why: "one row by its key",
        before: CLAIMED,
        values: "(md5('event 50 2')::uuid, 'w', 1, 60000000, true)",
        rows: 1,
        pages: 32,
        pages_per_row: 0,
    },
    Case {
        statement: "outbox.purge_events",
        why: "the 32 that were settled longest ago",
        before: NOTHING,
        values: "(3600000000, 32)",
        rows: 1,
        pages: 32 * 10,
        pages_per_row: 0,
    },
    Case {
        statement: "outbox.backlog",
        why: "counts 2,000 that wait: each of them, and none of the 198,000 that do not",
        before: NOTHING,
        values: "",
        rows: 1,
        pages: 2_000 + 100,
        pages_per_row: 0,
    },
];
