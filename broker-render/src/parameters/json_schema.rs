//! Checks of a JSON Schema before its compilation. They reject a schema that refers to another document, renames itself
//! or expands too far through references. They also reject a secret mark without effect.

use std::collections::BTreeMap;

use broker_domain::Error;
use serde_json::Value;

use super::{check_name, object_of};
use crate::document::MAX_DEPTH;
use crate::fields::Field;
use crate::text::quoted;

/// The maximum number of patterns, counted once per reference to them.
const MAX_PATTERNS: usize = 256;

/// The maximum number of schemas, counted once per reference to them. Compiled size and validation time grow
/// with this number, not with the text.
const MAX_SCHEMAS: usize = 4096;

/// The keywords that hold shared schemas, and the only targets of references.
const DEFINITIONS: [&str; 2] = ["$defs", "definitions"];

/// Keywords whose value maps names to schemas.
const NAMED: [&str; 6] =
    ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"];

/// Keywords whose value is a schema or a list of schemas.
const SCHEMAS: [&str; 16] = [
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "then",
    "else",
    "items",
    "prefixItems",
    "additionalItems",
    "additionalProperties",
    "unevaluatedItems",
    "unevaluatedProperties",
    "contains",
    "propertyNames",
    "contentSchema",
];

/// Keywords of a secret parameter. Any other rule would need to read the value.
const SECRET: [&str; 4] = ["secret", "type", "title", "description"];

/// Rejects a schema that must not be compiled; `root` names the document in messages.
pub(super) fn inspect(root: &Field<'_>, schema: &Value) -> Result<(), Error> {
    let root = Field::new(root.path.as_str(), schema);
    let type_field = root.get("type");
    if type_field.text()? != "object" {
        return Err(type_field.invalid("is another type; use object"));
    }
    for (name, property) in root.get("properties").entries()? {
        check_name(&property, name)?;
        let is_secret = property.get("secret").flag()?;
        let entries = if is_secret { property.entries()? } else { Vec::new() };
        if let Some((_, field)) = entries.iter().find(|(keyword, _)| !SECRET.contains(keyword)) {
            return Err(field.invalid("would need the value of a secret; leave it out"));
        }
    }
    let mut inspection = Inspection { root: root.clone(), known: BTreeMap::new() };
    inspection.schema(&root, Position::Root, 1).map(|_| ())
}

/// Rejects a secret mark that remains after the secret parameters were taken out: it would protect nothing.
/// Visits every value, because an unknown keyword may contain a mark too.
pub(super) fn reject_remaining_secrets(field: &Field<'_>) -> Result<(), Error> {
    match field.value {
        Some(Value::Object(object)) => {
            for (key, value) in object {
                if key == "secret" && *value == Value::Bool(true) {
                    return Err(misplaced_secret(field));
                }
                reject_remaining_secrets(&field.get(key))?;
            }
            Ok(())
        }
        Some(Value::Array(_)) => field.items()?.iter().try_for_each(reject_remaining_secrets),
        _ => Ok(()),
    }
}

fn misplaced_secret(field: &Field<'_>) -> Error {
    let problem = "is set below a parameter; only a whole parameter can be secret";
    field.get("secret").invalid(problem)
}

/// The position of a schema: only a parameter itself can be secret.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Position {
    Root,
    Parameter,
    Below,
}

/// The size of a schema with every reference expanded.
#[derive(Clone, Copy, Default)]
struct ExpandedSize {
    schemas: usize,
    patterns: usize,
    levels: usize,
}

impl ExpandedSize {
    const fn add(&mut self, inner: Self) {
        self.schemas = self.schemas.saturating_add(inner.schemas);
        self.patterns = self.patterns.saturating_add(inner.patterns);
        if self.levels <= inner.levels {
            self.levels = inner.levels + 1;
        }
    }

    fn check(self, field: &Field<'_>) -> Result<Self, Error> {
        if self.schemas > MAX_SCHEMAS {
            let problem = format!("expands to more than {MAX_SCHEMAS} schemas through $ref");
            return Err(field.invalid(problem));
        }
        if self.patterns > MAX_PATTERNS {
            return Err(field.invalid(format!("contains more than {MAX_PATTERNS} patterns")));
        }
        if self.levels > MAX_DEPTH {
            let problem = format!("is nested deeper than {MAX_DEPTH} levels through $ref");
            return Err(field.invalid(problem));
        }
        Ok(self)
    }
}

/// One walk over a schema. Measures each definition once, however many references target it.
struct Inspection<'a> {
    root: Field<'a>,
    /// `None` while the walk is inside the definition; reaching it again means a cycle.
    known: BTreeMap<Definition<'a>, Option<ExpandedSize>>,
}

/// A keyword of [`DEFINITIONS`], and the name under it.
type Definition<'a> = (&'a str, &'a str);

impl<'a> Inspection<'a> {
    fn schema(
        &mut self,
        field: &Field<'a>,
        position: Position,
        level: usize,
    ) -> Result<ExpandedSize, Error> {
        let mut size = ExpandedSize { schemas: 1, patterns: 0, levels: 1 };
        let Some(schema) = field.value.filter(|value| value.is_object()) else {
            return Ok(if field.value.is_some() { size } else { ExpandedSize::default() });
        };
        if position != Position::Parameter && schema.get("secret") == Some(&Value::Bool(true)) {
            return Err(misplaced_secret(field));
        }
        // Check before descending, so that the walk itself stays within the limit.
        ExpandedSize { levels: level, ..size }.check(field)?;
        reject_renaming_keywords(field)?;
        size.patterns += usize::from(schema.get("pattern").is_some());
        size.patterns += object_of(schema.get("patternProperties").unwrap_or(&Value::Null)).count();
        let reference = field.get("$ref");
        if let Some(definition) = referenced(&reference)? {
            size.add(self.definition(definition, &reference, level + 1)?);
        }
        for keyword in NAMED {
            let inner = match (position, keyword) {
                (Position::Root, "properties") => Position::Parameter,
                _ => Position::Below,
            };
            let is_definition = position == Position::Root && DEFINITIONS.contains(&keyword);
            let named = field.get(keyword);
            for (name, _) in object_of(named.value.unwrap_or(&Value::Null)) {
                let schema = named.get(name);
                size.add(if is_definition {
                    self.definition((keyword, name), &schema, level + 1)?
                } else {
                    self.schema(&schema, inner, level + 1)?
                });
            }
        }
        for keyword in SCHEMAS {
            let inner = field.get(keyword);
            if let Some(Value::Array(_)) = inner.value {
                for item in inner.items()? {
                    size.add(self.schema(&item, Position::Below, level + 1)?);
                }
            } else {
                size.add(self.schema(&inner, Position::Below, level + 1)?);
            }
        }
        size.check(field)
    }

    /// Measures a referenced schema; `from` is one reference to it, for messages.
    fn definition(
        &mut self,
        (keyword, name): Definition<'a>,
        from: &Field<'_>,
        level: usize,
    ) -> Result<ExpandedSize, Error> {
        match self.known.get(&(keyword, name)) {
            Some(Some(size)) => return Ok(*size),
            Some(None) => {
                let problem = "forms a cycle; use references without a cycle";
                return Err(from.invalid(problem));
            }
            None => {}
        }
        self.known.insert((keyword, name), None);
        let definition = self.root.get(keyword).get(name);
        let size = self.schema(&definition, Position::Below, level)?;
        self.known.insert((keyword, name), Some(size));
        Ok(size)
    }
}

fn referenced<'a>(reference: &Field<'a>) -> Result<Option<Definition<'a>>, Error> {
    let Some(pointer) = reference.optional_text()? else { return Ok(None) };
    // Compare literally: escapes would give a target a second spelling.
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let parts = pointer.strip_prefix("#/").and_then(|rest| rest.split_once('/'));
    parts
        .filter(|(keyword, _)| DEFINITIONS.contains(keyword))
        .filter(|(_, name)| !name.is_empty() && name.chars().all(is_plain))
        .map(Some)
        .ok_or_else(|| {
            let allowed = "use #/$defs/<name> or #/definitions/<name>";
            reference.invalid(format!("is {}; {allowed}", quoted(pointer)))
        })
}

/// Rejects keywords that rename or rebase the schema, or that resolve dynamically: they would change the
/// target of a pointer.
fn reject_renaming_keywords(field: &Field<'_>) -> Result<(), Error> {
    for keyword in ["$dynamicRef", "$recursiveRef"] {
        if field.get(keyword).value.is_some() {
            return Err(field.get(keyword).invalid("resolves dynamically; use $ref"));
        }
    }
    for keyword in ["$id", "id", "$anchor", "$dynamicAnchor", "$recursiveAnchor"] {
        if field.get(keyword).value.is_some() {
            return Err(field.get(keyword).invalid("gives the schema another name; leave it out"));
        }
    }
    Ok(())
}
