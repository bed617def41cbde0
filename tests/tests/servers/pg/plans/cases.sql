-- The hot statements, on what, and what each may cost, in the population of `population.sql`.
--
-- A case begins with its statement and why it is here. The next line says how many rows it gives, how many pages it may
-- touch whatever it gives, and how many more for every row. Statements before `EXECUTE` run in the same transaction.
--
-- An index of 100,000 rows is three pages high, and a row is one page more: to find something by its key touches four.
-- Bounds leave room for half as much again. A page of 100 begins in the middle and asks for one more.

-- case repository.get_by_id: one row by its key
-- rows 1, pages 6 and 0 per row
EXECUTE hot(md5('resource 7')::uuid);

-- case repository.get_in_project: one row by its key, in its own Project
-- rows 1, pages 6 and 0 per row
EXECUTE hot(md5('project 1')::uuid, md5('resource 7')::uuid);

-- case repository.get_by_request: one row by its other key
-- rows 1, pages 6 and 0 per row
EXECUTE hot(md5('project 1')::uuid, 'request-7');

-- case repository.list: everything
-- rows 101, pages 6 and 1 per row
EXECUTE hot('80000000-0000-0000-0000-000000000000', 101, NULL, NULL, NULL, 8388608);

-- case repository.list.phase: one resource in twenty
-- rows 101, pages 6 and 1 per row
EXECUTE hot('80000000-0000-0000-0000-000000000000', 101, NULL, 'Failed', NULL, 8388608);

-- case repository.list.project: the largest Project
-- rows 101, pages 6 and 1 per row
EXECUTE hot('80000000-0000-0000-0000-000000000000', 101, md5('project 1')::uuid, NULL, NULL, 8388608);

-- case repository.list.project.phase: a phase that nothing of the largest Project is in
-- rows 0, pages 6 and 1 per row
EXECUTE hot('80000000-0000-0000-0000-000000000000', 101, md5('project 1')::uuid, 'Ready', NULL, 8388608);

-- case repository.list.since: the hundred that changed within the hour, of which some come after the page's beginning
-- rows 40, pages 12 and 6 per row
EXECUTE hot('80000000-0000-0000-0000-000000000000', 101, NULL, NULL, now() - interval '1 h', 8388608);

-- case repository.list.since: everything changed: all of the index, a fiftieth of a page for each
-- rows 101, pages 2000 and 6 per row
EXECUTE hot('80000000-0000-0000-0000-000000000000', 101, NULL, NULL, now() - interval '1 year', 8388608);

-- case repository.list.phase.since: of what changed, one phase
-- rows 33, pages 12 and 6 per row
EXECUTE hot('80000000-0000-0000-0000-000000000000', 101, NULL, 'Ready', now() - interval '1 h', 8388608);

-- case repository.list.project.since: of what changed, one Project
-- rows 6, pages 12 and 6 per row
EXECUTE hot('80000000-0000-0000-0000-000000000000', 101, md5('project 1')::uuid, NULL, now() - interval '1 h', 8388608);

-- case repository.list.project.phase.since: of what changed, nothing
-- rows 0, pages 12 and 6 per row
EXECUTE hot('80000000-0000-0000-0000-000000000000', 101, md5('project 1')::uuid, 'Ready', now() - interval '1 h', 8388608);

-- case repository.sweep_page: two tables side by side, from the page's beginning on; one row in ten is at rest
-- rows 101, pages 30 and 2 per row
EXECUTE hot('80000000-0000-0000-0000-000000000000', 101, 8388608);

-- case repository.sweep_page: one row in nine has parameters, and three of those fit: few rows behind them are given
-- rows 31, pages 232 and 0 per row
EXECUTE hot('80000000-0000-0000-0000-000000000000', 101, 120);

-- case repository.list: parameters of 40 bytes, of which two fit, and two more that say so
-- rows 4, pages 107 and 1 per row
EXECUTE hot('80000000-0000-0000-0000-000000000000', 101, NULL, NULL, NULL, 80);

-- case repository.sweep_page_of_project: the Project's index, and each row's place in the schedule by its key
-- rows 101, pages 30 and 8 per row
EXECUTE hot('80000000-0000-0000-0000-000000000000', 101, 8388608, md5('project 1')::uuid);

-- case repository.write: a change of phase with its audit line; the triggers find rows by key, too
-- rows 1, pages 60 and 0 per row
UPDATE plexsphere.provisioned_resource_schedule
SET lease_owner = 'w', lease_epoch = 1, lease_until = now() + interval '1 h'
WHERE provisioned_resource_id = md5('resource 7')::uuid;
EXECUTE hot(md5('resource 7')::uuid, 3, 1, '{Provisioning}', 'Enrolling', NULL, NULL, NULL, 1, false, '{}',
    NULL, NULL, NULL, NULL, now(), NULL, false, 1, 4, NULL, NULL, NULL, NULL, 'phase_changed', 'a', 'c', NULL,
    NULL);

-- case repository.history: the audit of one resource
-- rows 1, pages 6 and 0 per row
EXECUTE hot(md5('resource 7')::uuid);

-- case repository.purge_deleted: the oldest of 4,425 that are gone, of which a fifth has events under way
-- rows 32, pages 20 and 25 per row
EXECUTE hot(3600000000, 32, 'purged', 'a', 'c');

-- case schedule.claim.due: one Project has 10,000 that are due and 500 have one: each Project is looked at
-- rows 32, pages 6524 and 40 per row
EXECUTE hot('converge', 32, 'w', 60000000, 'cluster-1');

-- case schedule.claim.due: most of what is due is bound to another cluster: an index tells, and the rest is served
-- rows 32, pages 6524 and 40 per row
EXECUTE hot('converge', 32, 'w', 60000000, 'cluster-2');

-- case schedule.claim.due: nothing is due: no Project is looked at
-- rows 0, pages 6 and 0 per row
EXECUTE hot('teardown', 32, 'w', 60000000, 'cluster-1');

-- case schedule.claim.due: twenty are due: theirs are the only Projects that are looked at
-- rows 20, pages 20 and 50 per row
UPDATE plexsphere.provisioned_resource_schedule SET due_at = now() - interval '1 s'
WHERE provisioned_resource_id IN (
    SELECT md5('resource ' || 20000 + 2 * n)::uuid FROM generate_series(1, 20) AS n);
EXECUTE hot('teardown', 32, 'w', 60000000, 'cluster-1');

-- case schedule.claim.one: one row by its key
-- rows 1, pages 40 and 0 per row
EXECUTE hot(md5('resource 7')::uuid, 'w', 60000000, 'cluster-1', false);

-- case schedule.release: two rows by their keys
-- rows 1, pages 50 and 0 per row
UPDATE plexsphere.provisioned_resource_schedule
SET lease_owner = 'w', lease_epoch = 1, lease_until = now() + interval '1 h'
WHERE provisioned_resource_id = md5('resource 7')::uuid;
EXECUTE hot(md5('resource 7')::uuid, 1, 3, NULL, 'r', 'm', 1000000, 60000000, true);

-- case outbox.claim_events: 1,900 wait behind nothing
-- rows 32, pages 20 and 40 per row
EXECUTE hot('w', 32, 60000000);

-- case outbox.acknowledge_event: one row by its key
-- rows 1, pages 32 and 0 per row
UPDATE plexsphere.provisioning_outbox
SET claimed_by = 'w', held_until = now() + interval '1 h', claims = 1
WHERE event_id = md5('event 50 2')::uuid;
EXECUTE hot(md5('event 50 2')::uuid, 'w', 1);

-- case outbox.delay_event: one row by its key
-- rows 1, pages 32 and 0 per row
UPDATE plexsphere.provisioning_outbox
SET claimed_by = 'w', held_until = now() + interval '1 h', claims = 1
WHERE event_id = md5('event 50 2')::uuid;
EXECUTE hot(md5('event 50 2')::uuid, 'w', 1, 60000000, true);

-- case outbox.purge_events: the 32 that were settled longest ago
-- rows 1, pages 320 and 0 per row
EXECUTE hot(3600000000, 32);

-- case outbox.backlog: counts 2,000 that wait: each of them, and none of the 198,000 that do not
-- rows 1, pages 2100 and 0 per row
EXECUTE hot;
