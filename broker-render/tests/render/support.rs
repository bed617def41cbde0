//! Shared helpers: fixtures, ids, and a YAML reader and writer.

use std::collections::BTreeMap;
use std::path::PathBuf;

use broker_domain::{
    BlueprintVersionId, BootstrapTokenId, MeshRole, Parameters, ProjectId, ProvisionedResourceId,
    ResourceHandle,
};
use broker_render::catalog::{self, Blueprint, Files};
use broker_render::{
    Agent, ApiUrl, Bootstrap, CloudTags, CompositionName, Identity, InjectionStrategy, XrInput, Xrd,
};
use secrecy::SecretString;
use serde_json::{Value, json};
use uuid::Uuid;

pub(crate) fn data(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests").join(name)
}

pub(crate) fn read_data(name: &str) -> Value {
    read_yaml(&std::fs::read_to_string(data(name)).unwrap())
}

pub(crate) fn cases(name: &str) -> Vec<Value> {
    read_data(&format!("cases/{name}.yaml")).as_array().unwrap().clone()
}

pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

pub(crate) fn value(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap()
}

pub(crate) fn identity() -> Identity {
    Identity {
        resource: ProvisionedResourceId::new(Uuid::from_u128(0x0198_a8e2)).unwrap(),
        project: ProjectId::new(Uuid::from_u128(0x5e0c)).unwrap(),
        blueprint_version: BlueprintVersionId::new(Uuid::from_u128(0xb1)).unwrap(),
    }
}

pub(crate) fn token_id() -> BootstrapTokenId {
    BootstrapTokenId::new(Uuid::from_u128(0x70ce)).unwrap()
}

pub(crate) fn parameters(text: &str) -> Parameters {
    Parameters::from_canonical_json(text).unwrap()
}

/// The blueprint's files with changes by JSON pointer; null removes the value.
pub(crate) fn draft(changes: &Value) -> Value {
    let file = |name: &str| read_data(&format!("blueprint/{name}"));
    let mut draft = json!({
        "metadata": file("metadata.json"),
        "xrd": file("xrd.yaml"),
        "composition": file("composition.yaml"),
    });
    for (pointer, value) in changes.as_object().into_iter().flatten() {
        let (short, long) = ABBREVIATIONS
            .into_iter()
            .find(|(short, _)| pointer.starts_with(short))
            .unwrap_or_default();
        let pointer = pointer.replacen(short, long, 1);
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        let parent = draft.pointer_mut(parent).unwrap_or_else(|| panic!("{pointer} has no parent"));
        if let Some(items) = parent.as_array_mut() {
            items[key.parse::<usize>().unwrap()] = value.clone();
        } else if value.is_null() {
            parent.as_object_mut().unwrap().remove(key);
        } else {
            parent[key] = value.clone();
        }
    }
    draft
}

/// Abbreviations at the beginning of a pointer into a blueprint.
const ABBREVIATIONS: [(&str, &str); 2] = [
    ("/schema", "/xrd/spec/versions/0/schema/openAPIV3Schema/properties/spec"),
    ("/input", "/composition/spec/pipeline/0/input"),
];

pub(crate) fn check(draft: &Value) -> (Option<Blueprint>, Vec<String>) {
    let [metadata, xrd, composition] =
        ["metadata", "xrd", "composition"].map(|file| draft[file].to_string());
    let files = Files {
        metadata: metadata.as_bytes(),
        xrd: xrd.as_bytes(),
        composition: composition.as_bytes(),
    };
    let (blueprint, problems) = catalog::check("vm", files);
    (blueprint, problems.iter().map(ToString::to_string).collect())
}

pub(crate) fn xrd_document(spec_schema: &Value) -> Value {
    draft(&json!({"/schema": spec_schema}))["xrd"].take()
}

pub(crate) fn xrd_for(spec_schema: &Value) -> Xrd {
    Xrd::parse(xrd_document(spec_schema).to_string().as_bytes()).unwrap()
}

fn lenient_xrd() -> Xrd {
    xrd_for(&json!({
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": true,
    }))
}

fn composition() -> CompositionName {
    CompositionName::new("sample-machine").unwrap()
}

pub(crate) struct RenderFixture {
    pub(crate) xrd: Xrd,
    pub(crate) strategy: InjectionStrategy,
    pub(crate) mesh_role: MeshRole,
    pub(crate) parameters: Parameters,
    pub(crate) tags: CloudTags,
}

impl RenderFixture {
    pub(crate) fn node(strategy: InjectionStrategy) -> Self {
        Self {
            xrd: lenient_xrd(),
            strategy,
            mesh_role: MeshRole::Node,
            parameters: parameters(r#"{"size":"small"}"#),
            tags: CloudTags::default(),
        }
    }

    pub(crate) fn with_xrd(mut self, xrd: Xrd) -> Self {
        self.xrd = xrd;
        self
    }

    pub(crate) fn with_parameters(mut self, text: &str) -> Self {
        self.parameters = parameters(text);
        self
    }

    pub(crate) fn input(&self) -> XrInput<'_> {
        XrInput {
            xrd: &self.xrd,
            composition: composition(),
            injection_strategy: self.strategy,
            mesh_role: self.mesh_role,
            identity: identity(),
            parameters: &self.parameters,
            tags: &self.tags,
        }
    }
}

pub(crate) struct InjectionFixture {
    pub(crate) token: SecretString,
    pub(crate) api_url: ApiUrl,
    pub(crate) agent: Agent,
    pub(crate) handle: ResourceHandle,
}

impl InjectionFixture {
    pub(crate) fn token(token: &str) -> Self {
        Self {
            token: SecretString::from(token),
            api_url: ApiUrl::new("https://api.plexsphere.example").unwrap(),
            agent: Agent::default(),
            handle: ResourceHandle::new("true").unwrap(),
        }
    }

    pub(crate) fn bootstrap(&self) -> Bootstrap<'_> {
        Bootstrap {
            token_id: token_id(),
            token: &self.token,
            api_url: &self.api_url,
            agent: &self.agent,
            handle: &self.handle,
        }
    }
}

pub(crate) fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

pub(crate) fn read_yaml(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap()
}

/// Writes YAML for people: sorted keys, and multi-line text as a block.
pub(crate) fn write_yaml(value: &Value) -> String {
    let mut out = String::new();
    write_nested(value, 0, &mut out);
    out
}

fn write_nested(value: &Value, indent: usize, out: &mut String) {
    let start = " ".repeat(indent);
    for (key, value) in value.as_object().into_iter().flatten().collect::<BTreeMap<_, _>>() {
        let plain = key.chars().all(|c| c.is_ascii_alphanumeric() || "-_./".contains(c));
        let key = if plain { key.clone() } else { Value::from(key.as_str()).to_string() };
        out.extend([start.as_str(), &key, ":"]);
        write_after_key(value, indent, out);
    }
    for item in value.as_array().into_iter().flatten() {
        out.extend([start.as_str(), "-"]);
        write_after_key(item, indent, out);
    }
}

fn write_after_key(value: &Value, indent: usize, out: &mut String) {
    let is_nested = value.as_object().is_some_and(|object| !object.is_empty())
        || value.as_array().is_some_and(|items| !items.is_empty());
    if is_nested {
        out.push('\n');
        write_nested(value, indent + 2, out);
    } else if let Some(text) = value.as_str().filter(|text| text.ends_with('\n')) {
        out.push_str(" |\n");
        for line in text.lines() {
            let start = if line.is_empty() { String::new() } else { " ".repeat(indent + 2) };
            out.extend([start.as_str(), line, "\n"]);
        }
    } else {
        out.extend([" ", &value.to_string(), "\n"]);
    }
}
