//! The bounded reader for every external document: XRD, Composition, schema and parameter text.
//!
//! Publishers and callers supply bytes. This reader limits size, depth, number of values and alias expansion.
//! It rejects documents that two readers could interpret differently: duplicate keys, and numbers
//! outside of 64 bits.

use std::cell::{Cell, RefCell};
use std::fmt;

use broker_domain::Error;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_saphyr::budget::BudgetBreach;

use crate::canonical;
use crate::text::quoted;

/// The maximum size of a document in bytes.
pub const MAX_DOCUMENT_BYTES: usize = 1024 * 1024;

/// The maximum nesting of objects and arrays.
pub const MAX_DEPTH: usize = 64;

/// The maximum number of values, counted after alias expansion.
const MAX_VALUES: usize = 100_000;

/// The maximum number of values from YAML aliases: enough to share a schema, too few for an expansion attack.
const MAX_ALIASED: usize = 10_000;

/// The limits of one kind of document, and whether its errors may show keys.
#[derive(Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) bytes: usize,
    pub(crate) values: usize,
    /// Whether a message may show a key. A mistyped secret may be a key.
    pub(crate) shows_keys: bool,
}

impl Bounds {
    const DOCUMENT: Self = Self { bytes: MAX_DOCUMENT_BYTES, values: MAX_VALUES, shows_keys: true };
}

/// The bytes that defaults may still add. One small default inside array items is added once per item.
pub(crate) struct Growth {
    left: usize,
}

impl Growth {
    pub(crate) const fn within(bytes: usize) -> Self {
        Self { left: bytes }
    }

    /// Whether one more entry fits; consumes its size.
    pub(crate) fn has_room_for(&mut self, key: &str, value: &Value) -> bool {
        let left = self.left.checked_sub(key.len() + size_of_value(value));
        self.left = left.unwrap_or(0);
        left.is_some()
    }
}

fn size_of_value(value: &Value) -> usize {
    const PUNCTUATION: usize = 4;
    PUNCTUATION
        + match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
            Value::String(text) => text.len(),
            Value::Array(items) => items.iter().map(size_of_value).sum(),
            Value::Object(object) => {
                object.iter().map(|(key, value)| key.len() + size_of_value(value)).sum()
            }
        }
}

#[derive(Debug, PartialEq, Eq)]
enum Fault {
    TooLarge { bytes: usize, limit: usize },
    NotUtf8(usize),
    Empty,
    TooDeep,
    TooMany(usize),
    Aliases,
    Documents,
    DuplicateKey(Option<String>),
    Number,
    Syntax(&'static str, String),
}

/// Reads a JSON or YAML document within the common limits: size, depth, alias expansion, no duplicate keys.
///
/// ```
/// let value = broker_render::read_document("values", b"size: small")?;
/// assert_eq!(value["size"], "small");
/// # Ok::<(), broker_domain::Error>(())
/// ```
///
/// # Errors
///
/// [`Error::InvalidInput`] with `name` as the field.
pub fn read_document(name: &str, bytes: &[u8]) -> Result<Value, Error> {
    read(name, bytes)
}

/// Reads JSON if the text begins with a brace, else YAML.
pub(crate) fn read(name: &str, bytes: &[u8]) -> Result<Value, Error> {
    let read = bounded(bytes, MAX_DOCUMENT_BYTES).and_then(|text| {
        if text.trim_start().starts_with('{') { json(text, Bounds::DOCUMENT) } else { yaml(text) }
    });
    read.map_err(|fault| Error::invalid(name, fault.to_string()))
}

pub(crate) fn read_json(name: &str, bytes: &[u8]) -> Result<Value, Error> {
    read_json_within(name, bytes, Bounds::DOCUMENT)
}

pub(crate) fn read_json_within(name: &str, bytes: &[u8], bounds: Bounds) -> Result<Value, Error> {
    bounded(bytes, bounds.bytes)
        .and_then(|text| json(text, bounds))
        .map_err(|fault| Error::invalid(name, fault.to_string()))
}

/// Applies the same limits to a parsed value, which has no source bytes.
pub(crate) fn bound_value(name: &str, value: &Value) -> Result<Value, Error> {
    // Converting to text costs a copy, but needs no second implementation of the limits.
    read_json(name, canonical::text(value).as_bytes())
}

fn bounded(bytes: &[u8], limit: usize) -> Result<&str, Fault> {
    if bytes.len() > limit {
        return Err(Fault::TooLarge { bytes: bytes.len(), limit });
    }
    let text = std::str::from_utf8(bytes).map_err(|error| Fault::NotUtf8(error.valid_up_to()))?;
    if text.trim().is_empty() { Err(Fault::Empty) } else { Ok(text) }
}

fn json(text: &str, bounds: Bounds) -> Result<Value, Fault> {
    let limits = Limits::new(bounds);
    let mut reader = serde_json::Deserializer::from_str(text);
    let read = Seed::new(&limits).deserialize(&mut reader).and_then(|value| {
        reader.end()?;
        Ok(value)
    });
    read.map_err(|error| {
        limits.fault.take().unwrap_or_else(|| {
            let message = error.to_string();
            // The JSON library has no error code for this; a test pins its wording.
            if message.starts_with("number out of range") {
                Fault::Number
            } else {
                Fault::Syntax("JSON", message)
            }
        })
    })
}

fn yaml(text: &str) -> Result<Value, Fault> {
    let limits = Limits::new(Bounds::DOCUMENT);
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            // The visitor counts too; these limits stop the reader before it buffers for the visitor.
            max_depth: MAX_DEPTH,
            max_nodes: MAX_VALUES,
            flow_nesting_limit: MAX_DEPTH + 1,
        },
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: MAX_ALIASED },
        // For compatibility with `kubectl apply`.
        legacy_octal_numbers: true,
        with_snippet: false,
    };
    serde_saphyr::with_deserializer_from_str_with_options(text, options, |reader| {
        Seed::new(&limits).deserialize(reader)
    })
    .map_err(|error| limits.fault.take().unwrap_or_else(|| yaml_fault(&error)))
}

fn yaml_fault(error: &serde_saphyr::Error) -> Fault {
    use serde_saphyr::Error as Yaml;

    let error = error.without_snippet();
    if let Yaml::AliasError { error, .. } = error {
        return yaml_fault(error);
    }
    if let Yaml::DuplicateMappingKey { key, .. } = error {
        return Fault::DuplicateKey(key.clone());
    }
    if let Yaml::Budget { breach, .. } = error {
        return budget_fault(breach);
    }
    if matches!(
        error,
        Yaml::AliasReplayLimitExceeded { .. }
            | Yaml::AliasExpansionLimitExceeded { .. }
            | Yaml::AliasReplayStackDepthExceeded { .. }
    ) {
        return Fault::Aliases;
    }
    if matches!(error, Yaml::MultipleDocuments { .. }) {
        return Fault::Documents;
    }
    if matches!(error, Yaml::NonFiniteFloat { .. }) {
        return Fault::Number;
    }
    let message = first_line(&error.to_string());
    // The scanner runs ahead of the budget and has no error code; a test pins its wording.
    if message.starts_with("recursion limit exceeded") {
        return Fault::TooDeep;
    }
    Fault::Syntax("YAML", message)
}

fn budget_fault(breach: &BudgetBreach) -> Fault {
    if matches!(breach, BudgetBreach::Depth { .. }) {
        return Fault::TooDeep;
    }
    if matches!(
        breach,
        BudgetBreach::Aliases { .. }
            | BudgetBreach::Anchors { .. }
            | BudgetBreach::MergeKeys { .. }
            | BudgetBreach::AliasAnchorRatio { .. }
            | BudgetBreach::RecordedAnchorEvents { .. }
            | BudgetBreach::RecordedAnchorBytes { .. }
    ) {
        return Fault::Aliases;
    }
    Fault::TooMany(MAX_VALUES)
}

/// The first line of a YAML error, without the source excerpt below it.
fn first_line(message: &str) -> String {
    message.lines().next().unwrap_or_default().chars().take(200).collect()
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge { bytes, limit } => {
                write!(f, "is {bytes} bytes long; use at most {limit}")
            }
            Self::NotUtf8(offset) => write!(f, "is not UTF-8 at byte {offset}"),
            Self::Empty => f.write_str("is empty"),
            Self::TooDeep => write!(f, "is nested deeper than {MAX_DEPTH} levels"),
            Self::TooMany(limit) => write!(f, "contains more than {limit} values"),
            Self::Aliases => {
                write!(f, "repeats more than {MAX_ALIASED} values through YAML aliases")
            }
            Self::Documents => f.write_str("contains more than one document; use one"),
            Self::DuplicateKey(Some(key)) => {
                write!(f, "contains the key {} twice in one object", quoted(key))
            }
            Self::DuplicateKey(None) => f.write_str("contains a key twice in one object"),
            Self::Number => write!(f, "contains a number outside {} to {}", i64::MIN, i64::MAX),
            Self::Syntax(format, message) => write!(f, "is not {format}: {message}"),
        }
    }
}

/// The consumption of one read, and the fault that stopped it; a deserializer error carries only text.
struct Limits {
    bounds: Bounds,
    values: Cell<usize>,
    fault: RefCell<Option<Fault>>,
}

impl Limits {
    const fn new(bounds: Bounds) -> Self {
        Self { bounds, values: Cell::new(0), fault: RefCell::new(None) }
    }

    fn refuse<E: serde::de::Error>(&self, fault: Fault) -> E {
        let error = E::custom("refused");
        self.fault.replace(Some(fault));
        error
    }
}

struct Seed<'a> {
    limits: &'a Limits,
    depth: usize,
}

impl<'a> Seed<'a> {
    const fn new(limits: &'a Limits) -> Self {
        Self { limits, depth: 0 }
    }

    fn count<E: serde::de::Error>(&self) -> Result<(), E> {
        let values = self.limits.values.get() + 1;
        self.limits.values.set(values);
        let limit = self.limits.bounds.values;
        if values > limit { Err(self.limits.refuse(Fault::TooMany(limit))) } else { Ok(()) }
    }

    fn inner<E: serde::de::Error>(&self) -> Result<Self, E> {
        let depth = self.depth + 1;
        if depth > MAX_DEPTH {
            return Err(self.limits.refuse(Fault::TooDeep));
        }
        Ok(Self { limits: self.limits, depth })
    }
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.count()?;
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Value, E> {
        i64::try_from(value).map(Value::from).map_err(|_| self.limits.refuse(Fault::Number))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        // An integer beyond 64 bits arrives as a silently rounded float; the API server would store another
        // number than the caller wrote.
        match Number::from_f64(value) {
            Some(number) if value.abs() < canonical::TWO_POW_63 => {
                Ok(Value::Number(canonical::number(&number)))
            }
            _ => Err(self.limits.refuse(Fault::Number)),
        }
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element_seed(self.inner()?)? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        self.inner::<A::Error>()?;
        while let Some(key) = access.next_key::<String>()? {
            if object.contains_key(&key) {
                let shown = self.limits.bounds.shows_keys.then_some(key);
                return Err(self.limits.refuse(Fault::DuplicateKey(shown)));
            }
            let value = access.next_value_seed(self.inner()?)?;
            object.insert(key, value);
        }
        Ok(Value::Object(object))
    }
}
