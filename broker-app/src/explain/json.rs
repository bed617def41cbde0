//! An explanation as JSON. `docs/explain.md` has the schema; keys are added, never changed.

use broker_domain::{ObjectReference, Phase};
use broker_ports::wire;
use serde_json::{Value, json};

use super::chain::FactStatus;
use super::{Blocker, Explanation, FactLine, NextAttempt, Transition};

impl Explanation {
    /// The explanation as a JSON object.
    pub fn to_json(&self) -> Value {
        let budget = self.budget.as_ref().map(|budget| {
            json!({
                "phase": budget.phase.as_str(),
                "since": wire::rfc3339(budget.since),
                "used_seconds": budget.used.as_secs(),
                "allowed_seconds": budget.allowed.map(|allowed| allowed.as_secs()),
                "over": budget.is_over(),
            })
        });
        json!({
            "resource": self.resource.to_string(),
            "phase": self.phase.map(Phase::as_str),
            "verdict": self.verdict.as_str(),
            "blocked": self.verdict.is_blocked(),
            "summary": self.paragraph(),
            "blocker": self.blocker.as_ref().map(blocker),
            "party": self.party.as_str(),
            "since": self.since.map(wire::rfc3339),
            "budget": budget,
            "next_attempt": next_attempt(&self.next_attempt),
            "action": {
                "kind": self.action.kind(),
                "text": self.action.to_string(),
                "command": self.action.command(),
            },
            "transitions": self.transitions.iter().map(transition).collect::<Vec<_>>(),
            "facts": self.facts.iter().map(fact).collect::<Vec<_>>(),
        })
    }
}

fn blocker(blocker: &Blocker) -> Value {
    let Blocker { object, provider, condition, message } = blocker;
    json!({
        "object": object.as_ref().map(reference),
        "provider": provider,
        "condition": condition,
        "message": message,
    })
}

/// The full name of an object.
pub(crate) fn reference(object: &ObjectReference) -> Value {
    json!({
        "api_version": object.api_version(),
        "kind": object.kind(),
        "name": object.name(),
        "namespace": object.namespace(),
    })
}

fn next_attempt(next: &NextAttempt) -> Value {
    let (when, at) = match next {
        NextAttempt::Now => ("now", None),
        NextAttempt::At(moment) => ("at", Some(wire::rfc3339(*moment))),
        NextAttempt::OnChange => ("on_change", None),
        NextAttempt::Never => ("never", None),
        NextAttempt::Unknown => ("unknown", None),
    };
    json!({"when": when, "at": at})
}

fn transition(transition: &Transition) -> Value {
    json!({
        "at": wire::rfc3339(transition.at),
        "from": transition.from.map(Phase::as_str),
        "to": transition.to.as_str(),
    })
}

fn fact(line: &FactLine) -> Value {
    let (status, because) = match &line.status {
        FactStatus::Known => ("known", None),
        FactStatus::Unknown(because) => ("unknown", Some(because)),
        FactStatus::Stale(because) => ("stale", Some(because)),
    };
    json!({
        "source": line.source,
        "status": status,
        "text": line.text,
        "because": because,
    })
}
