//! Reads `metadata.json`: the catalog's description of a blueprint.

use broker_domain::{Error, MeshRole};

use super::ComposedKind;
use crate::document;
use crate::fields::Field;
use crate::injection::InjectionStrategy;
use crate::parameters::ParameterSchema;
use crate::provider_config::{Provider, ProviderConfigUse};
use crate::text::{list, quoted};
use crate::xrd::is_label;

const FIELDS: [&str; 10] = [
    "slug",
    "displayName",
    "description",
    "version",
    "providerKinds",
    "injectionStrategy",
    "parameterSchema",
    "meshRole",
    "composedKinds",
    "providerConfig",
];

pub(super) struct Metadata {
    pub(super) display_name: String,
    pub(super) description: String,
    pub(super) version: String,
    pub(super) provider_kinds: Vec<String>,
    pub(super) injection_strategy: InjectionStrategy,
    pub(super) mesh_role: MeshRole,
    pub(super) parameter_schema: ParameterSchema,
    /// `None`: they are read from the Composition.
    pub(super) composed_kinds: Option<Vec<ComposedKind>>,
    /// `None`: it is read from the Composition.
    pub(super) provider_config: Option<ProviderConfigUse>,
}

impl Metadata {
    pub(super) fn parse(directory: &str, bytes: &[u8]) -> Result<Self, Error> {
        let document = document::read_json("metadata", bytes)?;
        let root = Field::new("metadata", &document);
        if let Some(unknown) = root.object()?.keys().find(|key| !FIELDS.contains(&key.as_str())) {
            let problem = format!("is not a field; use {}", list(FIELDS));
            return Err(root.get(unknown).invalid(problem));
        }
        let slug = root.get("slug");
        if slug.text()? != directory {
            let found = quoted(slug.text()?);
            let problem = format!("is {found}; use the directory's name, {}", quoted(directory));
            return Err(slug.invalid(problem));
        }
        if !is_label(directory) {
            return Err(slug.invalid("is not a blueprint name; use a lower-case DNS label"));
        }
        let strategy = root.get("injectionStrategy");
        let parameter_schema = root.get("parameterSchema");
        parameter_schema.object()?;
        let schema = parameter_schema.value.map(ParameterSchema::from_value).transpose()?;
        Ok(Self {
            display_name: root.get("displayName").text()?.to_owned(),
            description: root.get("description").text()?.to_owned(),
            version: root.get("version").text()?.to_owned(),
            provider_kinds: provider_kinds(&root.get("providerKinds"))?,
            injection_strategy: InjectionStrategy::try_from(strategy.text()?)?,
            mesh_role: mesh_role(&root.get("meshRole"))?,
            parameter_schema: schema.ok_or_else(|| parameter_schema.expected("an object"))?,
            composed_kinds: composed_kinds(&root.get("composedKinds"))?,
            provider_config: provider_config(&root.get("providerConfig"))?,
        })
    }
}

fn mesh_role(field: &Field<'_>) -> Result<MeshRole, Error> {
    let Some(name) = field.optional_text()? else { return Ok(MeshRole::default()) };
    MeshRole::try_from(name)
        .map_err(|_| field.invalid(format!("is {}; use node or standalone", quoted(name))))
}

fn provider_kinds(field: &Field<'_>) -> Result<Vec<String>, Error> {
    let kinds = field.texts()?;
    if kinds.is_empty() {
        return Err(field.invalid("is empty; name at least one provider"));
    }
    let check = |(index, kind): (usize, &str)| {
        Provider::new(kind).map(|kind| kind.to_string()).map_err(|_| {
            let problem = format!("is {}; use a lower-case DNS label", quoted(kind));
            Error::invalid(format!("{}[{index}]", field.path), problem)
        })
    };
    kinds.into_iter().enumerate().map(check).collect()
}

fn provider_config(field: &Field<'_>) -> Result<Option<ProviderConfigUse>, Error> {
    let Some(text) = field.optional_text()? else { return Ok(None) };
    let invalid = |_| {
        let problem = "use per-resource, shared:NAME or platform";
        field.invalid(format!("is {}; {problem}", quoted(text)))
    };
    ProviderConfigUse::parse(text).map(Some).map_err(invalid)
}

fn composed_kinds(field: &Field<'_>) -> Result<Option<Vec<ComposedKind>>, Error> {
    if field.value.is_none() {
        return Ok(None);
    }
    let kind = |item: &Field<'_>| {
        Ok(ComposedKind {
            api_version: item.get("apiVersion").text()?.to_owned(),
            kind: item.get("kind").text()?.to_owned(),
        })
    };
    let mut kinds = field.items()?.iter().map(kind).collect::<Result<Vec<_>, Error>>()?;
    kinds.sort();
    kinds.dedup();
    Ok(Some(kinds))
}
