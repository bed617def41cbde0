//! The facts behind a verdict, as lines: each is known, or unknown or stale with the reason.

use broker_domain::ObjectReference;
use broker_ports::{Condition, ConditionStatus, NamespaceState, ObjectReport, TokenState, wire};

use super::facts::{Gathered, ExplainInput, Reference};
use super::shortened;

/// Whether a fact is current.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum FactStatus {
    /// It was just read.
    Known,
    /// It could not be read, for this reason.
    Unknown(String),
    /// It may be out of date, for this reason.
    Stale(String),
}

/// One fact, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FactLine {
    /// Its source, such as `row`, `schedule` or `composed object`.
    pub source: &'static str,
    /// The fact; empty if it is unknown.
    pub text: String,
    /// Whether it is current.
    pub status: FactStatus,
}

impl FactLine {
    fn known(source: &'static str, text: impl AsRef<str>) -> Self {
        Self { source, text: shortened(text.as_ref()), status: FactStatus::Known }
    }

    pub(super) fn unknown(source: &'static str, because: &str) -> Self {
        let status = FactStatus::Unknown(shortened(because));
        Self { source, text: String::new(), status }
    }

    fn stale(source: &'static str, text: impl AsRef<str>, because: &str) -> Self {
        let status = FactStatus::Stale(because.to_owned());
        Self { source, text: shortened(text.as_ref()), status }
    }
}

const MAX_EVENTS: usize = 3;

pub(super) fn fact_lines(facts: &ExplainInput) -> Vec<FactLine> {
    let mut lines = vec![row(facts)];
    lines.extend(schedule(facts));
    lines.push(fact_line("outbox", &facts.dead_letter, |dead_letter| match dead_letter {
        Some(event) => format!("{} was dead-lettered: {}", event.event_type, event.reason),
        None => "no dead letter".to_owned(),
    }));
    for (kind, known) in &facts.references {
        lines.push(reference_line(kind.as_str(), known, |()| "found".to_owned()));
    }
    let skipped = facts.skipped_tags.iter().map(ToString::to_string);
    lines.extend(skipped.map(|skipped| FactLine::known("labels", skipped)));
    if facts.resource.phase().is_converging() {
        lines.push(reference_line("assignment", &facts.assignment, |ready| {
            format!("the namespace is {}", if *ready { "ready" } else { "not ready" })
        }));
    }
    lines.extend(cluster_lines(facts));
    if let Some(token) = &facts.token {
        lines.push(fact_line("token", token, |state| token_state(state.as_ref())));
    }
    if let Some(node) = &facts.node {
        lines.push(reference_line("node", node, |registered| {
            if *registered { "registered" } else { "not registered" }.to_owned()
        }));
    }
    if let Gathered::Unknown(because) = &facts.transitions {
        lines.push(FactLine::unknown("history", because));
    }
    lines
}

fn row(facts: &ExplainInput) -> FactLine {
    let resource = &facts.resource;
    let (phase, since) = (resource.phase(), wire::rfc3339(resource.phase_entered_at()));
    FactLine::known("row", format!("{phase} since {since}, version {}", resource.version()))
}

fn schedule(facts: &ExplainInput) -> Vec<FactLine> {
    let entry = match &facts.schedule {
        Gathered::Unknown(because) => return vec![FactLine::unknown("schedule", because)],
        Gathered::Known(None) => {
            return vec![FactLine::known("schedule", "no entry for this resource")];
        }
        Gathered::Known(Some(entry)) => entry,
    };
    let mut lines = Vec::new();
    let due = entry.due_at.map_or_else(
        || "due when something changes".to_owned(),
        |due| format!("due at {}", wire::rfc3339(due)),
    );
    let paused = if entry.paused { "paused, " } else { "" };
    let text = format!("{paused}{due}, {} failed attempts in a row", entry.attempts);
    lines.push(FactLine::known("schedule", text));
    if let Some((worker, until)) = &entry.lease {
        let text = format!("{worker} until {}", wire::rfc3339(*until));
        lines.push(if *until > entry.now {
            FactLine::known("lease", text)
        } else {
            FactLine::stale("lease", text, "it expired and was not released")
        });
    }
    if let Some((reason, message)) = &entry.last_error {
        let text = format!("{reason}: {message}");
        lines.push(FactLine::stale("last error", text, "it is from the last attempt"));
    }
    lines
}

fn cluster_lines(facts: &ExplainInput) -> Vec<FactLine> {
    let cluster = &facts.cluster;
    let mut lines = vec![
        fact_line("cluster", &cluster.identity, ToString::to_string),
        fact_line("brake", &facts.brake, |brake| match brake {
            // Its counts cover all Projects, and the caller may see only one.
            Some(brake) if brake.project.is_none() => "set for the whole cluster".to_owned(),
            Some(brake) => format!("set, {} of {} were lost", brake.absent, brake.expected),
            None => "off".to_owned(),
        }),
        fact_line("namespace", &cluster.namespace, |state| {
            match state {
                NamespaceState::Active => "exists",
                NamespaceState::Terminating => "is being deleted",
                NamespaceState::Absent => "does not exist",
                _ => "is in another state",
            }
            .to_owned()
        }),
        fact_line("kind", &cluster.kind_installed, |installed| {
            if *installed { "installed" } else { "not installed" }.to_owned()
        }),
    ];
    lines.extend(object_lines("composite resource", cluster.xr_reference.as_ref(), &cluster.xr));
    let config = cluster.provider_config_reference.as_ref();
    lines.extend(object_lines("provider config", config, &cluster.provider_config));
    for (reference, report) in &cluster.composed {
        lines.extend(object_lines("composed object", Some(reference), report));
    }
    match &cluster.events {
        Gathered::Unknown(because) => lines.push(FactLine::unknown("events", because)),
        Gathered::Known(events) => {
            for event in events.iter().take(MAX_EVENTS) {
                let at = event.at.map(wire::rfc3339).unwrap_or_default();
                let text = format!("{at} {}: {}", event.reason, event.message);
                lines.push(FactLine::known("event", text.trim()));
            }
        }
    }
    lines
}

fn object_lines(
    source: &'static str,
    reference: Option<&ObjectReference>,
    report: &Gathered<Option<ObjectReport>>,
) -> Vec<FactLine> {
    let name = reference.map(|it| format!("{} {}", it.kind(), it.name())).unwrap_or_default();
    let object = match report {
        Gathered::Unknown(because) => {
            let because =
                if name.is_empty() { because.clone() } else { format!("{name}: {because}") };
            return vec![FactLine::unknown(source, &because)];
        }
        Gathered::Known(None) => {
            let text = format!("{name} does not exist");
            return vec![FactLine::known(source, text.trim())];
        }
        Gathered::Known(Some(object)) => object,
    };
    let mut lines = vec![FactLine::known(source, format!("{name} {}", object_state(object)))];
    for condition in &object.conditions {
        lines.push(condition_line(source, object, condition));
    }
    lines
}

fn object_state(object: &ObjectReport) -> String {
    let mut words = vec!["exists".to_owned()];
    if let Some(since) = object.deleting_since {
        let finalizers = object.finalizers.join(", ");
        words.push(format!("being deleted since {}, held by {finalizers}", wire::rfc3339(since)));
    }
    if object.paused {
        words.push("paused".to_owned());
    }
    if let Some(composition) = &object.composition {
        words.push(format!("uses Composition {composition}"));
    }
    if !object.rival_managers.is_empty() {
        words.push(format!("also written by {}", object.rival_managers.join(", ")));
    }
    words.join("; ")
}

fn condition_line(source: &'static str, object: &ObjectReport, condition: &Condition) -> FactLine {
    let status = match condition.status {
        ConditionStatus::True => "True",
        ConditionStatus::False => "False",
        ConditionStatus::Unknown => "Unknown",
    };
    let Condition { kind, reason, message, observed_generation, .. } = condition;
    let mut text = format!("{kind}={status}");
    for words in [reason, message].into_iter().filter(|words| !words.is_empty()) {
        text = format!("{text} {words}");
    }
    match observed_generation {
        Some(generation) if *generation != object.generation => {
            let because = format!(
                "it describes generation {generation}, the object is at {}",
                object.generation
            );
            FactLine::stale(source, text, &because)
        }
        Some(_) | None => FactLine::known(source, text),
    }
}

fn token_state(state: Option<&TokenState>) -> String {
    match state {
        None => "the issuer does not know it".to_owned(),
        Some(TokenState::Live { expires_at }) => {
            format!("valid until {}", wire::rfc3339(*expires_at))
        }
        Some(TokenState::Consumed { at }) => format!("consumed at {}", wire::rfc3339(*at)),
        Some(TokenState::Expired { at }) => format!("expired at {}", wire::rfc3339(*at)),
        Some(TokenState::Invalidated) => "invalidated".to_owned(),
        Some(_) => "in another state".to_owned(),
    }
}

fn fact_line<T>(
    source: &'static str,
    fact: &Gathered<T>,
    describe: impl FnOnce(&T) -> String,
) -> FactLine {
    match fact {
        Gathered::Known(known) => FactLine::known(source, describe(known)),
        Gathered::Unknown(because) => FactLine::unknown(source, because),
    }
}

fn reference_line<T>(
    source: &'static str,
    reference: &Reference<T>,
    describe: impl FnOnce(&T) -> String,
) -> FactLine {
    match reference {
        Reference::Found(found) => FactLine::known(source, describe(found)),
        Reference::Missing => FactLine::known(source, "not found"),
        Reference::Unreadable(message) => {
            FactLine::known(source, format!("cannot be read: {message}"))
        }
        Reference::Unanswered(because) => FactLine::unknown(source, because),
        Reference::NotQueried => {
            FactLine::unknown(source, "not queried, because an earlier fact is unknown")
        }
    }
}
