//! Reads how composed objects refer to their ProviderConfig: the base's `spec.providerConfigRef`, and the patches to it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::field_path::FieldPath;
use crate::provider_config::{ProviderConfigUse, SharedConfigName};
use crate::text::quoted;

/// The field of a composed object.
const REFERENCE: [&str; 2] = ["spec", "providerConfigRef"];

/// The kind of a cluster-scoped ProviderConfig. A reference without a kind is to a namespaced one.
const CLUSTER_KIND: &str = "ClusterProviderConfig";

/// Every reference that the composed objects have.
#[derive(Default)]
pub(super) struct ConfigReferences {
    uses: BTreeSet<ProviderConfigUse>,
    /// The names of cluster-scoped ProviderConfigs, which the platform owns.
    platform: BTreeSet<String>,
    problems: Vec<String>,
    /// A step that cannot be read may have further references.
    incomplete: bool,
}

/// What one composed object says about a field of its reference.
enum Source<'a> {
    Literal(&'a str),
    /// The name of the composite resource.
    XrName,
    /// A patch whose value depends on anything else.
    Other(&'a str),
}

impl ConfigReferences {
    /// Notes a step that cannot be read.
    pub(super) const fn miss_some(&mut self) {
        self.incomplete = true;
    }

    /// Reads one composed object: its base, and its patches with resolved patch sets.
    pub(super) fn read(&mut self, object: &str, base: &Value, patches: &[&Value]) {
        let reference = base.pointer("/spec/providerConfigRef");
        let base = |field| reference?.get(field)?.as_str().map(Source::Literal);
        let (mut name, mut kind) = (base("name"), base("kind"));
        for patch in patches {
            match target(patch) {
                Some(Target::Name) => name = Some(source(patch)),
                Some(Target::Kind) => kind = Some(source(patch)),
                Some(Target::Whole) => name = Some(Source::Other(patch_type(patch))),
                None => {}
            }
        }
        let (Some(name), kind) = (name, kind.unwrap_or(Source::Literal("ProviderConfig"))) else {
            return;
        };
        let kind = match kind {
            Source::Literal(kind) => kind,
            Source::XrName | Source::Other(_) => {
                return self.problem(object, "takes its kind from a patch; use a literal kind");
            }
        };
        match name {
            Source::XrName => drop(self.uses.insert(ProviderConfigUse::PerResource)),
            Source::Literal(name) if kind == CLUSTER_KIND => {
                self.uses.insert(ProviderConfigUse::Platform);
                self.platform.insert(name.to_owned());
            }
            Source::Literal(name) if kind == "ProviderConfig" => {
                if let Ok(name) = SharedConfigName::new(name) {
                    self.uses.insert(ProviderConfigUse::Shared(name));
                } else {
                    let problem = format!("has the name {}; use another", quoted(name));
                    self.problem(object, &problem);
                }
            }
            Source::Literal(name) => {
                let found = quoted(&format!("{kind} {name}"));
                let problem = format!(
                    "is {found}, which neither the broker nor the platform writes; \
                     use a ProviderConfig or a ClusterProviderConfig"
                );
                self.problem(object, &problem);
            }
            Source::Other(from) => {
                let problem = format!(
                    "takes its name from {}; patch it from metadata.name, or use a literal name",
                    quoted(from)
                );
                self.problem(object, &problem);
            }
        }
    }

    /// The one use of all references; `None` without a reference. The platform's ProviderConfigs need no write, so they
    /// may stand beside another use.
    ///
    /// # Errors
    ///
    /// Every reference to an object that neither the broker nor the platform writes, and references that contradict each
    /// other or the declaration.
    pub(super) fn resolve(
        &self,
        declared: Option<&ProviderConfigUse>,
    ) -> Result<Option<ProviderConfigUse>, Vec<String>> {
        if !self.problems.is_empty() {
            return Err(self.problems.clone());
        }
        let mut own = self.uses.iter().filter(|it| **it != ProviderConfigUse::Platform);
        let found = match (own.next(), own.next()) {
            (Some(first), Some(second)) => {
                return Err(vec![format!(
                    "composed objects refer to their ProviderConfig in two ways, {first} and {second}; use one"
                )]);
            }
            (Some(only), None) => Some(only.clone()),
            (None, _) => self.uses.first().cloned(),
        };
        match (declared, found) {
            (Some(declared), Some(found))
                if *declared != found
                    && !(self.incomplete && found == ProviderConfigUse::Platform) =>
            {
                Err(vec![format!(
                    "composed objects refer to their ProviderConfig as {found}, and metadata.json declares {declared}"
                )])
            }
            (Some(declared), _) => Ok(Some(declared.clone())),
            (None, found) => Ok(found),
        }
    }

    /// The names of the platform's ProviderConfigs.
    pub(super) fn platform(&self) -> impl Iterator<Item = &str> {
        self.platform.iter().map(String::as_str)
    }

    fn problem(&mut self, object: &str, problem: &str) {
        self.problems.push(format!("providerConfigRef of {} {problem}", quoted(object)));
    }
}

/// The patches of a composed object, with those of its patch sets.
pub(super) fn patches_of<'a>(
    patches: &'a [Value],
    sets: &'a BTreeMap<String, Vec<Value>>,
) -> Vec<&'a Value> {
    let resolved = patches.iter().flat_map(|patch| {
        let set = patch.get("patchSetName").and_then(Value::as_str);
        let set = set.filter(|_| patch_type(patch) == "PatchSet").and_then(|name| sets.get(name));
        set.map_or(std::slice::from_ref(patch), Vec::as_slice)
    });
    resolved.collect()
}

enum Target {
    Name,
    Kind,
    Whole,
}

/// The field of the reference that a patch writes.
fn target(patch: &Value) -> Option<Target> {
    let writes_composed = matches!(
        patch_type(patch),
        "FromCompositeFieldPath"
            | "CombineFromComposite"
            | "FromEnvironmentFieldPath"
            | "CombineFromEnvironment"
    );
    let text = |key: &str| patch.get(key).and_then(Value::as_str);
    // Without a target, Crossplane writes the field that it reads.
    let target =
        text("toFieldPath").or_else(|| text("fromFieldPath")).filter(|_| writes_composed)?;
    let target = FieldPath::parse(target)?;
    let [spec, reference] = REFERENCE;
    if target.is(&[spec, reference, "name"]) {
        return Some(Target::Name);
    }
    if target.is(&[spec, reference, "kind"]) {
        return Some(Target::Kind);
    }
    (target.is(&REFERENCE) || target.is(&[spec])).then_some(Target::Whole)
}

fn source(patch: &Value) -> Source<'_> {
    let from = patch.get("fromFieldPath").and_then(Value::as_str);
    let is_plain = patch_type(patch) == "FromCompositeFieldPath"
        && patch.get("transforms").and_then(Value::as_array).is_none_or(Vec::is_empty);
    let reads_name =
        |from: &str| FieldPath::parse(from).is_some_and(|path| path.is(&["metadata", "name"]));
    match from {
        Some(from) if is_plain && reads_name(from) => Source::XrName,
        Some(from) if is_plain => Source::Other(from),
        Some(_) | None => Source::Other(patch_type(patch)),
    }
}

fn patch_type(patch: &Value) -> &str {
    patch.get("type").and_then(Value::as_str).unwrap_or("FromCompositeFieldPath")
}
