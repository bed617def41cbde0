-- Deletes the Deleted resources, the times of deletion requests and the record of deletion events: the older
-- schema has no values for them. The new CHECK fails while a resource is in teardown, because the older release
-- would leave its substrate running.

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
