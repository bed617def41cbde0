-- 100,000 resources of 501 Projects, as after months of use. Ids are random, so that adjacent index entries point to
-- different table pages: the worst case for a page of rows.
--
-- Triggers and foreign keys are disabled, because they would take minutes.

SET session_replication_role = replica;

-- Autovacuum sets visibility bits, which would change the number of pages that a statement reads.
ALTER TABLE plexsphere.provisioned_resources SET (autovacuum_enabled = off);
ALTER TABLE plexsphere.provisioned_resource_schedule SET (autovacuum_enabled = off);
ALTER TABLE plexsphere.provisioning_turns SET (autovacuum_enabled = off);
ALTER TABLE plexsphere.provisioning_outbox SET (autovacuum_enabled = off);
ALTER TABLE plexsphere.provisioned_resource_audit SET (autovacuum_enabled = off);

-- One Project has 10,000 due resources and 500 others have one each. The rest is scheduled for later, left to the
-- sweep, Failed or Deleted.
CREATE TEMPORARY TABLE population AS
SELECT n, md5('resource ' || n)::uuid AS id,
    md5('project ' || CASE WHEN n <= 10000 THEN 1 ELSE 2 + n % 500 END)::uuid AS project_id,
    CASE WHEN n <= 10500 THEN 'Provisioning'
         WHEN n BETWEEN 20001 AND 21000 THEN 'Deprovisioning'
         WHEN n % 20 = 0 THEN 'Deleted'
         WHEN n % 20 = 1 THEN 'Failed'
         ELSE 'Ready' END AS status,
    now() - make_interval(days => 100, secs => n) AS created_at,
    -- 100 resources changed within the last hour, all others more than a day ago.
    now() - CASE WHEN n % 1000 = 3 THEN make_interval(secs => n / 1000.0)
                 ELSE make_interval(days => 1, secs => n) END AS updated_at
FROM generate_series(1, 100000) AS n;

INSERT INTO plexsphere.provisioned_resources
    (id, resource_id, project_id, blueprint_version_id, cloud_credential_id, status, xr_name, parameters,
     failure_step, failure_reason, token_closed, request_id, request_hash, created_at, updated_at,
     phase_entered_at, event_sequence, version)
SELECT id, id, project_id, md5('blueprint ' || n % 10)::uuid, project_id, status, 'xr-' || id,
    '{"region":"eu-central-1","size":"small"}',
    CASE WHEN status = 'Failed' THEN 'Provisioning' END, CASE WHEN status = 'Failed' THEN 'quota' END,
    status = 'Deleted', 'request-' || n, sha256(id::text::bytea), created_at, updated_at, updated_at, 1, 3
FROM population;

-- Two thirds are bound to one cluster, the others are unbound.
INSERT INTO plexsphere.provisioned_resource_schedule
    (provisioned_resource_id, project_id, lane, cluster_id, due_at)
SELECT id, project_id, plexsphere.provisioning_lane(status, 'retain'), CASE WHEN n % 3 > 0 THEN 'cluster-1' END,
    CASE WHEN n <= 10500 THEN now() - make_interval(secs => n / 10.0)
         WHEN n % 2 = 0 THEN now() + make_interval(days => 1, secs => n) END
FROM population;

INSERT INTO plexsphere.provisioning_turns (lane, project_id, served_at)
SELECT DISTINCT 'converge', project_id, now() - interval '1 day' FROM population WHERE n % 3 = 0;

-- Two events per resource. For 2,000 resources the second event is unsettled; 100 of those are dead-lettered.
INSERT INTO plexsphere.provisioning_outbox
    (event_id, provisioned_resource_id, sequence, event_type, occurred_at, payload, settled_at, dead_letter_reason)
SELECT md5('event ' || n || ' ' || sequence)::uuid, id, sequence,
    CASE sequence WHEN 1 THEN 'broker.ProvisionedResourceRequested' ELSE 'broker.ProvisionedResourceReady' END,
    updated_at, '{}', CASE WHEN sequence = 1 OR n % 50 > 0 THEN updated_at END,
    CASE WHEN sequence = 2 AND n % 1000 = 0 THEN 'refused' END
FROM population CROSS JOIN generate_series(1, 2) AS sequence
ORDER BY sequence, n;

INSERT INTO plexsphere.provisioned_resource_audit
    (project_id, provisioned_resource_id, action, actor, correlation_id, at)
SELECT project_id, id, 'declared', 'operator', 'population', created_at FROM population;

-- A mass loss that an operator accepted.
INSERT INTO plexsphere.provisioning_permits (provisioned_resource_id, loss, cluster_id, taken_at, accepted)
SELECT id, 'xr:' || n, 'cluster-1', now() - make_interval(secs => n), true FROM population WHERE n <= 5000;

SET session_replication_role = origin;
