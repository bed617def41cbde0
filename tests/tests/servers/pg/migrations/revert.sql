-- One resource in every phase outside teardown, with events including a second Ready, an audit line, a pause and a
-- brake. Its references have its id. Triggers are disabled: the test checks the kept data, not how writers create it.

SET session_replication_role = replica;
INSERT INTO plexsphere.provisioned_resources
    (id, resource_id, project_id, blueprint_version_id, cloud_credential_id, status, xr_name, parameters,
     failure_step, failure_reason, token_closed, request_id, request_hash, phase_entered_at,
     bootstrap_token_id, deletion_requested_at, substrate, cluster_id, event_sequence, version)
SELECT id, id, id, id, id, status, 'xr-' || id, '{"size":"small"}',
    CASE WHEN status = 'Failed' THEN 'Provisioning' END, CASE WHEN status = 'Failed' THEN 'quota' END,
    status = 'Deleted', 'request', sha256('x'), now(), id, CASE WHEN status = 'Deleted' THEN now() END,
    '{"composed": []}', id::text, 2, 3
FROM (SELECT md5(status)::uuid AS id, status
      FROM unnest(ARRAY['Pending', 'Provisioning', 'Enrolling', 'Ready', 'Failed', 'Deleted']) AS status) AS r;
INSERT INTO plexsphere.projects (id) SELECT id FROM plexsphere.provisioned_resources;
INSERT INTO plexsphere.resources (id, project_id, handle) SELECT id, id, id::text FROM plexsphere.provisioned_resources;
INSERT INTO plexsphere.blueprint_versions (id, slug, version, display_name, description, provider_kinds,
    injection_strategy, parameter_schema, metadata, xrd, composition)
SELECT id, id::text, 'v1', '', '', '{}', 'helm-values', '{}', '', '', '' FROM plexsphere.provisioned_resources;
INSERT INTO plexsphere.clouds (id, provider) SELECT id, 'test' FROM plexsphere.provisioned_resources;
INSERT INTO plexsphere.cloud_credentials (id, cloud_id, kv_mount, kv_path)
SELECT id, id, 'kv', 'path' FROM plexsphere.provisioned_resources;
INSERT INTO plexsphere.provisioned_resource_schedule (provisioned_resource_id, project_id, paused)
SELECT id, project_id, true FROM plexsphere.provisioned_resources;
INSERT INTO plexsphere.provisioning_turns (lane, project_id, served_at)
SELECT 'converge', project_id, now() FROM plexsphere.provisioned_resources;
INSERT INTO plexsphere.provisioning_brake VALUES ('a cluster', NULL, 1, 2, now());
INSERT INTO plexsphere.provisioned_resource_outbox_token (provisioned_resource_id, event_type, version)
SELECT id, event.type, event.version FROM plexsphere.provisioned_resources
    CROSS JOIN (VALUES ('broker.ProvisionedResourceRequested', 1), ('broker.ProvisionedResourceReady', 2),
                       ('broker.ProvisionedResourceReady', 4), ('broker.ProvisionedResourceDeleted', 5))
        AS event (type, version);
INSERT INTO plexsphere.provisioning_outbox
    (event_id, provisioned_resource_id, sequence, event_type, occurred_at, payload)
SELECT id, id, 1, 'broker.ProvisionedResourceRequested', now(), '{}' FROM plexsphere.provisioned_resources;
INSERT INTO plexsphere.provisioned_resource_audit
    (project_id, provisioned_resource_id, action, actor, correlation_id)
SELECT project_id, id, 'declared', 'operator', 'c' FROM plexsphere.provisioned_resources;
SET session_replication_role = origin;
