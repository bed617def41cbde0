//! `composition.yaml`: what a composite resource is turned into.

use std::collections::BTreeSet;

use broker_domain::Error;
use serde_json::Value;

use super::ComposedKind;
use crate::document;
use crate::fields::Field;

/// The API of the function whose input names what it composes.
const PATCH_AND_TRANSFORM: &str = "pt.fn.crossplane.io/";

/// A function that composes nothing: it reports the readiness of what others composed.
const AUTO_READY: &str = "function-auto-ready";

pub(super) struct Composition {
    pub(super) name: String,
    /// The composite resource that it is for.
    pub(super) api_version: String,
    pub(super) kind: String,
    /// What its steps compose, as far as that can be read.
    pub(super) composed_kinds: Vec<ComposedKind>,
    /// The steps from which it cannot be read.
    pub(super) opaque_steps: Vec<String>,
    /// Every path of the composite resource that a patch reads.
    pub(super) patched_from: BTreeSet<String>,
}

impl Composition {
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let document = document::read("composition", bytes)?;
        let root = Field::new("composition", &document);
        root.object()?;
        let api_version = root.get("apiVersion");
        if api_version.text()? != "apiextensions.crossplane.io/v1" {
            return Err(api_version.invalid("is another API; use apiextensions.crossplane.io/v1"));
        }
        let kind = root.get("kind");
        if kind.text()? != "Composition" {
            return Err(kind.invalid("is another kind; use Composition"));
        }
        let spec = root.get("spec");
        let mode = spec.get("mode");
        if mode.optional_text()?.is_some_and(|mode| mode != "Pipeline") {
            return Err(mode.invalid("is a mode of Crossplane 1; use Pipeline"));
        }
        let composite = spec.get("compositeTypeRef");
        let mut composition = Self {
            name: root.get("metadata").get("name").text()?.to_owned(),
            api_version: composite.get("apiVersion").text()?.to_owned(),
            kind: composite.get("kind").text()?.to_owned(),
            composed_kinds: Vec::new(),
            opaque_steps: Vec::new(),
            patched_from: BTreeSet::new(),
        };
        let pipeline = spec.get("pipeline");
        let steps = pipeline.items()?;
        if steps.is_empty() {
            return Err(pipeline.invalid("has no step; it would compose nothing"));
        }
        steps.iter().try_for_each(|step| composition.step(step))?;
        composition.composed_kinds.sort();
        composition.composed_kinds.dedup();
        Ok(composition)
    }

    fn step(&mut self, step: &Field<'_>) -> Result<(), Error> {
        step.object()?;
        let name = step.get("step").text()?;
        let function = step.get("functionRef").get("name").text()?;
        let input = step.get("input");
        let input_api = input.get("apiVersion").optional_text()?.unwrap_or_default();
        if input_api.starts_with(PATCH_AND_TRANSFORM) {
            for resource in input.get("resources").items()? {
                let base = resource.get("base");
                // Without a base, another step composes the resource and this one patches it.
                if base.value.is_some() {
                    self.composed_kinds.push(ComposedKind {
                        api_version: base.get("apiVersion").text()?.to_owned(),
                        kind: base.get("kind").text()?.to_owned(),
                    });
                }
            }
            collect_sources(input.value.unwrap_or(&Value::Null), &mut self.patched_from);
        } else if !function.ends_with(AUTO_READY) {
            self.opaque_steps.push(name.to_owned());
        }
        Ok(())
    }
}

/// Every `fromFieldPath`, however deep: in patches, in sets of them, and in combinations of variables.
fn collect_sources(value: &Value, sources: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) => {
            if let Some(Value::String(path)) = object.get("fromFieldPath") {
                sources.insert(path.clone());
            }
            object.values().for_each(|value| collect_sources(value, sources));
        }
        Value::Array(items) => items.iter().for_each(|item| collect_sources(item, sources)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
