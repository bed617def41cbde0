//! The tests of the tree, for pages and patches that name them.
//!
//! A check is written `SUITE TEST`. `SUITE` is a test target, or a crate for its unit tests; `TEST` is the full test
//! name. The check exists if the file of the named module defines the function with a test attribute.

use super::tree::Tree;

/// The suite of the binary's unit tests, and its directory, which has another name.
const BINARY: (&str, &str) = ("provisioning-broker", "broker-app/cli/src/");

/// The problem with a named check.
pub(super) fn problem(tree: &Tree, check: &str) -> Option<String> {
    let Some((suite, test)) = check.split_once(' ') else {
        return Some(format!("{check:?} is not a check; write `SUITE TEST`"));
    };
    // The unit tests of a crate, or a test target of any package.
    let (binary, directory) = BINARY;
    let unit = if suite == binary { directory.to_owned() } else { format!("{suite}/src/") };
    let target = format!("tests/{suite}");
    let mut segments = test.rsplit("::");
    let name = segments.next().unwrap_or(test);
    let module = segments.next();
    let mut candidates = tree
        .rust_files()
        .filter(|file| file.path.starts_with(&unit) || file.path.contains(&target));
    let found = candidates.any(|file| has_test(&file.text, name) && is_module(&file.path, module));
    (!found).then(|| format!("{suite} has no test {test}"))
}

/// Whether the text defines a test function of that name; its attributes and comments are directly above it.
fn has_test(text: &str, name: &str) -> bool {
    let lines: Vec<_> = text.lines().map(str::trim).collect();
    let function = format!("fn {name}(");
    let mut functions = lines.iter().enumerate().filter(|(_, line)| line.contains(&function));
    functions.any(|(index, _)| {
        let above = lines[..index].iter().rev();
        let mut above = above.take_while(|line| line.starts_with("#[") || line.starts_with("//"));
        above.any(|line| is_test_attribute(line))
    })
}

/// `#[test]`, `#[tokio::test]`, `#[tokio::test(start_paused = true)]`.
fn is_test_attribute(line: &str) -> bool {
    let attribute = line.strip_prefix("#[").unwrap_or_default();
    let path = attribute.split([']', '(']).next().unwrap_or_default();
    path == "test" || path.ends_with("::test")
}

/// Unit tests are in the module `tests` of their file.
fn is_module(path: &str, module: Option<&str>) -> bool {
    let file = path.rsplit('/').next().unwrap_or(path).strip_suffix(".rs");
    module.is_none_or(|module| module == "tests" || file == Some(module))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_is_a_test_in_the_module_of_its_suite() {
        let proof = "#[test]\nfn it_holds() {}\n\nfn it_helps() {}\n// #[test]\nfn it_rests() {}";
        let slow =
            "    #[tokio::test(start_paused = true)]\n    // Slowly.\n    async fn it_brakes() {}";
        let tree = Tree::of_files(&[
            ("tests/tests/proof/model/checks.rs", proof),
            ("tests/tests/simulation/walking.rs", slow),
            ("broker-domain/src/next/tests.rs", "#[test]\nfn failed_and_deleted_never_change() {}"),
        ]);
        for (check, exists) in [
            ("proof model::checks::it_holds", true),
            ("simulation walking::it_brakes", true),
            ("broker-domain next::tests::failed_and_deleted_never_change", true),
            ("proof model::world::it_holds", false),
            ("proof model::checks::it_hold", false),
            ("proof model::checks::it_helps", false),
            ("proof model::checks::it_rests", false),
            ("simulation model::checks::it_holds", false),
            ("broker-domain next::tests::it_brakes", false),
            ("it_holds", false),
        ] {
            assert_eq!(problem(&tree, check).is_none(), exists, "{check}");
        }
    }
}
