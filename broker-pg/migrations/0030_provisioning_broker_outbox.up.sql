-- The outbox and the audit.

-- A resource may become Ready again, which is another event. A writer of the previous release omits the version and
-- still appends at most one event of each type.
-- The CHECK follows after the column: adding a column whose domain has a CHECK rewrites the table.
CREATE DOMAIN plexsphere.provisioning_event_version AS bigint;

ALTER TABLE plexsphere.provisioned_resource_outbox_token
    ADD COLUMN version plexsphere.provisioning_event_version NOT NULL DEFAULT 0;

ALTER DOMAIN plexsphere.provisioning_event_version ADD CONSTRAINT provisioning_event_version_check
    CHECK (VALUE >= 0) NOT VALID;

CREATE DOMAIN plexsphere.provisioning_event_type AS text
    CONSTRAINT provisioning_event_type_check
        CHECK (VALUE IN ('broker.ProvisionedResourceRequested', 'broker.ProvisionedResourceReady',
                         'broker.ProvisionedResourceFailed', 'broker.ProvisionedResourceDeleting',
                         'broker.ProvisionedResourceDeleted'));

CREATE TABLE plexsphere.provisioning_outbox (
    event_id                uuid                               NOT NULL,
    -- No foreign key: a delivered event may outlive its resource.
    provisioned_resource_id uuid                               NOT NULL,
    sequence                plexsphere.provisioning_ordinal    NOT NULL,
    event_type              plexsphere.provisioning_event_type NOT NULL,
    occurred_at             timestamptz                        NOT NULL,
    -- Text, not `jsonb`: every delivery sends the same bytes.
    payload                 text                               NOT NULL,
    -- The W3C trace context of the request that caused the change.
    traceparent             text,
    position                bigint                             GENERATED ALWAYS AS IDENTITY,
    committed_at            timestamptz                        NOT NULL DEFAULT clock_timestamp(),
    -- All claims since the event was appended.
    claims                  plexsphere.provisioning_count      NOT NULL DEFAULT 0,
    -- Rejections by the receiver since the append or the last redrive.
    attempts                plexsphere.provisioning_attempts   NOT NULL DEFAULT 0,
    claimed_by              text,
    -- No claim before this time: the end of the current claim, or of the delay after a failed delivery.
    held_until              timestamptz,
    -- Set after too many rejections. A redrive clears it.
    dead_letter_reason        text,
    -- When the receiver acknowledged it or an operator skipped it.
    settled_at              timestamptz,
    CONSTRAINT provisioning_outbox_pkey PRIMARY KEY (event_id),
    CONSTRAINT provisioning_outbox_provisioned_resource_id_sequence_key UNIQUE (provisioned_resource_id, sequence),
    CONSTRAINT provisioning_outbox_claim_check CHECK (claimed_by IS NULL OR held_until IS NOT NULL),
    CONSTRAINT provisioning_outbox_dead_letter_check CHECK (dead_letter_reason IS NULL OR held_until IS NULL)
);

-- In order: claims in `position` order, the first unsettled event of a resource, and the purge.
CREATE INDEX provisioning_outbox_waiting_idx ON plexsphere.provisioning_outbox (position)
    WHERE settled_at IS NULL AND dead_letter_reason IS NULL;
CREATE INDEX provisioning_outbox_first_idx ON plexsphere.provisioning_outbox (provisioned_resource_id, sequence)
    WHERE settled_at IS NULL;
CREATE INDEX provisioning_outbox_settled_idx ON plexsphere.provisioning_outbox (settled_at)
    WHERE settled_at IS NOT NULL;

CREATE DOMAIN plexsphere.provisioning_audit_action AS text
    CONSTRAINT provisioning_audit_action_check
        CHECK (VALUE IN ('declared', 'declaration_refused', 'phase_changed', 'deletion_requested',
                         'token_recorded', 'tokens_closed_recorded', 'substrate_recorded', 'abandoned',
                         'paused', 'resumed', 'reconcile_requested', 'brake_set', 'brake_released',
                         'permit_taken', 'retry_requested', 'replaced', 'events_redriven', 'events_skipped', 'audit_scrubbed',
                         'purged', 'token_issue', 'tokens_close', 'substrate_apply', 'substrate_delete', 'node_deregister'));

-- An opaque id, never a name or an address: the audit keeps it permanently.
CREATE DOMAIN plexsphere.provisioning_actor AS text
    CONSTRAINT provisioning_actor_check CHECK (VALUE <> '' AND VALUE !~ '[@[:space:]]');

CREATE DOMAIN plexsphere.provisioning_phase AS text
    CONSTRAINT provisioning_phase_check
        CHECK (VALUE IN ('Pending', 'Provisioning', 'Enrolling', 'Ready', 'Failed',
                         'Deregistering', 'Deprovisioning', 'Deleted'));

CREATE TABLE plexsphere.provisioned_resource_audit (
    sequence                bigint                               GENERATED ALWAYS AS IDENTITY,
    at                      timestamptz                          NOT NULL DEFAULT clock_timestamp(),
    -- No foreign keys: the audit outlives its subjects.
    project_id              uuid,
    provisioned_resource_id uuid,
    -- Set in lines about a brake, which have no resource.
    cluster_id              text,
    action                  plexsphere.provisioning_audit_action NOT NULL,
    actor                   plexsphere.provisioning_actor        NOT NULL,
    correlation_id          text                                 NOT NULL,
    previous_phase          plexsphere.provisioning_phase,
    new_phase               plexsphere.provisioning_phase,
    failed_step             plexsphere.provisioning_phase,
    version                 bigint,
    epoch                   bigint,
    -- Free text of a person: the only column that may hold personal data, and the only one that can be blanked.
    event_data              text,
    CONSTRAINT provisioned_resource_audit_pkey PRIMARY KEY (sequence)
);

CREATE INDEX provisioned_resource_audit_resource_idx
    ON plexsphere.provisioned_resource_audit (provisioned_resource_id, sequence);

-- Invariant: the audit is append-only, except that `event_data` can be blanked.
CREATE FUNCTION plexsphere.provisioned_resource_audit_guard() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO pg_catalog, pg_temp
AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND NEW.event_data IS NULL
        AND to_jsonb(NEW) - 'event_data' = to_jsonb(OLD) - 'event_data' THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'the audit is only added to; event_data alone can be blanked'
        USING ERRCODE = 'restrict_violation';
END
$$;

CREATE TRIGGER provisioned_resource_audit_guard
    BEFORE UPDATE OR DELETE ON plexsphere.provisioned_resource_audit
    FOR EACH ROW EXECUTE FUNCTION plexsphere.provisioned_resource_audit_guard();

CREATE TRIGGER provisioned_resource_audit_guard_truncate
    BEFORE TRUNCATE ON plexsphere.provisioned_resource_audit
    FOR EACH STATEMENT EXECUTE FUNCTION plexsphere.provisioned_resource_audit_guard();

-- step: statements
CREATE UNIQUE INDEX CONCURRENTLY provisioned_resource_outbox_token_version_key
    ON plexsphere.provisioned_resource_outbox_token (provisioned_resource_id, event_type, version);
ALTER DOMAIN plexsphere.provisioning_event_version VALIDATE CONSTRAINT provisioning_event_version_check;

-- step: transaction
-- Changes only the catalog: the index exists and becomes the primary key.
ALTER TABLE plexsphere.provisioned_resource_outbox_token
    DROP CONSTRAINT provisioned_resource_outbox_token_pkey,
    ADD CONSTRAINT provisioned_resource_outbox_token_pkey
        PRIMARY KEY USING INDEX provisioned_resource_outbox_token_version_key;
