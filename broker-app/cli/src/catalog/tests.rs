//! Catalogs on disk: which ones are accepted, and the message for each problem.

use std::fs;
use std::io::Write as _;

use broker_memory::Behaviour;
use broker_render::MAX_DOCUMENT_BYTES;
use flate2::Compression;
use flate2::write::GzEncoder;
use tar::{Builder, EntryType, Header};
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
    write(&directory, files);
    directory
}

fn write(directory: &TempDir, files: &[(&str, &str)]) {
    for (path, text) in files {
        let path = directory.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
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

fn run_on(path: &Path, command: &[&str]) -> CommandOutput {
    run_in(&World::new(Behaviour::ready_after(1)), path, command)
}

fn run_in(world: &World, path: &Path, command: &[&str]) -> CommandOutput {
    world.run_command(&[command, &[path.to_str().unwrap()]].concat())
}

#[test]
fn valid_catalog_is_checked_and_has_roles() {
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
    let printed = run_on(catalog.path(), &["rbac", "--catalog"]);
    assert_eq!((printed.exit, printed.out.as_str()), (Exit::Error, ""));
    assert!(printed.err.starts_with("error: bucket/metadata.json: "), "{}", printed.err);
}

/// The results and changed files of an import or a diff, and its exit code.
fn results(printed: &CommandOutput) -> (Exit, Vec<String>) {
    let printed_json: Value = serde_json::from_str(&printed.out).unwrap();
    let blueprints = printed_json["blueprints"].as_array().unwrap().iter();
    let line = |it: &Value| {
        let (slug, result) = (it["slug"].as_str().unwrap(), it["result"].as_str().unwrap());
        format!("{slug} {result} {}", it["changed_files"])
    };
    (printed.exit, blueprints.map(line).collect())
}

#[test]
fn import_prints_a_result_per_blueprint() {
    let world = World::new(Behaviour::ready_after(1));
    let catalog = directory(&valid_files());
    let run = |verb: &str, format: &str| {
        run_in(&world, catalog.path(), &["catalog", verb, &format!("--output={format}")])
    };
    let id = "00000000-0000-0000-0000-000000000001";
    let object = |result: &str, id: Option<&str>| {
        json!({
            "blueprints": [{
                "slug": "bucket",
                "version": "v1",
                "result": result,
                "blueprint_version_id": id,
                "changed_files": [],
            }],
            "problems": [],
        })
    };
    for _ in 0..2 {
        assert_eq!(run("diff", "json").json(), object("imported", None), "it writes nothing");
    }
    assert_eq!(run("import", "json").json(), object("imported", Some(id)));
    assert_eq!(run("diff", "json").json(), object("unchanged", Some(id)));
    assert_eq!(run("import", "json").json(), object("unchanged", Some(id)));

    // Drift, a conflict with what is published, an error, and a blueprint without a problem.
    let edited = XRD.replace("size: {type: string}", "size: {type: string, maxLength: 9}");
    let composition = COMPOSITION.replace("{name: bucket}", "{name: other}");
    let [other, valid] = ["other", "valid"].map(|slug| METADATA.replace("bucket", slug));
    let described = METADATA.replace("Keeps files.", "Keeps all files.");
    write(
        &catalog,
        &[
            ("bucket/metadata.json", &described),
            ("bucket/xrd.yaml", &edited),
            ("incomplete/xrd.yaml", XRD),
            ("other/metadata.json", &other),
            ("other/xrd.yaml", &edited),
            ("other/composition.yaml", &composition),
            ("valid/metadata.json", &valid),
            ("valid/xrd.yaml", XRD),
            ("valid/composition.yaml", &COMPOSITION.replace("{name: bucket}", "{name: valid}")),
        ],
    );
    let expected = [
        r#"bucket drift ["metadata.json","xrd.yaml"]"#,
        "incomplete error []",
        "other conflict []",
        "valid withheld []",
    ];
    let problems = [
        "error: bucket/metadata.json: differs from the published v1; use a new version name",
        "error: bucket/xrd.yaml: differs from the published v1; use a new version name",
        "error: incomplete/metadata.json: is missing",
        "error: incomplete/composition.yaml: is missing",
        "error: other/xrd.yaml: spec.versions: blueprint \"bucket\" has another schema for v1 of Bucket of \
         example.org; use the same, or a new version name",
    ];
    let path = catalog.path().display();
    for verb in ["diff", "import"] {
        let printed = run(verb, "json");
        assert_eq!(results(&printed), (Exit::Error, expected.map(str::to_owned).to_vec()));
        let refusal = format!(
            "error[catalog_refused]: {path}: 3 of 4 blueprints are refused, so the import publishes nothing"
        );
        assert_eq!(printed.err.lines().collect::<Vec<_>>(), [&problems[..], &[&refusal]].concat());
    }
    let table = run("import", "human").out;
    let words: Vec<Vec<_>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(words[1], ["bucket", "v1", "drift", id, "metadata.json,", "xrd.yaml"], "{table}");
    assert_eq!(words[2], ["incomplete", "-", "error", "-"], "{table}");
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
fn catalog_of_this_repository_is_publishable_without_warnings() {
    for catalog in ["examples/catalog", "tests/tests/crossplane/catalog"] {
        let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join(catalog);
        let printed = run_on(&path, &["catalog", "check"]);
        let lines: Vec<_> = printed.out.lines().collect();
        let (summary, uses) = lines.split_last().unwrap();
        assert_eq!((printed.exit, *summary), (Exit::Success, "9 blueprints can be published"));
        let no_warning =
            uses.iter().all(|line| line.ends_with(": one ProviderConfig per resource"));
        assert!(no_warning && uses.len() == 9, "{printed:?}");
    }
}

/// An archive of files, and of entries with another type or an unusual path.
fn tar(files: &[(&str, &str)], others: &[(&str, EntryType)]) -> Vec<u8> {
    let mut archive = Builder::new(Vec::new());
    let texts = files.iter().map(|(path, text)| (*path, EntryType::Regular, *text));
    for (path, entry_type, text) in texts.chain(others.iter().map(|(path, it)| (*path, *it, ""))) {
        let mut header = Header::new_gnu();
        // `set_path` refuses what another writer allows.
        header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
        header.set_entry_type(entry_type);
        header.set_size(text.len() as u64);
        header.set_cksum();
        archive.append(&header, text.as_bytes()).unwrap();
    }
    archive.into_inner().unwrap()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut writer = GzEncoder::new(Vec::new(), Compression::fast());
    writer.write_all(bytes).unwrap();
    writer.finish().unwrap()
}

fn check_archive(bytes: &[u8]) -> (Exit, String) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("catalog");
    fs::write(&path, bytes).unwrap();
    let printed = run_on(&path, &["catalog", "check"]);
    let text = printed.out + &printed.err;
    (printed.exit, text.replace(path.to_str().unwrap(), "PATH"))
}

#[test]
fn archive_is_read_like_a_directory() {
    let dotted: Vec<_> =
        valid_files().iter().map(|(path, text)| (format!("./{path}"), *text)).collect();
    let dotted: Vec<_> = dotted.iter().map(|(path, text)| (path.as_str(), *text)).collect();
    let directories = [
        ("./", EntryType::Directory),
        ("./bucket/", EntryType::Directory),
        ("./bucket/", EntryType::Directory),
        ("pax_global_header", EntryType::XGlobalHeader),
        (".hidden/", EntryType::Directory),
    ];
    let plain = tar(&dotted, &directories);
    let text = "bucket: one ProviderConfig per resource\n1 blueprint can be published\n";
    let published = (Exit::Success, text.to_owned());
    assert_eq!(check_archive(&plain), published);
    assert_eq!(check_archive(&gzip(&plain)), published);
    let (_, text) = check_archive(&tar(&valid_files()[1..], &[("vm/", EntryType::Directory)]));
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines[0], "error: bucket/metadata.json: is missing");
    assert_eq!(lines[4], "no blueprint can be published: 4 errors");
}

#[test]
fn archive_that_is_not_plain_files_is_refused_with_one_line() {
    let link = "is a link; use files and directories";
    let leaves = "leaves the archive; use paths below its root";
    let entry = |path: &str, problem: &str| format!("the entry {path:?} {problem}");
    let with = |path, entry_type| tar(&valid_files(), &[(path, entry_type)]);
    let whole = tar(&valid_files(), &[]);
    let many: Vec<_> = (0..4097).map(|number| format!("x/{number}")).collect();
    let many: Vec<_> = many.iter().map(|path| (path.as_str(), EntryType::Directory)).collect();
    let unreadable = "the archive is incomplete, or not a tar archive";
    let large = " ".repeat(65 << 20);
    let rows = [
        ("a symlink", with("bucket/x", EntryType::Symlink), entry("bucket/x", link)),
        ("a hard link", with("x", EntryType::Link), entry("x", link)),
        ("a device", with("x", EntryType::Char), entry("x", "is neither a file nor a directory")),
        ("an absolute path", with("/etc/x", EntryType::Regular), entry("/etc/x", leaves)),
        ("a parent", with("vm/../../x", EntryType::Regular), entry("vm/../../x", leaves)),
        (
            "a duplicate",
            with("./bucket//xrd.yaml", EntryType::Regular),
            entry("./bucket//xrd.yaml", "occurs twice"),
        ),
        (
            "a file that is a directory",
            with("bucket/xrd.yaml/", EntryType::Directory),
            entry("bucket/xrd.yaml/", "occurs twice"),
        ),
        ("many entries", tar(&[], &many), "the archive has more than 4096 entries".to_owned()),
        ("another format", b"not an archive".repeat(99), unreadable.to_owned()),
        ("cut off in a file", whole[..700].to_vec(), unreadable.to_owned()),
        ("cut off after a file", whole[..900].to_vec(), unreadable.to_owned()),
        ("cut off in gzip", gzip(&whole)[..500].to_vec(), unreadable.to_owned()),
        (
            "much content",
            gzip(&tar(&[("x", &large)], &[])),
            "it holds more than 67108864 bytes".to_owned(),
        ),
    ];
    for (why, bytes, expected) in rows {
        let (exit, text) = check_archive(&bytes);
        assert_eq!(exit, Exit::Error, "{why}: {text}");
        assert_eq!(text.lines().count(), 1, "{why}: {text}");
        assert!(text.starts_with("error[catalog_invalid]: cannot use PATH: "), "{why}: {text}");
        assert!(text.contains(&expected), "{why}: {text}");
    }
    let (_, text) = check_archive(&tar(&[("README.md", "")], &[]));
    assert!(text.contains("error[catalog_invalid]: PATH contains no blueprint; "), "{text}");
}
