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

/// Passes each object of a page to `on_object`.
pub(super) fn read_page(
    text: &[u8],
    on_object: impl FnMut(&Value),
) -> Result<PageMetadata, serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    let metadata = deserializer.deserialize_map(PageVisitor(on_object))?;
    deserializer.end()?;
    Ok(metadata)
}

struct PageVisitor<F>(F);

impl<'de, F: FnMut(&Value)> Visitor<'de> for PageVisitor<F> {
    type Value = PageMetadata;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut fields: A) -> Result<PageMetadata, A::Error> {
        let mut metadata = PageMetadata::default();
        while let Some(key) = fields.next_key::<String>()? {
            match key.as_str() {
                "metadata" => metadata = fields.next_value()?,
                "items" => fields.next_value_seed(ItemsVisitor(&mut self.0))?,
                _ => drop(fields.next_value::<IgnoredAny>()?),
            }
        }
        Ok(metadata)
    }
}

struct ItemsVisitor<'a, F>(&'a mut F);

impl<'de, F: FnMut(&Value)> DeserializeSeed<'de> for ItemsVisitor<'_, F> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, items: D) -> Result<(), D::Error> {
        items.deserialize_option(self)
    }
}

impl<'de, F: FnMut(&Value)> Visitor<'de> for ItemsVisitor<'_, F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the objects of a list")
    }

    /// An API server encodes an empty metadata-only list as `null`.
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
    fn list_is_accepted_with_items_empty_or_null() {
        let metadata = json!({"resourceVersion": "7", "continue": ""});
        for (why, list, expected) in [
            ("two objects", json!({"metadata": metadata, "items": [{}, {}]}), 2),
            ("no object", json!({"metadata": metadata, "items": []}), 0),
            ("null for no object", json!({"metadata": metadata, "items": null}), 0),
            (
                "items before metadata",
                json!({"items": [{}], "kind": "List", "metadata": metadata}),
                1,
            ),
        ] {
            let mut objects = 0;
            let page = read_page(list.to_string().as_bytes(), |_| objects += 1).unwrap();
            assert_eq!(objects, expected, "{why}");
            assert_eq!(page.resource_version, "7", "{why}");
        }
    }

    #[test]
    fn malformed_list_is_refused() {
        for text in ["", "[]", r#"{"metadata": {}, "items": [{}"#, r#"{"items": 1}"#, "{} {}"] {
            assert!(read_page(text.as_bytes(), |_| {}).is_err(), "{text}");
        }
    }
}
