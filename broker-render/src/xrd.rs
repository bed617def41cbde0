//! The composite resource definition (XRD) of a blueprint: the kind that the broker sends, and the schema
//! that the API server enforces.

mod check;
mod pattern;
mod schema;

use std::collections::BTreeMap;
use std::fmt;

use broker_domain::Error;
use serde_json::Value;

pub use check::{FieldProblem, ProblemKind};
pub(crate) use schema::{FieldDeclaration, Lookup, Schema, ValueType};

use crate::canonical::{self, Digest};
use crate::document;
use crate::fields::Field;
use crate::text::quoted;

/// The scope of an XRD's composite resources.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum XrdScope {
    /// In the Project's namespace. The default of a v2 XRD.
    Namespaced,
    /// Cluster-scoped.
    Cluster,
    /// Like [`XrdScope::Cluster`], with Crossplane's own fields directly under `spec`. The default of a v1
    /// XRD.
    LegacyCluster,
}

impl XrdScope {
    /// Every scope.
    pub const ALL: [Self; 3] = [Self::Namespaced, Self::Cluster, Self::LegacyCluster];

    /// The name in an XRD.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Namespaced => "Namespaced",
            Self::Cluster => "Cluster",
            Self::LegacyCluster => "LegacyCluster",
        }
    }

    /// Whether objects of this scope are namespaced.
    pub const fn is_namespaced(self) -> bool {
        matches!(self, Self::Namespaced)
    }
}

impl fmt::Display for XrdScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A parsed XRD: the names of its kind, and the compiled schema of one served version.
///
/// ```
/// use broker_render::{XrdScope, Xrd};
///
/// let xrd = Xrd::parse(
///     b"apiVersion: apiextensions.crossplane.io/v2
/// kind: CompositeResourceDefinition
/// metadata: {name: machines.example.org}
/// spec:
///   group: example.org
///   names: {kind: Machine, plural: machines}
///   versions:
///   - name: v1
///     served: true
///     referenceable: true
///     schema: {openAPIV3Schema: {type: object}}
/// ",
/// )?;
/// assert_eq!(xrd.api_version(), "example.org/v1");
/// assert_eq!(xrd.kind(), "Machine");
/// assert_eq!(xrd.scope(), XrdScope::Namespaced);
/// # Ok::<(), broker_domain::Error>(())
/// ```
pub struct Xrd {
    group: String,
    kind: String,
    plural: String,
    version: String,
    scope: XrdScope,
    spec: Schema,
    enforced_composition: Option<String>,
    /// The served version that is marked referenceable.
    referenceable: Option<String>,
    /// The digest of each version's schema without descriptions, by version name.
    schemas: BTreeMap<String, Digest>,
}

const API_GROUP: &str = "apiextensions.crossplane.io";

impl Xrd {
    /// Parses an XRD from JSON or YAML.
    ///
    /// Selects the served version; among several, the referenceable one. For a blueprint, use
    /// [`catalog::xrd_of`](crate::catalog::xrd_of), which selects the version of its Composition.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidInput`] with the path of the missing or invalid field, under `xrd`.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        Self::parse_for(bytes, None)
    }

    /// Selects the served version that a Composition names, as group and version. If the XRD does not serve it, selects
    /// as [`Xrd::parse`].
    pub(crate) fn parse_for(bytes: &[u8], api_version: Option<&str>) -> Result<Self, Error> {
        Self::from_value(&document::read("xrd", bytes)?, api_version)
    }

    fn from_value(document: &Value, composed: Option<&str>) -> Result<Self, Error> {
        let root = Field::new("xrd", document);
        root.object()?;
        let api_version = api_version(&root)?;
        let kind = root.get("kind");
        if kind.text()? != "CompositeResourceDefinition" {
            return Err(kind.invalid("is another kind; use CompositeResourceDefinition"));
        }
        let spec = root.get("spec");
        spec.object()?;
        let names = spec.get("names");
        let group = spec.get("group");
        let plural = names.get("plural");
        let name = root.get("metadata").get("name");
        let expected_name = format!("{}.{}", plural_name(&plural)?, group_name(&group)?);
        if name.text()? != expected_name {
            let found = quoted(name.text()?);
            return Err(name.invalid(format!("is {found}; use <plural>.<group>: {expected_name}")));
        }
        let composed = composed.and_then(|text| text.rsplit_once('/'));
        let wanted = composed.filter(|(of, _)| group.text().is_ok_and(|group| group == *of));
        let Selected { version, referenceable } =
            selected_version(&spec, wanted.map(|(_, version)| version))?;
        let schema = version.get("schema").get("openAPIV3Schema");
        schema.object()?;
        Ok(Self {
            group: group.text()?.to_owned(),
            kind: kind_name(&names.get("kind"))?.to_owned(),
            plural: plural.text()?.to_owned(),
            version: version_name(&version.get("name"))?.to_owned(),
            scope: scope(&spec.get("scope"), api_version)?,
            spec: Schema::of_composite_spec(&schema)?,
            enforced_composition: enforced_composition(&spec)?,
            referenceable,
            schemas: schemas(&spec)?,
        })
    }

    /// The API group of the composite resource.
    pub fn group(&self) -> &str {
        &self.group
    }

    /// The kind of the composite resource.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// The plural under which the API server serves the kind.
    pub fn plural(&self) -> &str {
        &self.plural
    }

    /// The version that the broker sends.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Group and version, as manifests spell them.
    pub fn api_version(&self) -> String {
        format!("{}/{}", self.group, self.version)
    }

    /// The scope of the composite resources.
    pub const fn scope(&self) -> XrdScope {
        self.scope
    }

    /// Checks the `spec` of a composite resource against the schema. Reports everything that an API server
    /// would reject or silently drop. Leaves CEL rules, formats and Crossplane's own fields to the API
    /// server.
    pub fn check(&self, spec: &Value) -> Vec<FieldProblem> {
        check::check(&self.spec, spec)
    }

    /// Fills defaults into the `spec` of a composite resource, as the API server does before it stores one.
    /// Stops when the defaults exceed [`crate::MAX_DOCUMENT_BYTES`]; [`Xrd::check`] reports that.
    pub fn fill_defaults(&self, spec: &mut Value) {
        self.spec.fill_defaults(spec);
    }

    /// The Composition that Crossplane enforces, regardless of the XR's `compositionRef`.
    pub(crate) fn enforced_composition(&self) -> Option<&str> {
        self.enforced_composition.as_deref()
    }

    /// The referenceable version, if it is another one than the broker sends.
    pub(crate) fn other_referenceable(&self) -> Option<&str> {
        self.referenceable.as_deref().filter(|version| *version != self.version)
    }

    pub(crate) const fn schemas(&self) -> &BTreeMap<String, Digest> {
        &self.schemas
    }

    pub(crate) const fn spec(&self) -> &Schema {
        &self.spec
    }
}

/// Prints the names only; the schema is long.
impl fmt::Debug for Xrd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Xrd({} {}, {})", self.api_version(), self.kind, self.scope)
    }
}

/// The version of the XRD API.
#[derive(Clone, Copy)]
enum ApiVersion {
    V1,
    V2,
}

fn api_version(root: &Field<'_>) -> Result<ApiVersion, Error> {
    let field = root.get("apiVersion");
    match field.text()?.split_once('/') {
        Some((API_GROUP, "v1")) => Ok(ApiVersion::V1),
        Some((API_GROUP, "v2")) => Ok(ApiVersion::V2),
        _ => {
            let found = quoted(field.text()?);
            Err(field.invalid(format!("is {found}; use {API_GROUP}/v2 or {API_GROUP}/v1")))
        }
    }
}

fn scope(field: &Field<'_>, api_version: ApiVersion) -> Result<XrdScope, Error> {
    let (default, allowed) = match api_version {
        ApiVersion::V1 => (XrdScope::LegacyCluster, "Namespaced, Cluster or LegacyCluster"),
        ApiVersion::V2 => (XrdScope::Namespaced, "Namespaced or Cluster"),
    };
    let Some(name) = field.optional_text()? else { return Ok(default) };
    XrdScope::ALL
        .into_iter()
        .find(|scope| scope.as_str() == name)
        .filter(|scope| matches!(api_version, ApiVersion::V1) || *scope != XrdScope::LegacyCluster)
        .ok_or_else(|| field.invalid(format!("is {}; use {allowed}", quoted(name))))
}

/// The version that the broker sends.
struct Selected<'a> {
    version: Field<'a>,
    /// The name of the referenceable version.
    referenceable: Option<String>,
}

/// Selects a served version: the wanted one, else the referenceable one, else the first.
fn selected_version<'a>(spec: &Field<'a>, wanted: Option<&str>) -> Result<Selected<'a>, Error> {
    let versions = spec.get("versions");
    let mut served = Vec::new();
    let (mut chosen, mut referenceable) = (None, None);
    for version in versions.items()? {
        version.object()?;
        if version.get("served").flag()? {
            let name = version.get("name").value.and_then(Value::as_str);
            if wanted.is_some() && name == wanted {
                chosen = Some(served.len());
            }
            if version.get("referenceable").flag()? && referenceable.is_none() {
                referenceable = Some((served.len(), name.map(str::to_owned)));
            }
            served.push(version);
        }
    }
    let (position, referenceable) = referenceable.unzip();
    served
        .into_iter()
        .nth(chosen.or(position).unwrap_or(0))
        .map(|version| Selected { version, referenceable: referenceable.flatten() })
        .ok_or_else(|| versions.invalid("has no served version; set served on one"))
}

fn enforced_composition(spec: &Field<'_>) -> Result<Option<String>, Error> {
    let reference = spec.get("enforcedCompositionRef");
    if reference.value.is_none() {
        return Ok(None);
    }
    Ok(Some(reference.get("name").text()?.to_owned()))
}

fn schemas(spec: &Field<'_>) -> Result<BTreeMap<String, Digest>, Error> {
    let mut schemas = BTreeMap::new();
    for version in spec.get("versions").items()? {
        let schema = version.get("schema").get("openAPIV3Schema");
        let schema = schema.value.map(without_descriptions).unwrap_or_default();
        let digest = Digest::of(canonical::text(&schema).as_bytes());
        schemas.insert(version.get("name").text()?.to_owned(), digest);
    }
    Ok(schemas)
}

/// Removes descriptions and other text for people from a schema.
fn without_descriptions(schema: &Value) -> Value {
    let Value::Object(keywords) = schema else { return schema.clone() };
    let descriptions = ["description", "title", "example", "externalDocs"];
    let keyword = |(name, value): (&String, &Value)| {
        let value = match (name.as_str(), value) {
            ("properties" | "patternProperties", Value::Object(fields)) => {
                let fields =
                    fields.iter().map(|(name, field)| (name.clone(), without_descriptions(field)));
                Value::Object(fields.collect())
            }
            ("allOf" | "anyOf" | "oneOf", Value::Array(branches)) => {
                branches.iter().map(without_descriptions).collect()
            }
            ("items" | "additionalProperties" | "not", schema) => without_descriptions(schema),
            _ => value.clone(),
        };
        (name.clone(), value)
    };
    let kept = keywords.iter().filter(|(name, _)| !descriptions.contains(&name.as_str()));
    Value::Object(kept.map(keyword).collect())
}

fn group_name<'a>(field: &Field<'a>) -> Result<&'a str, Error> {
    let group = field.text()?;
    if is_subdomain(group) && group.contains('.') {
        return Ok(group);
    }
    Err(field.invalid(format!("is {}; use a DNS subdomain such as example.org", quoted(group))))
}

fn plural_name<'a>(field: &Field<'a>) -> Result<&'a str, Error> {
    let plural = field.text()?;
    if is_label(plural) {
        return Ok(plural);
    }
    Err(field.invalid(format!("is {}; use a lower-case DNS label", quoted(plural))))
}

fn version_name<'a>(field: &Field<'a>) -> Result<&'a str, Error> {
    let version = field.text()?;
    if is_label(version) {
        return Ok(version);
    }
    Err(field.invalid(format!("is {}; use a lower-case DNS label such as v1", quoted(version))))
}

fn kind_name<'a>(field: &Field<'a>) -> Result<&'a str, Error> {
    let kind = field.text()?;
    if is_kind(kind) {
        return Ok(kind);
    }
    let found = quoted(kind);
    Err(field.invalid(format!("is {found}; use up to 63 letters and digits, a capital first")))
}

/// Whether the text is a kind: up to 63 letters and digits, a capital first.
pub(crate) fn is_kind(text: &str) -> bool {
    text.len() <= 63
        && text.starts_with(|c: char| c.is_ascii_uppercase())
        && text.chars().all(|c| c.is_ascii_alphanumeric())
}

/// Whether the text is a DNS-1123 label: up to 63 lower-case letters, digits and inner hyphens.
pub(crate) fn is_label(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 63
        && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
        && !text.starts_with('-')
        && !text.ends_with('-')
}

/// Whether the text is a DNS-1123 subdomain: labels joined by dots, up to 253 characters.
pub(crate) fn is_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_label)
}
