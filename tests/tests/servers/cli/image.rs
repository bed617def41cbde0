//! The image of the Dockerfile, without a container daemon: the program runs as the image's user, in a root directory
//! that contains only the image's files.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use broker_tests::pages::Home;
use rustix::process::geteuid;

use super::process::{API_URL, CommandOutput, DSN, EVENT_URL, LISTEN};

const DOCKERFILE: &str = include_str!("../../../../Dockerfile");

/// The image's build command, here with the profile of the tests.
const BUILD: &str = ".ci/static --release";

#[tokio::test]
async fn image_runs_as_its_user_with_nothing_but_its_files() {
    let (builder, image) = DOCKERFILE.split_once("FROM scratch\n").unwrap();
    let toolchain = include_str!("../../../../rust-toolchain.toml");
    let pinned = toolchain.lines().find_map(|line| line.strip_prefix("channel = ")).unwrap();
    let base = format!("FROM rust:{}-slim AS build", pinned.trim_matches('"'));
    assert!(builder.lines().any(|line| line == base), "{base} is not in {builder}");
    let copy = format!("RUN cp \"$({BUILD})\" ");
    let built_as = builder.lines().find_map(|line| line.strip_prefix(&copy)).unwrap();

    let built = Home::new().run_script(BUILD.trim_end_matches(" --release")).await;
    assert_eq!(built.code, Some(0), "{}", built.err);
    let root = tempfile::tempdir().unwrap();
    let (mut user, mut program) = (None, None);
    for line in image.lines() {
        match line.split_once(' ').unwrap() {
            ("COPY", files) => {
                let (from, to) = files
                    .strip_prefix("--from=build ")
                    .and_then(|paths| paths.split_once(' '))
                    .unwrap();
                let from = if from == built_as { built.out.trim() } else { from };
                let to = root.path().join(to.trim_start_matches('/'));
                fs::create_dir_all(to.parent().unwrap()).unwrap();
                fs::copy(from, to).unwrap();
            }
            ("USER", ids) => user = ids.split_once(':'),
            ("ENTRYPOINT", json) => program = serde_json::from_str::<[PathBuf; 1]>(json).ok(),
            _ => panic!("this test does not support {line}"),
        }
    }
    let (user, [program]) = (user.unwrap(), program.unwrap());
    let deployment = include_str!("../../../../deploy/deployment.yaml");
    assert!(deployment.contains(&format!("runAsUser: {}\n        runAsGroup: {}", user.0, user.1)));

    let run = |arguments: &[&str]| run(root.path(), user, &program, arguments);
    let version = format!("provisioning-broker {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(
        run(&["--version"]),
        CommandOutput { code: Some(0), out: version, err: String::new() }
    );
    let CommandOutput { code, out, err } = run(&["demo", "--speed", "max", "--seed", "7"]);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert!(out.contains("Every event was published once and in order"), "{out}");
    let CommandOutput { code, err, .. } = run(&["--nonsense"]);
    assert_eq!(code, Some(2));
    assert!(err.starts_with("error[usage]: unexpected argument '--nonsense'"), "{err}");
    // Without certificates, the event URL would be refused. The certificates are found; then the
    // missing store is the error.
    let CommandOutput { code, err, .. } = run(&["run"]);
    assert_eq!(code, Some(1));
    assert!(err.starts_with("error[setup_failed]: cannot use Postgres: "), "{err}");
}

/// Runs the program in the root directory as the image's user. As root, `chroot` changes the user; otherwise `unshare`
/// maps it in a user namespace.
fn run(root: &Path, (uid, gid): (&str, &str), program: &Path, arguments: &[&str]) -> CommandOutput {
    let mut command = if geteuid().is_root() {
        let mut chroot = Command::new("chroot");
        chroot.arg(format!("--userspec={uid}:{gid}")).arg("--groups=").arg(root);
        chroot
    } else {
        let mut unshare = Command::new("unshare");
        unshare.args(["--user", "--map-user", uid, "--map-group", gid, "--root"]).arg(root);
        unshare
    };
    command.arg(program).args(arguments).env_clear();
    // `chroot` or `unshare` is found by this path.
    command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    command.env(DSN, "postgres://none@127.0.0.1:1/nothing").env(LISTEN, "127.0.0.1:0");
    command.env(API_URL, "https://mesh.example.org").env(EVENT_URL, "https://events.example.org");
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    CommandOutput { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}
