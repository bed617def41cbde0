-- Deletes parameters, failures, the record of the substrate, request ids and versions. The previous release
-- drives the running resources. An operator has to clean up objects that only the deleted columns recorded.

DROP TRIGGER provisioned_resources_stamp ON plexsphere.provisioned_resources;

DROP FUNCTION plexsphere.provisioned_resources_watermark();
DROP FUNCTION plexsphere.provisioned_resources_stamp();
DROP FUNCTION plexsphere.provisioned_resources_complete(
    plexsphere.provisioned_resources, plexsphere.provisioned_resources);

DROP INDEX plexsphere.provisioned_resources_bootstrap_token_id_idx;
DROP INDEX plexsphere.provisioned_resources_deleted_idx;
DROP INDEX plexsphere.provisioned_resources_sweep_idx;
DROP INDEX plexsphere.provisioned_resources_updated_at_idx;
DROP INDEX plexsphere.provisioned_resources_status_idx;
DROP INDEX plexsphere.provisioned_resources_cloud_credential_id_idx;
DROP INDEX plexsphere.provisioned_resources_project_id_status_idx;
DROP INDEX plexsphere.provisioned_resources_project_id_idx;

ALTER TABLE plexsphere.provisioned_resources
    DROP CONSTRAINT provisioned_resources_project_id_request_id_key,
    DROP CONSTRAINT provisioned_resources_request_check,
    DROP CONSTRAINT provisioned_resources_failure_check,
    DROP COLUMN version,
    DROP COLUMN event_sequence,
    DROP COLUMN abandoned,
    DROP COLUMN first_ready_at,
    DROP COLUMN phase_entered_at,
    DROP COLUMN request_hash,
    DROP COLUMN request_id,
    DROP COLUMN xr_uid,
    DROP COLUMN cluster_id,
    DROP COLUMN references_digest,
    DROP COLUMN substrate,
    DROP COLUMN token_closed,
    DROP COLUMN token_ordinal,
    DROP COLUMN failure_reason,
    DROP COLUMN failure_step,
    DROP COLUMN on_failure,
    DROP COLUMN mesh_role,
    DROP COLUMN parameters;

DROP DOMAIN plexsphere.provisioning_ordinal;
DROP DOMAIN plexsphere.provisioning_token_ordinal;
DROP DOMAIN plexsphere.provisioning_digest;
DROP DOMAIN plexsphere.provisioning_substrate;
DROP DOMAIN plexsphere.provisioning_parameters;
DROP DOMAIN plexsphere.provisioning_on_failure;
DROP DOMAIN plexsphere.provisioning_mesh_role;
DROP DOMAIN plexsphere.provisioning_failure_step;
