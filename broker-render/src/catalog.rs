//! Publish stage: reads and checks the three files of a blueprint before callers can use it, and compares a catalog with
//! the published versions.
//!
//! Without this check, a mistake in a blueprint surfaces as an API server error long after a declaration was
//! accepted. [`check`] compares everything that the broker would send with the XRD's declarations. It reports
//! one line per problem.

mod composition;
mod config_references;
mod consistency;
mod definitions;
mod field_path;
mod import;
mod metadata;

use std::fmt;

use broker_domain::{Error, MeshRole};

pub use definitions::Definitions;
pub use import::{
    BlueprintReport, BlueprintResult, ImportReport, Published, Source, Unreadable, compare,
};

use crate::canonical::Digest;
use crate::composition_ref::CompositionName;
use crate::injection::InjectionStrategy;
use crate::parameters::ParameterSchema;
use crate::provider_config::ProviderConfigUse;
use crate::xrd::Xrd;

/// The three files of a blueprint, as bytes.
#[derive(Clone, Copy)]
pub struct Files<'a> {
    /// `metadata.json`.
    pub metadata: &'a [u8],
    /// `xrd.yaml`.
    pub xrd: &'a [u8],
    /// `composition.yaml`.
    pub composition: &'a [u8],
}

/// A blueprint whose three files are valid and consistent.
#[derive(Debug)]
#[non_exhaustive]
pub struct Blueprint {
    /// The name of the directory.
    pub slug: String,
    /// The name for people.
    pub display_name: String,
    /// The purpose.
    pub description: String,
    /// The XRD's version that the Composition composes.
    pub version: String,
    /// The providers that it supports.
    pub provider_kinds: Vec<String>,
    /// The injection site of the bootstrap token.
    pub injection_strategy: InjectionStrategy,
    /// Whether a Node enrols from the resource.
    pub mesh_role: MeshRole,
    /// The parameter schema.
    pub parameter_schema: ParameterSchema,
    /// The name of its Composition; its composite resources pin it.
    pub composition: CompositionName,
    composition_spec: Digest,
    /// The kinds that its Composition composes.
    pub composed_kinds: Vec<ComposedKind>,
    /// How its composed objects refer to their ProviderConfig.
    pub provider_config: ProviderConfigUse,
    /// The names of the platform's ProviderConfigs that its Composition names.
    pub platform_configs: Vec<String>,
    /// The definition of its composite resource.
    pub xrd: Xrd,
}

/// A kind of object that a Composition composes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ComposedKind {
    /// Group and version.
    pub api_version: String,
    /// The kind.
    pub kind: String,
}

impl fmt::Display for ComposedKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.kind, self.api_version)
    }
}

/// One finding about a blueprint. Its `Display` is one line.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Problem {
    /// The severity.
    pub severity: Severity,
    /// The blueprint.
    pub slug: String,
    /// The file.
    pub file: File,
    /// The path in the file, and the problem.
    pub message: String,
}

impl Problem {
    /// A problem of one file.
    pub const fn new(severity: Severity, slug: String, file: File, message: String) -> Self {
        Self { severity, slug, file, message }
    }
}

/// The severity of a [`Problem`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// The blueprint cannot be published.
    Error,
    /// The blueprint works, but its author should know.
    Warning,
}

/// The files of a blueprint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum File {
    /// `metadata.json`.
    Metadata,
    /// `xrd.yaml`.
    Xrd,
    /// `composition.yaml`.
    Composition,
}

impl Severity {
    /// The first word of the line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
        }
    }
}

impl File {
    /// Every file, in the order of [`Files`].
    pub const ALL: [Self; 3] = [Self::Metadata, Self::Xrd, Self::Composition];

    /// The file's name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Metadata => "metadata.json",
            Self::Xrd => "xrd.yaml",
            Self::Composition => "composition.yaml",
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (severity, file) = (self.severity.as_str(), self.file.as_str());
        write!(f, "{severity}: {}/{file}: {}", self.slug, self.message)
    }
}

/// Reads and checks the files of the blueprint in directory `slug`.
///
/// Returns the blueprint if there is no error, and every problem: those of each file and, if all three are
/// readable, those between them.
pub fn check(slug: &str, files: Files<'_>) -> (Option<Blueprint>, Vec<Problem>) {
    let mut report = Report { slug, problems: Vec::new() };
    let metadata = report.value_of(File::Metadata, metadata::Metadata::parse(slug, files.metadata));
    let composition = composition::Composition::parse(files.composition);
    let composed = composition.as_ref().ok().map(|composition| composition.api_version.as_str());
    let xrd = report.value_of(File::Xrd, Xrd::parse_for(files.xrd, composed));
    let composition = report.value_of(File::Composition, composition);
    let (Some(metadata), Some(xrd), Some(composition)) = (metadata, xrd, composition) else {
        return (None, report.problems);
    };
    consistency::check(&metadata, &xrd, &composition, &mut report);
    let declared = metadata.provider_config.as_ref();
    let provider_config =
        composition.config_references.resolve(declared).unwrap_or_else(|problems| {
            for problem in problems {
                report.error(File::Composition, format!("spec.pipeline: {problem}"));
            }
            None
        });
    if report.problems.iter().any(|problem| problem.severity == Severity::Error) {
        return (None, report.problems);
    }
    let composed_kinds = metadata.composed_kinds.unwrap_or(composition.composed_kinds);
    let blueprint = Blueprint {
        slug: slug.to_owned(),
        display_name: metadata.display_name,
        description: metadata.description,
        version: metadata.version,
        provider_kinds: metadata.provider_kinds,
        injection_strategy: metadata.injection_strategy,
        mesh_role: metadata.mesh_role,
        parameter_schema: metadata.parameter_schema,
        composition: composition.name,
        composition_spec: composition.spec,
        composed_kinds,
        provider_config: provider_config.unwrap_or_default(),
        platform_configs: composition.config_references.platform().map(str::to_owned).collect(),
        xrd,
    };
    (Some(blueprint), report.problems)
}

/// Reads the blueprint in directory `slug`, without warnings.
///
/// # Errors
///
/// [`Error::InvalidInput`] with the first error of [`check`].
pub fn read(slug: &str, files: Files<'_>) -> Result<Blueprint, Error> {
    let (blueprint, problems) = check(slug, files);
    blueprint.ok_or_else(|| {
        let mut errors = problems.iter().filter(|problem| problem.severity == Severity::Error);
        let (file, message) = errors
            .next()
            .map_or((File::Metadata, String::new()), |first| (first.file, first.message.clone()));
        Error::invalid(format!("{slug}/{}", file.as_str()), message)
    })
}

/// The name of the Composition in a document. Ignores the rest: publication checked it.
///
/// # Errors
///
/// [`Error::InvalidInput`] when the document is not a Composition or its name is invalid.
pub fn composition_name(document: &[u8]) -> Result<CompositionName, Error> {
    composition::name(document)
}

/// The XRD of a blueprint, at the served version that its Composition names in `compositeTypeRef`; otherwise as
/// [`Xrd::parse`]. Ignores the rest of the Composition.
///
/// # Errors
///
/// [`Error::InvalidInput`] when a document cannot be read.
pub fn xrd_of(xrd: &[u8], composition: &[u8]) -> Result<Xrd, Error> {
    Xrd::parse_for(xrd, composition::composed_version(composition)?.as_deref())
}

struct Report<'a> {
    slug: &'a str,
    problems: Vec<Problem>,
}

impl Report<'_> {
    fn add(&mut self, severity: Severity, file: File, message: String) {
        self.problems.push(Problem { severity, slug: self.slug.to_owned(), file, message });
    }

    fn error(&mut self, file: File, message: impl Into<String>) {
        self.add(Severity::Error, file, message.into());
    }

    fn warning(&mut self, file: File, message: impl Into<String>) {
        self.add(Severity::Warning, file, message.into());
    }

    /// Returns the value, or records its error as a problem of the file.
    fn value_of<T>(&mut self, file: File, read: Result<T, Error>) -> Option<T> {
        match read {
            Ok(value) => Some(value),
            Err(error) => {
                let message = error.to_string();
                // The line already names the file.
                let root = ["xrd", "metadata", "composition"]
                    .into_iter()
                    .find_map(|root| message.strip_prefix(root)?.strip_prefix(['.', ':']));
                self.error(file, root.map_or(message.as_str(), str::trim_start));
                None
            }
        }
    }
}
