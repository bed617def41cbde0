//! Executes README's commands as written, and the servers of `cargo xtask up` without Crossplane. Those with it belong to
//! the Crossplane tier.

use broker_tests::pages::{Home, ScriptOutput, Step, steps};

/// The command that would run this test again, and is therefore skipped.
const TEST_COMMAND: &str = "cargo xtask test\n";

/// One resource on servers without Crossplane, from declaration to Deleted.
const SCRIPT: &str = r#"
eval "$(cargo xtask up)"
cargo run --quiet --bin provisioning-broker -- run > target/broker.log &
cargo run --quiet --bin provisioning-broker -- provision --project "$SAMPLE_PROJECT" --resource "$SAMPLE_RESOURCE" \
    --blueprint-version "$BLUEPRINT_SAMPLE_MACHINE" --credential "$SAMPLE_CREDENTIAL" \
    --set size=small --wait --for Provisioning
MACHINE=$(cargo run --quiet --bin provisioning-broker -- list --output json | sed 's/.*"id":"\([^"]*\)".*/\1/')
cargo run --quiet --bin provisioning-broker -- deprovision "$MACHINE" --wait
kill $!
cargo xtask down
"#;

#[tokio::test]
async fn every_readme_command_works_as_written() {
    let mut steps = steps(include_str!("../../../../README.md"));
    steps.retain(|step| step.script != TEST_COMMAND);
    let headings: Vec<_> = steps.iter().map(|step| step.heading.as_str()).collect();
    assert_eq!(headings, ["See it work"]);
    let out = Home::new().follow(&steps).await;
    assert!(out.contains("Every event was published once and in order"), "{out}");
}

#[tokio::test]
async fn servers_without_crossplane_reach_provisioning_and_deleted() {
    let home = Home::new();
    let expected = ["…  Provisioning", "…  Deleted", "stopped the servers in …"].map(str::to_owned);
    let step =
        Step { heading: "up".to_owned(), script: SCRIPT.to_owned(), expected: expected.into() };
    home.follow(&[step]).await;
    let ScriptOutput { code, out, err } = home.run_script("cargo xtask down").await;
    assert_eq!((code, out.as_str()), (Some(0), "no servers are running\n"), "{err}");
}
