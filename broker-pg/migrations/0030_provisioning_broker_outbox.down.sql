-- Deletes the audit, the undelivered events, and the record of repeated Ready and Failed events. Copy the audit
-- first: it cannot be restored.

DROP TABLE plexsphere.provisioned_resource_audit;
DROP FUNCTION plexsphere.provisioned_resource_audit_guard();
DROP DOMAIN plexsphere.provisioning_phase;
DROP DOMAIN plexsphere.provisioning_actor;
DROP DOMAIN plexsphere.provisioning_audit_action;
DROP TABLE plexsphere.provisioning_outbox;
DROP DOMAIN plexsphere.provisioning_event_type;

DELETE FROM plexsphere.provisioned_resource_outbox_token AS later
    USING plexsphere.provisioned_resource_outbox_token AS first
    WHERE first.provisioned_resource_id = later.provisioned_resource_id
        AND first.event_type = later.event_type AND first.version < later.version;

ALTER TABLE plexsphere.provisioned_resource_outbox_token
    DROP CONSTRAINT provisioned_resource_outbox_token_pkey,
    ADD CONSTRAINT provisioned_resource_outbox_token_pkey
        PRIMARY KEY (provisioned_resource_id, event_type),
    DROP COLUMN version;

DROP DOMAIN plexsphere.provisioning_event_version;
