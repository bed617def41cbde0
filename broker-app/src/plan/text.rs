//! A plan as text: one line per step, and below an apply its field changes.

use std::fmt;

use serde_json::Value;

use super::{ApplyPurpose, FieldChange, Plan, PlannedAnswer, PlannedApply, PlannedStep};

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { resource, from, to, steps, notes, .. } = self;
        if self.is_nothing() {
            writeln!(f, "{resource}: {from}, nothing to do")?;
        } else if from == to {
            writeln!(f, "{resource}: stays {from}")?;
        } else {
            writeln!(f, "{resource}: {from} to {to}")?;
        }
        for step in steps {
            writeln!(f, "  {step}")?;
        }
        for note in notes {
            writeln!(f, "  note: {note}")?;
        }
        Ok(())
    }
}

impl fmt::Display for PlannedStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RequestDeletion => {
                f.write_str("store a deletion request: a failure is rolled back")
            }
            Self::CloseTokens => f.write_str("close its tokens at the issuer"),
            Self::Record { what } => write!(f, "record {what}"),
            Self::Apply(apply) => apply.fmt(f),
            Self::IssueToken { ordinal } => write!(f, "issue token {}", ordinal.get()),
            Self::DeregisterNode { token } => write!(f, "drain the Node of token {token}"),
            Self::Delete { object } => write!(f, "delete {object}"),
            Self::ChangePhase { to } => write!(f, "store phase {to}"),
        }
    }
}

impl fmt::Display for PlannedApply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = match self.purpose {
            ApplyPurpose::ProviderConfig => "apply",
            ApplyPurpose::Shell => "apply the shell",
            ApplyPurpose::Arm => "arm",
            ApplyPurpose::Reapply => "apply again",
        };
        write!(f, "{verb} {}", self.object)?;
        match &self.answer {
            PlannedAnswer::Accepted => {}
            PlannedAnswer::Refused { message, .. } => write!(f, "\n    refused: {message}")?,
            PlannedAnswer::Conflict => f.write_str("\n    in conflict with another change")?,
            PlannedAnswer::Unknown { because } => {
                write!(f, "\n    unknown because {because}")?;
            }
        }
        for FieldChange { path, from, to } in &self.changes {
            match (from, to) {
                (None, Some(to)) => write!(f, "\n    + {path}: {}", json_text(to))?,
                (Some(from), None) => write!(f, "\n    - {path}: {}", json_text(from))?,
                (Some(from), Some(to)) => {
                    write!(f, "\n    ~ {path}: {} to {}", json_text(from), json_text(to))?;
                }
                (None, None) => write!(f, "\n    ~ {path}")?,
            }
        }
        Ok(())
    }
}

fn json_text(value: &Value) -> String {
    value.to_string()
}
