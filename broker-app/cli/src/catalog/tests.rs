//! Catalogs on disk: what is read, what is refused, and in which words.

use broker_memory::Behaviour;
use tempfile::TempDir;

use super::*;
use crate::failure::Exit;
use crate::testing::{Said, World, XRD};

const METADATA: &str = r#"{
    "slug": "bucket", "displayName": "Bucket", "description": "Keeps files.", "version": "v1",
    "providerKinds": ["hetzner"], "injectionStrategy": "cloud-init-user-data", "meshRole": "standalone",
    "parameterSchema": {"parameters": [{"name": "size", "type": "string"}]}
}"#;

const COMPOSITION: &str = "
apiVersion: apiextensions.crossplane.io/v1
kind: Composition
metadata: {name: bucket}
spec:
  mode: Pipeline
  compositeTypeRef: {apiVersion: example.org/v1, kind: Bucket}
  pipeline:
  - step: compose
    functionRef: {name: function-patch-and-transform}
    input:
      apiVersion: pt.fn.crossplane.io/v1beta1
      kind: Resources
      resources:
      - name: bucket
        base: {apiVersion: nop.crossplane.io/v1alpha1, kind: NopResource}
        patches: [{fromFieldPath: 'spec.parameters[\"size\"]', toFieldPath: spec.forProvider.fields.size}]
";

/// A directory with files in it.
fn directory(files: &[(&str, &str)]) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = directory.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    directory
}

fn sound() -> Vec<(&'static str, &'static str)> {
    vec![
        ("bucket/metadata.json", METADATA),
        ("bucket/xrd.yaml", XRD),
        ("bucket/composition.yaml", COMPOSITION),
        ("README.md", "not a blueprint"),
        (".git/config", "not a blueprint"),
    ]
}

fn on(directory: &Path, command: &[&str]) -> Said {
    let world = World::new(Behaviour::ready_after(1));
    world.broker(&[command, &[directory.to_str().unwrap()]].concat())
}

#[test]
fn a_sound_catalog_is_checked_imported_and_has_roles() {
    let catalog = directory(&sound());
    let said = on(catalog.path(), &["catalog", "check"]);
    assert_eq!(
        (said.exit, said.out.as_str()),
        (Exit::Done, "1 blueprint can be published\n"),
        "{said:?}"
    );
    let said = on(catalog.path(), &["catalog", "check", "--output=json"]);
    assert_eq!(
        said.json(),
        json!({
            "blueprints": [
                {"slug": "bucket", "version": "v1", "mesh_role": "standalone", "kind": "Bucket"},
            ],
            "problems": [],
        })
    );
    let said = on(catalog.path(), &["catalog", "import", "--output=json"]);
    assert_eq!(
        said.json(),
        json!({"blueprints": [{
            "slug": "bucket",
            "version": "v1",
            "blueprint_version_id": "00000000-0000-0000-0000-000000000001",
            "published": true,
        }]})
    );
    let said = on(catalog.path(), &["rbac", "--catalog"]);
    assert_eq!((said.exit, said.out.as_str()), (Exit::Done, "- bucket\n"));
}

#[test]
fn every_problem_is_a_line_and_errors_are_a_failure() {
    let mut files = sound();
    files[0].1 = r#"{"slug": "bucket"}"#;
    files.push(("vm/xrd.yaml", "kind: ["));
    let catalog = directory(&files);
    let said = on(catalog.path(), &["catalog", "check"]);
    assert_eq!(said.exit, Exit::Error);
    let lines: Vec<_> = said.out.lines().collect();
    assert_eq!(
        lines[1..],
        [
            "error: vm/metadata.json: is missing",
            "error: vm/composition.yaml: is missing",
            "no blueprint can be published: there are 3 errors",
        ]
    );
    assert!(lines[0].starts_with("error: bucket/metadata.json: "), "{}", lines[0]);
    let path = catalog.path().display();
    assert_eq!(
        said.err,
        format!(
            "error[catalog_invalid]: {path} cannot be published: 3 of its problems are errors\n"
        )
    );
    for command in [&["catalog", "import"][..], &["rbac", "--catalog"]] {
        let said = on(catalog.path(), command);
        assert_eq!((said.exit, said.out.as_str()), (Exit::Error, ""));
        assert!(said.err.starts_with("error: bucket/metadata.json: "), "{}", said.err);
    }
}

#[test]
fn what_is_no_catalog_is_named() {
    let empty = directory(&[("README.md", "nothing here")]);
    let path = empty.path().display();
    let said = on(empty.path(), &["catalog", "check"]);
    assert_eq!((said.exit, said.out.as_str()), (Exit::Error, "there is no blueprint to publish\n"));
    let told = format!("error[catalog_invalid]: {path} holds no blueprint; ");
    assert!(said.err.starts_with(&told), "{}", said.err);
    let said = on(&empty.path().join("missing"), &["catalog", "check"]);
    let told = format!("error[file_unreadable]: cannot read {path}/missing: ");
    assert!(said.err.starts_with(&told), "{}", said.err);
}

#[test]
fn a_file_that_is_too_large_is_refused_and_not_read_whole() {
    let mut files = sound();
    let large = format!("# {}", "x".repeat(2 * MAX_DOCUMENT_BYTES));
    files[1].1 = &large;
    let catalog = directory(&files);
    let said = on(catalog.path(), &["catalog", "check"]);
    let line = said.out.lines().next().unwrap();
    assert_eq!(line, "error: bucket/xrd.yaml: is 1048577 bytes; at most 1048576 are read");
}

#[test]
fn the_sample_catalog_can_be_published_without_a_warning() {
    let samples = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/catalog"));
    let said = on(samples, &["catalog", "check"]);
    assert_eq!(
        (said.exit, said.out.as_str()),
        (Exit::Done, "9 blueprints can be published\n"),
        "{said:?}"
    );
}
