//! What a JSON Schema must not do before it may be compiled: look outside of itself, call itself by another
//! name, or hide a secret where nobody would find it.

use broker_domain::Error;
use serde_json::Value;

use super::{MAX_PATTERNS, check_name, object_of};
use crate::fields::Field;

/// Keywords whose value maps names to schemas.
const NAMED: [&str; 5] =
    ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];

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

/// What a parameter marked secret may say besides: any rule would need to see the value.
const SECRET: [&str; 4] = ["secret", "type", "title", "description"];

/// Refuses a schema that must not be compiled; `root` names the document in messages.
pub(super) fn inspect(root: &Field<'_>, schema: &Value) -> Result<(), Error> {
    let root = Field::new(root.path.as_str(), schema);
    let type_field = root.get("type");
    if type_field.text()? != "object" {
        return Err(type_field.invalid("is another type; parameters are an object, use object"));
    }
    for (name, property) in root.get("properties").entries()? {
        check_name(&property, name)?;
        let is_secret = property.get("secret").flag()?;
        let entries = if is_secret { property.entries()? } else { Vec::new() };
        if let Some((_, field)) = entries.iter().find(|(keyword, _)| !SECRET.contains(keyword)) {
            return Err(field.invalid("would need to see a secret; leave it out"));
        }
    }
    Inspection { patterns: 0 }.schema(&root, Place::Root)
}

/// Where a schema stands: only a parameter itself can be marked secret.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Root,
    Parameter,
    Below,
}

struct Inspection {
    patterns: usize,
}

impl Inspection {
    fn schema(&mut self, field: &Field<'_>, place: Place) -> Result<(), Error> {
        let Some(schema) = field.value.filter(|value| value.is_object()) else { return Ok(()) };
        if place != Place::Parameter && schema.get("secret") == Some(&Value::Bool(true)) {
            let problem = "marks what is not a parameter itself; only a whole parameter is secret";
            return Err(field.get("secret").invalid(problem));
        }
        references(field)?;
        self.patterns += usize::from(schema.get("pattern").is_some());
        self.patterns += object_of(schema.get("patternProperties").unwrap_or(&Value::Null)).count();
        if self.patterns > MAX_PATTERNS {
            return Err(field.invalid(format!("holds more than {MAX_PATTERNS} patterns")));
        }
        for keyword in NAMED {
            let inner = match (place, keyword) {
                (Place::Root, "properties") => Place::Parameter,
                _ => Place::Below,
            };
            let named = field.get(keyword);
            for (name, _) in object_of(named.value.unwrap_or(&Value::Null)) {
                self.schema(&named.get(name), inner)?;
            }
        }
        for keyword in SCHEMAS {
            let inner = field.get(keyword);
            if let Some(Value::Array(_)) = inner.value {
                inner.items()?.iter().try_for_each(|item| self.schema(item, Place::Below))?;
            } else {
                self.schema(&inner, Place::Below)?;
            }
        }
        Ok(())
    }
}

fn references(field: &Field<'_>) -> Result<(), Error> {
    for keyword in ["$ref", "$dynamicRef", "$recursiveRef"] {
        let reference = field.get(keyword);
        let Some(target) = reference.optional_text()? else { continue };
        if target != "#" && !target.starts_with("#/") {
            let problem = "leads outside of the document; use a pointer that begins with #/";
            return Err(reference.invalid(problem));
        }
    }
    // With another base, a pointer would no longer begin at the document.
    for keyword in ["$id", "id", "$anchor", "$dynamicAnchor", "$recursiveAnchor"] {
        if field.get(keyword).value.is_some() {
            return Err(field.get(keyword).invalid("gives the schema another name; leave it out"));
        }
    }
    Ok(())
}
