-- One violating statement per rule of the broker's tables. The fixture has one row in each table. The Project of the
-- resource owns nothing else. An update of a resource also changes its version.

INSERT INTO plexsphere.projects (id) VALUES (lpad('1', 32, '0')::uuid), (lpad('2', 32, '0')::uuid);
INSERT INTO plexsphere.resources (id, project_id, handle)
VALUES (lpad('3', 32, '0')::uuid, lpad('2', 32, '0')::uuid, 'web-1');
INSERT INTO plexsphere.blueprint_versions (id, slug, version, display_name, description, provider_kinds,
    injection_strategy, parameter_schema, metadata, xrd, composition)
VALUES (lpad('4', 32, '0')::uuid, 'vm', 'v1', '', '', '{}', 'helm-values', '{}', '', '', '');
INSERT INTO plexsphere.clouds (id, provider) VALUES (lpad('5', 32, '0')::uuid, 'test');
INSERT INTO plexsphere.cloud_credentials (id, cloud_id, kv_mount, kv_path)
VALUES (lpad('6', 32, '0')::uuid, lpad('5', 32, '0')::uuid, 'kv', 'path');
INSERT INTO plexsphere.provisioned_resources
    (id, resource_id, project_id, blueprint_version_id, cloud_credential_id, status, xr_name)
VALUES (lpad('7', 32, '0')::uuid, lpad('3', 32, '0')::uuid, lpad('1', 32, '0')::uuid,
    lpad('4', 32, '0')::uuid, lpad('6', 32, '0')::uuid, 'Pending', 'pr-7');
INSERT INTO plexsphere.provisioned_resource_outbox_token (provisioned_resource_id, event_type, version)
SELECT id, 'broker.ProvisionedResourceRequested', 1 FROM plexsphere.provisioned_resources;
INSERT INTO plexsphere.provisioning_outbox
    (event_id, provisioned_resource_id, sequence, event_type, occurred_at, payload)
SELECT lpad('8', 32, '0')::uuid, id, 1, 'broker.ProvisionedResourceRequested', now(), '{}'
FROM plexsphere.provisioned_resources;
INSERT INTO plexsphere.provisioned_resource_audit (action, actor, correlation_id)
VALUES ('declared', 'user:1', 'req-1');
INSERT INTO plexsphere.provisioning_turns (lane, project_id, served_at)
VALUES ('converge', lpad('1', 32, '0')::uuid, now());
INSERT INTO plexsphere.provisioning_brake (cluster_id, absent, expected, since) VALUES ('c', 9, 10, now());
INSERT INTO plexsphere.provisioning_permits
SELECT id, 'xr:1', 'c', now(), false FROM plexsphere.provisioned_resources;
INSERT INTO plexsphere.provisioning_shared_configs
    (project_id, api_group, kind, name, api_version, cloud_credential_id, last_resource_id, blueprint_version_id)
SELECT project_id, 'g', 'K', 'n', 'g/v1', cloud_credential_id, id, blueprint_version_id
FROM plexsphere.provisioned_resources;
INSERT INTO plexsphere.provisioning_shared_config_users (provisioned_resource_id, project_id, api_group, kind, name)
SELECT last_resource_id, project_id, api_group, kind, name FROM plexsphere.provisioning_shared_configs;

-- refused: 23503 provisioned_resources_project_id_fkey
UPDATE plexsphere.provisioned_resources SET version = 2, project_id = gen_random_uuid();

-- refused: 23503 provisioned_resources_resource_id_fkey
UPDATE plexsphere.provisioned_resources SET version = 2, resource_id = gen_random_uuid();

-- refused: 23503 provisioned_resources_blueprint_version_id_fkey
UPDATE plexsphere.provisioned_resources SET version = 2, blueprint_version_id = gen_random_uuid();

-- refused: 23503 provisioned_resources_cloud_credential_id_fkey
UPDATE plexsphere.provisioned_resources SET version = 2, cloud_credential_id = gen_random_uuid();

-- refused: 23514 provisioned_resources_status_check
UPDATE plexsphere.provisioned_resources SET version = 2, status = 'Odd';

-- refused: 23514 provisioned_resources_xr_name_check
UPDATE plexsphere.provisioned_resources SET version = 2, xr_name = '  ';

-- refused: 23514 provisioning_parameters_check
UPDATE plexsphere.provisioned_resources SET version = 2, parameters = '[]';

-- refused: 23514 provisioning_mesh_role_check
UPDATE plexsphere.provisioned_resources SET version = 2, mesh_role = 'guest';

-- refused: 23514 provisioning_on_failure_check
UPDATE plexsphere.provisioned_resources SET version = 2, on_failure = 'panic';

-- refused: 23514 provisioning_failure_step_check
UPDATE plexsphere.provisioned_resources SET version = 2, failure_step = 'Deleted', failure_reason = 'quota';

-- refused: 23514 provisioned_resources_failure_check
UPDATE plexsphere.provisioned_resources SET version = 2, failure_step = 'Ready';

-- refused: 23514 provisioning_token_ordinal_check
UPDATE plexsphere.provisioned_resources SET version = 2, token_ordinal = 0;

-- refused: 23514 provisioning_substrate_check
UPDATE plexsphere.provisioned_resources SET version = 2, substrate = '[]';

-- refused: 23514 provisioning_digest_check
UPDATE plexsphere.provisioned_resources SET version = 2, references_digest = '';

-- refused: 23514 provisioning_digest_check
UPDATE plexsphere.provisioned_resources SET version = 2, request_id = 'r', request_hash = '';

-- refused: 23514 provisioned_resources_request_check
UPDATE plexsphere.provisioned_resources SET version = 2, request_id = 'r';

-- refused: 23514 provisioning_ordinal_check
UPDATE plexsphere.provisioned_resources SET version = 2, event_sequence = 0;

-- refused: 23503 provisioned_resource_schedule_provisioned_resource_id_fkey
UPDATE plexsphere.provisioned_resource_schedule SET provisioned_resource_id = gen_random_uuid();

-- refused: 23514 provisioning_lane_name_check
UPDATE plexsphere.provisioned_resource_schedule SET lane = 'fast';

-- refused: 23514 provisioning_attempts_check
UPDATE plexsphere.provisioned_resource_schedule SET attempts = -1;

-- refused: 23514 provisioning_count_check
UPDATE plexsphere.provisioned_resource_schedule SET lease_epoch = -1;

-- refused: 23514 provisioned_resource_schedule_last_error_check
UPDATE plexsphere.provisioned_resource_schedule SET last_error = 'without a reason';

-- refused: 23514 provisioned_resource_schedule_lease_check
UPDATE plexsphere.provisioned_resource_schedule SET lease_owner = 'without an end';

-- refused: 23514 provisioning_lane_name_check
UPDATE plexsphere.provisioning_turns SET lane = 'fast';

-- refused: 23503 provisioned_resource_outbox_token_provisioned_resource_id_fkey
UPDATE plexsphere.provisioned_resource_outbox_token SET provisioned_resource_id = gen_random_uuid();

-- refused: 23514 provisioned_resource_outbox_token_event_type_check
UPDATE plexsphere.provisioned_resource_outbox_token SET event_type = 'broker.Odd';

-- refused: 23514 provisioning_event_version_check
UPDATE plexsphere.provisioned_resource_outbox_token SET version = -1;

-- refused: 23514 provisioning_ordinal_check
UPDATE plexsphere.provisioning_outbox SET sequence = 0;

-- refused: 23514 provisioning_event_type_check
UPDATE plexsphere.provisioning_outbox SET event_type = 'broker.Odd';

-- refused: 23514 provisioning_count_check
UPDATE plexsphere.provisioning_outbox SET claims = -1;

-- refused: 23514 provisioning_attempts_check
UPDATE plexsphere.provisioning_outbox SET attempts = -1;

-- refused: 23514 provisioning_outbox_claim_check
UPDATE plexsphere.provisioning_outbox SET claimed_by = 'without an end';

-- refused: 23514 provisioning_outbox_dead_letter_check
UPDATE plexsphere.provisioning_outbox SET dead_letter_reason = 'poison', held_until = now();

-- refused: 23505 provisioned_resources_pkey
INSERT INTO plexsphere.provisioned_resources SELECT * FROM plexsphere.provisioned_resources;

-- refused: 23505 provisioned_resources_project_id_request_id_key
INSERT INTO plexsphere.provisioned_resources (id, resource_id, project_id, blueprint_version_id,
    cloud_credential_id, status, xr_name, request_id, request_hash)
SELECT gen_random_uuid(), resource_id, project_id, blueprint_version_id, cloud_credential_id,
    'Pending', 'pr-' || n, 'again', sha256('')
FROM plexsphere.provisioned_resources, generate_series(1, 2) AS n;

-- refused: 23503 provisioned_resources_project_id_fkey
DELETE FROM plexsphere.projects WHERE id = lpad('1', 32, '0')::uuid;

-- refused: 23503 provisioned_resources_resource_id_fkey
DELETE FROM plexsphere.resources;

-- refused: 23503 provisioned_resources_blueprint_version_id_fkey
DELETE FROM plexsphere.blueprint_versions;

-- refused: 23503 provisioned_resources_cloud_credential_id_fkey
DELETE FROM plexsphere.cloud_credentials;

-- refused: 23514 provisioning_ordinal_check
UPDATE plexsphere.provisioned_resources SET version = 0;

-- refused: 23505 provisioned_resource_schedule_pkey
INSERT INTO plexsphere.provisioned_resource_schedule
SELECT * FROM plexsphere.provisioned_resource_schedule;

-- refused: 23505 provisioning_shared_configs_pkey
INSERT INTO plexsphere.provisioning_shared_configs SELECT * FROM plexsphere.provisioning_shared_configs;

-- refused: 23505 provisioning_shared_config_users_pkey
INSERT INTO plexsphere.provisioning_shared_config_users SELECT * FROM plexsphere.provisioning_shared_config_users;

-- refused: 23503 provisioning_shared_config_users_provisioned_resource_id_fkey
UPDATE plexsphere.provisioning_shared_config_users SET provisioned_resource_id = gen_random_uuid();

-- refused: 23503 provisioning_shared_config_users_config_fkey
UPDATE plexsphere.provisioning_shared_config_users SET name = 'other';

-- refused: 23505 provisioning_turns_pkey
INSERT INTO plexsphere.provisioning_turns SELECT * FROM plexsphere.provisioning_turns;

-- refused: 23505 provisioning_brake_key
INSERT INTO plexsphere.provisioning_brake SELECT * FROM plexsphere.provisioning_brake;

-- refused: 23505 provisioning_permits_pkey
INSERT INTO plexsphere.provisioning_permits SELECT * FROM plexsphere.provisioning_permits;

-- refused: 23505 provisioned_resource_outbox_token_pkey
INSERT INTO plexsphere.provisioned_resource_outbox_token
SELECT * FROM plexsphere.provisioned_resource_outbox_token;

-- refused: 23505 provisioning_outbox_pkey
INSERT INTO plexsphere.provisioning_outbox
    (event_id, provisioned_resource_id, sequence, event_type, occurred_at, payload)
SELECT event_id, gen_random_uuid(), 1, event_type, occurred_at, payload
FROM plexsphere.provisioning_outbox;

-- refused: 23505 provisioning_outbox_provisioned_resource_id_sequence_key
INSERT INTO plexsphere.provisioning_outbox
    (event_id, provisioned_resource_id, sequence, event_type, occurred_at, payload)
SELECT gen_random_uuid(), provisioned_resource_id, sequence, event_type, occurred_at, payload
FROM plexsphere.provisioning_outbox;

-- refused: 23505 provisioned_resource_audit_pkey
INSERT INTO plexsphere.provisioned_resource_audit (sequence, action, actor, correlation_id)
OVERRIDING SYSTEM VALUE
SELECT sequence, action, actor, correlation_id FROM plexsphere.provisioned_resource_audit;

-- refused: 23514 provisioning_audit_action_check
INSERT INTO plexsphere.provisioned_resource_audit (action, actor, correlation_id)
VALUES ('guessed', 'user:1', 'req-1');

-- refused: 23514 provisioning_actor_check
INSERT INTO plexsphere.provisioned_resource_audit (action, actor, correlation_id)
VALUES ('declared', 'jo@example.org', 'req-1');

-- refused: 23514 provisioning_actor_check
INSERT INTO plexsphere.provisioned_resource_audit (action, actor, correlation_id)
VALUES ('declared', 'Jo Doe', 'req-1');

-- refused: 23514 provisioning_phase_check
INSERT INTO plexsphere.provisioned_resource_audit (action, actor, correlation_id, previous_phase)
VALUES ('declared', 'user:1', 'req-1', 'Odd');

-- refused: 23514 provisioning_phase_check
INSERT INTO plexsphere.provisioned_resource_audit (action, actor, correlation_id, new_phase)
VALUES ('declared', 'user:1', 'req-1', 'Odd');

-- refused: 23514 provisioning_phase_check
INSERT INTO plexsphere.provisioned_resource_audit (action, actor, correlation_id, failed_step)
VALUES ('declared', 'user:1', 'req-1', 'Odd');

-- A trigger rejects these. Its error names no constraint.

-- refused: 23001
UPDATE plexsphere.provisioned_resource_audit SET actor = 'user:2';

-- refused: 23001
UPDATE plexsphere.provisioned_resource_audit SET event_data = 'added later';

-- refused: 23001
DELETE FROM plexsphere.provisioned_resource_audit;

-- refused: 23001
TRUNCATE plexsphere.provisioned_resource_audit;
