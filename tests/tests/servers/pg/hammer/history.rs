//! The whole history of a database, as witnesses wrote it down while it was made, and what is wrong with it.

use std::collections::BTreeMap;

use broker_domain::Phase;
use sqlx::{Executor, PgConnection, PgPool};
use uuid::Uuid;

/// Triggers that write down every change of phase and every lease, whoever made it. A lease gets its place in
/// the same count as the lines of the audit. Both are counted while the resource's place in the schedule is
/// locked, so for one resource the count is the order in which things happened.
const WITNESSES: &str = "
CREATE TABLE public.changes (resource uuid, version bigint, previous text, next text);
CREATE TABLE public.leases (place bigint, resource uuid, epoch bigint, owner text);
CREATE FUNCTION public.witness_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO public.changes VALUES (NEW.id, NEW.version, NULL, NEW.status);
    ELSIF NEW.status <> OLD.status THEN
        INSERT INTO public.changes VALUES (NEW.id, NEW.version, OLD.status, NEW.status);
    END IF;
    RETURN NULL;
END
$$;
CREATE FUNCTION public.witness_lease() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO public.leases VALUES (nextval('plexsphere.provisioned_resource_audit_sequence_seq'),
        NEW.provisioned_resource_id, NEW.lease_epoch, NEW.lease_owner);
    RETURN NULL;
END
$$;
CREATE TRIGGER witness_change AFTER INSERT OR UPDATE ON plexsphere.provisioned_resources
    FOR EACH ROW EXECUTE FUNCTION public.witness_change();
CREATE TRIGGER witness_lease AFTER UPDATE ON plexsphere.provisioned_resource_schedule
    FOR EACH ROW WHEN (NEW.lease_epoch <> OLD.lease_epoch) EXECUTE FUNCTION public.witness_lease()";

pub(super) async fn witness(pool: &PgPool) {
    pool.execute(WITNESSES).await.unwrap();
}

/// A change of phase has one line in the audit, and a line that says so has a change.
const ONE_LINE_PER_CHANGE: &str = "WITH lines AS (
    SELECT provisioned_resource_id, version, previous_phase, new_phase
    FROM plexsphere.provisioned_resource_audit
    WHERE version IS NOT NULL AND previous_phase IS DISTINCT FROM new_phase
)
SELECT 'without a line: ' || c::text FROM (TABLE public.changes EXCEPT ALL TABLE lines) AS c
UNION ALL
SELECT 'without a change: ' || l::text FROM (TABLE lines EXCEPT ALL TABLE public.changes) AS l";

/// A change of phase that carries an event has one, numbered without a gap, with a mark that it was appended.
const ONE_EVENT_PER_CHANGE: &str = "WITH told AS (
    SELECT resource, version, row_number() OVER (PARTITION BY resource ORDER BY version) AS sequence,
        'broker.ProvisionedResource' || CASE
            WHEN previous IS NULL THEN 'Requested'
            WHEN next = 'Deregistering' THEN 'Deleting'
            ELSE next
        END AS event_type
    FROM public.changes
    WHERE previous IS NULL OR next IN ('Ready', 'Failed', 'Deleted')
        OR (next = 'Deregistering' AND previous <> 'Deprovisioning')
), events AS (
    SELECT e.provisioned_resource_id, t.version, e.sequence, e.event_type
    FROM plexsphere.provisioning_outbox AS e
        LEFT JOIN told AS t ON t.resource = e.provisioned_resource_id AND t.sequence = e.sequence
), marks AS (
    SELECT provisioned_resource_id, version, event_type FROM plexsphere.provisioned_resource_outbox_token
)
SELECT 'without an event: ' || t::text FROM (TABLE told EXCEPT ALL TABLE events) AS t
UNION ALL
SELECT 'without a change: ' || e::text FROM (TABLE events EXCEPT ALL TABLE told) AS e
UNION ALL
SELECT 'without a mark: ' || t::text
FROM (SELECT resource, version, event_type FROM told EXCEPT ALL TABLE marks) AS t
UNION ALL
SELECT 'a mark of nothing: ' || m::text
FROM (TABLE marks EXCEPT ALL SELECT resource, version, event_type FROM told) AS m";

/// Events were appended, and left, in the order of their numbers.
const EVENTS_IN_ORDER: &str =
    "SELECT format('%s: event %s is ahead of %s', later.provisioned_resource_id,
    later.sequence, earlier.sequence)
FROM plexsphere.provisioning_outbox AS later
    JOIN plexsphere.provisioning_outbox AS earlier
        ON earlier.provisioned_resource_id = later.provisioned_resource_id
        AND earlier.sequence = later.sequence - 1
WHERE later.position < earlier.position
    OR (later.settled_at IS NOT NULL
        AND (earlier.settled_at IS NULL OR later.settled_at < earlier.settled_at))";

/// A worker's write came under the lease that was the last one then.
const NO_WRITE_AFTER_A_LOST_LEASE: &str =
    "SELECT format('line %s of %s: epoch %s by %s, when %s had epoch %s',
    line.sequence, line.provisioned_resource_id, line.epoch, line.actor, lease.owner, lease.epoch)
FROM plexsphere.provisioned_resource_audit AS line
    LEFT JOIN LATERAL (
        SELECT epoch, owner FROM public.leases
        WHERE resource = line.provisioned_resource_id AND place < line.sequence
        ORDER BY place DESC LIMIT 1
    ) AS lease ON true
WHERE line.epoch IS NOT NULL
    AND (lease.epoch, lease.owner) IS DISTINCT FROM (line.epoch, line.actor)";

const CHECKS: [(&str, &str); 4] = [
    ("S2", ONE_LINE_PER_CHANGE),
    ("S2, S3", ONE_EVENT_PER_CHANGE),
    ("S3", EVENTS_IN_ORDER),
    ("S16", NO_WRITE_AFTER_A_LOST_LEASE),
];

/// Everything that is wrong with the history: the rule, and where it was broken.
pub(super) async fn violations(connection: &mut PgConnection) -> Vec<String> {
    connection
        .execute("CREATE INDEX IF NOT EXISTS leases_idx ON public.leases (resource, place)")
        .await
        .unwrap();
    let mut found = Vec::new();
    for (rule, check) in CHECKS {
        let broken: Vec<String> =
            sqlx::query_scalar(check).fetch_all(&mut *connection).await.unwrap();
        found.extend(broken.into_iter().map(|broken| format!("{rule}: {broken}")));
    }
    found.extend(replay(connection).await.into_iter().map(|broken| format!("S1: {broken}")));
    found
}

/// Resource, phase before, phase after, version.
type Line = (Uuid, Option<String>, Option<String>, i64);

/// Follows every resource through the audit, and compares where it ends with its row.
async fn replay(connection: &mut PgConnection) -> Vec<String> {
    let lines: Vec<Line> = sqlx::query_as(
        "SELECT provisioned_resource_id, previous_phase, new_phase, version
         FROM plexsphere.provisioned_resource_audit WHERE version IS NOT NULL ORDER BY sequence",
    )
    .fetch_all(&mut *connection)
    .await
    .unwrap();
    let mut broken = Vec::new();
    let mut ends: BTreeMap<Uuid, (String, i64)> = BTreeMap::new();
    for (resource, previous_phase, new_phase, version) in lines {
        let phase = new_phase.expect("a line with a version has a phase");
        let before = ends.insert(resource, (phase.clone(), version));
        let legal = match (&before, &previous_phase) {
            (None, None) => version == 1 && phase == Phase::Pending.as_str(),
            (Some((stood, last)), Some(previous)) => {
                stood == previous && version == last + 1 && is_edge(previous, &phase)
            }
            _ => false,
        };
        if !legal {
            broken.push(format!(
                "{resource}: {before:?}, then from {previous_phase:?} to {phase} in version {version}"
            ));
        }
    }
    let rows: Vec<(Uuid, String, i64)> =
        sqlx::query_as("SELECT id, status, version FROM plexsphere.provisioned_resources")
            .fetch_all(connection)
            .await
            .unwrap();
    for (id, status, version) in rows {
        let end = ends.remove(&id);
        if end.as_ref() != Some(&(status.clone(), version)) {
            broken.push(format!("{id}: stands in {status} at {version}, by the audit in {end:?}"));
        }
    }
    broken.extend(
        ends.into_iter().map(|(id, end)| format!("{id}: is gone, by the audit in {end:?}")),
    );
    broken
}

fn is_edge(from: &str, to: &str) -> bool {
    let phase = |text| Phase::try_from(text).unwrap();
    phase(from).can_become(phase(to))
}
