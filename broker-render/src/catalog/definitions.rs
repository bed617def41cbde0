//! Checks the blueprints of a catalog against each other. A cluster has one definition per kind and one
//! Composition per name, so blueprints that share either must agree.

use std::collections::{BTreeMap, BTreeSet};

use broker_domain::{Error, PLAIN_DATA};

use super::composition::Composition;
use super::{Blueprint, ComposedKind, File, Problem, Severity};
use crate::canonical::Digest;
use crate::composition_ref::CompositionName;
use crate::text::quoted;
use crate::xrd::{Xrd, XrdScope};

/// The kinds and Compositions of the blueprints added so far.
///
/// The comparison of schemas ignores descriptions.
#[derive(Debug, Default)]
pub struct Definitions {
    /// By group and kind.
    kinds: BTreeMap<(String, String), Kind>,
    /// With the slug of the defining blueprint.
    compositions: BTreeMap<CompositionName, (String, Digest)>,
    /// The kinds that composite resources compose, by the group and kind of the composite.
    composed: BTreeMap<(String, String), BTreeSet<ComposedKind>>,
    /// The kinds that each blueprint lists; without blueprints published earlier.
    listed: BTreeMap<String, Vec<ComposedKind>>,
}

#[derive(Debug)]
struct Kind {
    slug: String,
    plural: String,
    scope: XrdScope,
    /// The schema digest of each version, with the slug of the defining blueprint.
    versions: BTreeMap<String, (String, Digest)>,
}

impl Definitions {
    /// Adds a blueprint. Reports every definition that contradicts an earlier one.
    pub fn add(&mut self, blueprint: &Blueprint) -> Vec<Problem> {
        let Blueprint { slug, xrd, composition, composition_spec, composed_kinds, .. } = blueprint;
        self.add_composed(xrd, composed_kinds);
        self.listed.insert(slug.clone(), composed_kinds.clone());
        self.add_parts(slug, xrd, composition, *composition_spec)
    }

    /// Reports every kind that a blueprint composes only through another composite resource and does not
    /// list. Call it after all blueprints were added.
    ///
    /// The broker finds such objects by the label of the outermost composite resource, but only among listed
    /// kinds. An object of an unlisted kind could outlive Deleted. Secrets and ConfigMaps need no entry: the
    /// broker never reads them.
    pub fn unlisted(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        for (slug, listed) in &self.listed {
            let is_listed =
                |kind: &ComposedKind| listed.iter().any(|entry| key(entry) == key(kind));
            let is_plain =
                |kind: &ComposedKind| PLAIN_DATA.contains(&(&kind.api_version, &kind.kind));
            for inner in listed {
                let composed = self.composed.get(&key(inner)).into_iter().flatten();
                for missing in composed.filter(|kind| !is_listed(kind) && !is_plain(kind)) {
                    let message = format!(
                        "composedKinds: lists {inner}, which composes {missing}; list that kind, too"
                    );
                    let (severity, file) = (Severity::Error, File::Metadata);
                    problems.push(Problem { severity, slug: slug.clone(), file, message });
                }
            }
        }
        problems
    }

    /// Adds a blueprint published earlier, from its stored files.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidInput`] when a file cannot be read; nothing is added then.
    pub fn add_published(
        &mut self,
        slug: &str,
        xrd: &[u8],
        composition: &[u8],
    ) -> Result<(), Error> {
        let (xrd, composition) = (Xrd::parse(xrd)?, Composition::parse(composition)?);
        self.add_composed(&xrd, &composition.composed_kinds);
        self.add_parts(slug, &xrd, &composition.name, composition.spec);
        Ok(())
    }

    fn add_composed(&mut self, xrd: &Xrd, composed: &[ComposedKind]) {
        let kind = (xrd.group().to_owned(), xrd.kind().to_owned());
        self.composed.entry(kind).or_default().extend(composed.iter().cloned());
    }

    fn add_parts(
        &mut self,
        slug: &str,
        xrd: &Xrd,
        composition: &CompositionName,
        spec: Digest,
    ) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut error = |file, message| {
            let severity = Severity::Error;
            problems.push(Problem { severity, slug: slug.to_owned(), file, message });
        };
        let (group, name) = (xrd.group().to_owned(), xrd.kind().to_owned());
        let kind = self.kinds.entry((group, name)).or_insert_with(|| Kind {
            slug: slug.to_owned(),
            plural: xrd.plural().to_owned(),
            scope: xrd.scope(),
            versions: BTreeMap::new(),
        });
        let kind_name = format!("{} of {}", xrd.kind(), xrd.group());
        if (kind.plural.as_str(), kind.scope) != (xrd.plural(), xrd.scope()) {
            let other = quoted(&kind.slug);
            let message =
                format!("spec: blueprint {other} gives {kind_name} another plural or scope");
            error(File::Xrd, message);
        }
        for (version, schema) in xrd.schemas() {
            let known = kind.versions.entry(version.clone());
            let (other, known) = known.or_insert_with(|| (slug.to_owned(), *schema));
            if known != schema {
                let other = quoted(other);
                let message = format!(
                    "spec.versions: blueprint {other} has another schema for {version} of {kind_name}; \
                     use the same, or a new version name"
                );
                error(File::Xrd, message);
            }
        }
        let known = self.compositions.entry(composition.clone());
        let (other, known) = known.or_insert_with(|| (slug.to_owned(), spec));
        // Versions of one blueprint succeed each other under one name.
        if *known != spec && other != slug {
            let other = quoted(other);
            let message = format!(
                "metadata.name: blueprint {other} has another Composition of this name; \
                 use a name of its own"
            );
            error(File::Composition, message);
        }
        problems
    }
}

/// Group and kind, because the versions of a kind share their objects.
fn key(kind: &ComposedKind) -> (String, String) {
    let group = kind.api_version.rsplit_once('/').map_or("", |(group, _)| group);
    (group.to_owned(), kind.kind.clone())
}
