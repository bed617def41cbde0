-- Who works on what, and when; and the brake.

-- In which queue a resource stands; NULL when nothing happens to it any more.
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

-- Counts that begin with none.
CREATE DOMAIN plexsphere.provisioning_count AS bigint
    CONSTRAINT provisioning_count_check CHECK (VALUE >= 0);

CREATE TABLE plexsphere.provisioned_resource_schedule (
    provisioned_resource_id uuid                             NOT NULL,
    -- Project and lane stand here too, so that a claim finds what is due without looking at resources.
    project_id              uuid                             NOT NULL,
    lane                    plexsphere.provisioning_lane_name,
    -- NULL leaves it to the sweep.
    due_at                  timestamptz,
    -- Somebody set it due or resumed it since the last claim: the end of that pass puts nothing off.
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

-- A lane's Projects, and within each what has been due for longest.
CREATE INDEX provisioned_resource_schedule_due_idx
    ON plexsphere.provisioned_resource_schedule (lane, project_id, due_at, provisioned_resource_id)
    WHERE lane IS NOT NULL AND due_at IS NOT NULL AND NOT paused;

-- What has been due for longest in a lane, of whichever Project.
CREATE INDEX provisioned_resource_schedule_soonest_idx
    ON plexsphere.provisioned_resource_schedule (lane, due_at, project_id)
    WHERE lane IS NOT NULL AND due_at IS NOT NULL AND NOT paused;

-- When a Project was served last in a lane. The one that was served longest ago is next.
CREATE TABLE plexsphere.provisioning_turns (
    lane       plexsphere.provisioning_lane_name NOT NULL,
    project_id uuid                              NOT NULL,
    served_at  timestamptz                       NOT NULL,
    CONSTRAINT provisioning_turns_pkey PRIMARY KEY (lane, project_id)
);

-- A row: nothing is created, issued or deregistered on that cluster until somebody releases it.
CREATE TABLE plexsphere.provisioning_brake (
    cluster_id text        NOT NULL,
    absent     bigint      NOT NULL,
    expected   bigint      NOT NULL,
    since      timestamptz NOT NULL,
    CONSTRAINT provisioning_brake_pkey PRIMARY KEY (cluster_id)
);

-- Invariant: every resource has a place in the schedule, and a change of phase makes it due at once, as if
-- nothing had ever failed. Whoever writes: a trigger cannot be forgotten.
CREATE FUNCTION plexsphere.provisioned_resources_schedule() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO pg_catalog, pg_temp
AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO plexsphere.provisioned_resource_schedule (provisioned_resource_id, project_id, lane, due_at)
        VALUES (NEW.id, NEW.project_id, plexsphere.provisioning_lane(NEW.status, NEW.on_failure),
                clock_timestamp());
        PERFORM pg_notify('plexsphere_provisioning_broker', NEW.id::text);
    ELSIF NEW.status <> OLD.status THEN
        UPDATE plexsphere.provisioned_resource_schedule
        SET lane = plexsphere.provisioning_lane(NEW.status, NEW.on_failure),
            due_at = clock_timestamp(), attempts = 0, last_reason = NULL, last_error = NULL
        WHERE provisioned_resource_id = NEW.id;
        IF NEW.status = 'Deregistering' AND OLD.status <> 'Deprovisioning' THEN
            PERFORM pg_notify('plexsphere_provisioning_broker', NEW.id::text);
        END IF;
    END IF;
    RETURN NULL;
END
$$;

INSERT INTO plexsphere.provisioned_resource_schedule (provisioned_resource_id, project_id, lane, due_at)
SELECT id, project_id, plexsphere.provisioning_lane(status, on_failure), clock_timestamp()
FROM plexsphere.provisioned_resources;

CREATE TRIGGER provisioned_resources_schedule
    AFTER INSERT OR UPDATE ON plexsphere.provisioned_resources
    FOR EACH ROW EXECUTE FUNCTION plexsphere.provisioned_resources_schedule();
