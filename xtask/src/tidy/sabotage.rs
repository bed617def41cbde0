//! Rule `sabotage`: each broken variant still fits the product, and each test that should catch it exists.
//!
//! Whether it is caught takes a build and is `cargo xtask prove --nightly sabotage`.

use std::path::Path;

use super::Finding;
use super::checks;
use super::tree::{SourceFile, Tree};
use crate::error::TaskError;
use crate::prove::variant::{DIRECTORY, Variant};

const RULE: &str = "sabotage";

pub(super) fn still_fits(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for patch in patches(tree) {
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

/// How many variants there are, and what is wrong with those that do not fit, for a checkout.
pub(crate) fn variants_fit(root: &Path) -> Result<(usize, Vec<String>), TaskError> {
    let tree = Tree::texts(root)?;
    let findings = still_fits(&tree).iter().map(ToString::to_string).collect();
    Ok((patches(&tree).count(), findings))
}

/// The patches, each of which is a variant.
pub(super) fn patches(tree: &Tree) -> impl Iterator<Item = &SourceFile> {
    tree.files.iter().filter(|file| file.path.starts_with(DIRECTORY))
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
        assert_eq!(found("one\ntwo\n", "#[test]\nfn two_is_two() {}"), Vec::<String>::new());
        assert_eq!(
            found("one\n2\n", "#[test]\nfn two_is_two() {}"),
            ["a hunk that begins with \"two\" fits 0 times"]
        );
        assert_eq!(
            found("two\n", "#[test]\nfn two_is_2() {}"),
            ["there is no test counting::two_is_two in proof"]
        );
    }

    /// `tidy` says so as well; here it is said by whoever runs the tests alone.
    #[test]
    fn every_variant_fits_and_there_are_enough() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let (variants, findings) = variants_fit(&root).unwrap();
        assert!(findings.is_empty(), "{findings:#?}");
        assert!(variants >= 25, "{variants} variants");
    }
}
