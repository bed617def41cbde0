//! Rule `sabotage`: each broken variant still fits the product, and each test that should catch it exists.
//!
//! Whether it is caught takes a build and is `cargo xtask prove sabotage`.

use super::Finding;
use super::checks;
use super::tree::Tree;
use crate::prove::variant::{DIRECTORY, Variant};

const RULE: &str = "sabotage";

pub(super) fn still_fits(tree: &Tree) -> Vec<Finding> {
    let patches = tree.files.iter().filter(|file| file.path.starts_with(DIRECTORY));
    let mut findings = Vec::new();
    for patch in patches {
        let problems = match Variant::parse(&patch.path, &patch.text) {
            Ok(variant) => problems(tree, &variant),
            Err(problem) => vec![problem],
        };
        let finding = |problem| Finding {
            path: patch.path.clone(),
            line: 1,
            rule: RULE,
            problem,
            remedy: "bring it up to date with the code that it breaks".to_owned(),
        };
        findings.extend(problems.into_iter().map(finding));
    }
    findings
}

fn problems(tree: &Tree, variant: &Variant) -> Vec<String> {
    let mut problems = Vec::new();
    for edit in &variant.edits {
        match tree.file(&edit.path) {
            None => problems.push(format!("there is no {}", edit.path)),
            Some(file) => problems.extend(edit.apply(&file.text).err()),
        }
    }
    let catches = variant.catches.iter();
    problems.extend(catches.filter_map(|catch| checks::problem(tree, &catch.to_string())));
    problems
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    const PATCH: &str = "Breaks: Two is three.\nCaught by: proof counting::two_is_two\n\
                         --- a/src/a.rs\n+++ b/src/a.rs\n@@ -1 +1 @@\n-two\n+three\n";

    fn found(source: &str, test: &str) -> Vec<String> {
        let tree = Tree::of_files(&[
            ("tests/sabotage/act/two.patch", PATCH),
            ("src/a.rs", source),
            ("tests/tests/proof/counting.rs", test),
        ]);
        still_fits(&tree).into_iter().map(|finding| finding.problem).collect()
    }

    #[test]
    fn a_variant_that_does_not_fit_or_names_no_test_is_found() {
        assert_eq!(found("one\ntwo\n", "fn two_is_two() {}"), Vec::<String>::new());
        assert_eq!(
            found("one\n2\n", "fn two_is_two() {}"),
            ["a hunk that begins with \"two\" fits 0 times"]
        );
        assert_eq!(
            found("two\n", "fn two_is_2() {}"),
            ["there is no test counting::two_is_two in proof"]
        );
    }

    /// `tidy` says so as well; here it is said by whoever runs the tests alone.
    #[test]
    fn every_variant_fits_and_there_are_enough() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let tree = Tree::texts(&root).unwrap();
        let findings: Vec<_> = still_fits(&tree).iter().map(ToString::to_string).collect();
        assert!(findings.is_empty(), "{findings:#?}");
        let variants = tree.files.iter().filter(|file| file.path.starts_with(DIRECTORY)).count();
        assert!(variants >= 25, "{variants} variants");
    }
}
