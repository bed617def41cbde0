//! What must hold of every resource at any time, as far as database and cluster can tell afterwards.

use broker_domain::{Phase, ProvisionedResource, ProvisionedResourceId};
use sqlx::AssertSqlSafe;
use uuid::Uuid;

use super::RealWorld;
use crate::failure::OrFail;

/// A line of the audit about a row.
#[derive(Debug)]
struct Line {
    action: String,
    previous_phase: Option<String>,
    new_phase: Option<String>,
    version: Option<i64>,
    epoch: Option<i64>,
}

const LINES: &str = "SELECT action, previous_phase, new_phase, version, epoch
    FROM plexsphere.provisioned_resource_audit
    WHERE provisioned_resource_id = $1 ORDER BY sequence";

const EVENTS: &str = "SELECT sequence, event_type FROM plexsphere.outbox_events
    WHERE provisioned_resource_id = $1 ORDER BY sequence";

const OPEN_TOKENS: &str = "SELECT count(*) FROM plexsphere.bootstrap_tokens
    WHERE provisioned_resource_id = $1 AND consumed_at IS NULL AND invalidated_at IS NULL";

/// Nodes that were alive when the substrate below them was first told to go.
const DELETED_ALIVE: &str = "SELECT count(*)
    FROM plexsphere.bootstrap_tokens AS token
    JOIN plexsphere.nodes AS node ON node.id = token.consumed_by_node_id
    CROSS JOIN (
        SELECT min(at) AS at FROM plexsphere.provisioned_resource_audit
        WHERE provisioned_resource_id = $1 AND action = 'substrate_delete'
    ) AS deletion
    WHERE token.provisioned_resource_id = $1 AND token.consumed_at < deletion.at
        AND (node.deregistered_at IS NULL OR node.deregistered_at > deletion.at)";

/// Where a plaintext would show if it was written anywhere.
const WRITTEN: [&str; 4] = [
    "provisioned_resources",
    "provisioned_resource_schedule",
    "provisioned_resource_audit",
    "outbox_events",
];

impl RealWorld {
    /// Checks a resource.
    ///
    /// # Panics
    ///
    /// When something does not hold.
    pub async fn assert_sound(&self, id: ProvisionedResourceId) {
        self.assert_all_sound(&[id]).await;
    }

    /// Checks many.
    ///
    /// # Panics
    ///
    /// When something does not hold.
    pub async fn assert_all_sound(&self, ids: &[ProvisionedResourceId]) {
        let standing = self.crossplane.standing().await;
        for id in ids {
            self.assert_sound_among(*id, &standing).await;
        }
        self.assert_no_secret().await;
    }

    async fn assert_sound_among(&self, id: ProvisionedResourceId, standing: &[String]) {
        let resource = self.get(id).await;
        let lines = self.lines(id).await;
        assert_edges(&resource, &lines);
        assert_epochs(&lines);
        self.assert_events(&resource, &lines).await;
        self.assert_tokens(&resource).await;
        assert_substrate(&resource, standing);
    }

    async fn lines(&self, id: ProvisionedResourceId) -> Vec<Line> {
        type Row = (String, Option<String>, Option<String>, Option<i64>, Option<i64>);
        let rows: Vec<Row> = sqlx::query_as(LINES)
            .bind(id.as_uuid())
            .fetch_all(self.pool())
            .await
            .or_fail("the audit cannot be read");
        let line = |(action, previous_phase, new_phase, version, epoch): Row| Line {
            action,
            previous_phase,
            new_phase,
            version,
            epoch,
        };
        rows.into_iter().map(line).collect()
    }

    /// S2, S3: one event for each change that carries one, numbered without a gap.
    async fn assert_events(&self, resource: &ProvisionedResource, lines: &[Line]) {
        let events: Vec<(i64, String)> = sqlx::query_as(EVENTS)
            .bind(resource.id().as_uuid())
            .fetch_all(self.pool())
            .await
            .or_fail("the outbox cannot be read");
        let told: Vec<_> = events.iter().map(|(_, kind)| kind.as_str()).collect();
        let happened: Vec<_> = lines.iter().filter_map(event_of).collect();
        assert_eq!(told, happened, "{}: events and audit differ", resource.id());
        let numbers: Vec<_> = events.iter().map(|(number, _)| *number).collect();
        assert_eq!(numbers, (1..).take(numbers.len()).collect::<Vec<_>>(), "S3: a gap");
        assert_eq!(numbers.last().copied(), i64::try_from(resource.event_sequence()).ok());
    }

    /// S4, S5: one live token at most, none once closed, and no Node lives on deleted substrate.
    async fn assert_tokens(&self, resource: &ProvisionedResource) {
        let id = resource.id();
        let open = self.count(OPEN_TOKENS, id).await;
        assert!(open <= 1, "S4: {open} live tokens of {id}");
        assert!(open == 0 || !resource.token_closed(), "S4: {id} is closed and has a live token");
        let alive = self.count(DELETED_ALIVE, id).await;
        // A Node that came after a deletion of an older composite resource is another one's.
        assert_eq!(alive, 0, "S5: a Node of {id} was alive when its substrate was deleted");
    }

    /// S15: no plaintext that an agent found stands in any row.
    async fn assert_no_secret(&self) {
        let plaintexts: Vec<String> = self.tokens().keys().cloned().collect();
        for table in WRITTEN {
            let sql = format!(
                "SELECT count(*) FROM plexsphere.{table} AS written
                JOIN unnest($1::text[]) AS plaintext ON position(plaintext IN written::text) > 0"
            );
            let leaks: i64 = sqlx::query_scalar(AssertSqlSafe(sql))
                .bind(&plaintexts)
                .fetch_one(self.pool())
                .await
                .or_fail("a table cannot be searched");
            assert_eq!(leaks, 0, "S15: {table} holds a token");
        }
    }

    async fn count(&self, sql: &'static str, id: ProvisionedResourceId) -> i64 {
        let id: Uuid = id.as_uuid();
        sqlx::query_scalar(sql).bind(id).fetch_one(self.pool()).await.or_fail("no count")
    }
}

/// S1: legal edges only, each from where the one before led.
fn assert_edges(resource: &ProvisionedResource, lines: &[Line]) {
    let mut now: Option<Phase> = None;
    for line in lines.iter().filter(|line| line.version.is_some()) {
        let phase = |text: &Option<String>| {
            text.as_deref().map(|text| Phase::try_from(text).or_fail("a phase"))
        };
        let Some(to) = phase(&line.new_phase) else { continue };
        if let (Some(from), Some(before)) = (phase(&line.previous_phase), now) {
            assert_eq!(from, before, "S1: {line:?} begins elsewhere");
            assert!(from == to || from.can_become(to), "S1: {line:?} is no legal edge");
        }
        now = Some(to);
    }
    assert_eq!(now, Some(resource.phase()), "S2: row and audit differ");
}

/// S16: each version was written once, and never by an epoch that another one had followed.
fn assert_epochs(lines: &[Line]) {
    let versions: Vec<_> = lines.iter().filter_map(|line| line.version).collect();
    let once: Vec<_> = (1..).take(versions.len()).collect();
    assert_eq!(versions, once, "S2: a version without an audit line, or with two");
    let epochs: Vec<_> = lines.iter().filter_map(|line| line.epoch).collect();
    assert!(epochs.is_sorted(), "S16: a lease that was lost has written: {epochs:?}");
}

/// S6, S7: one of each at most, and nothing of what is Deleted.
fn assert_substrate(resource: &ProvisionedResource, standing: &[String]) {
    let name = resource.xr_name().to_string();
    let standing: Vec<_> = standing.iter().filter(|object| object.contains(&name)).collect();
    let configs = standing.iter().filter(|object| object.starts_with("ProviderConfig")).count();
    let parts = standing.iter().filter(|object| object.starts_with("Part")).count();
    let composites = standing.len() - configs - parts;
    assert!(configs <= 1 && composites <= 1, "S6: {standing:?}");
    match resource.phase() {
        Phase::Ready => assert_eq!((configs, composites, parts), (1, 1, 1), "{standing:?}"),
        Phase::Deleted if !resource.abandoned() => assert!(standing.is_empty(), "S7: {standing:?}"),
        Phase::Pending
        | Phase::Provisioning
        | Phase::Enrolling
        | Phase::Failed
        | Phase::Deregistering
        | Phase::Deprovisioning
        | Phase::Deleted => {}
    }
}

fn event_of(line: &Line) -> Option<&'static str> {
    line.version?;
    let crossed = line.previous_phase != line.new_phase;
    match (line.action.as_str(), line.new_phase.as_deref()) {
        ("declared", _) => Some("broker.ProvisionedResourceRequested"),
        ("deletion_requested", _) => Some("broker.ProvisionedResourceDeleting"),
        ("phase_changed", Some("Ready")) if crossed => Some("broker.ProvisionedResourceReady"),
        ("phase_changed", Some("Failed")) if crossed => Some("broker.ProvisionedResourceFailed"),
        ("phase_changed" | "abandoned", Some("Deleted")) if crossed => {
            Some("broker.ProvisionedResourceDeleted")
        }
        _ => None,
    }
}
