//! Act stage: the composite resource (XR) of a resource, from blueprint, ids, parameters and tags.
//!
//! [`xr`] renders and checks the common part. From it come the three forms that the broker sends: a shell,
//! which composes nothing; the armed resource, with a token ([`crate::inject_bootstrap`]) or standalone; and
//! the re-apply of an armed one ([`crate::preserve_injection`]).

use std::fmt;

use broker_domain::{BootstrapTokenId, Error, MeshRole, Parameters, ProjectId};
use serde_json::{Map, Value, json};

use crate::cloud_tags::{CloudTags, SkippedTag, TagSkip};
use crate::composition_ref::{self, CompositionName, composition_ref};
use crate::document;
use crate::injection::{self, FieldPath, InjectionStrategy, RESERVED_PARAMETERS};
use crate::manifest::{Manifest, Placement};
use crate::names::{
    APPLIED_DIGEST_ANNOTATION, ARMED_ANNOTATION, EPOCH_ANNOTATION, Identity, PAUSED_ANNOTATION,
};
use crate::xrd::{FieldDeclaration, FieldProblem, ProblemKind, Xrd};

/// The inputs of a composite resource.
pub struct XrInput<'a> {
    /// The blueprint's XRD.
    pub xrd: &'a Xrd,
    /// The blueprint's Composition; a new XR pins it.
    pub composition: CompositionName,
    /// The injection site of the token, if any.
    pub injection_strategy: InjectionStrategy,
    /// Whether a Node enrols; a standalone resource has no token.
    pub mesh_role: MeshRole,
    /// The ids.
    pub identity: Identity,
    /// The validated parameter values.
    pub parameters: &'a Parameters,
    /// The Resource's labels as cloud tags.
    pub tags: &'a CloudTags,
}

/// A rendered composite resource, not yet a shell or armed.
#[derive(Debug)]
pub struct Xr<'a> {
    xrd: &'a Xrd,
    project: ProjectId,
    composition: CompositionName,
    injection: Option<InjectionStrategy>,
    manifest: Manifest,
    /// Whether the XRD rejects a shell without a value at the injection site.
    shell_needs_site: bool,
    skipped: Vec<SkippedTag>,
}

/// The value of [`ARMED_ANNOTATION`](crate::ARMED_ANNOTATION).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Armed {
    /// The token with this id was injected.
    Token(BootstrapTokenId),
    /// No token: the resource is standalone.
    Standalone,
}

impl Armed {
    /// The value for a resource; `None` for a node without a token.
    ///
    /// ```
    /// use broker_domain::MeshRole;
    /// use broker_render::Armed;
    ///
    /// assert_eq!(Armed::of(MeshRole::Standalone, None), Some(Armed::Standalone));
    /// assert_eq!(Armed::of(MeshRole::Node, None), None);
    /// ```
    pub fn of(role: MeshRole, token: Option<BootstrapTokenId>) -> Option<Self> {
        match role {
            MeshRole::Standalone => Some(Self::Standalone),
            MeshRole::Node => token.map(Self::Token),
        }
    }
}

impl fmt::Display for Armed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Token(id) => fmt::Display::fmt(id, f),
            Self::Standalone => f.write_str("standalone"),
        }
    }
}

/// The annotation of a live composite resource: `None` for a shell, otherwise the text of an [`Armed`].
pub fn armed(live: &Value) -> Option<&str> {
    live.get("metadata")?.get("annotations")?.get(ARMED_ANNOTATION)?.as_str()
}

/// Renders a composite resource and checks every field of it against the XRD.
///
/// # Errors
///
/// [`Error::InvalidInput`] by field for everything that the API server would reject or drop: an undeclared
/// path, a wrong type, a missing required field, a broken rule. Undeclared tags become skip records instead.
pub fn xr<'a>(input: &XrInput<'a>) -> Result<Xr<'a>, Error> {
    let XrInput { xrd, composition, injection_strategy, mesh_role, identity, parameters, tags } =
        input;
    let injection = match mesh_role {
        MeshRole::Node => Some(*injection_strategy),
        MeshRole::Standalone => None,
    };
    let (tags, undeclared) = declared_tags(xrd, tags);
    let skipped = [input.tags.skipped.as_slice(), &undeclared].concat();
    let mut spec = Map::new();
    let parameters = parameter_values(parameters)?;
    if !parameters.is_empty() || xrd.spec().requires("parameters") {
        spec.insert("parameters".to_owned(), Value::Object(parameters));
    }
    if !tags.is_empty() {
        spec.insert("cloudTags".to_owned(), Value::Object(tags));
    }
    let shell_needs_site = check(xrd, injection, &spec)?;
    for (name, value) in &mut spec {
        if let FieldDeclaration::Schema(schema) = xrd.spec().field(name) {
            schema.fill_atomic_defaults(value);
        }
    }
    let placement =
        if xrd.scope().is_namespaced() { Placement::ProjectNamespace } else { Placement::Cluster };
    let manifest = Manifest::new(&xrd.api_version(), xrd.kind(), identity, placement, spec)?;
    let composition = composition.clone();
    let project = identity.project;
    Ok(Xr { xrd, project, composition, injection, manifest, shell_needs_site, skipped })
}

impl<'a> Xr<'a> {
    /// The XRD that it was rendered for.
    pub const fn xrd(&self) -> &'a Xrd {
        self.xrd
    }

    pub(crate) const fn project(&self) -> ProjectId {
        self.project
    }

    /// The injection site; `None` for a standalone resource.
    pub const fn injection(&self) -> Option<InjectionStrategy> {
        self.injection
    }

    /// Every label that is not sent as a tag, with its reason: first those that the provider rejects, then those
    /// that the XRD does not declare.
    pub fn skipped_tags(&self) -> &[SkippedTag] {
        &self.skipped
    }

    /// A shell: paused, so that Crossplane composes nothing, and stamped with the lease epoch. It carries no
    /// token, and an injection site only if the XRD requires the field.
    pub fn shell(&self, epoch: u64) -> Manifest {
        let mut shell = self.pin(self.manifest.clone());
        if let (true, Some(strategy), Some(spec)) =
            (self.shell_needs_site, self.injection, shell.spec_mut())
        {
            injection::insert_empty(strategy, self.xrd, spec);
        }
        shell.with_annotations([
            (PAUSED_ANNOTATION, "true".to_owned()),
            (EPOCH_ANNOTATION, epoch.to_string()),
        ])
    }

    /// The armed resource without its injection: the reference for comparison, and the form that arms a
    /// standalone resource.
    pub fn armed(&self, armed: &Armed) -> Manifest {
        self.pin(self.unpinned(armed))
    }

    /// The armed resource without its injection, for a re-apply. Keeps the Composition that the live object
    /// names; changing it would make Crossplane delete the composed objects.
    pub fn reapply(&self, live: &Value, armed: &Armed) -> Manifest {
        match composition_ref(live, self.xrd.scope()) {
            Some(name) => self.pinned(self.unpinned(armed), name),
            None => self.unpinned(armed),
        }
    }

    /// The armed resource without `compositionRef`, which belongs to Crossplane's fields.
    pub(crate) fn unpinned(&self, armed: &Armed) -> Manifest {
        let manifest = self.manifest.clone();
        let manifest = manifest.with_annotations([(ARMED_ANNOTATION, armed.to_string())]);
        let digest = manifest.digest().to_string();
        manifest.with_annotations([
            (ARMED_ANNOTATION, armed.to_string()),
            (APPLIED_DIGEST_ANNOTATION, digest),
        ])
    }

    pub(crate) fn pin(&self, manifest: Manifest) -> Manifest {
        self.pinned(manifest, self.composition.as_str())
    }

    fn pinned(&self, mut manifest: Manifest, name: &str) -> Manifest {
        if let Some(spec) = manifest.spec_mut() {
            composition_ref::pin(spec, self.xrd.scope(), name);
        }
        manifest
    }
}

/// Converts the first problem to an error that also mentions the others.
pub(crate) fn first_problem(problems: &[FieldProblem]) -> Option<Error> {
    const NAMED: usize = 5;
    let (first, others) = problems.split_first()?;
    let mut problem = first.problem.clone();
    for other in others.iter().take(NAMED) {
        problem = format!("{problem}; {other}");
    }
    if others.len() > NAMED {
        problem = format!("{problem}; and {} more", others.len() - NAMED);
    }
    Some(Error::invalid(first.path.as_str(), problem))
}

fn parameter_values(parameters: &Parameters) -> Result<Map<String, Value>, Error> {
    let values = document::read_json("parameters", parameters.as_json().as_bytes())?;
    let Value::Object(values) = values else {
        return Err(Error::invalid("parameters", "is not an object"));
    };
    // Admission rejects these names; a corrupt row must not forge an injection.
    match RESERVED_PARAMETERS.into_iter().find(|name| values.contains_key(*name)) {
        Some(name) => {
            Err(Error::invalid(format!("parameters.{name}"), "is reserved for the broker"))
        }
        None => Ok(values),
    }
}

fn declared_tags(xrd: &Xrd, tags: &CloudTags) -> (Map<String, Value>, Vec<SkippedTag>) {
    let declaration = xrd.spec().field("cloudTags");
    let declared = |key: &str| match &declaration {
        FieldDeclaration::Schema(schema) => {
            !matches!(schema.field(key), FieldDeclaration::Undeclared)
        }
        FieldDeclaration::Unchecked => true,
        FieldDeclaration::ScalarOnly | FieldDeclaration::Undeclared => false,
    };
    let (sent, undeclared): (Vec<_>, Vec<_>) = tags.tags.iter().partition(|(key, _)| declared(key));
    let sent = sent.into_iter().map(|(key, value)| (key.clone(), json!(value))).collect();
    let skip = |(key, _): (&String, _)| SkippedTag::new(key.as_str(), TagSkip::Undeclared);
    (sent, undeclared.into_iter().map(skip).collect())
}

/// Checks the common part of shell and armed resource. Returns whether a shell needs the injection site.
fn check(
    xrd: &Xrd,
    injection: Option<InjectionStrategy>,
    spec: &Map<String, Value>,
) -> Result<bool, Error> {
    let without_site = xrd.check(&Value::Object(spec.clone()));
    let Some(strategy) = injection else {
        return first_problem(&without_site).map_or(Ok(false), Err);
    };
    let mut with_site = spec.clone();
    injection::insert_empty(strategy, xrd, &mut with_site);
    let with_site = xrd.check(&Value::Object(with_site));
    let needs_site = without_site.iter().any(|problem| is_missing_site(strategy, problem));
    let problems: Vec<_> = if needs_site {
        with_site
    } else {
        // Require the site to be declared; arming checks its content.
        let structural = with_site.into_iter().filter(|problem| {
            matches!(problem.kind, ProblemKind::Undeclared | ProblemKind::Type)
                && !without_site.contains(problem)
        });
        without_site.iter().cloned().chain(structural).collect()
    };
    first_problem(&problems).map_or(Ok(needs_site), Err)
}

/// Whether the missing field is one that the injection supplies.
pub(crate) fn is_missing_site(strategy: InjectionStrategy, problem: &FieldProblem) -> bool {
    let supplies = |field: FieldPath| {
        let path = format!("spec.{}", field.join("."));
        let rest = path.strip_prefix(problem.path.as_str());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let fields = strategy.field_paths().iter().chain(strategy.optional_field_paths());
    problem.kind == ProblemKind::Missing && fields.copied().any(supplies)
}
