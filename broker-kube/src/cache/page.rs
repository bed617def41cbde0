//! Decodes a list page one object at a time. A decoded object takes several times the memory of its text, so only one
//! is in memory besides the text.

use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PageMetadata {
    pub(super) resource_version: String,
    #[serde(rename = "continue")]
    pub(super) next: Option<String>,
}

/// Passes each object of a page to `take`.
pub(super) fn read(
    text: &[u8],
    take: impl FnMut(&Value),
) -> Result<PageMetadata, serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    let metadata = deserializer.deserialize_map(Page(take))?;
    deserializer.end()?;
    Ok(metadata)
}

struct Page<F>(F);

impl<'de, F: FnMut(&Value)> Visitor<'de> for Page<F> {
    type Value = PageMetadata;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut fields: A) -> Result<PageMetadata, A::Error> {
        let mut metadata = PageMetadata::default();
        while let Some(key) = fields.next_key::<String>()? {
            match key.as_str() {
                "metadata" => metadata = fields.next_value()?,
                "items" => fields.next_value_seed(Items(&mut self.0))?,
                _ => drop(fields.next_value::<IgnoredAny>()?),
            }
        }
        Ok(metadata)
    }
}

struct Items<'a, F>(&'a mut F);

impl<'de, F: FnMut(&Value)> DeserializeSeed<'de> for Items<'_, F> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, items: D) -> Result<(), D::Error> {
        items.deserialize_option(self)
    }
}

impl<'de, F: FnMut(&Value)> Visitor<'de> for Items<'_, F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the objects of a list")
    }

    /// For a metadata-only list, an API server encodes an empty list as `null`.
    fn visit_none<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_some<D: Deserializer<'de>>(self, items: D) -> Result<(), D::Error> {
        items.deserialize_seq(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while let Some(object) = items.next_element::<Value>()? {
            (self.0)(&object);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn empty_list_is_accepted_in_every_form() {
        let metadata = json!({"resourceVersion": "7", "continue": ""});
        for (why, list, expected) in [
            ("two", json!({"metadata": metadata, "items": [{}, {}]}), 2),
            ("none", json!({"metadata": metadata, "items": []}), 0),
            ("none, of metadata", json!({"metadata": metadata, "items": null}), 0),
            ("in another order", json!({"items": [{}], "kind": "List", "metadata": metadata}), 1),
        ] {
            let mut objects = 0;
            let page = read(list.to_string().as_bytes(), |_| objects += 1).unwrap();
            assert_eq!(objects, expected, "{why}");
            assert_eq!(page.resource_version, "7", "{why}");
        }
    }

    #[test]
    fn truncated_list_is_refused() {
        for text in ["", "[]", r#"{"metadata": {}, "items": [{}"#, r#"{"items": 1}"#, "{} {}"] {
            assert!(read(text.as_bytes(), |_| {}).is_err(), "{text}");
        }
    }
}
