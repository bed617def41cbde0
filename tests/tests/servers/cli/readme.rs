//! Executes README's commands as written. The command that runs all tests is excluded, and those
//! that need Crossplane belong to that tier.

use broker_tests::readme::{Home, Typed, sections};

/// This command would run itself.
const TESTS: &str = "cargo xtask test\n";

/// For the Crossplane tier only: a machine runs one Crossplane at a time.
const CROSSPLANE: &str = "--crossplane";

#[tokio::test]
async fn every_readme_command_works_as_written() {
    let home = Home::new();
    let mut typed = Vec::new();
    for (heading, script) in sections() {
        if script != TESTS && !script.contains(CROSSPLANE) {
            let out = home.follow(&(heading, script)).await;
            typed.push((heading, out));
        }
    }
    let (headings, outputs): (Vec<_>, Vec<_>) = typed.into_iter().unzip();
    assert_eq!(headings, ["See it work", "Quick start on real servers"]);
    assert!(outputs[0].contains("Every event was told once and in order"), "{}", outputs[0]);
    for part in ["  Provisioning\n", "  Deleted\n", "ended the servers in "] {
        assert!(outputs[1].contains(part), "{part:?} is not in {}", outputs[1]);
    }

    let Typed { code, out, err } = home.type_in("cargo xtask down").await;
    assert_eq!((code, out.as_str()), (Some(0), "nothing is up\n"), "{err}");
}
