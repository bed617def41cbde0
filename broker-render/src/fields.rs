//! Access to a foreign document by field; errors carry the field's path.

use broker_domain::Error;
use serde_json::{Map, Value};

use crate::text::{join, kind_of};

/// A field of a document: its path for messages, and its value if present.
#[derive(Clone)]
pub(crate) struct Field<'a> {
    pub(crate) path: String,
    pub(crate) value: Option<&'a Value>,
}

impl<'a> Field<'a> {
    pub(crate) fn new(path: impl Into<String>, value: &'a Value) -> Self {
        Self { path: path.into(), value: Some(value) }
    }

    pub(crate) fn get(&self, key: &str) -> Self {
        let value = self.value.and_then(|value| value.get(key));
        Self { path: join(&self.path, key), value }
    }

    pub(crate) fn invalid(&self, problem: impl Into<String>) -> Error {
        Error::invalid(self.path.as_str(), problem)
    }

    /// An error such as "is missing; use …" or "is a number; use …".
    pub(crate) fn expected(&self, what: &str) -> Error {
        match self.value {
            None => self.invalid(format!("is missing; use {what}")),
            Some(value) => self.invalid(format!("is {}; use {what}", kind_of(value))),
        }
    }

    pub(crate) fn object(&self) -> Result<&'a Map<String, Value>, Error> {
        self.value.and_then(Value::as_object).ok_or_else(|| self.expected("an object"))
    }

    /// The entries of an object as fields; none if absent.
    pub(crate) fn entries(&self) -> Result<Vec<(&'a str, Self)>, Error> {
        if self.value.is_none() {
            return Ok(Vec::new());
        }
        let object = self.object()?;
        Ok(object.keys().map(|key| (key.as_str(), self.get(key))).collect())
    }

    /// The items of an array; none if absent.
    pub(crate) fn items(&self) -> Result<Vec<Self>, Error> {
        let Some(value) = self.value else { return Ok(Vec::new()) };
        let items = value.as_array().ok_or_else(|| self.expected("an array"))?;
        let item = |(index, item)| Self::new(format!("{}[{index}]", self.path), item);
        Ok(items.iter().enumerate().map(item).collect())
    }

    pub(crate) fn text(&self) -> Result<&'a str, Error> {
        match self.optional_text()? {
            Some("") => Err(self.invalid("is empty; use a non-empty string")),
            Some(text) => Ok(text),
            None => Err(self.expected("a non-empty string")),
        }
    }

    pub(crate) fn optional_text(&self) -> Result<Option<&'a str>, Error> {
        let Some(value) = self.value else { return Ok(None) };
        value.as_str().map(Some).ok_or_else(|| self.expected("a string"))
    }

    pub(crate) fn texts(&self) -> Result<Vec<&'a str>, Error> {
        self.items()?.iter().map(Self::text).collect()
    }

    pub(crate) fn flag(&self) -> Result<bool, Error> {
        let Some(value) = self.value else { return Ok(false) };
        value.as_bool().ok_or_else(|| self.expected("true or false"))
    }

    /// A non-negative integer; `None` if absent.
    pub(crate) fn count(&self) -> Result<Option<u64>, Error> {
        let Some(value) = self.value else { return Ok(None) };
        value.as_u64().map(Some).ok_or_else(|| self.invalid("is not a count; use 0 or more"))
    }

    pub(crate) fn number(&self) -> Result<Option<f64>, Error> {
        let Some(value) = self.value else { return Ok(None) };
        value.as_f64().map(Some).ok_or_else(|| self.expected("a number"))
    }
}
