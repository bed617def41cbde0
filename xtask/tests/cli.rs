//! The binary as a person meets it: exit codes, and the one line of an error.

#![expect(clippy::unwrap_used, reason = "to a test every failure is the same")]

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// A machine of a test's own making: its search path holds only what the test puts there.
fn machine(files: &[(&str, &str)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    // Temporary directories are closed to others, and root's cache may not be.
    fs::set_permissions(root.path(), Permissions::from_mode(0o755)).unwrap();
    for (path, text) in files {
        // Written by a shell: a file that this process has open for writing cannot be executed, and a test beside this
        // one may have just forked with it.
        let write = r#"mkdir -p "$(dirname "$0")" && printf '%s' "$1" > "$0" && chmod 755 "$0""#;
        let mut shell = Command::new("sh");
        let written = shell.args(["-c", write]).arg(root.path().join(path)).arg(text).status();
        assert!(written.unwrap().success());
    }
    root
}

fn xtask(root: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command
        .args(arguments)
        .current_dir(root)
        .env("PATH", root.join("bin"))
        .env("BROKER_CACHE_DIR", root.join("cache"))
        .env("RUST_BACKTRACE", "1")
        .env_remove("KUBEBUILDER_ASSETS")
        .env_remove("BROKER_POSTGRES");
    command
}

#[test]
fn bad_usage_is_exit_code_2() {
    let root = machine(&[]);
    let output = xtask(root.path(), &["test", "--teir", "unit"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn failure_is_exit_code_1_and_one_line() {
    const RUN: &str = "#!/bin/sh\ntrue\n";
    let root = machine(&[
        ("assets/etcd", RUN),
        ("assets/kube-apiserver", RUN),
        ("assets/kube-controller-manager", RUN),
        ("bin/apt-get", "#!/bin/sh\necho 'E: no network'; exit 100\n"),
        ("bin/apt-cache", RUN),
        ("bin/dpkg-deb", RUN),
    ]);
    let fetching = "error: no Postgres 15 or newer on PATH or under /usr/lib/postgresql, and Debian's \
                    package is out of reach (fetching the package lists failed (exit status: 100)";
    for (postgres, beginning) in [
        ("yes", "error: BROKER_POSTGRES is \"yes\": leave it unset, or set it to `package`"),
        ("package", fetching),
    ] {
        let mut setup = xtask(root.path(), &["setup"]);
        setup.env("KUBEBUILDER_ASSETS", root.path().join("assets"));
        let output = setup.env("BROKER_POSTGRES", postgres).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.starts_with(beginning), "{text}");
        assert_eq!(text.lines().count(), 1, "{text}");
    }
}

#[test]
fn forbidden_dependency_makes_tidy_fail_with_both_names() {
    let manifest = |name: &str, dependencies: &str| {
        let package =
            format!("[package]\nname = \"{name}\"\nversion = \"1.0.0\"\n\n[dependencies]\n");
        format!("{package}{dependencies}")
    };
    let root = machine(&[
        ("Cargo.toml", "[workspace]\nresolver = \"3\"\nmembers = [\"broker-app\", \"sqlx\"]\n"),
        ("broker-app/Cargo.toml", &manifest("broker-app", "sqlx = { path = \"../sqlx\" }\n")),
        ("broker-app/src/lib.rs", "//! A crate.\n"),
        ("sqlx/Cargo.toml", &manifest("sqlx", "")),
        ("sqlx/src/lib.rs", "//! A crate.\n"),
    ]);
    let cargo = Path::new(env!("CARGO"));
    let mut tidy = xtask(root.path(), &["tidy"]);
    // `cargo tree` asks the compiler, too.
    tidy.env("PATH", "/usr/bin:/bin")
        .env("CARGO", cargo)
        .env("RUSTC", cargo.with_file_name("rustc"));
    let output = tidy.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{text}");
    let line = "[edges] broker-app must not depend on sqlx — remove it: ";
    assert!(text.lines().any(|found| found.contains(line)), "{text}");
}
