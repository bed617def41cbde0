-- The statements that the first release executes on the tables of 0026 and 0027. They must run on later schemas, too.

-- name: CreateProvisionedResource
INSERT INTO plexsphere.provisioned_resources
    (id, resource_id, project_id, blueprint_version_id, cloud_credential_id, status, xr_name,
     bootstrap_token_id, created_at, updated_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10);

-- name: AppendOutboxToken
INSERT INTO plexsphere.provisioned_resource_outbox_token (provisioned_resource_id, event_type)
VALUES ($1, $2)
ON CONFLICT DO NOTHING;

-- name: GetProvisionedResource
SELECT id, resource_id, project_id, blueprint_version_id, cloud_credential_id, status, xr_name,
    bootstrap_token_id, created_at, updated_at, deletion_requested_at
FROM plexsphere.provisioned_resources
WHERE id = $1;

-- name: ListProvisionedResources
SELECT id, status FROM plexsphere.provisioned_resources ORDER BY created_at, id;

-- name: UpdateProvisionedResourcePhase
UPDATE plexsphere.provisioned_resources
SET status = $2, bootstrap_token_id = $3, updated_at = $4
WHERE id = $1;

-- name: RequestProvisionedResourceDeletion
UPDATE plexsphere.provisioned_resources
SET status = $2, deletion_requested_at = $3, updated_at = $4
WHERE id = $1;
