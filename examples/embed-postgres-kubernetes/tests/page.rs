//! docs/embedding.md shows this crate. The workspace's tests run it on real servers.

const PAGE: &str = include_str!("../../../docs/embedding.md");

/// The first block of a language.
fn block(language: &str) -> &'static str {
    let (_, rest) = PAGE.split_once(&format!("```{language}\n")).expect("the page has a block");
    rest.split_once("```\n").expect("the block ends").0
}

#[test]
fn page_shows_the_program() {
    let (header, program) = include_str!("../src/main.rs").split_once("\n\n").expect("a header");
    assert!(header.starts_with("//! "), "{header}");
    assert_eq!(block("rust"), program, "copy src/main.rs without its header into the page");
}

#[test]
fn program_has_at_most_thirty_lines() {
    assert!(include_str!("../src/main.rs").lines().count() <= 30);
}
