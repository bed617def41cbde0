//! The example of the page "Write your own adapter" passes its contract suite, and the page contains exactly this
//! example.

#[path = "../examples/own_adapter.rs"]
mod own_adapter;

#[test]
fn example_passes_its_contract_suite() {
    own_adapter::main();
}

#[test]
fn page_contains_exactly_the_example() {
    let example = include_str!("../examples/own_adapter.rs");
    let page = include_str!("../../../docs/write-your-own-adapter.md");
    let (_, from_block) = page.split_once("```rust\n").expect("the page has a block of Rust");
    let (block, _) = from_block.split_once("```\n").expect("the block ends");
    assert!(
        block == example,
        "docs/write-your-own-adapter.md differs from broker-ports/testkit/examples/own_adapter.rs; copy the \
         example into the page's first Rust block"
    );
}
