-- Deletes all data of the platform contexts: Projects, Resources, labels, the catalog, clouds, credential
-- locations, assignments, tokens, Nodes and Peers. Fails while the broker's own tables reference them. The
-- schema stays, because it may contain other objects.

DROP TABLE plexsphere.bootstrap_tokens;
DROP TABLE plexsphere.bootstrap_token_ledgers;
DROP TABLE plexsphere.peers;
DROP TABLE plexsphere.nodes;
DROP TABLE plexsphere.namespace_assignments;
DROP TABLE plexsphere.cloud_credential_assignments;
DROP TABLE plexsphere.cloud_credentials;
DROP TABLE plexsphere.clouds;
DROP TABLE plexsphere.blueprint_versions;
DROP TABLE plexsphere.resource_labels;
DROP TABLE plexsphere.project_labels;
DROP TABLE plexsphere.resources;
DROP TABLE plexsphere.projects;
