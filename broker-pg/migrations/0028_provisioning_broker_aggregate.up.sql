-- The whole aggregate: declaration, failure, substrate, idempotency key, phase times and version.
--
-- Every column is nullable or has a default, so that the previous release, which knows none of them, can still
-- write. A trigger completes its rows.

-- A rule about one column is a CHECK of its domain. Every statement that writes to a table parses the CHECKs of the
-- table again, which would be four fifths of the cost of an audit line. A domain's CHECK is prepared once per session.
-- Rules across columns stay with the table. So do the rules of the older columns: a new column type would break the
-- prepared statements of running replicas.

-- The CHECKs follow after the columns: adding a column whose domain has a CHECK rewrites the table.
CREATE DOMAIN plexsphere.provisioning_failure_step AS text;
CREATE DOMAIN plexsphere.provisioning_mesh_role AS text;
CREATE DOMAIN plexsphere.provisioning_on_failure AS text;
-- `json` keeps the submitted text; `jsonb` would normalise it.
CREATE DOMAIN plexsphere.provisioning_parameters AS json;
CREATE DOMAIN plexsphere.provisioning_substrate AS jsonb;
CREATE DOMAIN plexsphere.provisioning_digest AS bytea;
CREATE DOMAIN plexsphere.provisioning_token_ordinal AS integer;
-- A counter that starts at one.
CREATE DOMAIN plexsphere.provisioning_ordinal AS bigint;

ALTER TABLE plexsphere.provisioned_resources
    ADD COLUMN parameters        plexsphere.provisioning_parameters    NOT NULL DEFAULT '{}',
    ADD COLUMN mesh_role         plexsphere.provisioning_mesh_role     NOT NULL DEFAULT 'node',
    ADD COLUMN on_failure        plexsphere.provisioning_on_failure    NOT NULL DEFAULT 'retain',
    ADD COLUMN failure_step      plexsphere.provisioning_failure_step,
    ADD COLUMN failure_reason    text,
    ADD COLUMN token_ordinal     plexsphere.provisioning_token_ordinal NOT NULL DEFAULT 1,
    ADD COLUMN token_closed      boolean                               NOT NULL DEFAULT false,
    -- The ProviderConfig, and every composed object that a pass observed and that is not yet proven gone.
    ADD COLUMN substrate         plexsphere.provisioning_substrate     NOT NULL DEFAULT '{}',
    ADD COLUMN references_digest plexsphere.provisioning_digest,
    ADD COLUMN cluster_id        text,
    -- The uid of the last armed composite resource. A lost object keeps it.
    ADD COLUMN xr_uid            text,
    ADD COLUMN request_id        text,
    ADD COLUMN request_hash      plexsphere.provisioning_digest,
    ADD COLUMN phase_entered_at  timestamptz,
    ADD COLUMN first_ready_at    timestamptz,
    ADD COLUMN abandoned         boolean                               NOT NULL DEFAULT false,
    ADD COLUMN event_sequence    plexsphere.provisioning_ordinal       NOT NULL DEFAULT 1,
    ADD COLUMN version           plexsphere.provisioning_ordinal       NOT NULL DEFAULT 1,
    ADD CONSTRAINT provisioned_resources_failure_check
        CHECK ((failure_step IS NULL) = (failure_reason IS NULL)) NOT VALID,
    ADD CONSTRAINT provisioned_resources_request_check
        CHECK ((request_id IS NULL) = (request_hash IS NULL)) NOT VALID,
    -- Replaces NOT NULL until every row is validated. The trigger below fills the column of each written row.
    ADD CONSTRAINT provisioned_resources_phase_entered_at_check CHECK (phase_entered_at IS NOT NULL) NOT VALID;

-- The phases in which a resource can fail.
ALTER DOMAIN plexsphere.provisioning_failure_step ADD CONSTRAINT provisioning_failure_step_check
    CHECK (VALUE IN ('Pending', 'Provisioning', 'Enrolling', 'Ready')) NOT VALID;
ALTER DOMAIN plexsphere.provisioning_mesh_role ADD CONSTRAINT provisioning_mesh_role_check
    CHECK (VALUE IN ('node', 'standalone')) NOT VALID;
ALTER DOMAIN plexsphere.provisioning_on_failure ADD CONSTRAINT provisioning_on_failure_check
    CHECK (VALUE IN ('retain', 'rollback')) NOT VALID;
ALTER DOMAIN plexsphere.provisioning_parameters ADD CONSTRAINT provisioning_parameters_check
    CHECK (json_typeof(VALUE) = 'object') NOT VALID;
ALTER DOMAIN plexsphere.provisioning_substrate ADD CONSTRAINT provisioning_substrate_check
    CHECK (jsonb_typeof(VALUE) = 'object') NOT VALID;
ALTER DOMAIN plexsphere.provisioning_digest ADD CONSTRAINT provisioning_digest_check
    CHECK (octet_length(VALUE) = 32) NOT VALID;
ALTER DOMAIN plexsphere.provisioning_token_ordinal ADD CONSTRAINT provisioning_token_ordinal_check
    CHECK (VALUE >= 1) NOT VALID;
ALTER DOMAIN plexsphere.provisioning_ordinal ADD CONSTRAINT provisioning_ordinal_check
    CHECK (VALUE >= 1) NOT VALID;

-- Completes rows of a writer that knows only the older columns, so that this release can read them. Events that
-- such a writer appended count in `event_sequence`, although they are not in the outbox.
CREATE FUNCTION plexsphere.provisioned_resources_complete(
    row_before plexsphere.provisioned_resources,
    row_after  plexsphere.provisioned_resources
) RETURNS plexsphere.provisioned_resources
    LANGUAGE plpgsql
    SET search_path TO pg_catalog, pg_temp
AS $$
BEGIN
    IF row_after.status IS NOT DISTINCT FROM row_before.status THEN
        row_after.phase_entered_at := coalesce(row_after.phase_entered_at, row_after.created_at);
    ELSE
        row_after.phase_entered_at := greatest(row_after.updated_at, row_after.deletion_requested_at);
    END IF;
    row_after.event_sequence := greatest(row_after.event_sequence,
        CASE WHEN row_after.status IN ('Pending', 'Provisioning', 'Enrolling') THEN 1
             WHEN row_after.status = 'Deleted' THEN 3
             ELSE 2 END);
    row_after.version := greatest(row_before.version + 1, row_after.event_sequence);
    IF row_after.status = 'Ready' THEN
        row_after.first_ready_at := coalesce(row_after.first_ready_at, row_after.phase_entered_at);
    ELSIF row_after.status = 'Failed' AND row_after.failure_step IS NULL THEN
        row_after.failure_step := coalesce(nullif(row_before.status, 'Failed'), 'Provisioning');
        row_after.failure_reason := 'recorded before reasons were';
        IF row_after.failure_step = 'Ready' THEN
            row_after.first_ready_at := coalesce(row_after.first_ready_at, row_after.phase_entered_at);
        END IF;
    ELSIF row_after.status = 'Deleted' THEN
        row_after.token_closed := true;
    END IF;
    RETURN row_after;
END
$$;

-- Invariant: the store alone sets `updated_at`, and a reader can compute the watermark, the time before which no
-- open transaction has changes.
--
-- A transaction that changes a resource holds a shared advisory lock until it ends. The number of the lock is the
-- second in which the change began. The transaction takes the lock before it reads the clock. Therefore, if no lock
-- for a second or an earlier one is held, no open transaction has changes stamped up to that second.
CREATE FUNCTION plexsphere.provisioned_resources_stamp() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO pg_catalog, pg_temp
AS $$
BEGIN
    -- Seconds since 2020 fit into the 32 bits of a lock's number until 2088.
    PERFORM pg_advisory_xact_lock_shared(1886547830, floor(extract(epoch FROM clock_timestamp()) - 1577836800)::integer);
    NEW.updated_at := greatest(clock_timestamp(), NEW.created_at);
    IF TG_OP = 'INSERT' THEN
        IF NEW.phase_entered_at IS NULL THEN
            NEW := plexsphere.provisioned_resources_complete(NEW, NEW);
            NEW.version := NEW.event_sequence;
        END IF;
    ELSIF NEW.version = OLD.version THEN
        NEW := plexsphere.provisioned_resources_complete(OLD, NEW);
    END IF;
    RETURN NEW;
END
$$;

-- The watermark: a listing that is read after this call contains every change before it. It is the clock, or the
-- second in which the oldest open transaction began to change resources. The function reads the clock before the
-- locks: a change that begins after the locks are read gets a later stamp. A commit becomes visible before its locks
-- are released, so the next statement sees every transaction whose lock is gone.
CREATE FUNCTION plexsphere.provisioned_resources_watermark() RETURNS timestamptz
    LANGUAGE plpgsql
    SET search_path TO pg_catalog, pg_temp
AS $$
DECLARE
    read_at timestamptz := clock_timestamp();
    oldest  bigint;
BEGIN
    SELECT min(objid::bigint) INTO oldest
    FROM pg_locks
    WHERE locktype = 'advisory' AND classid = 1886547830 AND objsubid = 2
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database());
    RETURN least(read_at, to_timestamp(oldest + 1577836800));
END
$$;

-- Only the columns of the previous release. The next step fills other columns and leaves `updated_at` unchanged.
CREATE TRIGGER provisioned_resources_stamp
    BEFORE INSERT OR UPDATE OF id, resource_id, project_id, blueprint_version_id, cloud_credential_id, status, xr_name,
        bootstrap_token_id, created_at, updated_at, deletion_requested_at
    ON plexsphere.provisioned_resources
    FOR EACH ROW EXECUTE FUNCTION plexsphere.provisioned_resources_stamp();

-- step: batches
-- Completes existing rows as rows of the previous release, and keeps their times. The trigger completes rows that
-- the previous release writes concurrently, so this query does not select them.
UPDATE plexsphere.provisioned_resources AS r
SET phase_entered_at = completed.phase_entered_at,
    event_sequence = completed.event_sequence,
    version = completed.version,
    first_ready_at = completed.first_ready_at,
    failure_step = completed.failure_step,
    failure_reason = completed.failure_reason,
    token_closed = completed.token_closed
FROM plexsphere.provisioned_resources AS before
    CROSS JOIN LATERAL plexsphere.provisioned_resources_complete(NULL, before) AS completed
WHERE before.id = r.id AND r.id IN (
    SELECT id FROM plexsphere.provisioned_resources WHERE phase_entered_at IS NULL LIMIT 10000 FOR UPDATE);

-- step: statements
-- In order: pages by Project, by Project and phase, by phase, and by change time, then the sweep, the purge and the
-- idempotency key. INCLUDE filters changes by Project and phase without reading the rows.
CREATE INDEX CONCURRENTLY provisioned_resources_project_id_idx
    ON plexsphere.provisioned_resources (project_id, id);
CREATE INDEX CONCURRENTLY provisioned_resources_project_id_status_idx
    ON plexsphere.provisioned_resources (project_id, status, id);
CREATE INDEX CONCURRENTLY provisioned_resources_cloud_credential_id_idx
    ON plexsphere.provisioned_resources (cloud_credential_id, id);
CREATE INDEX CONCURRENTLY provisioned_resources_status_idx ON plexsphere.provisioned_resources (status, id);
CREATE INDEX CONCURRENTLY provisioned_resources_updated_at_idx
    ON plexsphere.provisioned_resources (updated_at, id) INCLUDE (project_id, status);
CREATE INDEX CONCURRENTLY provisioned_resources_sweep_idx ON plexsphere.provisioned_resources (id)
    WHERE status <> 'Deleted' AND (status <> 'Failed' OR on_failure <> 'retain');
CREATE INDEX CONCURRENTLY provisioned_resources_deleted_idx ON plexsphere.provisioned_resources (updated_at)
    WHERE status = 'Deleted';
CREATE INDEX CONCURRENTLY provisioned_resources_bootstrap_token_id_idx
    ON plexsphere.provisioned_resources (bootstrap_token_id) WHERE bootstrap_token_id IS NOT NULL;
CREATE UNIQUE INDEX CONCURRENTLY provisioned_resources_project_id_request_id_key
    ON plexsphere.provisioned_resources (project_id, request_id);
ALTER TABLE plexsphere.provisioned_resources VALIDATE CONSTRAINT provisioned_resources_failure_check;
ALTER TABLE plexsphere.provisioned_resources VALIDATE CONSTRAINT provisioned_resources_request_check;
ALTER TABLE plexsphere.provisioned_resources VALIDATE CONSTRAINT provisioned_resources_phase_entered_at_check;
-- Before Postgres 18 each of these blocks writers, but not readers, for one scan of the table.
ALTER DOMAIN plexsphere.provisioning_failure_step VALIDATE CONSTRAINT provisioning_failure_step_check;
ALTER DOMAIN plexsphere.provisioning_mesh_role VALIDATE CONSTRAINT provisioning_mesh_role_check;
ALTER DOMAIN plexsphere.provisioning_on_failure VALIDATE CONSTRAINT provisioning_on_failure_check;
ALTER DOMAIN plexsphere.provisioning_parameters VALIDATE CONSTRAINT provisioning_parameters_check;
ALTER DOMAIN plexsphere.provisioning_substrate VALIDATE CONSTRAINT provisioning_substrate_check;
ALTER DOMAIN plexsphere.provisioning_digest VALIDATE CONSTRAINT provisioning_digest_check;
ALTER DOMAIN plexsphere.provisioning_token_ordinal VALIDATE CONSTRAINT provisioning_token_ordinal_check;
ALTER DOMAIN plexsphere.provisioning_ordinal VALIDATE CONSTRAINT provisioning_ordinal_check;

-- step: transaction
-- Changes only the catalog: the index exists, and the validated CHECK proves that no row has a NULL.
ALTER TABLE plexsphere.provisioned_resources
    ADD CONSTRAINT provisioned_resources_project_id_request_id_key
        UNIQUE USING INDEX provisioned_resources_project_id_request_id_key,
    ALTER COLUMN phase_entered_at SET NOT NULL;
ALTER TABLE plexsphere.provisioned_resources
    DROP CONSTRAINT provisioned_resources_phase_entered_at_check;

CREATE OR REPLACE TRIGGER provisioned_resources_stamp
    BEFORE INSERT OR UPDATE ON plexsphere.provisioned_resources
    FOR EACH ROW EXECUTE FUNCTION plexsphere.provisioned_resources_stamp();
