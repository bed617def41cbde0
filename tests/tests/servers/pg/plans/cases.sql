-- The hot statements with their arguments and cost limits, for the data of `population.sql`.
--
-- The first line of a case names the statement and the reason for the case. The second line has the expected rows, the
-- limit of pages independent of rows, and the limit of pages per row. Statements before `EXECUTE` run in the same
-- transaction.
--
-- An index of 100,000 rows has three levels and a row is on one more page, so a lookup by key touches four pages. The
-- limits add half of that. A page of 100 rows starts in the middle of the ids and reads one row more.

-- case repository.get_by_id: one row by its key
-- rows 1, pages 6 and 0 per row
EXECUTE hot(md5('resource 7')::uuid);

-- case repository.get_in_project: one row by its key and Project
-- rows 1, pages 6 and 0 per row
EXECUTE hot(md5('project 1')::uuid, md5('resource 7')::uuid);

-- case repository.get_by_request: one row by its idempotency key
-- rows 1, pages 6 and 0 per row
EXECUTE hot(md5('project 1')::uuid, 'request-7');

-- case repository.list: no filter
-- rows 101, pages 6 and 1 per row
EXECUTE hot('80000000-0000-0000-0000-000000000000', 101, NULL, NULL, NULL, 8388608);

-- case repository.list.phase: one resource in twenty
-- rows 101, pages 6 and 1 per row
EXECUTE hot('80000000-0000-0000-0000-000000000000', 101, NULL, 'Failed', NULL, 8388608);

-- case repository.list.project: the largest Project
-- rows 101, pages 6 and 1 per row
EXECUTE hot('80000000-0000-0000-0000-000000000000', 101, md5('project 1')::uuid, NULL, NULL, 8388608);

-- case repository.list.project.phase: a phase without resources in the largest Project
-- rows 0, pages 6 and 1 per row
EXECUTE hot('80000000-0000-0000-0000-000000000000', 101, md5('project 1')::uuid, 'Ready', NULL, 8388608);

-- case repository.list.credential: the credential of the largest Project
-- rows 101, pages 6 and 1 per row
EXECUTE hot('80000000-0000-0000-0000-000000000000', 101, NULL, NULL, NULL, 8388608, md5('project 1')::uuid);

-- case repository.list.since: 100 changes within the hour, some of them after the start of the page
-- rows 40, pages 12 and 6 per row
EXECUTE hot('80000000-0000-0000-0000-000000000000', 101, NULL, NULL, now() - interval '1 h', 8388608);

-- case repository.list.since: every row changed: reads the whole index, a fiftieth of a page per entry
-- rows 101, pages 2000 and 6 per row
EXECUTE hot('80000000-0000-0000-0000-000000000000', 101, NULL, NULL, now() - interval '1 year', 8388608);

-- case repository.list.phase.since: changes in one phase
-- rows 33, pages 12 and 6 per row
EXECUTE hot('80000000-0000-0000-0000-000000000000', 101, NULL, 'Ready', now() - interval '1 h', 8388608);

-- case repository.list.project.since: changes in one Project
-- rows 6, pages 12 and 6 per row
EXECUTE hot('80000000-0000-0000-0000-000000000000', 101, md5('project 1')::uuid, NULL, now() - interval '1 h', 8388608);

-- case repository.list.project.phase.since: no change matches
-- rows 0, pages 12 and 6 per row
EXECUTE hot('80000000-0000-0000-0000-000000000000', 101, md5('project 1')::uuid, 'Ready', now() - interval '1 h', 8388608);

-- case repository.sweep_page: joins two tables from the start of the page; one row in ten is settled
-- rows 101, pages 30 and 2 per row
EXECUTE hot('80000000-0000-0000-0000-000000000000', 101, 8388608);

-- case repository.sweep_page: the size limit for parameters shortens the page: three rows with parameters fit
-- rows 31, pages 232 and 0 per row
EXECUTE hot('80000000-0000-0000-0000-000000000000', 101, 120);

-- case repository.list: the size limit fits two rows of 40 bytes; two more rows show that the page is short
-- rows 4, pages 107 and 1 per row
EXECUTE hot('80000000-0000-0000-0000-000000000000', 101, NULL, NULL, NULL, 80);

-- case repository.sweep_page_of_project: the Project's index, and one schedule row by key per resource
-- rows 101, pages 30 and 8 per row
EXECUTE hot('80000000-0000-0000-0000-000000000000', 101, 8388608, md5('project 1')::uuid);

-- case repository.write: a phase change with its audit line; triggers also read rows by key
-- rows 1, pages 60 and 0 per row
UPDATE plexsphere.provisioned_resource_schedule
SET lease_owner = 'w', lease_epoch = 1, lease_until = now() + interval '1 h'
WHERE provisioned_resource_id = md5('resource 7')::uuid;
EXECUTE hot(md5('resource 7')::uuid, 3, 1, '{Provisioning}', 'Enrolling', NULL, NULL, NULL, 1, false, '{}',
    NULL, NULL, NULL, NULL, now(), NULL, false, 1, 4, NULL, NULL, NULL, NULL, 'phase_changed', 'a', 'c', NULL,
    NULL, NULL);

-- case repository.history: the audit of one resource
-- rows 1, pages 6 and 0 per row
EXECUTE hot(md5('resource 7')::uuid);

-- case repository.purge_deleted: the oldest of 4,425 Deleted rows, a fifth of them with undelivered events
-- rows 32, pages 20 and 25 per row
EXECUTE hot(3600000000, 32, 'purged', 'a', 'c');

-- case schedule.claim.due: one Project has 10,000 due rows and 500 have one: reads every Project
-- rows 32, pages 6524 and 40 per row
EXECUTE hot('converge', 32, 'w', 60000000, 'cluster-1');

-- case schedule.claim.due: most due rows belong to another cluster: the index skips them
-- rows 32, pages 6524 and 40 per row
EXECUTE hot('converge', 32, 'w', 60000000, 'cluster-2');

-- case schedule.claim.due: no row is due: reads no Project
-- rows 0, pages 6 and 0 per row
EXECUTE hot('teardown', 32, 'w', 60000000, 'cluster-1');

-- case schedule.claim.due: twenty rows are due: reads only their Projects
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

-- case outbox.claim_events: 1,900 events wait and none blocks another
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

-- case outbox.purge_events: the 32 events with the oldest settlement
-- rows 1, pages 320 and 0 per row
EXECUTE hot(3600000000, 32);

-- case outbox.backlog: counts 2,000 waiting events and reads none of the 198,000 settled ones
-- rows 1, pages 2100 and 0 per row
EXECUTE hot;
