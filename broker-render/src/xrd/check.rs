//! Checks a `spec` as an API server would: accepted, and nothing dropped. Reports by field, without values.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::fmt;

use serde_json::{Map, Value};

use super::schema::{Bound, FieldDeclaration, ListType, Rule, Schema, SizeOf, ValueType};
use crate::canonical::{self, TWO_POW_53, equal_values};
use crate::document::MAX_DOCUMENT_BYTES;
use crate::text::{join, kind_of, list, quoted};

/// The number of problems that are named; one more entry reports the rest.
const MAX_PROBLEMS: usize = 32;

/// A problem with one field.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FieldProblem {
    /// The path, beginning with `spec`.
    pub path: String,
    /// The kind of problem.
    pub kind: ProblemKind,
    /// The problem and the allowed values. Never contains the value, which may be secret.
    pub problem: String,
}

/// The kinds of [`FieldProblem`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProblemKind {
    /// The XRD does not declare the field: the API server rejects or drops it.
    Undeclared,
    /// The value has the wrong type.
    Type,
    /// A required field is missing.
    Missing,
    /// The value breaks a rule: enum, bounds, pattern, alternatives.
    Value,
}

impl fmt::Display for FieldProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.problem)
    }
}

pub(super) fn check(schema: &Schema, spec: &Value) -> Vec<FieldProblem> {
    let mut filled = spec.clone();
    let mut check = Check {
        problems: Vec::new(),
        limit: MAX_PROBLEMS,
        limit_exceeded: false,
        report_undeclared: true,
    };
    if !schema.fill_defaults(&mut filled) {
        check.report(&Path::Spec, ProblemKind::Value, || {
            format!("needs more than {MAX_DOCUMENT_BYTES} bytes for the XRD's defaults")
        });
        return check.problems;
    }
    check.value(schema, &filled, &Path::Spec);
    if check.limit_exceeded {
        let problem = format!("has more than {MAX_PROBLEMS} problems; the others are not named");
        let (path, kind) = (Path::Spec.text(), ProblemKind::Value);
        check.problems.push(FieldProblem { path, kind, problem });
    }
    check.problems
}

enum Path<'a> {
    Spec,
    Field(&'a Self, &'a str),
    Item(&'a Self, usize),
}

impl Path<'_> {
    fn text(&self) -> String {
        match self {
            Self::Spec => "spec".to_owned(),
            Self::Field(parent, name) => join(&parent.text(), name),
            Self::Item(parent, index) => format!("{}[{index}]", parent.text()),
        }
    }
}

struct Check {
    problems: Vec<FieldProblem>,
    /// The maximum number of recorded problems; 0 for a yes-or-no check.
    limit: usize,
    /// Whether a problem exceeded the limit, which ends the walk.
    limit_exceeded: bool,
    /// Whether undeclared fields are problems. Not in the branches of `allOf` and its siblings: they only add
    /// rules to fields that the enclosing structure declares.
    report_undeclared: bool,
}

impl Check {
    fn report(&mut self, path: &Path<'_>, kind: ProblemKind, problem: impl FnOnce() -> String) {
        if self.problems.len() < self.limit {
            self.problems.push(FieldProblem { path: path.text(), kind, problem: problem() });
        } else {
            self.limit_exceeded = true;
        }
    }

    fn value(&mut self, schema: &Schema, value: &Value, path: &Path<'_>) {
        if self.limit_exceeded {
            return;
        }
        if value.is_null() {
            if !schema.nullable && schema.value_type.is_some() {
                self.report(path, ProblemKind::Type, || "is null; leave it out".to_owned());
            }
            return;
        }
        if !has_type(schema, value) {
            let declared = schema.value_type.map_or("anything", ValueType::as_str);
            self.report(path, ProblemKind::Type, || {
                format!("is {}; the XRD declares {declared}", kind_of(value))
            });
            return;
        }
        match value {
            Value::Object(object) => self.object(schema, object, path),
            Value::Array(items) => self.array(schema, items, path),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
        for rule in &schema.rules {
            self.rule(rule, value, path);
        }
    }

    fn object(&mut self, schema: &Schema, object: &Map<String, Value>, path: &Path<'_>) {
        for (name, value) in object {
            let path = &Path::Field(path, name);
            match schema.field(name) {
                FieldDeclaration::Schema(schema) => self.value(schema, value, path),
                FieldDeclaration::Unchecked => {}
                FieldDeclaration::ScalarOnly => self.check_scalar_only(value, path),
                FieldDeclaration::Undeclared => self.undeclared(path),
            }
        }
        for name in &schema.required {
            if !object.contains_key(name) {
                let path = &Path::Field(path, name);
                let problem = || "is required by the XRD".to_owned();
                self.report(path, ProblemKind::Missing, problem);
            }
        }
    }

    fn array(&mut self, schema: &Schema, items: &[Value], path: &Path<'_>) {
        for (index, item) in items.iter().enumerate() {
            let path = &Path::Item(path, index);
            match &schema.items {
                Some(schema) => self.value(schema, item, path),
                None if schema.keeps_unknown => {}
                None => self.check_scalar_only(item, path),
            }
        }
        self.check_unique_items(&schema.list, items, path);
    }

    /// Rejects duplicate items of a set, and items of a map with equal keys.
    fn check_unique_items(&mut self, list_type: &ListType, items: &[Value], path: &Path<'_>) {
        let mut seen = BTreeSet::new();
        for (index, item) in items.iter().enumerate() {
            let identity = match list_type {
                ListType::Atomic => return,
                ListType::Set => canonical::text(item),
                ListType::Map(keys) => {
                    let missing = keys.iter().find(|key| item.get(key.as_str()).is_none());
                    if let Some(key) = missing {
                        let problem =
                            || format!("has no {}, the key that identifies items", quoted(key));
                        self.report(&Path::Item(path, index), ProblemKind::Missing, problem);
                        continue;
                    }
                    let values = keys.iter().filter_map(|key| item.get(key.as_str()));
                    values.map(canonical::text).collect::<Vec<_>>().join(",")
                }
            };
            if !seen.insert(identity) {
                self.report(path, ProblemKind::Value, || format!("contains item {index} twice"));
                return;
            }
        }
    }

    fn undeclared(&mut self, path: &Path<'_>) {
        if self.report_undeclared {
            let problem = || "is not declared by the XRD".to_owned();
            self.report(path, ProblemKind::Undeclared, problem);
        }
    }

    /// Checks a value declared without a schema: the API server keeps scalars and drops nested values.
    fn check_scalar_only(&mut self, value: &Value, path: &Path<'_>) {
        match value {
            Value::Object(object) => {
                for name in object.keys() {
                    self.undeclared(&Path::Field(path, name));
                }
            }
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.check_scalar_only(item, &Path::Item(path, index));
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    fn rule(&mut self, rule: &Rule, value: &Value, path: &Path<'_>) {
        if let Rule::AllOf(branches) = rule {
            let outer = std::mem::replace(&mut self.report_undeclared, false);
            for branch in branches {
                self.value(branch, value, path);
            }
            self.report_undeclared = outer;
        } else if let Some(problem) = violation(rule, value) {
            self.report(path, ProblemKind::Value, || problem);
        }
    }
}

fn has_type(schema: &Schema, value: &Value) -> bool {
    let is_integer = value.as_number().is_some_and(|number| !canonical::number(number).is_f64());
    match schema.value_type {
        None => true,
        Some(ValueType::Object) => value.is_object(),
        Some(ValueType::Array) => value.is_array(),
        Some(ValueType::String) => value.is_string(),
        Some(ValueType::Integer) => is_integer,
        Some(ValueType::IntegerOrString) => is_integer || value.is_string(),
        Some(ValueType::Number) => value.is_number(),
        Some(ValueType::Boolean) => value.is_boolean(),
    }
}

/// The reason why a value breaks a rule; `None` if it complies or the rule is for another type.
fn violation(rule: &Rule, value: &Value) -> Option<String> {
    match rule {
        Rule::Enum(allowed) => (!allowed.iter().any(|allowed| equal_values(allowed, value)))
            .then(|| format!("is not one of {}", list(allowed.iter().map(canonical::text)))),
        Rule::Minimum(Bound { limit, exclusive }) => {
            let comparison = if *exclusive { "more than" } else { "at least" };
            let order = compare_with(value, *limit)?;
            (order.is_lt() || (*exclusive && order.is_eq()))
                .then(|| format!("is too small; use {comparison} {limit}"))
        }
        Rule::Maximum(Bound { limit, exclusive }) => {
            let comparison = if *exclusive { "less than" } else { "at most" };
            let order = compare_with(value, *limit)?;
            (order.is_gt() || (*exclusive && order.is_eq()))
                .then(|| format!("is too large; use {comparison} {limit}"))
        }
        Rule::MultipleOf(factor) => {
            (!is_multiple(value, *factor)?).then(|| format!("is not a multiple of {factor}"))
        }
        Rule::Int32 => i32::try_from(value.as_i64()?)
            .is_err()
            .then(|| format!("does not fit into 32 bits; use {} to {}", i32::MIN, i32::MAX)),
        Rule::Pattern { source, compiled } => (!compiled.is_match(value.as_str()?))
            .then(|| format!("does not match the pattern {}", quoted(source))),
        Rule::Size { measure, at_least, at_most } => {
            wrong_size(*measure, *at_least, *at_most, value)
        }
        Rule::AllOf(_) => None,
        Rule::AnyOf(branches) => (matching_branches(branches, value) == 0)
            .then(|| "matches none of the alternatives of anyOf".to_owned()),
        Rule::OneOf(branches) => match matching_branches(branches, value) {
            1 => None,
            0 => Some("matches none of the alternatives of oneOf".to_owned()),
            count => Some(format!("matches {count} alternatives of oneOf; use one")),
        },
        Rule::Not(branch) => matches_schema(branch, value)
            .then(|| "matches a schema that the XRD excludes with not".to_owned()),
    }
}

/// Compares a number with a bound. For integers, the API server truncates the bound.
fn compare_with(value: &Value, limit: f64) -> Option<Ordering> {
    match canonical::number(value.as_number()?).as_i64() {
        Some(integer) => Some(integer.cmp(&truncated(limit))),
        None => value.as_f64()?.partial_cmp(&limit),
    }
}

/// Whether the API server considers a number a multiple. Integers use the truncated factor, other numbers
/// floating point.
fn is_multiple(value: &Value, factor: f64) -> Option<bool> {
    if let Some(integer) = canonical::number(value.as_number()?).as_i64() {
        return Some(integer.checked_rem(truncated(factor)) == Some(0));
    }
    let value = value.as_f64()?;
    let quotient = if factor < 1.0 { 1.0 / factor * value } else { value / factor };
    // Accept a quotient slightly above an integer; reject one slightly below, or negative.
    let is_near = quotient >= 1.0 && quotient.fract() / (quotient + quotient.trunc()) < 1e-9;
    Some(quotient.abs() < TWO_POW_53 && (quotient.fract() == 0.0 || is_near))
}

#[expect(clippy::cast_possible_truncation, reason = "the API server truncates, too")]
const fn truncated(limit: f64) -> i64 {
    limit as i64
}

fn wrong_size(
    measure: SizeOf,
    at_least: Option<u64>,
    at_most: Option<u64>,
    value: &Value,
) -> Option<String> {
    let (size, few, many, unit) = match measure {
        SizeOf::Text => {
            (value.as_str()?.chars().count(), "is too short", "is too long", "characters")
        }
        SizeOf::Array => {
            (value.as_array()?.len(), "contains too few", "contains too many", "items")
        }
        SizeOf::Object => {
            (value.as_object()?.len(), "contains too few", "contains too many", "fields")
        }
    };
    let size = size as u64;
    if let Some(limit) = at_least.filter(|limit| size < *limit) {
        return Some(format!("{few}; use at least {limit} {unit}"));
    }
    let limit = at_most.filter(|limit| size > *limit)?;
    Some(format!("{many}; use at most {limit} {unit}"))
}

fn matching_branches(branches: &[Schema], value: &Value) -> usize {
    branches.iter().filter(|branch| matches_schema(branch, value)).count()
}

fn matches_schema(branch: &Schema, value: &Value) -> bool {
    let mut check =
        Check { problems: Vec::new(), limit: 0, limit_exceeded: false, report_undeclared: false };
    check.value(branch, value, &Path::Spec);
    !check.limit_exceeded
}
