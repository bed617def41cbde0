-- Deletes all resources and the record of their events. Their substrate keeps running, and the broker can no
-- longer tear it down.

DROP TABLE plexsphere.provisioned_resource_outbox_token;
DROP TABLE plexsphere.provisioned_resources;
