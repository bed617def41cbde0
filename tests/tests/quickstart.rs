//! README's commands on Crossplane. A separate process in the Crossplane tier: the commands start
//! their own Crossplane, and a machine runs one at a time.

use broker_tests::readme::{Home, Typed, sections};

#[tokio::test]
async fn quick_start_with_crossplane_reaches_ready() {
    let home = Home::new();
    let section = sections().into_iter().find(|(_, script)| script.contains("--crossplane"));
    let section = section.expect("a section that starts Crossplane");
    let out = home.follow(&section).await;
    assert!(out.contains("ended the servers in "), "{out}");
    for both in ["  Ready\n", "  Deleted\n"] {
        assert_eq!(out.matches(both).count(), 2, "{both:?} in {out}");
    }
    let Typed { code, out, err } = home.type_in("cargo xtask down").await;
    assert_eq!((code, out.as_str()), (Some(0), "nothing is up\n"), "{err}");
}
