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

-- step: batches
-- The row lock prevents a phase change between reading the resource and scheduling it.
INSERT INTO plexsphere.provisioned_resource_schedule
    (provisioned_resource_id, project_id, lane, cluster_id, due_at)
SELECT id, project_id, plexsphere.provisioning_lane(status, on_failure), cluster_id, clock_timestamp()
FROM plexsphere.provisioned_resources AS r
WHERE NOT EXISTS (SELECT FROM plexsphere.provisioned_resource_schedule AS s WHERE s.provisioned_resource_id = r.id)
LIMIT 10000 FOR SHARE OF r;
