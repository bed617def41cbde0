-- Reference tables of the platform contexts that the broker reads. A platform with its own tables skips this
-- set. It keeps these names and columns, or supplies its own adapters.
--
-- No column holds a secret: credentials are stored as a location, bootstrap tokens as a digest.

-- Tenancy.

CREATE TABLE plexsphere.projects (
    id         uuid        CONSTRAINT projects_pkey PRIMARY KEY DEFAULT gen_random_uuid(),
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE TABLE plexsphere.resources (
    id         uuid        CONSTRAINT resources_pkey PRIMARY KEY DEFAULT gen_random_uuid(),
    project_id uuid        NOT NULL
        CONSTRAINT resources_project_id_fkey REFERENCES plexsphere.projects (id) ON DELETE RESTRICT,
    -- The name inside the Project, with which an agent registers.
    handle     text        NOT NULL CONSTRAINT resources_handle_check CHECK (handle <> ''),
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT resources_project_id_handle_key UNIQUE (project_id, handle)
);

-- A Resource inherits the labels of its Project. Its own label overrides an inherited one with the same key,
-- even if only the inherited one propagates.

CREATE TABLE plexsphere.project_labels (
    project_id uuid    NOT NULL
        CONSTRAINT project_labels_project_id_fkey REFERENCES plexsphere.projects (id) ON DELETE CASCADE,
    key        text    NOT NULL CONSTRAINT project_labels_key_check CHECK (key <> ''),
    value      text    NOT NULL,
    propagates boolean NOT NULL DEFAULT true,
    CONSTRAINT project_labels_pkey PRIMARY KEY (project_id, key)
);

CREATE TABLE plexsphere.resource_labels (
    resource_id uuid    NOT NULL
        CONSTRAINT resource_labels_resource_id_fkey REFERENCES plexsphere.resources (id) ON DELETE CASCADE,
    key         text    NOT NULL CONSTRAINT resource_labels_key_check CHECK (key <> ''),
    value       text    NOT NULL,
    propagates  boolean NOT NULL DEFAULT true,
    CONSTRAINT resource_labels_pkey PRIMARY KEY (resource_id, key)
);

-- Blueprint catalog. The three files are stored byte for byte, so that a second import can compare them. The
-- other columns are parsed from the files.

CREATE TABLE plexsphere.blueprint_versions (
    id                 uuid        CONSTRAINT blueprint_versions_pkey PRIMARY KEY DEFAULT gen_random_uuid(),
    slug               text        NOT NULL CONSTRAINT blueprint_versions_slug_check CHECK (slug <> ''),
    version            text        NOT NULL CONSTRAINT blueprint_versions_version_check CHECK (version <> ''),
    display_name       text        NOT NULL,
    description        text        NOT NULL,
    provider_kinds     text[]      NOT NULL,
    injection_strategy text        NOT NULL
        CONSTRAINT blueprint_versions_injection_strategy_check
            CHECK (injection_strategy IN ('cloud-init-user-data', 'helm-values', 'provider-secret')),
    mesh_role          text        NOT NULL DEFAULT 'node'
        CONSTRAINT blueprint_versions_mesh_role_check CHECK (mesh_role IN ('node', 'standalone')),
    -- `json` keeps the checked text; `jsonb` would normalise it.
    parameter_schema   json        NOT NULL,
    -- An array of objects with `apiVersion` and `kind`.
    composed_kinds     jsonb       NOT NULL DEFAULT '[]'
        CONSTRAINT blueprint_versions_composed_kinds_check CHECK (jsonb_typeof(composed_kinds) = 'array'),
    -- How composed objects refer to their ProviderConfig: `per-resource`, `shared:NAME` or `platform`.
    provider_config    text        NOT NULL DEFAULT 'per-resource'
        CONSTRAINT blueprint_versions_provider_config_check
            CHECK (provider_config ~ '^(per-resource|platform|shared:.+)$'),
    metadata           bytea       NOT NULL,
    xrd                bytea       NOT NULL,
    composition        bytea       NOT NULL,
    published_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- The only column that changes. A retired version takes no new declaration.
    state              text        NOT NULL DEFAULT 'active'
        CONSTRAINT blueprint_versions_state_check CHECK (state IN ('active', 'retired')),
    CONSTRAINT blueprint_versions_slug_version_key UNIQUE (slug, version)
);

-- Cloud inventory and credentials.

CREATE TABLE plexsphere.clouds (
    id         uuid        CONSTRAINT clouds_pkey PRIMARY KEY DEFAULT gen_random_uuid(),
    provider   text        NOT NULL CONSTRAINT clouds_provider_check CHECK (provider <> ''),
    -- The endpoint is copied into every ProviderConfig and must not contain a secret.
    endpoint   jsonb       NOT NULL DEFAULT '{}'
        CONSTRAINT clouds_endpoint_check CHECK (jsonb_typeof(endpoint) = 'object'),
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- The location of a credential in the key-value store, never its value.
CREATE TABLE plexsphere.cloud_credentials (
    id         uuid        CONSTRAINT cloud_credentials_pkey PRIMARY KEY DEFAULT gen_random_uuid(),
    cloud_id   uuid        NOT NULL
        CONSTRAINT cloud_credentials_cloud_id_fkey REFERENCES plexsphere.clouds (id) ON DELETE RESTRICT,
    kv_mount   text        NOT NULL CONSTRAINT cloud_credentials_kv_mount_check CHECK (kv_mount <> ''),
    kv_path    text        NOT NULL CONSTRAINT cloud_credentials_kv_path_check CHECK (kv_path <> ''),
    state      text        NOT NULL DEFAULT 'active'
        CONSTRAINT cloud_credentials_state_check CHECK (state IN ('active', 'expired', 'revoked')),
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE INDEX cloud_credentials_cloud_id_idx ON plexsphere.cloud_credentials (cloud_id);

-- The credentials that a Project may use, once approved.
CREATE TABLE plexsphere.cloud_credential_assignments (
    project_id          uuid        NOT NULL
        CONSTRAINT cloud_credential_assignments_project_id_fkey
            REFERENCES plexsphere.projects (id) ON DELETE CASCADE,
    cloud_credential_id uuid        NOT NULL
        CONSTRAINT cloud_credential_assignments_cloud_credential_id_fkey
            REFERENCES plexsphere.cloud_credentials (id) ON DELETE CASCADE,
    state               text        NOT NULL DEFAULT 'approved'
        CONSTRAINT cloud_credential_assignments_state_check
            CHECK (state IN ('requested', 'approved', 'rejected', 'revoked')),
    assigned_at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT cloud_credential_assignments_pkey PRIMARY KEY (project_id, cloud_credential_id)
);

CREATE INDEX cloud_credential_assignments_cloud_credential_id_idx
    ON plexsphere.cloud_credential_assignments (cloud_credential_id);

-- Management fleet: the placement of a Project, and the phase of its namespace.
CREATE TABLE plexsphere.namespace_assignments (
    project_id      uuid        NOT NULL
        CONSTRAINT namespace_assignments_pkey PRIMARY KEY
        CONSTRAINT namespace_assignments_project_id_fkey
            REFERENCES plexsphere.projects (id) ON DELETE CASCADE,
    namespace       text        NOT NULL
        CONSTRAINT namespace_assignments_namespace_check CHECK (namespace <> ''),
    namespace_phase text        NOT NULL DEFAULT 'Pending'
        CONSTRAINT namespace_assignments_namespace_phase_check
            CHECK (namespace_phase IN
                ('Pending', 'Provisioning', 'Ready', 'Degraded', 'Terminating', 'Deleted')),
    -- The management cluster: the uid of its namespace kube-system. NULL if the platform has only one cluster.
    cluster_id      text
        CONSTRAINT namespace_assignments_cluster_id_check CHECK (cluster_id <> ''),
    assigned_at     timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- Mesh: an agent that consumes a bootstrap token creates a Node, which joins with a Peer.

CREATE TABLE plexsphere.nodes (
    id              uuid        CONSTRAINT nodes_pkey PRIMARY KEY DEFAULT gen_random_uuid(),
    registered_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- Set once, never cleared: a deregistered Node gets no further Peer.
    deregistered_at timestamptz
);

CREATE TABLE plexsphere.peers (
    id        uuid        CONSTRAINT peers_pkey PRIMARY KEY DEFAULT gen_random_uuid(),
    node_id   uuid        NOT NULL
        CONSTRAINT peers_node_id_fkey REFERENCES plexsphere.nodes (id) ON DELETE RESTRICT,
    joined_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    left_at   timestamptz
);

-- Invariant: a Node has at most one live Peer.
CREATE UNIQUE INDEX peers_live_idx ON plexsphere.peers (node_id) WHERE left_at IS NULL;

-- Identity: bootstrap tokens. Issue, close and consumption lock the ledger row of the resource, which
-- serialises them.

CREATE TABLE plexsphere.bootstrap_token_ledgers (
    -- No foreign key: the closure outlives the purge of the resource's row.
    provisioned_resource_id uuid   CONSTRAINT bootstrap_token_ledgers_pkey PRIMARY KEY,
    -- The highest lease epoch of any request for a token; NULL if closed before the first request.
    highest_epoch           bigint
        CONSTRAINT bootstrap_token_ledgers_highest_epoch_check CHECK (highest_epoch >= 0),
    closed_at               timestamptz
);

CREATE TABLE plexsphere.bootstrap_tokens (
    id                      uuid        CONSTRAINT bootstrap_tokens_pkey PRIMARY KEY DEFAULT gen_random_uuid(),
    provisioned_resource_id uuid        NOT NULL
        CONSTRAINT bootstrap_tokens_provisioned_resource_id_fkey
            REFERENCES plexsphere.bootstrap_token_ledgers (provisioned_resource_id) ON DELETE RESTRICT,
    ordinal                 integer     NOT NULL CONSTRAINT bootstrap_tokens_ordinal_check CHECK (ordinal >= 1),
    -- The digest of the plaintext, which is returned once and never stored.
    sha256                  bytea       NOT NULL
        CONSTRAINT bootstrap_tokens_sha256_key UNIQUE
        CONSTRAINT bootstrap_tokens_sha256_check CHECK (octet_length(sha256) = 32),
    issued_at               timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at              timestamptz NOT NULL,
    consumed_at             timestamptz,
    consumed_by_node_id     uuid
        CONSTRAINT bootstrap_tokens_consumed_by_node_id_key UNIQUE
        CONSTRAINT bootstrap_tokens_consumed_by_node_id_fkey
            REFERENCES plexsphere.nodes (id) ON DELETE RESTRICT,
    invalidated_at          timestamptz,
    CONSTRAINT bootstrap_tokens_expires_at_check CHECK (expires_at > issued_at),
    CONSTRAINT bootstrap_tokens_consumed_check
        CHECK ((consumed_at IS NULL) = (consumed_by_node_id IS NULL)),
    CONSTRAINT bootstrap_tokens_end_state_check CHECK (consumed_at IS NULL OR invalidated_at IS NULL)
);

-- Invariant: a resource has at most one consumable token.
CREATE UNIQUE INDEX bootstrap_tokens_open_idx ON plexsphere.bootstrap_tokens (provisioned_resource_id)
    WHERE consumed_at IS NULL AND invalidated_at IS NULL;

-- Invariant: at most one token per ordinal is consumed.
CREATE UNIQUE INDEX bootstrap_tokens_consumed_idx
    ON plexsphere.bootstrap_tokens (provisioned_resource_id, ordinal) WHERE consumed_at IS NOT NULL;
