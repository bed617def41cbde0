//! An explanation as text: one paragraph, then a tree, within 80 columns.

use std::fmt;

use broker_ports::wire;

use super::budgets::human_duration;
use super::chain::{FactLine, FactStatus};
use super::verdict::Party;
use super::{Explanation, NextAttempt};

const COLUMNS: usize = 80;

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in wrapped(&self.paragraph(), COLUMNS) {
            writeln!(f, "{line}")?;
        }
        writeln!(f)?;
        for line in self.tree() {
            writeln!(f, "{line}")?;
        }
        Ok(())
    }
}

impl Explanation {
    /// The explanation in a few sentences.
    pub fn paragraph(&self) -> String {
        let mut sentences = Vec::new();
        let state = match (self.phase, &self.budget) {
            (Some(phase), Some(budget)) => {
                let over = if budget.is_over() { ", over its budget" } else { "" };
                format!("{phase} for {}{over}", human_duration(budget.used))
            }
            (Some(phase), None) => phase.to_string(),
            (None, _) => "Its phase is unknown".to_owned(),
        };
        sentences.push(format!("{state}: {}", self.verdict.summary()));
        if let Some(blocker) = &self.blocker {
            let named = blocker.object.as_ref().map(ToString::to_string);
            let provider =
                blocker.provider.as_ref().map(|provider| format!("created by {provider}"));
            let quoted =
                blocker.message.as_ref().map(|message| format!("\u{201c}{message}\u{201d}"));
            let parts = [named, provider, blocker.condition.clone(), quoted];
            let parts: Vec<_> = parts.into_iter().flatten().collect();
            if !parts.is_empty() {
                sentences.push(parts.join(", "));
            }
        }
        sentences.push(match self.party {
            Party::None => "No action is needed".to_owned(),
            Party::Caller | Party::Platform | Party::Cloud => {
                format!("The {} has to act: {}", self.party, self.action)
            }
        });
        sentences.push(self.next_attempt.to_string());
        format!("{}.", sentences.join(". "))
    }

    fn tree(&self) -> Vec<String> {
        let mut branches = vec![
            ("verdict", self.verdict.to_string()),
            ("who", self.party.to_string()),
            ("next", self.action.to_string()),
        ];
        if let Some(command) = self.action.command() {
            branches.push(("command", command));
        }
        if let Some(since) = self.since {
            branches.push(("since", wire::rfc3339(since)));
        }
        if let Some(budget) = &self.budget {
            branches.push((
                "budget",
                match budget.allowed {
                    None => format!("no limit in {}", budget.phase),
                    Some(allowed) => {
                        let over = if budget.is_over() { ", over" } else { "" };
                        let (used, allowed) =
                            (human_duration(budget.used), human_duration(allowed));
                        format!("{used} of {allowed} in {}{over}", budget.phase)
                    }
                },
            ));
        }
        let mut lines = vec![self.resource.to_string()];
        for (name, text) in branches {
            lines.extend(tree_lines("├─ ", "│  ", &format!("{name:8} {text}")));
        }
        if !self.transitions.is_empty() {
            lines.push("├─ history".to_owned());
            let last = self.transitions.len() - 1;
            for (index, transition) in self.transitions.iter().enumerate() {
                let from = transition.from.map(|from| format!("{from} to ")).unwrap_or_default();
                let text = format!("{} {from}{}", wire::rfc3339(transition.at), transition.to);
                let (first, rest) = if index == last {
                    ("│  └─ ", "│     ")
                } else {
                    ("│  ├─ ", "│  │  ")
                };
                lines.extend(tree_lines(first, rest, &text));
            }
        }
        lines.push("└─ facts".to_owned());
        for (index, fact) in self.facts.iter().enumerate() {
            let last = index + 1 == self.facts.len();
            let (first, rest) =
                if last { ("   └─ ", "      ") } else { ("   ├─ ", "   │  ") };
            lines.extend(tree_lines(first, rest, &fact.to_string()));
        }
        lines
    }
}

impl fmt::Display for FactLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { source, text, status } = self;
        match status {
            FactStatus::Known => write!(f, "known    {source}: {text}"),
            FactStatus::Unknown(because) => write!(f, "unknown  {source}: because {because}"),
            FactStatus::Stale(because) => write!(f, "stale    {source}: {text} ({because})"),
        }
    }
}

/// A sentence without its full stop.
impl fmt::Display for NextAttempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Now => f.write_str("It is due now"),
            Self::At(moment) => write!(f, "The next attempt is at {}", wire::rfc3339(*moment)),
            Self::OnChange => {
                f.write_str("It is checked when something changes, and by every sweep")
            }
            Self::Never => f.write_str("No further pass is scheduled"),
            Self::Unknown => f.write_str("The time of the next attempt is unknown"),
        }
    }
}

/// A tree line with its continuation lines.
fn tree_lines(first: &str, rest: &str, text: &str) -> Vec<String> {
    let width = COLUMNS - first.chars().count();
    let prefix = |index: usize| if index == 0 { first } else { rest };
    let lines = wrapped(text, width).into_iter().enumerate();
    lines.map(|(index, line)| format!("{}{line}", prefix(index))).collect()
}

/// Wraps text at `width` columns; a longer word is split.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    // Keeps the spaces of a fact's columns; messages have single spaces.
    for word in text.split(' ') {
        let mut word = word.to_owned();
        let used = line.chars().count();
        if used > 0 && used + 1 + word.chars().count() > width {
            lines.push(std::mem::take(&mut line).trim_end().to_owned());
        } else if !lines.is_empty() && used == 0 && word.is_empty() {
            continue;
        } else if used > 0 || (lines.is_empty() && line.is_empty() && word.is_empty()) {
            line.push(' ');
        }
        while word.chars().count() > width {
            let head: String = word.chars().take(width).collect();
            word = word.chars().skip(width).collect();
            lines.push(head);
        }
        line.push_str(&word);
    }
    if !line.trim().is_empty() {
        lines.push(line.trim_end().to_owned());
    }
    lines
}
