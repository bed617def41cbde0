//! Catalogs on disk: which ones are accepted, and the message for each problem.

use broker_memory::Behaviour;
use tempfile::TempDir;

use super::*;
use crate::failure::Exit;
use crate::testing::{CommandOutput, World, XRD};

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

fn directory(files: &[(&str, &str)]) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = directory.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    directory
}

fn valid_files() -> Vec<(&'static str, &'static str)> {
    vec![
        ("bucket/metadata.json", METADATA),
        ("bucket/xrd.yaml", XRD),
        ("bucket/composition.yaml", COMPOSITION),
        ("README.md", "not a blueprint"),
        (".git/config", "not a blueprint"),
    ]
}

fn run_on(directory: &Path, command: &[&str]) -> CommandOutput {
    let world = World::new(Behaviour::ready_after(1));
    world.run_command(&[command, &[directory.to_str().unwrap()]].concat())
}

#[test]
fn valid_catalog_is_checked_imported_and_has_roles() {
    let catalog = directory(&valid_files());
    let printed = run_on(catalog.path(), &["catalog", "check"]);
    assert_eq!(
        (printed.exit, printed.out.as_str()),
        (Exit::Success, "bucket: one ProviderConfig per resource\n1 blueprint can be published\n"),
        "{printed:?}"
    );
    let printed = run_on(catalog.path(), &["catalog", "check", "--output=json"]);
    assert_eq!(
        printed.json(),
        json!({
            "blueprints": [
                {
                    "slug": "bucket", "version": "v1", "mesh_role": "standalone", "kind": "Bucket",
                    "provider_config": "per-resource",
                },
            ],
            "problems": [],
        })
    );
    let printed = run_on(catalog.path(), &["catalog", "import", "--output=json"]);
    assert_eq!(
        printed.json(),
        json!({"blueprints": [{
            "slug": "bucket",
            "version": "v1",
            "blueprint_version_id": "00000000-0000-0000-0000-000000000001",
            "published": true,
        }]})
    );
    let printed = run_on(catalog.path(), &["rbac", "--catalog"]);
    assert_eq!((printed.exit, printed.out.as_str()), (Exit::Success, "- bucket\n"));
}

#[test]
fn each_problem_prints_a_line_and_errors_fail() {
    let mut files = valid_files();
    files[0].1 = r#"{"slug": "bucket"}"#;
    files.push(("vm/xrd.yaml", "kind: ["));
    let catalog = directory(&files);
    let printed = run_on(catalog.path(), &["catalog", "check"]);
    assert_eq!(printed.exit, Exit::Error);
    let lines: Vec<_> = printed.out.lines().collect();
    assert_eq!(
        lines[1..],
        [
            "error: vm/metadata.json: is missing",
            "error: vm/composition.yaml: is missing",
            "no blueprint can be published: 3 errors",
        ]
    );
    assert!(lines[0].starts_with("error: bucket/metadata.json: "), "{}", lines[0]);
    let path = catalog.path().display();
    assert_eq!(
        printed.err,
        format!(
            "error[catalog_invalid]: {path} cannot be published: 3 of its problems are errors\n"
        )
    );
    for command in [&["catalog", "import"][..], &["rbac", "--catalog"]] {
        let printed = run_on(catalog.path(), command);
        assert_eq!((printed.exit, printed.out.as_str()), (Exit::Error, ""));
        assert!(printed.err.starts_with("error: bucket/metadata.json: "), "{}", printed.err);
    }
}

#[test]
fn directory_without_a_catalog_is_named_in_the_error() {
    let empty = directory(&[("README.md", "nothing here")]);
    let path = empty.path().display();
    let printed = run_on(empty.path(), &["catalog", "check"]);
    assert_eq!((printed.exit, printed.out.as_str()), (Exit::Error, "no blueprint to publish\n"));
    let expected = format!("error[catalog_invalid]: {path} contains no blueprint; ");
    assert!(printed.err.starts_with(&expected), "{}", printed.err);
    let printed = run_on(&empty.path().join("missing"), &["catalog", "check"]);
    let expected = format!("error[file_unreadable]: cannot read {path}/missing: ");
    assert!(printed.err.starts_with(&expected), "{}", printed.err);
}

#[test]
fn oversized_file_is_refused() {
    let mut files = valid_files();
    let large = format!("# {}", "x".repeat(2 * MAX_DOCUMENT_BYTES));
    files[1].1 = &large;
    let catalog = directory(&files);
    let printed = run_on(catalog.path(), &["catalog", "check"]);
    let line = printed.out.lines().next().unwrap();
    assert_eq!(line, "error: bucket/xrd.yaml: is 1048577 bytes long; use at most 1048576");
}

#[test]
fn sample_catalog_is_publishable_without_warnings() {
    let samples = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/catalog"));
    let printed = run_on(samples, &["catalog", "check"]);
    let lines: Vec<_> = printed.out.lines().collect();
    let (summary, uses) = lines.split_last().unwrap();
    assert_eq!((printed.exit, *summary), (Exit::Success, "9 blueprints can be published"));
    let no_warning = uses.iter().all(|line| line.ends_with(": one ProviderConfig per resource"));
    assert!(no_warning && uses.len() == 9, "{printed:?}");
}
