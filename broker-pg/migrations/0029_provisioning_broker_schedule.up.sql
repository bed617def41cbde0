-- The schedule with its leases, fairness between Projects, brakes and permits.

-- The queue of a resource; NULL if it is settled.
CREATE FUNCTION plexsphere.provisioning_lane(status text, on_failure text) RETURNS text
    LANGUAGE sql
    IMMUTABLE
AS $$
    SELECT CASE
        WHEN status IN ('Deregistering', 'Deprovisioning') THEN 'teardown'
        WHEN status = 'Deleted' OR (status = 'Failed' AND on_failure = 'retain') THEN NULL
        ELSE 'converge'
    END
$$;

CREATE DOMAIN plexsphere.provisioning_lane_name AS text
    CONSTRAINT provisioning_lane_name_check CHECK (VALUE IN ('converge', 'teardown'));

CREATE DOMAIN plexsphere.provisioning_attempts AS integer
    CONSTRAINT provisioning_attempts_check CHECK (VALUE >= 0);

-- A counter that starts at zero.
CREATE DOMAIN plexsphere.provisioning_count AS bigint
    CONSTRAINT provisioning_count_check CHECK (VALUE >= 0);

CREATE TABLE plexsphere.provisioned_resource_schedule (
    provisioned_resource_id uuid                             NOT NULL,
    -- Copies of Project, lane and cluster: a claim finds due resources without reading their rows.
    project_id              uuid                             NOT NULL,
    lane                    plexsphere.provisioning_lane_name,
    -- The cluster that the resource is bound to; NULL if unbound. Replicas of other clusters skip the row.
    cluster_id              text,
    -- NULL: only the sweep makes it due.
    due_at                  timestamptz,
    -- Set due or resumed since the last claim: the release of that lease does not delay it.
    wished                  boolean                          NOT NULL DEFAULT false,
    attempts                plexsphere.provisioning_attempts NOT NULL DEFAULT 0,
    last_reason             text,
    last_error              text,
    paused                  boolean                          NOT NULL DEFAULT false,
    lease_owner             text,
    lease_epoch             plexsphere.provisioning_count    NOT NULL DEFAULT 0,
    lease_until             timestamptz,
    CONSTRAINT provisioned_resource_schedule_pkey PRIMARY KEY (provisioned_resource_id),
    CONSTRAINT provisioned_resource_schedule_provisioned_resource_id_fkey
        FOREIGN KEY (provisioned_resource_id)
        REFERENCES plexsphere.provisioned_resources (id) ON DELETE CASCADE,
    CONSTRAINT provisioned_resource_schedule_last_error_check
        CHECK ((last_reason IS NULL) = (last_error IS NULL)),
    CONSTRAINT provisioned_resource_schedule_lease_check
        CHECK ((lease_owner IS NULL) = (lease_until IS NULL))
);

-- The Projects of a lane, longest due first within each.
CREATE INDEX provisioned_resource_schedule_due_idx
    ON plexsphere.provisioned_resource_schedule (lane, project_id, due_at, provisioned_resource_id)
    WHERE lane IS NOT NULL AND due_at IS NOT NULL AND NOT paused;

-- The resources of a lane across all Projects, longest due first.
CREATE INDEX provisioned_resource_schedule_soonest_idx
    ON plexsphere.provisioned_resource_schedule (lane, due_at, project_id) INCLUDE (cluster_id)
    WHERE lane IS NOT NULL AND due_at IS NOT NULL AND NOT paused;

-- The time at which a claim last served a Project in a lane. The Project with the oldest time is next.
CREATE TABLE plexsphere.provisioning_turns (
    lane       plexsphere.provisioning_lane_name NOT NULL,
    project_id uuid                              NOT NULL,
    served_at  timestamptz                       NOT NULL,
    CONSTRAINT provisioning_turns_pkey PRIMARY KEY (lane, project_id)
);

-- A row is a set brake: on that cluster, or in that Project on it, the broker re-creates, issues, deregisters, rolls
-- back and fails nothing until an operator releases it.
CREATE TABLE plexsphere.provisioning_brake (
    cluster_id text        NOT NULL,
    -- NULL: the whole cluster.
    project_id uuid,
    absent     bigint      NOT NULL,
    expected   bigint      NOT NULL,
    since      timestamptz NOT NULL,
    CONSTRAINT provisioning_brake_key UNIQUE NULLS NOT DISTINCT (cluster_id, project_id)
);

-- One row per loss: the broker may re-create the lost object or fail its resource. Permits without an operator's
-- acceptance are limited per time window. No foreign key: a permit counts until its window ends, even after its
-- resource is purged.
CREATE TABLE plexsphere.provisioning_permits (
    provisioned_resource_id uuid        NOT NULL,
    loss                    text        NOT NULL,
    cluster_id              text        NOT NULL,
    taken_at                timestamptz NOT NULL,
    accepted                boolean     NOT NULL,
    CONSTRAINT provisioning_permits_pkey PRIMARY KEY (provisioned_resource_id, loss)
);

CREATE INDEX provisioning_permits_cluster_id_idx
    ON plexsphere.provisioning_permits (cluster_id, taken_at);

-- Invariant: every resource has a schedule row. A phase change makes it due immediately and resets its back-off. A
-- trigger enforces this for every writer.
CREATE FUNCTION plexsphere.provisioned_resources_schedule() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO pg_catalog, pg_temp
AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO plexsphere.provisioned_resource_schedule
            (provisioned_resource_id, project_id, lane, cluster_id, due_at)
        VALUES (NEW.id, NEW.project_id, plexsphere.provisioning_lane(NEW.status, NEW.on_failure), NEW.cluster_id,
                clock_timestamp());
        PERFORM pg_notify('plexsphere_provisioning_broker', NEW.id::text);
    ELSIF NEW.status <> OLD.status THEN
        UPDATE plexsphere.provisioned_resource_schedule
        SET cluster_id = NEW.cluster_id, lane = plexsphere.provisioning_lane(NEW.status, NEW.on_failure),
            due_at = clock_timestamp(), attempts = 0, last_reason = NULL, last_error = NULL
        WHERE provisioned_resource_id = NEW.id;
        IF (NEW.status = 'Deregistering' AND OLD.status <> 'Deprovisioning')
            OR (NEW.status = 'Pending' AND OLD.status = 'Failed') THEN
            PERFORM pg_notify('plexsphere_provisioning_broker', NEW.id::text);
        END IF;
    ELSIF NEW.cluster_id IS DISTINCT FROM OLD.cluster_id THEN
        UPDATE plexsphere.provisioned_resource_schedule SET cluster_id = NEW.cluster_id
        WHERE provisioned_resource_id = NEW.id;
    END IF;
    RETURN NULL;
END
$$;

CREATE TRIGGER provisioned_resources_schedule
    AFTER INSERT OR UPDATE ON plexsphere.provisioned_resources
    FOR EACH ROW EXECUTE FUNCTION plexsphere.provisioned_resources_schedule();

-- Shared ProviderConfigs. A row stays after its last user has left: a late request may create the object again.
CREATE TABLE plexsphere.provisioning_shared_configs (
    project_id           uuid    NOT NULL,
    api_group            text    NOT NULL,
    kind                 text    NOT NULL,
    name                 text    NOT NULL,
    api_version          text    NOT NULL,
    cloud_credential_id  uuid    NOT NULL,
    -- The user that registered or left last, with its blueprint version.
    last_resource_id     uuid    NOT NULL,
    blueprint_version_id uuid    NOT NULL,
    -- The cluster of the users that left, if one of them was applied.
    cluster_id           text,
    -- The mark: the object is being deleted, and new users wait. The last user to leave sets it.
    deleting             bigint,
    -- The last user was abandoned: only an operator deletes the object.
    abandoned            boolean NOT NULL DEFAULT false,
    CONSTRAINT provisioning_shared_configs_pkey PRIMARY KEY (project_id, api_group, kind, name)
);

CREATE INDEX provisioning_shared_configs_deleting_idx ON plexsphere.provisioning_shared_configs (project_id)
    WHERE deleting IS NOT NULL;

-- The numbers of marks: no two marks are equal.
CREATE SEQUENCE plexsphere.provisioning_shared_config_marks;

CREATE TABLE plexsphere.provisioning_shared_config_users (
    provisioned_resource_id uuid NOT NULL,
    project_id              uuid NOT NULL,
    api_group               text NOT NULL,
    kind                    text NOT NULL,
    name                    text NOT NULL,
    CONSTRAINT provisioning_shared_config_users_pkey PRIMARY KEY (provisioned_resource_id),
    CONSTRAINT provisioning_shared_config_users_provisioned_resource_id_fkey
        FOREIGN KEY (provisioned_resource_id)
        REFERENCES plexsphere.provisioned_resources (id) ON DELETE CASCADE,
    CONSTRAINT provisioning_shared_config_users_config_fkey
        FOREIGN KEY (project_id, api_group, kind, name)
        REFERENCES plexsphere.provisioning_shared_configs (project_id, api_group, kind, name)
);

CREATE INDEX provisioning_shared_config_users_config_idx
    ON plexsphere.provisioning_shared_config_users (project_id, api_group, kind, name);

-- Invariant: a Deleted resource uses no shared ProviderConfig. The lock on the shared row orders leaving users and new ones,
-- so exactly the last user to leave sets the mark. A trigger enforces this for every writer.
CREATE FUNCTION plexsphere.provisioning_leave_shared_config() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO pg_catalog, pg_temp
AS $$
DECLARE
    used plexsphere.provisioning_shared_config_users;
BEGIN
    SELECT * INTO used FROM plexsphere.provisioning_shared_config_users WHERE provisioned_resource_id = NEW.id;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    PERFORM FROM plexsphere.provisioning_shared_configs AS c
    WHERE (c.project_id, c.api_group, c.kind, c.name) = (used.project_id, used.api_group, used.kind, used.name)
    FOR UPDATE;
    DELETE FROM plexsphere.provisioning_shared_config_users WHERE provisioned_resource_id = NEW.id;
    -- A new statement sees the users that registered before the lock was granted.
    UPDATE plexsphere.provisioning_shared_configs AS c
    SET last_resource_id = NEW.id, blueprint_version_id = NEW.blueprint_version_id,
        cluster_id = coalesce(NEW.cluster_id, c.cluster_id),
        abandoned = c.abandoned OR (left_last.yes AND c.deleting IS NULL AND NEW.abandoned),
        deleting = CASE
            WHEN c.deleting IS NULL AND left_last.yes AND NOT NEW.abandoned
            THEN nextval('plexsphere.provisioning_shared_config_marks')
            ELSE c.deleting
        END
    FROM (
        SELECT NOT EXISTS (
            SELECT FROM plexsphere.provisioning_shared_config_users AS u
            WHERE (u.project_id, u.api_group, u.kind, u.name)
                = (used.project_id, used.api_group, used.kind, used.name)
        ) AS yes
    ) AS left_last
    WHERE (c.project_id, c.api_group, c.kind, c.name) = (used.project_id, used.api_group, used.kind, used.name);
    RETURN NULL;
END
$$;

CREATE TRIGGER provisioned_resources_leave_shared_config
    AFTER UPDATE OF status ON plexsphere.provisioned_resources
    FOR EACH ROW WHEN (NEW.status = 'Deleted' AND OLD.status <> 'Deleted')
    EXECUTE FUNCTION plexsphere.provisioning_leave_shared_config();

-- step: batches
-- The row lock prevents a phase change between reading the resource and scheduling it.
INSERT INTO plexsphere.provisioned_resource_schedule
    (provisioned_resource_id, project_id, lane, cluster_id, due_at)
SELECT id, project_id, plexsphere.provisioning_lane(status, on_failure), cluster_id, clock_timestamp()
FROM plexsphere.provisioned_resources AS r
WHERE NOT EXISTS (SELECT FROM plexsphere.provisioned_resource_schedule AS s WHERE s.provisioned_resource_id = r.id)
LIMIT 10000 FOR SHARE OF r;
