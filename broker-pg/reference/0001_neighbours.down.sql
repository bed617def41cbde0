-- Loses everything that the neighbours' tables hold: Projects, Resources, labels, the catalog, clouds, where
-- credentials lie, assignments, tokens, Nodes and Peers. It is refused while the broker's own tables refer to
-- them. The schema stays, for it may hold more than this.

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
