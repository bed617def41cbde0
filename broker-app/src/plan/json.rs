//! A plan as JSON. `docs/explain.md` has the schema; keys are added, never changed.

use broker_ports::Refusal;
use serde_json::{Value, json};

use super::{ApplyPurpose, FieldChange, Plan, PlannedAnswer, PlannedApply, PlannedStep};
use crate::explain::reference;

impl Plan {
    /// The plan as a JSON object.
    pub fn to_json(&self) -> Value {
        json!({
            "resource": self.resource.to_string(),
            "from": self.from.as_str(),
            "to": self.to.as_str(),
            "action": self.action.as_str(),
            "nothing_to_do": self.is_nothing(),
            "refused": self.refusal().is_some(),
            "notes": self.notes,
            "steps": self.steps.iter().map(step).collect::<Vec<_>>(),
        })
    }
}

fn step(step: &PlannedStep) -> Value {
    match step {
        PlannedStep::RequestDeletion => json!({"step": "request_deletion"}),
        PlannedStep::CloseTokens => json!({"step": "close_tokens"}),
        PlannedStep::Record { what } => json!({"step": "record", "what": what}),
        PlannedStep::Apply(apply) => apply_step(apply),
        PlannedStep::IssueToken { ordinal } => {
            json!({"step": "issue_token", "ordinal": ordinal.get()})
        }
        PlannedStep::DeregisterNode { token } => {
            json!({"step": "deregister_node", "token": token.to_string()})
        }
        PlannedStep::Delete { object } => {
            json!({"step": "delete", "object": reference(object)})
        }
        PlannedStep::ChangePhase { to } => json!({"step": "change_phase", "to": to.as_str()}),
    }
}

fn apply_step(apply: &PlannedApply) -> Value {
    let PlannedApply { object, purpose, manifest, changes, answer } = apply;
    let (state, reason, message) = match answer {
        PlannedAnswer::Accepted => ("accepted", None, None),
        PlannedAnswer::Refused { refusal, message } => {
            ("refused", refusal.map(Refusal::as_str), Some(message))
        }
        PlannedAnswer::Conflict => ("conflict", None, None),
        PlannedAnswer::Unknown { because } => ("unknown", None, Some(because)),
    };
    json!({
        "step": "apply",
        "purpose": purpose.as_str(),
        "object": reference(object),
        "manifest": manifest,
        "changes": changes.iter().map(change).collect::<Vec<_>>(),
        "answer": {"state": state, "reason": reason, "message": message},
    })
}

fn change(change: &FieldChange) -> Value {
    json!({"path": change.path, "from": change.from, "to": change.to})
}

impl ApplyPurpose {
    /// The purpose's name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ProviderConfig => "provider_config",
            Self::Shell => "shell",
            Self::Arm => "arm",
            Self::Reapply => "reapply",
        }
    }
}
