//! The README's program in a crate outside of the workspace, as a reader of the README makes one.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

const README: &str = include_str!("../../../../README.md");

/// Every published crate, which a reader has from the registry.
const CRATES: [(&str, &str); 8] = [
    ("broker-app", "broker-app"),
    ("broker-domain", "broker-domain"),
    ("broker-embed", "broker-app/embed"),
    ("broker-kube", "broker-kube"),
    ("broker-memory", "broker-ports/memory"),
    ("broker-pg", "broker-pg"),
    ("broker-ports", "broker-ports"),
    ("broker-render", "broker-render"),
];

/// The first block of a language in the section "Embed it".
fn block(language: &str) -> &'static str {
    let (_, section) = README.split_once("\n## Embed it\n").unwrap();
    let (_, rest) = section.split_once(&format!("\n```{language}\n")).unwrap();
    rest.split_once("\n```\n").unwrap().0
}

/// What `cargo new` writes, the README's dependencies, and where our crates are until they are published.
fn manifest(root: &Path) -> String {
    let mut manifest =
        "[package]\nname = \"reader\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n".to_owned();
    let _ = writeln!(manifest, "{}\n\n[patch.crates-io]", block("toml"));
    for (name, path) in CRATES {
        let _ = writeln!(manifest, "{name} = {{ path = '{}' }}", root.join(path).display());
    }
    manifest
}

#[test]
fn readme_program_runs_in_a_crate_of_its_own() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let reader = tempfile::tempdir().unwrap();
    fs::create_dir(reader.path().join("src")).unwrap();
    fs::write(reader.path().join("src/main.rs"), block("rust")).unwrap();
    fs::write(reader.path().join("Cargo.toml"), manifest(root)).unwrap();
    fs::copy(root.join("Cargo.lock"), reader.path().join("Cargo.lock")).unwrap();

    let mut command = Command::new(env!("CARGO"));
    for (name, _) in std::env::vars_os() {
        // What cargo told this test about its own package.
        let text = name.to_string_lossy();
        if ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|prefix| text.starts_with(prefix)) {
            command.env_remove(&name);
        }
    }
    // Beside the workspace's own artifacts: a second run compiles the reader's crate only.
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("outside");
    let output = command
        .args(["run", "--offline", "--quiet"])
        .current_dir(reader.path())
        .env("CARGO_TARGET_DIR", target)
        .env("CARGO_PROFILE_DEV_DEBUG", "false")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{said}", output.status);
}
