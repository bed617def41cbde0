//! The commands of docs/tutorial.md. A separate process in the Crossplane tier: they start their own Crossplane, and a
//! machine runs one at a time.

use broker_tests::pages::{Home, ScriptOutput, steps};

#[tokio::test]
async fn tutorial_commands_print_what_the_page_shows() {
    let home = Home::new();
    home.follow(&steps(include_str!("../../docs/tutorial.md"))).await;
    let ScriptOutput { code, out, err } = home.run_script("cargo xtask down").await;
    assert_eq!((code, out.as_str()), (Some(0), "no servers are running\n"), "{err}");
}
