//! Declare stage: a blueprint's parameter schema, and the values that it accepts.
//!
//! A catalog writes the schema in a compact form or as full JSON Schema; it is compiled once and used for
//! every declaration. Values enter as text and leave as canonical text with defaults. A row stores that text,
//! and [`crate::xr`] puts it under `spec.parameters`.

mod compact;
mod describe;
mod json_schema;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Deref;

use broker_domain::{Error, Parameters};
use jsonschema::{PatternOptions, ValidationError, Validator};
use serde_json::{Map, Value, json};

use self::describe::Problems;
use crate::document::{self, Bounds, Growth};
use crate::fields::Field;
use crate::text::{join, kind_of, quoted};
use crate::{canonical, injection};

/// The maximum length of parameter values in bytes, both as received and with defaults.
pub const MAX_PARAMETERS_BYTES: usize = 64 * 1024;

/// The limits for reading parameter values.
const BOUNDS: Bounds = Bounds { bytes: MAX_PARAMETERS_BYTES, values: 4096, shows_keys: false };

/// The maximum compiled size of one pattern in bytes.
const MAX_COMPILED_BYTES: usize = 256 * 1024;

/// The compiled schema of a blueprint's parameters.
///
/// ```
/// use broker_render::ParameterSchema;
///
/// let schema = ParameterSchema::parse(
///     br#"{"parameters": [
///         {"name": "size", "type": "string", "enum": ["small", "large"], "default": "small"},
///         {"name": "replicas", "type": "integer", "minimum": 1, "required": true}
///     ]}"#,
/// )?;
/// assert_eq!(schema.validate(r#"{"replicas": 3}"#)?.as_json(), r#"{"replicas":3,"size":"small"}"#);
///
/// let error = schema.validate(r#"{"replicas": 0, "colour": "red"}"#).unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "parameter values are invalid: colour: is not a parameter; use replicas, size; \
///      replicas: is too small; use at least 1"
/// );
/// # Ok::<(), broker_domain::Error>(())
/// ```
pub struct ParameterSchema {
    validator: Validator,
    /// JSON Schema, whichever form the catalog used.
    schema: Value,
    secrets: BTreeSet<String>,
}

/// Parameter values that a schema accepted. Only [`ParameterSchema::validate`] creates them, so a store that
/// requires this type never receives unvalidated values.
///
/// ```
/// use broker_render::{ParameterSchema, ValidParameters};
///
/// let schema = ParameterSchema::parse(br#"{"parameters": []}"#)?;
/// let valid: ValidParameters = schema.validate("{}")?;
/// assert_eq!(valid.as_json(), "{}");
/// # Ok::<(), broker_domain::Error>(())
/// ```
///
/// Unvalidated text cannot become one:
///
/// ```compile_fail,E0423
/// use broker_domain::Parameters;
/// use broker_render::ValidParameters;
///
/// let valid: ValidParameters = ValidParameters(Parameters::from_canonical_json("{}")?);
/// # Ok::<(), broker_domain::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ValidParameters(Parameters);

/// One parameter, for the catalog check.
pub(crate) struct Parameter<'a> {
    pub(crate) schema: &'a Value,
    pub(crate) secret: bool,
    /// Whether every accepted declaration has a value for it.
    pub(crate) always_present: bool,
}

impl Deref for ValidParameters {
    type Target = Parameters;

    fn deref(&self) -> &Parameters {
        &self.0
    }
}

impl From<ValidParameters> for Parameters {
    fn from(ValidParameters(parameters): ValidParameters) -> Self {
        parameters
    }
}

impl ParameterSchema {
    /// Parses a schema in either form from JSON text.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidInput`] with the path of the problem, under `parameterSchema`.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        Self::compile(&document::read_json("parameterSchema", bytes)?)
    }

    /// Reads a schema in either form from a parsed value.
    ///
    /// # Errors
    ///
    /// As [`ParameterSchema::parse`].
    pub fn from_value(value: &Value) -> Result<Self, Error> {
        Self::compile(&document::bound_value("parameterSchema", value)?)
    }

    fn compile(document: &Value) -> Result<Self, Error> {
        let root = Field::new("parameterSchema", document);
        let mut schema = if root.object()?.contains_key("parameters") {
            compact::to_json_schema(&root)?
        } else {
            document.clone()
        };
        // Messages use the paths of the original document.
        json_schema::inspect(&root, &schema)?;
        let secrets = replace_secrets(&mut schema);
        json_schema::reject_remaining_secrets(&Field::new(root.path.as_str(), &schema))?;
        let validator = jsonschema::options()
            .offline()
            .with_pattern_options(
                PatternOptions::regex()
                    .size_limit(MAX_COMPILED_BYTES)
                    .dfa_size_limit(MAX_COMPILED_BYTES),
            )
            .build(&schema)
            .map_err(|error| root.invalid(describe::schema_problem(&error)))?;
        let schema = Self { validator, schema, secrets };
        schema.check_defaults()?;
        Ok(schema)
    }

    /// Validates the caller's JSON text, fills in defaults and returns canonical text. Input and output are
    /// at most [`MAX_PARAMETERS_BYTES`] long.
    ///
    /// # Errors
    ///
    /// [`Error::ParameterValuesInvalid`] with the path of every invalid parameter. Never contains values: a
    /// caller may have typed a secret into the wrong place.
    pub fn validate(&self, text: &str) -> Result<ValidParameters, Error> {
        let mut values = read(text).map_err(|problem| invalid_values(vec![problem]))?;
        let Some(object) = values.as_object() else {
            let problem = format!("is {}; use an object", kind_of(&values));
            return Err(invalid_values(vec![problem]));
        };
        let reserved: Vec<_> = injection::RESERVED_PARAMETERS
            .into_iter()
            .filter(|name| object.contains_key(*name))
            .map(|name| format!("{name}: is reserved for the broker; leave it out"))
            .collect();
        if !reserved.is_empty() {
            return Err(invalid_values(reserved));
        }
        if !fill_defaults(&self.schema, &mut values, &mut Growth::within(MAX_PARAMETERS_BYTES)) {
            return Err(invalid_values(vec![too_large_with_defaults()]));
        }
        let problems = self.problems(&values);
        if !problems.is_empty() {
            return Err(invalid_values(problems));
        }
        let text = canonical::text(&values);
        // The output must itself be acceptable input.
        read(&text).map_err(|problem| {
            invalid_values(vec![format!("with defaults filled in, {problem}")])
        })?;
        Parameters::from_canonical_json(text).map(ValidParameters)
    }

    /// Every parameter that the schema names.
    pub(crate) fn parameters(&self) -> BTreeMap<&str, Parameter<'_>> {
        let required = strings(self.schema.get("required"));
        let mut parameters = BTreeMap::new();
        for (name, schema) in self.properties() {
            let always_present =
                required.contains(&name.as_str()) || schema.get("default").is_some();
            let secret = self.secrets.contains(name);
            parameters.insert(name.as_str(), Parameter { schema, secret, always_present });
        }
        parameters
    }

    fn properties(&self) -> impl Iterator<Item = (&String, &Value)> {
        object_of(self.schema.get("properties").unwrap_or(&Value::Null))
    }

    fn problems(&self, values: &Value) -> Vec<String> {
        let names: Vec<_> = self.properties().map(|(name, _)| name.as_str()).collect();
        let mut problems = Problems::default();
        for error in self.validator.iter_errors(values) {
            describe::add_value_problems(&mut problems, &error, &self.secrets, &names);
        }
        problems.into_sentences()
    }

    /// Rejects a default that violates its own schema; it would surface only at a declaration that relies on
    /// it.
    fn check_defaults(&self) -> Result<(), Error> {
        let invalid_default = |name: &str, error: &ValidationError<'_>| {
            let mut problems = Problems::default();
            describe::add_value_problems(&mut problems, error, &self.secrets, &[]);
            let problems = problems.into_sentences().join("; ");
            let field = join("parameterSchema", name) + ".default";
            Err(Error::invalid(field, format!("breaks its own schema: {problems}")))
        };
        let filled = self.with_defaults(json!({}))?;
        for error in self.validator.iter_errors(&filled) {
            // An error about the root concerns a missing parameter, which a declaration would supply.
            if let Some(name) = describe::parameter_of(&error) {
                return invalid_default(&name, &error);
            }
        }
        for (name, property) in self.properties() {
            if property.get("default").is_some() || property.get("properties").is_none() {
                continue;
            }
            // Without a default, probe the object for the defaults of its fields.
            let probe = self.with_defaults(json!({ name: {} }))?;
            if probe[name] == json!({}) {
                continue;
            }
            let broken_default = self.validator.iter_errors(&probe).find(|error| {
                describe::parameter_of(error).is_some_and(|parameter| parameter == *name)
                    && !describe::is_missing(error)
            });
            if let Some(error) = broken_default {
                return invalid_default(name, &error);
            }
        }
        Ok(())
    }

    fn with_defaults(&self, mut values: Value) -> Result<Value, Error> {
        if fill_defaults(&self.schema, &mut values, &mut Growth::within(MAX_PARAMETERS_BYTES)) {
            return Ok(values);
        }
        Err(Error::invalid("parameterSchema", too_large_with_defaults()))
    }
}

impl fmt::Debug for ParameterSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.parameters().into_keys().collect();
        f.debug_struct("ParameterSchema").field("parameters", &names).finish_non_exhaustive()
    }
}

fn invalid_values(problems: Vec<String>) -> Error {
    Error::ParameterValuesInvalid { problems }
}

fn too_large_with_defaults() -> String {
    format!("is longer than {MAX_PARAMETERS_BYTES} bytes with defaults filled in")
}

/// Reads values. The enclosing error already says "parameter values".
fn read(text: &str) -> Result<Value, String> {
    document::read_json_within("parameters", text.as_bytes(), BOUNDS).map_err(|error| {
        let message = error.to_string();
        message.strip_prefix("parameters: ").map_or(message.clone(), str::to_owned)
    })
}

/// Replaces each secret parameter by the schema of a secret reference.
fn replace_secrets(schema: &mut Value) -> BTreeSet<String> {
    let mut secrets = BTreeSet::new();
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
    for (name, property) in properties.into_iter().flatten() {
        if property.get("secret") == Some(&Value::Bool(true)) {
            secrets.insert(name.clone());
            *property = secret_reference();
        }
    }
    secrets
}

/// `{"secretRef": {"name", "key"}}`: a Secret in the Project's namespace. The broker never reads it.
fn secret_reference() -> Value {
    json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["secretRef"],
        "properties": {
            "secretRef": {
                "type": "object",
                "additionalProperties": false,
                "required": ["name", "key"],
                "properties": {
                    "name": {
                        "type": "string",
                        "maxLength": 253,
                        "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
                    },
                    "key": {"type": "string", "maxLength": 253, "pattern": "^[-._a-zA-Z0-9]+$"},
                },
            },
        },
    })
}

/// Fills in defaults that the caller omitted, in objects and in array items. Returns whether all of them fit.
fn fill_defaults(schema: &Value, value: &mut Value, growth: &mut Growth) -> bool {
    match value {
        Value::Object(object) => {
            let properties = schema.get("properties").and_then(Value::as_object);
            for (name, property) in properties.into_iter().flatten() {
                if let Some(default) = property.get("default")
                    && !object.contains_key(name)
                {
                    if !growth.has_room_for(name, default) {
                        return false;
                    }
                    object.insert(name.clone(), default.clone());
                }
                if let Some(value) = object.get_mut(name)
                    && !fill_defaults(property, value, growth)
                {
                    return false;
                }
            }
            true
        }
        Value::Array(items) => {
            let schema = schema.get("items");
            schema.is_none_or(|schema| {
                items.iter_mut().all(|item| fill_defaults(schema, item, growth))
            })
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    }
}

fn strings(value: Option<&Value>) -> Vec<&str> {
    value.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Accepts a name that an XRD can declare as a property and that a Composition can patch from.
fn check_name(field: &Field<'_>, name: &str) -> Result<(), Error> {
    if injection::RESERVED_PARAMETERS.contains(&name) {
        return Err(field.invalid(format!("{name} is reserved for the broker; use another name")));
    }
    let plain = name.len() <= 63
        && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
    if plain {
        return Ok(());
    }
    let found = quoted(name);
    let allowed = "use up to 63 letters, digits, _ and -, not beginning with a digit or -";
    Err(field.invalid(format!("{found} cannot be a parameter name; {allowed}")))
}

fn object_of(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flat_map(Map::iter)
}
