//! The README's program runs, and this crate is that program.

use std::process::Command;

const README: &str = include_str!("../../../README.md");

/// The first block of a language.
fn block(language: &str) -> &'static str {
    let (_, rest) = README.split_once(&format!("```{language}\n")).expect("the README has a block");
    rest.split_once("```\n").expect("the block ends").0
}

#[test]
fn program_brings_a_machine_to_ready() {
    let output = Command::new(env!("CARGO_BIN_EXE_embed-memory")).output().expect("the program");
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn readme_shows_the_program() {
    let (header, program) = include_str!("../src/main.rs").split_once("\n\n").expect("a header");
    assert!(header.starts_with("//! "), "{header}");
    assert_eq!(block("rust"), program, "copy src/main.rs without its header into the README");
}
