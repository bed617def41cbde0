-- Loses when deletions were asked for, which deletion events went out, and the resources that were Deleted,
-- for the older schema has no word for them. It is refused while a resource is on its way down: that one
-- still has substrate, and without its phase nobody would tear it down.

DELETE FROM plexsphere.provisioned_resources WHERE status = 'Deleted';

DELETE FROM plexsphere.provisioned_resource_outbox_token
    WHERE event_type IN ('broker.ProvisionedResourceDeleting', 'broker.ProvisionedResourceDeleted');

ALTER TABLE plexsphere.provisioned_resource_outbox_token
    DROP CONSTRAINT provisioned_resource_outbox_token_event_type_check,
    ADD CONSTRAINT provisioned_resource_outbox_token_event_type_check
        CHECK (event_type IN ('broker.ProvisionedResourceRequested', 'broker.ProvisionedResourceReady',
                              'broker.ProvisionedResourceFailed'));

ALTER TABLE plexsphere.provisioned_resources
    DROP CONSTRAINT provisioned_resources_status_check,
    ADD CONSTRAINT provisioned_resources_status_check
        CHECK (status IN ('Pending', 'Provisioning', 'Enrolling', 'Ready', 'Failed')),
    DROP COLUMN deletion_requested_at;
