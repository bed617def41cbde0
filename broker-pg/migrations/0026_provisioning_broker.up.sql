-- The broker's resources, and the record of the lifecycle events that it appended.

CREATE TABLE plexsphere.provisioned_resources (
    id                   uuid        NOT NULL,
    resource_id          uuid        NOT NULL,
    project_id           uuid        NOT NULL,
    blueprint_version_id uuid        NOT NULL,
    cloud_credential_id  uuid        NOT NULL,
    status               text        NOT NULL,
    xr_name              text        NOT NULL,
    -- The id of the token, never the token itself. NULL until the first issue.
    bootstrap_token_id   uuid,
    created_at           timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at           timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT provisioned_resources_pkey PRIMARY KEY (id),
    -- RESTRICT: the rows that a resource refers to outlive it and its substrate.
    CONSTRAINT provisioned_resources_project_id_fkey FOREIGN KEY (project_id)
        REFERENCES plexsphere.projects (id) ON DELETE RESTRICT,
    CONSTRAINT provisioned_resources_resource_id_fkey FOREIGN KEY (resource_id)
        REFERENCES plexsphere.resources (id) ON DELETE RESTRICT,
    CONSTRAINT provisioned_resources_blueprint_version_id_fkey FOREIGN KEY (blueprint_version_id)
        REFERENCES plexsphere.blueprint_versions (id) ON DELETE RESTRICT,
    CONSTRAINT provisioned_resources_cloud_credential_id_fkey FOREIGN KEY (cloud_credential_id)
        REFERENCES plexsphere.cloud_credentials (id) ON DELETE RESTRICT,
    CONSTRAINT provisioned_resources_status_check
        CHECK (status IN ('Pending', 'Provisioning', 'Enrolling', 'Ready', 'Failed')),
    CONSTRAINT provisioned_resources_xr_name_check CHECK (btrim(xr_name) <> '')
);

-- One row per appended event: a retry finds the row and appends nothing.
CREATE TABLE plexsphere.provisioned_resource_outbox_token (
    provisioned_resource_id uuid        NOT NULL,
    event_type              text        NOT NULL,
    created_at              timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT provisioned_resource_outbox_token_pkey PRIMARY KEY (provisioned_resource_id, event_type),
    CONSTRAINT provisioned_resource_outbox_token_provisioned_resource_id_fkey
        FOREIGN KEY (provisioned_resource_id)
        REFERENCES plexsphere.provisioned_resources (id) ON DELETE CASCADE,
    CONSTRAINT provisioned_resource_outbox_token_event_type_check
        CHECK (event_type IN ('broker.ProvisionedResourceRequested', 'broker.ProvisionedResourceReady',
                              'broker.ProvisionedResourceFailed'))
);
