//! The programs of the pages and examples in crates outside of the workspace, where no other crate enables a missing
//! feature.
//!
//! The README's program is run. The others are only compiled, because other tests run them in the workspace.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

const README: &str = include_str!("../../../../README.md");
const EMBEDDING: &str = include_str!("../../../../docs/embedding.md");

/// Every published library, and its directory.
const CRATES: [(&str, &str); 9] = [
    ("broker-app", "broker-app"),
    ("broker-domain", "broker-domain"),
    ("broker-embed", "broker-app/embed"),
    ("broker-kube", "broker-kube"),
    ("broker-memory", "broker-ports/memory"),
    ("broker-pg", "broker-pg"),
    ("broker-ports", "broker-ports"),
    ("broker-render", "broker-render"),
    ("broker-testkit", "broker-ports/testkit"),
];

/// The first block of a language in a section.
fn block(page: &'static str, section: &str, language: &str) -> &'static str {
    let (_, section) = page.split_once(&format!("\n## {section}\n")).unwrap();
    let (_, rest) = section.split_once(&format!("\n```{language}\n")).unwrap();
    rest.split_once("\n```\n").unwrap().0
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// A crate outside of the workspace.
struct ExternalCrate(TempDir);

impl ExternalCrate {
    /// A crate like that of `cargo new`, with the dependencies and the program of a page.
    fn from_page(dependencies: &str, program: &str) -> Self {
        let package = "[package]\nname = \"reader\"\nversion = \"0.1.0\"\nedition = \"2024\"\n";
        let external = Self(tempfile::tempdir().unwrap());
        fs::create_dir(external.path().join("src")).unwrap();
        fs::write(external.path().join("src/main.rs"), program).unwrap();
        external.add_manifest(&format!("{package}\n{dependencies}\n"));
        external
    }

    /// A copy of an example, with dependencies on published crates instead of paths.
    fn from_example(name: &str) -> Self {
        let (external, example) =
            (Self(tempfile::tempdir().unwrap()), root().join("examples").join(name));
        copy(&example, external.path());
        let manifest = fs::read_to_string(example.join("Cargo.toml")).unwrap();
        let mut published = String::new();
        for line in manifest.lines() {
            // `path = "…", version = …` becomes `version = …`.
            match line.split_once("path = \"") {
                Some((before, after)) => {
                    let (_, after) = after.split_once("\", ").unwrap();
                    let _ = writeln!(published, "{before}{after}");
                }
                None => {
                    let _ = writeln!(published, "{line}");
                }
            }
        }
        external.add_manifest(&published);
        external
    }

    /// Writes the manifest, with the local paths of the unpublished crates.
    fn add_manifest(&self, manifest: &str) {
        let mut manifest = format!("{manifest}\n[patch.crates-io]\n");
        for (name, path) in CRATES {
            let _ = writeln!(manifest, "{name} = {{ path = '{}' }}", root().join(path).display());
        }
        fs::write(self.path().join("Cargo.toml"), manifest).unwrap();
        fs::copy(root().join("Cargo.lock"), self.path().join("Cargo.lock")).unwrap();
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Runs cargo in the crate and returns the standard output.
    fn cargo(&self, arguments: &[&str]) -> String {
        let mut command = Command::new(env!("CARGO"));
        for (name, _) in std::env::vars_os() {
            // Cargo sets these variables for this test's package.
            let text = name.to_string_lossy();
            if ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|prefix| text.starts_with(prefix)) {
                command.env_remove(&name);
            }
        }
        let output = command
            .args(arguments)
            .args(["--offline", "--quiet"])
            .current_dir(self.path())
            .env("CARGO_TARGET_DIR", target())
            .env("CARGO_PROFILE_DEV_DEBUG", "false")
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {}\n{errors}", output.status);
        String::from_utf8(output.stdout).unwrap()
    }

    /// The features with which a dependency is compiled.
    fn features(&self, package: &str) -> Vec<String> {
        let line = |line: &str| {
            let features = line.strip_prefix(&format!("{package} v"))?.split_once('|')?.1;
            Some(features.split(',').map(str::to_owned).collect())
        };
        let tree = ["tree", "--edges", "normal", "--prefix", "none", "--format", "{p}|{f}"];
        let tree = self.cargo(&tree);
        tree.lines().find_map(line).unwrap_or_else(|| panic!("no {package} in {tree}"))
    }

    /// Asserts the TLS features, because a missing one fails only at run time: exactly one cryptography provider,
    /// and TLS for the API server and the database.
    fn assert_has_tls(&self) {
        let providers = self.features("rustls");
        let count =
            providers.iter().filter(|feature| ["ring", "aws_lc_rs"].contains(&feature.as_str()));
        assert_eq!(count.count(), 1, "rustls: {providers:?}");
        for (package, expected) in [("kube", "rustls-tls"), ("kube", "ring"), ("sqlx", "tls-")] {
            let features = self.features(package);
            assert!(
                features.iter().any(|feature| feature.starts_with(expected)),
                "{package}: {features:?}"
            );
        }
    }
}

/// The target directory that these crates share, so that a second run compiles only them.
fn target() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("outside")
}

fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            fs::create_dir(&target).unwrap();
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[test]
fn readme_program_runs_in_an_external_crate() {
    let section = "Embed it";
    let reader =
        ExternalCrate::from_page(block(README, section, "toml"), block(README, section, "rust"));
    reader.cargo(&["run"]);
}

#[test]
fn page_program_compiles_in_an_external_crate() {
    let dependencies = block(EMBEDDING, "Cargo.toml", "toml");
    let reader = ExternalCrate::from_page(dependencies, block(EMBEDDING, "The program", "rust"));
    reader.cargo(&["check"]);
    reader.assert_has_tls();
}

#[test]
fn examples_compile_in_external_crates() {
    for example in fs::read_dir(root().join("examples")).unwrap() {
        let example = example.unwrap();
        let name = example.file_name().to_string_lossy().into_owned();
        if !example.path().join("Cargo.toml").is_file() {
            continue;
        }
        // The tests of two examples read pages of this repository.
        let reads_pages = ["embed-memory", "embed-postgres-kubernetes"].contains(&name.as_str());
        let targets = if reads_pages { "--bins" } else { "--all-targets" };
        ExternalCrate::from_example(&name).cargo(&["check", targets]);
    }
    for name in ["embed-axum", "forward-events"] {
        ExternalCrate::from_example(name).assert_has_tls();
    }
}
