//! Tests of an import: the result of each blueprint, from the catalog and what is published.

use broker_domain::BlueprintVersionId;
use broker_render::catalog::{
    BlueprintReport, File, Files, ImportReport, Published, Source, compare,
};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::draft;

/// The files of a blueprint, as bytes.
struct Draft {
    slug: &'static str,
    version: &'static str,
    files: [String; 3],
}

/// Why, the catalog, what is published, and the expected results.
type Row = (&'static str, Vec<Draft>, Vec<Draft>, &'static [&'static str]);

/// Kind `Machine` in version `v1`, with changes by JSON pointer.
fn vm(slug: &'static str, changes: &Value) -> Draft {
    let mut all = json!({"/metadata/slug": slug, "/composition/metadata/name": slug});
    all.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    let document = draft(&all);
    let files = ["metadata", "xrd", "composition"].map(|file| document[file].to_string());
    Draft { slug, version: "v1", files }
}

fn plain(slug: &'static str) -> Draft {
    vm(slug, &json!({}))
}

/// Another schema for the version of the kind.
fn widened(slug: &'static str) -> Draft {
    vm(slug, &json!({"/schema/properties/parameters/properties/zone": {"type": "string"}}))
}

/// Composes a `Machine`, and lists no kind below it.
fn nesting(slug: &'static str) -> Draft {
    vm(
        slug,
        &json!({
            "/xrd/spec/names": {"kind": "Estate", "plural": "estates"},
            "/xrd/metadata/name": "estates.example.org",
            "/composition/spec/compositeTypeRef/kind": "Estate",
            "/metadata/composedKinds": [{"apiVersion": "example.org/v1", "kind": "Machine"}],
        }),
    )
}

impl Draft {
    fn files(&self) -> Files<'_> {
        let [metadata, xrd, composition] = self.files.each_ref().map(String::as_bytes);
        Files { metadata, xrd, composition }
    }

    fn published(&self, number: u128) -> Published<'_> {
        let id = BlueprintVersionId::new(Uuid::from_u128(number)).unwrap();
        Published { id, slug: self.slug, version: self.version, files: self.files() }
    }
}

fn import(catalog: &[Draft], published: &[Draft]) -> ImportReport {
    let sources: Vec<_> = catalog.iter().map(|it| Source::new(it.slug, it.files())).collect();
    let published: Vec<_> = (1..).zip(published).map(|(number, it)| it.published(number)).collect();
    compare(&sources, &published)
}

fn results(report: &ImportReport) -> Vec<&str> {
    report.blueprints.iter().map(|it| it.result.as_str()).collect()
}

#[test]
fn blueprint_of_a_catalog_gets_its_result() {
    let unfit = || vm("unfit", &json!({"/metadata/version": "v2"}));
    let spaced = || {
        let mut spaced = plain("vm");
        spaced.files.iter_mut().for_each(|text| text.push(' '));
        spaced
    };
    let rows: [Row; 12] = [
        ("nothing is published", vec![plain("vm")], vec![], &["imported"]),
        ("the same bytes", vec![plain("vm")], vec![plain("vm")], &["unchanged"]),
        (
            "a blueprint is added",
            vec![plain("db"), plain("vm")],
            vec![plain("vm")],
            &["imported", "unchanged"],
        ),
        ("other bytes of the same documents", vec![spaced()], vec![plain("vm")], &["drift"]),
        (
            "a blueprint has errors",
            vec![unfit(), plain("vm"), plain("db")],
            vec![plain("vm")],
            &["error", "unchanged", "withheld"],
        ),
        (
            "two contradict each other",
            vec![plain("db"), widened("vm")],
            vec![],
            &["withheld", "conflict"],
        ),
        ("one contradicts a published one", vec![widened("vm")], vec![plain("db")], &["conflict"]),
        (
            "the conflict is that of the new one, not of the unchanged one",
            vec![widened("db"), plain("vm")],
            vec![plain("vm")],
            &["conflict", "unchanged"],
        ),
        (
            "what drifted does not count, what is published does",
            vec![widened("vm"), plain("web")],
            vec![plain("vm")],
            &["drift", "withheld"],
        ),
        (
            "a name occurs twice",
            vec![plain("vm"), plain("vm")],
            vec![plain("vm")],
            &["unchanged", "conflict"],
        ),
        (
            "a kind below a new blueprint is not listed",
            vec![nesting("estate"), plain("vm")],
            vec![nesting("estate")],
            &["error", "withheld"],
        ),
        (
            "a published kind below is not listed",
            vec![nesting("estate")],
            vec![plain("vm")],
            &["error"],
        ),
    ];
    for (why, catalog, published, expected) in rows {
        let report = import(&catalog, &published);
        assert_eq!(results(&report), expected, "{why}: {report}");
        let is_refused = expected.iter().any(|word| ["drift", "conflict", "error"].contains(word));
        assert_eq!(report.is_refused(), is_refused, "{why}");
        for (BlueprintReport { slug, id, problems, .. }, word) in
            report.blueprints.iter().zip(expected)
        {
            let refused = ["drift", "conflict", "error"].contains(word);
            assert_eq!(refused, !problems.is_empty(), "{why}: {slug}: {problems:?}");
            assert!(id.is_some() || !["unchanged", "drift"].contains(word), "{why}: {slug}");
        }
    }
}

#[test]
fn drift_names_the_files_that_differ() {
    let mut drifted = plain("vm");
    drifted.files[1].push(' ');
    let report = import(&[drifted], &[plain("vm")]);
    assert_eq!(report.blueprints[0].changed_files, [File::Xrd]);
    let line = "error: vm/xrd.yaml: differs from the published v1; use a new version name";
    assert_eq!(report.to_string(), line);
}

#[test]
fn missing_file_is_an_error_of_its_blueprint() {
    let vm = plain("vm");
    let files = [None, Some(vm.files[1].as_bytes()), None];
    let report = compare(&[Source::with_missing("vm", files)], &[]);
    assert_eq!(results(&report), ["error"]);
    let lines = "error: vm/metadata.json: is missing\nerror: vm/composition.yaml: is missing";
    assert_eq!(report.to_string(), lines);
}

#[test]
fn unreadable_published_version_contradicts_nothing() {
    let mut unreadable = widened("db");
    unreadable.files[2] = "{}".to_owned();
    let report = import(&[plain("vm")], &[unreadable]);
    assert_eq!(results(&report), ["imported"]);
    let slugs: Vec<_> = report.unreadable.iter().map(|it| it.slug.as_str()).collect();
    assert_eq!(slugs, ["db"]);
}
