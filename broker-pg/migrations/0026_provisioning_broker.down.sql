-- Loses every resource that the broker knows of, and which of their events went out. What runs on a cluster
-- goes on running, and nobody tears it down.

DROP TABLE plexsphere.provisioned_resource_outbox_token;
DROP TABLE plexsphere.provisioned_resources;
