//! Messages about invalid parameters: path, problem and allowed values, never the value.

use std::collections::BTreeSet;

use jsonschema::ValidationError;
use jsonschema::error::{TypeKind, ValidationErrorKind as Kind};
use jsonschema::paths::{Location, LocationSegment};
use serde_json::Value;

use crate::canonical;
use crate::text::{join, list, quoted, shortened};

/// The number of problems that one error names before it counts the rest.
const MAX_PROBLEMS: usize = 32;

/// Sorted, deduplicated problems. Beyond the limit, they are only counted.
#[derive(Default)]
pub(super) struct Problems {
    named: BTreeSet<String>,
    unnamed: usize,
}

impl Problems {
    fn add(&mut self, problem: impl FnOnce() -> String) {
        if self.named.len() < MAX_PROBLEMS {
            self.named.insert(problem());
        } else {
            self.unnamed += 1;
        }
    }

    pub(super) fn into_sentences(self) -> Vec<String> {
        let more = (self.unnamed > 0).then(|| format!("and {} more", self.unnamed));
        self.named.into_iter().chain(more).collect()
    }
}

pub(super) fn schema_problem(error: &ValidationError<'_>) -> String {
    let path = path(error.instance_path());
    let keyword = error.kind().keyword();
    let place = if path.is_empty() { String::new() } else { format!(" at {path}") };
    if matches!(error.kind(), Kind::Referencing(_)) {
        return format!("is not a valid schema{place}: the target of a $ref does not exist");
    }
    if matches!(error.kind(), Kind::Format { format } if format == "regex") {
        return format!(
            "is not a valid schema{place}: the pattern cannot be compiled; use RE2 syntax"
        );
    }
    format!("is not a valid schema{place}: it breaks the rule {keyword} of the meta-schema")
}

pub(super) fn is_missing(error: &ValidationError<'_>) -> bool {
    matches!(error.kind(), Kind::Required { .. })
}

/// The parameter that the error concerns; `None` if it concerns the root.
pub(super) fn parameter_of(error: &ValidationError<'_>) -> Option<String> {
    match error.instance_path().into_iter().next()? {
        LocationSegment::Property(name) => Some(name.into_owned()),
        LocationSegment::Index(_) => None,
    }
}

/// Adds one sentence per error, or one per name for several unknown names.
pub(super) fn add_value_problems(
    problems: &mut Problems,
    error: &ValidationError<'_>,
    secrets: &BTreeSet<String>,
    names: &[&str],
) {
    let at = path(error.instance_path());
    if let Some(secret) = parameter_of(error).filter(|name| secrets.contains(name)) {
        // Show nothing of the input, not even a field name.
        problems.add(|| secret_problem(&secret));
        return;
    }
    if let Kind::Required { property } = error.kind() {
        let name = property.as_str().unwrap_or_default();
        problems.add(|| {
            if at.is_empty() && secrets.contains(name) {
                secret_problem(name)
            } else {
                format!("{}: is required", join(&at, name))
            }
        });
        return;
    }
    if let Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } =
        error.kind()
    {
        let allowed = match (at.is_empty(), names) {
            (true, []) => "is not a parameter; the blueprint has none".to_owned(),
            (true, names) => format!("is not a parameter; use {}", list(names.iter().copied())),
            (false, _) => "is not a field of this parameter".to_owned(),
        };
        for name in unexpected {
            problems.add(|| format!("{}: {allowed}", join(&at, name)));
        }
        return;
    }
    problems.add(|| {
        let problem = problem(error.kind());
        if at.is_empty() { problem } else { format!("{at}: {problem}") }
    });
}

fn secret_problem(name: &str) -> String {
    format!("{name}: is secret; use {{\"secretRef\":{{\"name\":…,\"key\":…}}}}")
}

fn problem(kind: &Kind) -> String {
    match kind {
        Kind::Type { kind: TypeKind::Single(allowed) } => format!("is not of type {allowed}"),
        Kind::Type { kind: TypeKind::Multiple(allowed) } => {
            let allowed: Vec<_> = allowed.iter().map(|allowed| allowed.to_string()).collect();
            format!("is not of type {}", list(allowed))
        }
        Kind::Enum { options } => format!("is not one of {}", values(options)),
        Kind::Constant { expected_value } => {
            format!("is not {}", shortened(&canonical::text(expected_value)))
        }
        Kind::Minimum { limit } => format!("is too small; use at least {limit}"),
        Kind::Maximum { limit } => format!("is too large; use at most {limit}"),
        Kind::ExclusiveMinimum { limit } => format!("is too small; use more than {limit}"),
        Kind::ExclusiveMaximum { limit } => format!("is too large; use less than {limit}"),
        Kind::MultipleOf { multiple_of } => format!("is not a multiple of {multiple_of}"),
        Kind::MinLength { limit } => format!("is too short; use at least {limit} characters"),
        Kind::MaxLength { limit } => format!("is too long; use at most {limit} characters"),
        Kind::Pattern { pattern } => format!("does not match the pattern {}", quoted(pattern)),
        Kind::MinItems { limit } => format!("contains too few; use at least {limit} items"),
        Kind::MaxItems { limit } => format!("contains too many; use at most {limit} items"),
        Kind::AdditionalItems { limit } => format!("contains too many; use at most {limit} items"),
        Kind::UniqueItems => "contains an item twice".to_owned(),
        Kind::MinProperties { limit } => format!("contains too few; use at least {limit} fields"),
        Kind::MaxProperties { limit } => format!("contains too many; use at most {limit} fields"),
        Kind::PropertyNames { .. } => "contains a field whose name is not allowed".to_owned(),
        Kind::AnyOf { .. } | Kind::OneOfNotValid { .. } => {
            "matches none of the alternatives".to_owned()
        }
        Kind::OneOfMultipleValid { .. } => "matches several alternatives; use one".to_owned(),
        Kind::FalseSchema => "is not allowed".to_owned(),
        Kind::Required { .. }
        | Kind::AdditionalProperties { .. }
        | Kind::UnevaluatedProperties { .. }
        | Kind::UnevaluatedItems { .. }
        | Kind::BacktrackLimitExceeded { .. }
        | Kind::RegexEngineFailure { .. }
        | Kind::Contains
        | Kind::ContentEncoding { .. }
        | Kind::ContentMediaType { .. }
        | Kind::Custom { .. }
        | Kind::Format { .. }
        | Kind::FromUtf8 { .. }
        | Kind::Not { .. }
        | Kind::Referencing(_) => format!("does not satisfy {}", kind.keyword()),
    }
}

fn values(options: &Value) -> String {
    list(options.as_array().map_or(&[][..], Vec::as_slice).iter().map(canonical::text))
}

/// Converts `/a/b/0/c` to `a.b[0].c`.
fn path(location: &Location) -> String {
    location.into_iter().fold(String::new(), |path, segment| match segment {
        LocationSegment::Property(name) => join(&path, &name),
        LocationSegment::Index(index) => format!("{path}[{index}]"),
    })
}
