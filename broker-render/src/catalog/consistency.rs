//! Checks that the three files of a blueprint agree with each other and with the broker's requests.

use broker_domain::MeshRole;
use serde_json::{Map, Value, json};

use super::composition::Composition;
use super::metadata::Metadata;
use super::{File, Report};
use crate::injection::{self, FieldPath, InjectionStrategy};
use crate::parameters::Parameter;
use crate::text::{join, list, quoted};
use crate::xr::is_missing_site;
use crate::xrd::{FieldDeclaration, FieldProblem, Lookup, ProblemKind, ValueType, Xrd};

pub(super) fn check(
    metadata: &Metadata,
    xrd: &Xrd,
    composition: &Composition,
    report: &mut Report<'_>,
) {
    check_versions(metadata, xrd, composition, report);
    check_composition(metadata, composition, report);
    let strategy = metadata.injection_strategy;
    let injected = match metadata.mesh_role {
        MeshRole::Node => {
            let is_declared =
                |path: &&FieldPath| !matches!(xrd.spec().lookup(path), Lookup::Undeclared);
            let optional = strategy.optional_field_paths().iter().filter(is_declared);
            strategy.field_paths().iter().chain(optional).copied().collect()
        }
        MeshRole::Standalone => Vec::new(),
    };
    check_injection(metadata, xrd, composition, report, &injected);
    if metadata.mesh_role == MeshRole::Node {
        check_site(strategy, xrd, report);
    }
    check_parameters(metadata, xrd, report, &injected);
    check_patches(metadata, composition, report);
    check_tags(xrd, report);
}

fn check_versions(
    metadata: &Metadata,
    xrd: &Xrd,
    composition: &Composition,
    report: &mut Report<'_>,
) {
    if metadata.version != xrd.version() {
        let (found, served) = (quoted(&metadata.version), xrd.version());
        report.error(File::Metadata, format!("version: is {found}; the XRD serves {served}"));
    }
    if composition.api_version != xrd.api_version() || composition.kind != xrd.kind() {
        let found = format!("{} {}", composition.api_version, composition.kind);
        let expected = format!("{} {}", xrd.api_version(), xrd.kind());
        let message = format!("spec.compositeTypeRef: is {}; use {expected}", quoted(&found));
        report.error(File::Composition, message);
    }
    if let Some(referenceable) = xrd.other_referenceable() {
        let version = xrd.version();
        let message = format!(
            "spec.compositeTypeRef: names {version}, and the XRD marks {referenceable} as referenceable; \
             Crossplane expects that one"
        );
        report.warning(File::Composition, message);
    }
    let name = composition.name.as_str();
    if name != report.slug {
        let message = format!("metadata.name: is {}; by convention it is the slug", quoted(name));
        report.warning(File::Composition, message);
    }
    if let Some(enforced) = xrd.enforced_composition().filter(|enforced| *enforced != name) {
        let message = format!(
            "spec.enforcedCompositionRef.name: is {}; the blueprint's Composition is {name}",
            quoted(enforced)
        );
        report.error(File::Xrd, message);
    }
}

fn check_composition(metadata: &Metadata, composition: &Composition, report: &mut Report<'_>) {
    if metadata.composed_kinds.is_some() {
        return;
    }
    for step in &composition.opaque_steps {
        let message = format!(
            "spec.pipeline: the kinds that step {} composes cannot be read; list them in composedKinds",
            quoted(step)
        );
        report.warning(File::Composition, message);
    }
}

/// Checks that the XRD accepts the token and that a patch reads it.
fn check_injection(
    metadata: &Metadata,
    xrd: &Xrd,
    composition: &Composition,
    report: &mut Report<'_>,
    injected: &[FieldPath],
) {
    for field in injected {
        let path = format!("spec.{}", field.join("."));
        match xrd.spec().lookup(field) {
            Lookup::Schema(schema) if schema.accepts(ValueType::String) => {}
            Lookup::Unchecked => {}
            Lookup::Schema(_) => {
                report
                    .error(File::Xrd, format!("{path}: is not a string; the bootstrap needs one"));
            }
            Lookup::Undeclared => {
                let strategy = metadata.injection_strategy;
                let message = format!("{path}: is not declared; {strategy} needs it");
                report.error(File::Xrd, message);
            }
        }
    }
    let Some(token) = injected.first() else { return };
    let path = format!("spec.{}", token.join("."));
    if !composition.reads(&[&["spec"], *token].concat()) {
        let message = format!("spec.pipeline: no patch reads {path}; the token would not be used");
        report.warning(File::Composition, message);
    }
}

/// Checks the injection site of a shell and of a bootstrap against the XRD.
fn check_site(strategy: InjectionStrategy, xrd: &Xrd, report: &mut Report<'_>) {
    let site = match strategy.field_paths() {
        [[field], ..] => format!("spec.{field}"),
        [[site @ .., _], ..] => format!("spec.{}", site.join(".")),
        [[], ..] | [] => return,
    };
    let site_problems = |spec: &Map<String, Value>| {
        let mut problems = xrd.check(&Value::Object(spec.clone()));
        problems.retain(|problem| {
            let below = problem.path.strip_prefix(&site);
            below.is_some_and(|below| below.is_empty() || below.starts_with('.'))
        });
        problems
    };
    let mut spec = Map::from_iter([("parameters".to_owned(), json!({}))]);
    if site_problems(&spec).iter().any(|problem| is_missing_site(strategy, problem)) {
        let mut shell = spec.clone();
        injection::insert_empty(strategy, xrd, &mut shell);
        for FieldProblem { path, kind, problem } in site_problems(&shell) {
            if kind == ProblemKind::Value {
                let message = format!("{path}: is empty in a shell: {problem}");
                report.error(File::Xrd, message);
            }
        }
    }
    if injection::insert_sample(strategy, xrd, &mut spec).is_err() {
        return;
    }
    for FieldProblem { path, kind, problem } in site_problems(&spec) {
        let message = format!("{path}: with a bootstrap: {problem}");
        match kind {
            ProblemKind::Undeclared | ProblemKind::Type => {}
            // Only a cloud-config document resembles its sample; a real token may satisfy the rule.
            ProblemKind::Value if strategy != InjectionStrategy::CloudInitUserData => {
                report.warning(File::Xrd, message);
            }
            ProblemKind::Value | ProblemKind::Missing => report.error(File::Xrd, message),
        }
    }
}

fn check_parameters(
    metadata: &Metadata,
    xrd: &Xrd,
    report: &mut Report<'_>,
    injected: &[FieldPath],
) {
    let parameters = metadata.parameter_schema.parameters();
    for (name, parameter) in &parameters {
        check_parameter(name, parameter, xrd, report);
    }
    let is_injected = |path: &[&str]| injected.iter().any(|field| field.starts_with(path));
    for required in xrd.spec().required_fields() {
        if required != "parameters" && !is_injected(&[required]) {
            let path = join("spec", required);
            let message = format!("{path}: is required, and the broker never sends it");
            report.error(File::Xrd, message);
        }
    }
    let Lookup::Schema(schema) = xrd.spec().lookup(&["parameters"]) else { return };
    for required in schema.required_fields() {
        let path = join("spec.parameters", required);
        let present = parameters.get(required).map(|parameter| parameter.always_present);
        match present {
            Some(true) => {}
            Some(false) => {
                let message = format!("{path}: is required, but parameter {required} is optional");
                report.error(File::Xrd, message);
            }
            None if is_injected(&["parameters", required]) => {}
            None => {
                let message = format!("{path}: is required, and no parameter of that name exists");
                report.error(File::Xrd, message);
            }
        }
    }
}

fn check_patches(metadata: &Metadata, composition: &Composition, report: &mut Report<'_>) {
    for path in &composition.bad_paths {
        let message = format!("spec.pipeline: {} is not a field path", quoted(path));
        report.error(File::Composition, message);
    }
    for name in metadata.parameter_schema.parameters().keys() {
        if !composition.reads(&["spec", "parameters", name]) {
            let path = join("spec.parameters", name);
            let message =
                format!("spec.pipeline: no patch reads {path}; the parameter does nothing");
            report.warning(File::Composition, message);
        }
    }
}

fn check_parameter(name: &str, parameter: &Parameter<'_>, xrd: &Xrd, report: &mut Report<'_>) {
    let path = join("spec.parameters", name);
    let schema = match xrd.spec().lookup(&["parameters", name]) {
        Lookup::Schema(schema) => schema,
        Lookup::Unchecked => return,
        Lookup::Undeclared => {
            report.error(File::Xrd, format!("{path}: is not declared; the parameter needs it"));
            return;
        }
    };
    if parameter.secret {
        for field in [["secretRef", "name"], ["secretRef", "key"]] {
            match schema.lookup(&field) {
                Lookup::Schema(schema) if schema.accepts(ValueType::String) => {}
                Lookup::Unchecked => {}
                Lookup::Schema(_) | Lookup::Undeclared => {
                    let path = format!("{path}.{}", field.join("."));
                    let message =
                        format!("{path}: is not declared as a string; the secret needs it");
                    report.error(File::Xrd, message);
                }
            }
        }
        return;
    }
    let wrong: Vec<_> = types_of(parameter.schema)
        .into_iter()
        .filter(|name| ValueType::named(name).is_none_or(|value_type| !schema.accepts(value_type)))
        .collect();
    if !wrong.is_empty() {
        let declared = schema.value_type().map_or("anything", ValueType::as_str);
        let message = format!("{path}: is declared {declared}; the parameter is {}", list(wrong));
        report.error(File::Xrd, message);
    }
}

fn check_tags(xrd: &Xrd, report: &mut Report<'_>) {
    match xrd.spec().field("cloudTags") {
        FieldDeclaration::Unchecked => {}
        FieldDeclaration::Schema(schema) => match schema.field("plexsphere:any") {
            FieldDeclaration::Schema(value) if value.accepts(ValueType::String) => {}
            FieldDeclaration::Unchecked | FieldDeclaration::ScalarOnly => {}
            FieldDeclaration::Schema(_) => {
                report.error(File::Xrd, "spec.cloudTags: does not hold strings; tags are strings");
            }
            FieldDeclaration::Undeclared => {
                let message = "spec.cloudTags: declares no additionalProperties; tags are not sent";
                report.warning(File::Xrd, message);
            }
        },
        FieldDeclaration::ScalarOnly | FieldDeclaration::Undeclared => {
            report
                .warning(File::Xrd, "spec.cloudTags: is not declared; labels are not sent as tags");
        }
    }
}

/// The types that a parameter's schema allows, if it names any.
fn types_of(schema: &Value) -> Vec<&str> {
    match schema.get("type") {
        Some(Value::String(name)) => vec![name],
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}
