//! The catalog's compact schema form: a list of parameters, each with a type and a few rules.

use broker_domain::Error;
use serde_json::{Map, Value, json};

use super::check_name;
use crate::fields::Field;
use crate::text::{list, quoted};
use crate::xrd::ValueType;

/// Keywords that every parameter may carry. `name`, `required` and `secret` belong to this form; the others
/// have their JSON Schema meaning.
const COMMON: [&str; 7] = ["name", "type", "required", "description", "default", "enum", "secret"];

/// Keywords of a secret parameter. Any other rule would need to read the value.
const SECRET: [&str; 5] = ["name", "type", "required", "description", "secret"];

/// Translates to JSON Schema, which then rejects unknown parameters.
pub(super) fn to_json_schema(root: &Field<'_>) -> Result<Value, Error> {
    if let Some((key, field)) = root.entries()?.into_iter().find(|(key, _)| *key != "parameters") {
        let problem = format!("{} is given together with parameters; use one form", quoted(key));
        return Err(Field { path: root.path.clone(), value: field.value }.invalid(problem));
    }
    let mut properties = Map::new();
    let mut required = Vec::new();
    for parameter in root.get("parameters").items()? {
        parameter.object()?;
        let name_field = parameter.get("name");
        let name = name_field.text()?;
        check_name(&name_field, name)?;
        if parameter.get("required").flag()? {
            required.push(name);
        }
        let schema = parameter_schema(&parameter)?;
        if properties.insert(name.to_owned(), Value::Object(schema)).is_some() {
            return Err(name_field.invalid(format!("{} is declared twice", quoted(name))));
        }
    }
    Ok(json!({
        "type": "object",
        "additionalProperties": false,
        "properties": properties,
        "required": required,
    }))
}

fn parameter_schema(parameter: &Field<'_>) -> Result<Map<String, Value>, Error> {
    let type_field = parameter.get("type");
    let value_type = ValueType::named(type_field.text()?).ok_or_else(|| {
        let found = quoted(type_field.text().unwrap_or_default());
        let allowed = "string, integer, number, boolean, object or array";
        type_field.invalid(format!("is {found}; use {allowed}"))
    })?;
    let secret = parameter.get("secret").flag()?;
    let allowed: Vec<&str> = if secret {
        SECRET.to_vec()
    } else {
        COMMON.iter().chain(rules_of(value_type)).copied().collect()
    };
    let mut schema = Map::new();
    for (key, field) in parameter.entries()? {
        if !allowed.contains(&key) {
            let what = if secret { "a secret" } else { value_type.as_str() };
            let allowed = list(allowed.iter().copied());
            return Err(field.invalid(format!("is not a keyword for {what}; use {allowed}")));
        }
        if !["name", "required"].contains(&key) {
            schema.extend(field.value.map(|value| (key.to_owned(), value.clone())));
        }
    }
    Ok(schema)
}

/// The rules that apply to a type. Any other rule would be silently ignored.
const fn rules_of(value_type: ValueType) -> &'static [&'static str] {
    match value_type {
        ValueType::String => &["pattern", "minLength", "maxLength"],
        ValueType::Integer | ValueType::Number => {
            &["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"]
        }
        ValueType::Boolean | ValueType::IntegerOrString => &[],
        ValueType::Object => {
            &["properties", "additionalProperties", "minProperties", "maxProperties"]
        }
        ValueType::Array => &["items", "minItems", "maxItems", "uniqueItems"],
    }
}
