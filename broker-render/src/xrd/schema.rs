//! The compiled `openAPIV3Schema` of an XRD's `spec`.
//!
//! The schema is structural in Kubernetes' sense: each level declares its fields and their types, and rules
//! about values come on top. The API server drops undeclared fields, so "declared" is a separate question
//! from "valid".

use std::collections::BTreeMap;

use broker_domain::Error;
use regex::Regex;
use serde_json::Value;

use super::pattern;
use crate::document::{Growth, MAX_DOCUMENT_BYTES};
use crate::fields::Field;
use crate::text::quoted;

/// The maximum number of patterns per schema; each may reach the size limit of a compiled pattern.
const MAX_PATTERNS: usize = 256;

#[derive(Debug, Default)]
pub(crate) struct Schema {
    pub(super) value_type: Option<ValueType>,
    pub(super) properties: BTreeMap<String, Self>,
    pub(super) additional: AdditionalFields,
    pub(super) items: Option<Box<Self>>,
    pub(super) list: ListType,
    map: MapType,
    pub(super) required: Vec<String>,
    pub(super) rules: Vec<Rule>,
    pub(super) default: Option<Value>,
    pub(super) keeps_unknown: bool,
    pub(super) embedded_resource: bool,
    pub(super) nullable: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ValueType {
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
    /// A Kubernetes extension, for values such as a port by number or name.
    IntegerOrString,
}

/// The declaration of fields that are not named.
#[derive(Debug, Default)]
pub(super) enum AdditionalFields {
    #[default]
    Undeclared,
    /// `additionalProperties: true`: any scalar. The API server drops nested values.
    Scalars,
    Schema(Box<Schema>),
}

/// The identity of the items of an array.
#[derive(Debug, Default)]
pub(super) enum ListType {
    #[default]
    Atomic,
    Set,
    Map(Vec<String>),
}

/// Whether the fields of an object have separate owners.
#[derive(Debug, Default, PartialEq, Eq)]
enum MapType {
    #[default]
    Granular,
    Atomic,
}

#[derive(Debug)]
pub(super) enum Rule {
    Enum(Vec<Value>),
    Minimum(Bound),
    Maximum(Bound),
    MultipleOf(f64),
    Int32,
    Size { measure: SizeOf, at_least: Option<u64>, at_most: Option<u64> },
    Pattern { source: String, compiled: Regex },
    AllOf(Vec<Schema>),
    AnyOf(Vec<Schema>),
    OneOf(Vec<Schema>),
    Not(Box<Schema>),
}

#[derive(Debug, Clone, Copy)]
pub(super) enum SizeOf {
    Text,
    Array,
    Object,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Bound {
    pub(super) limit: f64,
    pub(super) exclusive: bool,
}

/// The declaration of one field of an object.
pub(crate) enum FieldDeclaration<'a> {
    /// Declared with this schema.
    Schema(&'a Schema),
    /// Kept unchecked.
    Unchecked,
    /// Kept if a scalar; content of an object or array is dropped.
    ScalarOnly,
    /// Not declared.
    Undeclared,
}

/// What a schema says about the field at a path.
pub(crate) enum Lookup<'a> {
    /// Declared with this schema.
    Schema(&'a Schema),
    /// Takes any value.
    Unchecked,
    /// Not declared.
    Undeclared,
}

impl ValueType {
    const NAMED: [Self; 6] =
        [Self::Object, Self::Array, Self::String, Self::Integer, Self::Number, Self::Boolean];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Object => "object",
            Self::Array => "array",
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
            Self::IntegerOrString => "integer or string",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::NAMED.into_iter().find(|value_type| value_type.as_str() == name)
    }
}

impl Schema {
    /// The field at a path below this schema.
    pub(crate) fn lookup(&self, path: &[&str]) -> Lookup<'_> {
        let Some((first, rest)) = path.split_first() else { return Lookup::Schema(self) };
        match self.field(first) {
            FieldDeclaration::Schema(schema) => schema.lookup(rest),
            FieldDeclaration::Unchecked => Lookup::Unchecked,
            FieldDeclaration::ScalarOnly if rest.is_empty() => Lookup::Unchecked,
            FieldDeclaration::ScalarOnly | FieldDeclaration::Undeclared => Lookup::Undeclared,
        }
    }

    /// Whether the schema allows values of this type.
    pub(crate) fn accepts(&self, value_type: ValueType) -> bool {
        match self.value_type() {
            None => true,
            Some(ValueType::IntegerOrString) => {
                matches!(value_type, ValueType::Integer | ValueType::String)
            }
            Some(ValueType::Number) => matches!(value_type, ValueType::Integer | ValueType::Number),
            Some(declared) => declared == value_type,
        }
    }

    /// Whether a string may be sent at a path.
    pub(crate) fn takes_text(&self, path: &[&str]) -> bool {
        match self.lookup(path) {
            Lookup::Schema(schema) => schema.accepts(ValueType::String),
            Lookup::Unchecked => true,
            Lookup::Undeclared => false,
        }
    }

    /// Compiles the schema of a composite resource's `spec`. Crossplane takes over only these keywords from
    /// the XRD.
    pub(super) fn of_composite_spec(openapi: &Field<'_>) -> Result<Self, Error> {
        let spec = openapi.get("properties").get("spec");
        let kept = ["properties", "required", "oneOf", "x-kubernetes-preserve-unknown-fields"];
        let keywords = spec.entries()?.into_iter().filter(|(keyword, _)| kept.contains(keyword));
        let keyword =
            |(keyword, field): (&str, Field<'_>)| Some((keyword.to_owned(), field.value?.clone()));
        let reduced = Value::Object(keywords.filter_map(keyword).collect());
        let mut patterns = 0;
        let mut schema = Self::compile(&Field::new(spec.path, &reduced), &mut patterns)?;
        schema.value_type = Some(ValueType::Object);
        Ok(schema)
    }

    fn compile(field: &Field<'_>, patterns: &mut usize) -> Result<Self, Error> {
        field.object()?;
        let mut properties = BTreeMap::new();
        for (name, property) in field.get("properties").entries()? {
            properties.insert(name.to_owned(), Self::compile(&property, patterns)?);
        }
        let items = field.get("items");
        let items = match items.value {
            None => None,
            Some(_) => Some(Box::new(Self::compile(&items, patterns)?)),
        };
        let required = field.get("required").texts()?;
        Ok(Self {
            value_type: if field.get("x-kubernetes-int-or-string").flag()? {
                Some(ValueType::IntegerOrString)
            } else {
                value_type(&field.get("type"))?
            },
            properties,
            additional: additional(&field.get("additionalProperties"), patterns)?,
            items,
            list: list_type(field)?,
            map: map_type(field)?,
            required: required.into_iter().map(str::to_owned).collect(),
            rules: rules(field, patterns)?,
            default: field.get("default").value.cloned(),
            keeps_unknown: field.get("x-kubernetes-preserve-unknown-fields").flag()?,
            embedded_resource: field.get("x-kubernetes-embedded-resource").flag()?,
            nullable: field.get("nullable").flag()?,
        })
    }

    /// The declaration of one field of an object.
    pub(crate) fn field(&self, name: &str) -> FieldDeclaration<'_> {
        if let Some(schema) = self.properties.get(name) {
            return FieldDeclaration::Schema(schema);
        }
        if self.embedded_resource && ["apiVersion", "kind", "metadata"].contains(&name) {
            return FieldDeclaration::Unchecked;
        }
        match &self.additional {
            AdditionalFields::Schema(schema) => FieldDeclaration::Schema(schema),
            AdditionalFields::Scalars => FieldDeclaration::ScalarOnly,
            AdditionalFields::Undeclared if self.keeps_unknown => FieldDeclaration::Unchecked,
            AdditionalFields::Undeclared => FieldDeclaration::Undeclared,
        }
    }

    /// Whether an object without the field is rejected: required, and without a default.
    pub(crate) fn requires(&self, name: &str) -> bool {
        self.required_fields().any(|required| required == name)
    }

    /// The fields that a sender must fill.
    pub(crate) fn required_fields(&self) -> impl Iterator<Item = &str> {
        let has_default =
            |name: &str| self.properties.get(name).is_some_and(|schema| schema.default.is_some());
        self.required.iter().map(String::as_str).filter(move |name| !has_default(name))
    }

    pub(crate) const fn value_type(&self) -> Option<ValueType> {
        self.value_type
    }

    /// Fills in defaults, as the API server does before validation. Returns whether all of them fit into the
    /// size limit of a document.
    pub(super) fn fill_defaults(&self, value: &mut Value) -> bool {
        self.fill_within(value, &mut Growth::within(MAX_DOCUMENT_BYTES))
    }

    fn fill_within(&self, value: &mut Value, growth: &mut Growth) -> bool {
        match value {
            Value::Object(object) => {
                for (name, schema) in &self.properties {
                    if let Some(default) = &schema.default
                        && !object.contains_key(name)
                    {
                        if !growth.has_room_for(name, default) {
                            return false;
                        }
                        object.insert(name.clone(), default.clone());
                    }
                }
                object.iter_mut().all(|(name, value)| match self.field(name) {
                    FieldDeclaration::Schema(schema) => schema.fill_within(value, growth),
                    FieldDeclaration::Unchecked
                    | FieldDeclaration::ScalarOnly
                    | FieldDeclaration::Undeclared => true,
                })
            }
            Value::Array(items) => self
                .items
                .as_ref()
                .is_none_or(|schema| items.iter_mut().all(|item| schema.fill_within(item, growth))),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
        }
    }

    /// Fills in the defaults of values that have a single owner as a whole. The sender of such a value also
    /// owns the server's defaults; without them, the live value would always differ from the sent one.
    ///
    /// The caller must have checked the value, which guarantees that all defaults fit.
    pub(crate) fn fill_atomic_defaults(&self, value: &mut Value) {
        self.fill_atomic_within(value, &mut Growth::within(MAX_DOCUMENT_BYTES));
    }

    fn fill_atomic_within(&self, value: &mut Value, growth: &mut Growth) {
        match value {
            Value::Object(_) if self.map == MapType::Atomic => {
                self.fill_within(value, growth);
            }
            Value::Object(object) => {
                for (name, value) in object {
                    if let FieldDeclaration::Schema(schema) = self.field(name) {
                        schema.fill_atomic_within(value, growth);
                    }
                }
            }
            Value::Array(items) => {
                for item in items {
                    match (&self.items, &self.list) {
                        (Some(schema), ListType::Atomic) => {
                            schema.fill_within(item, growth);
                        }
                        (Some(schema), ListType::Map(_)) => schema.fill_atomic_within(item, growth),
                        (Some(_), ListType::Set) | (None, _) => {}
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
}

fn value_type(field: &Field<'_>) -> Result<Option<ValueType>, Error> {
    let Some(name) = field.optional_text()? else { return Ok(None) };
    ValueType::named(name).map(Some).ok_or_else(|| {
        let allowed = "object, array, string, integer, number or boolean";
        field.invalid(format!("is {}; use {allowed}", quoted(name)))
    })
}

fn additional(field: &Field<'_>, patterns: &mut usize) -> Result<AdditionalFields, Error> {
    match field.value {
        None | Some(Value::Bool(false)) => Ok(AdditionalFields::Undeclared),
        Some(Value::Bool(true)) => Ok(AdditionalFields::Scalars),
        Some(_) => Schema::compile(field, patterns)
            .map(|schema| AdditionalFields::Schema(Box::new(schema))),
    }
}

fn list_type(field: &Field<'_>) -> Result<ListType, Error> {
    let list_type = field.get("x-kubernetes-list-type");
    match list_type.optional_text()? {
        None | Some("atomic") => Ok(ListType::Atomic),
        Some("set") => Ok(ListType::Set),
        Some("map") => {
            let keys = field.get("x-kubernetes-list-map-keys").texts()?;
            Ok(ListType::Map(keys.into_iter().map(str::to_owned).collect()))
        }
        Some(other) => {
            Err(list_type.invalid(format!("is {}; use atomic, set or map", quoted(other))))
        }
    }
}

fn map_type(field: &Field<'_>) -> Result<MapType, Error> {
    let map_type = field.get("x-kubernetes-map-type");
    match map_type.optional_text()? {
        None | Some("granular") => Ok(MapType::Granular),
        Some("atomic") => Ok(MapType::Atomic),
        Some(other) => {
            Err(map_type.invalid(format!("is {}; use granular or atomic", quoted(other))))
        }
    }
}

fn rules(field: &Field<'_>, patterns: &mut usize) -> Result<Vec<Rule>, Error> {
    let mut rules = Vec::new();
    if field.get("enum").value.is_some() {
        let allowed = field.get("enum").items()?;
        rules.push(Rule::Enum(allowed.iter().filter_map(|item| item.value.cloned()).collect()));
    }
    if let Some(limit) = field.get("minimum").number()? {
        rules
            .push(Rule::Minimum(Bound { limit, exclusive: field.get("exclusiveMinimum").flag()? }));
    }
    if let Some(limit) = field.get("maximum").number()? {
        rules
            .push(Rule::Maximum(Bound { limit, exclusive: field.get("exclusiveMaximum").flag()? }));
    }
    rules.extend(factor(&field.get("multipleOf"))?.map(Rule::MultipleOf));
    if field.get("format").optional_text()? == Some("int32") {
        rules.push(Rule::Int32);
    }
    for (measure, min_keyword, max_keyword) in [
        (SizeOf::Text, "minLength", "maxLength"),
        (SizeOf::Array, "minItems", "maxItems"),
        (SizeOf::Object, "minProperties", "maxProperties"),
    ] {
        let (at_least, at_most) =
            (field.get(min_keyword).count()?, field.get(max_keyword).count()?);
        if at_least.or(at_most).is_some() {
            rules.push(Rule::Size { measure, at_least, at_most });
        }
    }
    rules.extend(pattern_rule(&field.get("pattern"), patterns)?);
    rules.extend(branches(&field.get("allOf"), patterns)?.map(Rule::AllOf));
    rules.extend(branches(&field.get("anyOf"), patterns)?.map(Rule::AnyOf));
    rules.extend(branches(&field.get("oneOf"), patterns)?.map(Rule::OneOf));
    let not = field.get("not");
    if not.value.is_some() {
        rules.push(Rule::Not(Box::new(Schema::compile(&not, patterns)?)));
    }
    Ok(rules)
}

fn factor(field: &Field<'_>) -> Result<Option<f64>, Error> {
    let factor = field.number()?;
    if factor.is_some_and(|factor| factor <= 0.0) {
        return Err(field.invalid("is not positive; use a factor above 0"));
    }
    Ok(factor)
}

fn branches(field: &Field<'_>, patterns: &mut usize) -> Result<Option<Vec<Schema>>, Error> {
    if field.value.is_none() {
        return Ok(None);
    }
    field
        .items()?
        .iter()
        .map(|branch| Schema::compile(branch, patterns))
        .collect::<Result<_, _>>()
        .map(Some)
}

fn pattern_rule(field: &Field<'_>, patterns: &mut usize) -> Result<Option<Rule>, Error> {
    let Some(source) = field.optional_text()? else { return Ok(None) };
    *patterns += 1;
    if *patterns > MAX_PATTERNS {
        return Err(
            field.invalid(format!("exceeds the number of patterns; use at most {MAX_PATTERNS}"))
        );
    }
    let compiled = pattern::compile(source).map_err(|problem| field.invalid(problem))?;
    Ok(Some(Rule::Pattern { source: source.to_owned(), compiled }))
}
