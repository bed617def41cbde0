//! Whether an API server would take a `spec`, and keep all of it; by field, and without repeating values.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::{Map, Value};

use super::schema::{Bound, Declared, ListType, Rule, Schema, SizeOf, ValueType};
use crate::canonical::{self, same};
use crate::text::{join, kind_of, list, quoted};

/// What is wrong with one field.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FieldProblem {
    /// Where, beginning with `spec`.
    pub path: String,
    /// What kind of problem it is.
    pub kind: ProblemKind,
    /// What is wrong and what is allowed. Values are not repeated: they may be secret.
    pub problem: String,
}

/// The kinds of [`FieldProblem`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProblemKind {
    /// The XRD does not declare the field: server-side apply refuses it, or it would be dropped.
    Undeclared,
    /// The value has another type than declared.
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
    schema.fill_defaults(&mut filled);
    let mut check = Check { problems: Vec::new(), declared: true };
    check.value(schema, &filled, &Path::Spec);
    check.problems
}

/// The way to a value. Most values are fine, so that the text is made for the others only.
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

/// One walk over a value and its schema.
struct Check {
    problems: Vec<FieldProblem>,
    /// Whether undeclared fields count. In the branches of `allOf` and its like they do not: those only
    /// add rules about what the structure around them declares.
    declared: bool,
}

impl Check {
    fn report(&mut self, path: &Path<'_>, kind: ProblemKind, problem: impl Into<String>) {
        self.problems.push(FieldProblem { path: path.text(), kind, problem: problem.into() });
    }

    fn value(&mut self, schema: &Schema, value: &Value, path: &Path<'_>) {
        if value.is_null() {
            if !schema.nullable && schema.value_type.is_some() {
                self.report(path, ProblemKind::Type, "is null; leave it out");
            }
            return;
        }
        if !has_type(schema, value) {
            let declared = schema.value_type.map_or("anything", ValueType::as_str);
            let problem = format!("is {}; the XRD declares {declared}", kind_of(value));
            self.report(path, ProblemKind::Type, problem);
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
                Declared::As(schema) => self.value(schema, value, path),
                Declared::Freely => {}
                Declared::AsScalar => self.scalars(value, path),
                Declared::Not => self.undeclared(path),
            }
        }
        for name in &schema.required {
            if !object.contains_key(name) {
                let path = &Path::Field(path, name);
                self.report(path, ProblemKind::Missing, "is required by the XRD");
            }
        }
    }

    fn array(&mut self, schema: &Schema, items: &[Value], path: &Path<'_>) {
        for (index, item) in items.iter().enumerate() {
            let path = &Path::Item(path, index);
            match &schema.items {
                Some(schema) => self.value(schema, item, path),
                None if schema.keeps_unknown => {}
                None => self.scalars(item, path),
            }
        }
        self.identities(&schema.list, items, path);
    }

    /// Items of a set, and items of a map by their keys, may stand there once.
    fn identities(&mut self, list_type: &ListType, items: &[Value], path: &Path<'_>) {
        let mut seen = BTreeSet::new();
        for (index, item) in items.iter().enumerate() {
            let identity = match list_type {
                ListType::Atomic => return,
                ListType::Set => canonical::text(item),
                ListType::Map(keys) => {
                    let missing = keys.iter().find(|key| item.get(key.as_str()).is_none());
                    if let Some(key) = missing {
                        let problem =
                            format!("has no {}, by which items are told apart", quoted(key));
                        self.report(&Path::Item(path, index), ProblemKind::Missing, problem);
                        continue;
                    }
                    let values = keys.iter().filter_map(|key| item.get(key.as_str()));
                    list(values.map(canonical::text).collect::<Vec<_>>().iter().map(String::as_str))
                }
            };
            if !seen.insert(identity) {
                self.report(path, ProblemKind::Value, format!("holds item {index} twice"));
                return;
            }
        }
    }

    fn undeclared(&mut self, path: &Path<'_>) {
        if self.declared {
            self.report(path, ProblemKind::Undeclared, "is not declared by the XRD");
        }
    }

    /// A place that is declared without a schema: scalars stay, what lies below is dropped.
    fn scalars(&mut self, value: &Value, path: &Path<'_>) {
        match value {
            Value::Object(object) => {
                for name in object.keys() {
                    self.undeclared(&Path::Field(path, name));
                }
            }
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.scalars(item, &Path::Item(path, index));
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    fn rule(&mut self, rule: &Rule, value: &Value, path: &Path<'_>) {
        if let Rule::AllOf(branches) = rule {
            let declared = std::mem::replace(&mut self.declared, false);
            for branch in branches {
                self.value(branch, value, path);
            }
            self.declared = declared;
        } else if let Some(problem) = broken(rule, value) {
            self.report(path, ProblemKind::Value, problem);
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

/// Why a value breaks a rule; `None` when it does not, or when the rule is about values of another type.
fn broken(rule: &Rule, value: &Value) -> Option<String> {
    let too_small = |limit: &dyn fmt::Display| format!("is too small; use {limit}");
    let too_large = |limit: &dyn fmt::Display| format!("is too large; use {limit}");
    match rule {
        Rule::Enum(allowed) => (!allowed.iter().any(|allowed| same(allowed, value))).then(|| {
            let allowed: Vec<_> = allowed.iter().map(canonical::text).collect();
            format!("is not one of {}", list(allowed.iter().map(String::as_str)))
        }),
        Rule::Minimum(Bound { limit, exclusive: true }) => {
            (value.as_f64()? <= *limit).then(|| too_small(&format_args!("more than {limit}")))
        }
        Rule::Minimum(Bound { limit, exclusive: false }) => {
            (value.as_f64()? < *limit).then(|| too_small(&format_args!("at least {limit}")))
        }
        Rule::Maximum(Bound { limit, exclusive: true }) => {
            (value.as_f64()? >= *limit).then(|| too_large(&format_args!("less than {limit}")))
        }
        Rule::Maximum(Bound { limit, exclusive: false }) => {
            (value.as_f64()? > *limit).then(|| too_large(&format_args!("at most {limit}")))
        }
        Rule::MultipleOf(factor) => ((value.as_f64()? / factor).fract() != 0.0)
            .then(|| format!("is no multiple of {factor}")),
        Rule::Int32 => i32::try_from(value.as_i64()?)
            .is_err()
            .then(|| format!("does not fit into 32 bits; use {} to {}", i32::MIN, i32::MAX)),
        Rule::Pattern { source, compiled } => (!compiled.is_match(value.as_str()?))
            .then(|| format!("does not match the pattern {}", quoted(source))),
        Rule::Size { of, at_least, at_most } => wrong_size(*of, *at_least, *at_most, value),
        Rule::AllOf(_) => None,
        Rule::AnyOf(branches) => (fitting(branches, value) == 0)
            .then(|| "fits none of the alternatives of anyOf".to_owned()),
        Rule::OneOf(branches) => match fitting(branches, value) {
            1 => None,
            0 => Some("fits none of the alternatives of oneOf".to_owned()),
            fitting => Some(format!("fits {fitting} alternatives of oneOf; use one")),
        },
        Rule::Not(branch) => {
            fits(branch, value).then(|| "is what the XRD excludes with not".to_owned())
        }
    }
}

fn wrong_size(
    of: SizeOf,
    at_least: Option<u64>,
    at_most: Option<u64>,
    value: &Value,
) -> Option<String> {
    let (size, few, many, unit) = match of {
        SizeOf::Text => {
            (value.as_str()?.chars().count(), "is too short", "is too long", "characters")
        }
        SizeOf::Array => (value.as_array()?.len(), "holds too few", "holds too many", "items"),
        SizeOf::Object => (value.as_object()?.len(), "holds too few", "holds too many", "fields"),
    };
    let size = size as u64;
    if let Some(limit) = at_least.filter(|limit| size < *limit) {
        return Some(format!("{few}; use at least {limit} {unit}"));
    }
    let limit = at_most.filter(|limit| size > *limit)?;
    Some(format!("{many}; use at most {limit} {unit}"))
}

fn fitting(branches: &[Schema], value: &Value) -> usize {
    branches.iter().filter(|branch| fits(branch, value)).count()
}

fn fits(branch: &Schema, value: &Value) -> bool {
    let mut check = Check { problems: Vec::new(), declared: false };
    check.value(branch, value, &Path::Spec);
    check.problems.is_empty()
}
