//! Reads `composition.yaml`: the composed kinds and the patched fields of a blueprint.

use std::collections::BTreeMap;

use broker_domain::Error;
use serde_json::Value;

use super::ComposedKind;
use super::config_references::{ConfigReferences, patches_of};
use super::field_path::FieldPath;
use crate::canonical::{self, Digest};
use crate::composition_ref::CompositionName;
use crate::document;
use crate::fields::Field;

/// The API of the function whose input names the composed objects.
const PATCH_AND_TRANSFORM: &str = "pt.fn.crossplane.io/";

/// A function that composes nothing: it only reports the readiness of composed objects.
const AUTO_READY: &str = "function-auto-ready";

pub(super) struct Composition {
    pub(super) name: CompositionName,
    /// The digest of its `spec`.
    pub(super) spec: Digest,
    /// The API version of the composite resource that it composes.
    pub(super) api_version: String,
    pub(super) kind: String,
    /// The kinds that its steps compose, as far as they can be read.
    pub(super) composed_kinds: Vec<ComposedKind>,
    /// The steps whose composed kinds cannot be read.
    pub(super) opaque_steps: Vec<String>,
    /// How its composed objects refer to their ProviderConfig, as far as it can be read.
    pub(super) config_references: ConfigReferences,
    /// Every path of the composite resource that a patch reads.
    patched_from: Vec<FieldPath>,
    /// Patch paths that Crossplane rejects.
    pub(super) bad_paths: Vec<String>,
}

impl Composition {
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let document = document::read("composition", bytes)?;
        let root = Field::new("composition", &document);
        let name = name_of(&root)?;
        let spec = root.get("spec");
        let mode = spec.get("mode");
        if mode.optional_text()?.is_some_and(|mode| mode != "Pipeline") {
            return Err(mode.invalid("is a mode of Crossplane 1; use Pipeline"));
        }
        let composite = spec.get("compositeTypeRef");
        let mut composition = Self {
            name,
            spec: Digest::of(canonical::text(spec.value.unwrap_or(&Value::Null)).as_bytes()),
            api_version: composite.get("apiVersion").text()?.to_owned(),
            kind: composite.get("kind").text()?.to_owned(),
            composed_kinds: Vec::new(),
            opaque_steps: Vec::new(),
            config_references: ConfigReferences::default(),
            patched_from: Vec::new(),
            bad_paths: Vec::new(),
        };
        let pipeline = spec.get("pipeline");
        let steps = pipeline.items()?;
        if steps.is_empty() {
            return Err(pipeline.invalid("has no step; it would compose nothing"));
        }
        steps.iter().try_for_each(|step| composition.read_step(step))?;
        composition.composed_kinds.sort();
        composition.composed_kinds.dedup();
        Ok(composition)
    }

    fn read_step(&mut self, step: &Field<'_>) -> Result<(), Error> {
        step.object()?;
        let name = step.get("step").text()?;
        let function = step.get("functionRef").get("name").text()?;
        let input = step.get("input");
        let input_api = input.get("apiVersion").optional_text()?.unwrap_or_default();
        if input_api.starts_with(PATCH_AND_TRANSFORM) {
            for resource in input.get("resources").items()? {
                let base = resource.get("base");
                // Without a base, another step composes the resource and this one only patches it.
                if base.value.is_some() {
                    self.composed_kinds.push(ComposedKind {
                        api_version: base.get("apiVersion").text()?.to_owned(),
                        kind: base.get("kind").text()?.to_owned(),
                    });
                }
            }
            self.read_patches(&input);
        } else if !function.ends_with(AUTO_READY) {
            self.opaque_steps.push(name.to_owned());
            self.config_references.miss_some();
        }
        Ok(())
    }

    /// Whether a patch reads the field of the composite resource at `path`, or part of it. Unknown for steps
    /// that cannot be read.
    pub(super) fn reads(&self, path: &[&str]) -> bool {
        !self.opaque_steps.is_empty() || self.patched_from.iter().any(|source| source.reads(path))
    }

    fn read_patches(&mut self, input: &Field<'_>) {
        let list = |value: &Value, key: &str| {
            value.get(key).and_then(Value::as_array).cloned().unwrap_or_default()
        };
        let input = input.value.unwrap_or(&Value::Null);
        let sets: BTreeMap<_, _> = list(input, "patchSets")
            .into_iter()
            .filter_map(|set| Some((set.get("name")?.as_str()?.to_owned(), list(&set, "patches"))))
            .collect();
        let environment = input.get("environment").unwrap_or(&Value::Null);
        let mut patches = list(environment, "patches");
        for resource in list(input, "resources") {
            let own = list(&resource, "patches");
            let name = resource.get("name").and_then(Value::as_str).unwrap_or_default();
            let base = resource.get("base").unwrap_or(&Value::Null);
            self.config_references.read(name, base, &patches_of(&own, &sets));
            patches.extend(own);
        }
        for source in patches_of(&patches, &sets).into_iter().flat_map(sources) {
            match FieldPath::parse(source) {
                Some(path) => self.patched_from.push(path),
                None => self.bad_paths.push(source.to_owned()),
            }
        }
    }
}

pub(super) fn name(bytes: &[u8]) -> Result<CompositionName, Error> {
    let document = document::read("composition", bytes)?;
    name_of(&Field::new("composition", &document))
}

/// The `apiVersion` in `compositeTypeRef`, if there is one.
pub(super) fn composed_version(bytes: &[u8]) -> Result<Option<String>, Error> {
    let document = document::read("composition", bytes)?;
    let reference = document.pointer("/spec/compositeTypeRef/apiVersion");
    Ok(reference.and_then(Value::as_str).map(str::to_owned))
}

fn name_of(root: &Field<'_>) -> Result<CompositionName, Error> {
    root.object()?;
    let api_version = root.get("apiVersion");
    if api_version.text()? != "apiextensions.crossplane.io/v1" {
        return Err(api_version.invalid("is another API; use apiextensions.crossplane.io/v1"));
    }
    let kind = root.get("kind");
    if kind.text()? != "Composition" {
        return Err(kind.invalid("is another kind; use Composition"));
    }
    let name = root.get("metadata").get("name");
    CompositionName::new(name.text()?)
        .map_err(|_| name.invalid("is not an object name; use a DNS subdomain"))
}

/// The paths of the composite resource that a patch reads. Patches in the other direction read a composed
/// object or the environment.
fn sources(patch: &Value) -> Vec<&str> {
    match type_of(patch) {
        "FromCompositeFieldPath" => path_of(patch).into_iter().collect(),
        "CombineFromComposite" => {
            let variables =
                patch.get("combine").and_then(|combine| combine.get("variables")?.as_array());
            variables.into_iter().flatten().filter_map(path_of).collect()
        }
        _ => Vec::new(),
    }
}

fn type_of(patch: &Value) -> &str {
    patch.get("type").and_then(Value::as_str).unwrap_or("FromCompositeFieldPath")
}

fn path_of(patch: &Value) -> Option<&str> {
    patch.get("fromFieldPath")?.as_str()
}
