//! README's commands on Crossplane. A process of its own in the tier of Crossplane: the commands start theirs, and a
//! machine runs one at a time.

use broker_tests::readme::{Home, Typed, sections};

#[tokio::test]
async fn with_crossplane_the_quick_start_goes_on_to_ready() {
    let home = Home::new();
    let section = sections().into_iter().find(|(_, script)| script.contains("--crossplane"));
    let section = section.expect("a section that starts Crossplane");
    let out = home.follow(&section).await;
    for part in ["  Ready\n", "  Enrolling\n", "ended the servers in "] {
        assert!(out.contains(part), "{part:?} is not in {out}");
    }
    assert_eq!(out.matches("  Deleted\n").count(), 2, "{out}");
    let Typed { code, out, err } = home.type_in("cargo xtask down").await;
    assert_eq!((code, out.as_str()), (Some(0), "nothing is up\n"), "{err}");
}
