//! Checks that the three files of a blueprint agree with each other and with the broker's requests.

use broker_domain::MeshRole;
use serde_json::{Map, Value, json};

use super::composition::Composition;
use super::metadata::Metadata;
use super::{File, Report};
use crate::injection::{self, InjectionStrategy};
use crate::parameters::Parameter;
use crate::text::{join, list, quoted};
use crate::xr::is_missing_site;
use crate::xrd::{Declared, FieldProblem, ProblemKind, Schema, ValueType, Xrd};

pub(super) fn check(
    metadata: &Metadata,
    xrd: &Xrd,
    composition: &Composition,
    report: &mut Report<'_>,
) {
    check_versions(metadata, xrd, composition, report);
    check_composition(metadata, composition, report);
    let injected = match metadata.mesh_role {
        MeshRole::Node => metadata.injection_strategy.leaves(),
        MeshRole::Standalone => &[],
    };
    check_injection(metadata, xrd, composition, report, injected);
    if metadata.mesh_role == MeshRole::Node {
        check_site(metadata.injection_strategy, xrd, report);
    }
    check_parameters(metadata, xrd, report, injected);
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

/// The XRD must accept the token, and a patch must read it.
fn check_injection(
    metadata: &Metadata,
    xrd: &Xrd,
    composition: &Composition,
    report: &mut Report<'_>,
    injected: &[&[&str]],
) {
    for leaf in injected {
        let path = format!("spec.{}", leaf.join("."));
        match at(xrd.spec(), leaf) {
            Place::Schema(schema) if takes(schema, ValueType::String) => {}
            Place::Anything => {}
            Place::Schema(_) => {
                report.error(File::Xrd, format!("{path}: is no string; the bootstrap needs one"));
            }
            Place::Nothing => {
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
    let site = match strategy.leaves() {
        [[field], ..] => format!("spec.{field}"),
        [[site @ .., _], ..] => format!("spec.{}", site.join(".")),
        [[], ..] | [] => return,
    };
    let problems = |spec: &Map<String, Value>| {
        let mut problems = xrd.check(&Value::Object(spec.clone()));
        problems.retain(|problem| {
            let below = problem.path.strip_prefix(&site);
            below.is_some_and(|below| below.is_empty() || below.starts_with('.'))
        });
        problems
    };
    let mut spec = Map::from_iter([("parameters".to_owned(), json!({}))]);
    if problems(&spec).iter().any(|problem| is_missing_site(strategy, problem)) {
        let mut shell = spec.clone();
        injection::insert_empty(strategy, &mut shell);
        for FieldProblem { path, kind, problem } in problems(&shell) {
            if kind == ProblemKind::Value {
                let message = format!("{path}: is empty in a shell, and then {problem}");
                report.error(File::Xrd, message);
            }
        }
    }
    if injection::insert_sample(strategy, &mut spec).is_err() {
        return;
    }
    for FieldProblem { path, kind, problem } in problems(&spec) {
        let message = format!("{path}: with a bootstrap, {problem}");
        match kind {
            ProblemKind::Undeclared | ProblemKind::Type => {}
            // Every cloud-config document resembles this sample; a real token may differ from it.
            ProblemKind::Value if strategy != InjectionStrategy::CloudInitUserData => {
                report.warning(File::Xrd, message);
            }
            ProblemKind::Value | ProblemKind::Missing => report.error(File::Xrd, message),
        }
    }
}

fn check_parameters(metadata: &Metadata, xrd: &Xrd, report: &mut Report<'_>, injected: &[&[&str]]) {
    let parameters = metadata.parameter_schema.parameters();
    for (name, parameter) in &parameters {
        check_parameter(name, parameter, xrd, report);
    }
    let brought = |path: &[&str]| injected.iter().any(|leaf| leaf.starts_with(path));
    for required in xrd.spec().required_fields() {
        if required != "parameters" && !brought(&[required]) {
            let path = join("spec", required);
            let message = format!("{path}: is required, and the broker never sends it");
            report.error(File::Xrd, message);
        }
    }
    let Place::Schema(schema) = at(xrd.spec(), &["parameters"]) else { return };
    for required in schema.required_fields() {
        let path = join("spec.parameters", required);
        let present = parameters.get(required).map(|parameter| parameter.always_present);
        match present {
            Some(true) => {}
            Some(false) => {
                let message = format!("{path}: is required, but parameter {required} is optional");
                report.error(File::Xrd, message);
            }
            None if brought(&["parameters", required]) => {}
            None => {
                let message = format!("{path}: is required, and no parameter of that name exists");
                report.error(File::Xrd, message);
            }
        }
    }
}

fn check_patches(metadata: &Metadata, composition: &Composition, report: &mut Report<'_>) {
    for path in &composition.bad_paths {
        let message = format!("spec.pipeline: {} is no field path", quoted(path));
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
    let schema = match at(xrd.spec(), &["parameters", name]) {
        Place::Schema(schema) => schema,
        Place::Anything => return,
        Place::Nothing => {
            report.error(File::Xrd, format!("{path}: is not declared; the parameter needs it"));
            return;
        }
    };
    if parameter.secret {
        for leaf in [["secretRef", "name"], ["secretRef", "key"]] {
            match at(schema, &leaf) {
                Place::Schema(schema) if takes(schema, ValueType::String) => {}
                Place::Anything => {}
                Place::Schema(_) | Place::Nothing => {
                    let path = format!("{path}.{}", leaf.join("."));
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
        .filter(|name| ValueType::named(name).is_none_or(|value_type| !takes(schema, value_type)))
        .collect();
    if !wrong.is_empty() {
        let declared = schema.value_type().map_or("anything", ValueType::as_str);
        let message = format!("{path}: is declared {declared}; the parameter is {}", list(wrong));
        report.error(File::Xrd, message);
    }
}

fn check_tags(xrd: &Xrd, report: &mut Report<'_>) {
    match xrd.spec().field("cloudTags") {
        Declared::Freely => {}
        Declared::As(schema) => match schema.field("plexsphere:any") {
            Declared::As(value) if takes(value, ValueType::String) => {}
            Declared::Freely | Declared::AsScalar => {}
            Declared::As(_) => {
                report.error(File::Xrd, "spec.cloudTags: holds no strings; tags are strings");
            }
            Declared::Not => {
                let message = "spec.cloudTags: declares no additionalProperties; tags are left out";
                report.warning(File::Xrd, message);
            }
        },
        Declared::AsScalar | Declared::Not => {
            report.warning(File::Xrd, "spec.cloudTags: is not declared; labels become no tags");
        }
    }
}

enum Place<'a> {
    Schema(&'a Schema),
    Anything,
    Nothing,
}

fn at<'a>(schema: &'a Schema, path: &[&str]) -> Place<'a> {
    let Some((first, rest)) = path.split_first() else { return Place::Schema(schema) };
    match schema.field(first) {
        Declared::As(schema) => at(schema, rest),
        Declared::Freely => Place::Anything,
        Declared::AsScalar if rest.is_empty() => Place::Anything,
        Declared::AsScalar | Declared::Not => Place::Nothing,
    }
}

fn takes(schema: &Schema, value_type: ValueType) -> bool {
    match schema.value_type() {
        None => true,
        Some(ValueType::IntegerOrString) => {
            matches!(value_type, ValueType::Integer | ValueType::String)
        }
        Some(ValueType::Number) => matches!(value_type, ValueType::Integer | ValueType::Number),
        Some(declared) => declared == value_type,
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
