//! Rule `sabotage`: each broken variant still fits the product, and each test that should catch it exists.
//!
//! Whether it is caught takes a build and is `cargo xtask prove --nightly sabotage`.

use std::path::Path;

use anyhow::Result;

use super::Finding;
use super::checks;
use super::tree::{SourceFile, Tree};
use crate::prove::variant::{DIRECTORY, Variant};

pub(super) fn still_fits(tree: &Tree) -> Vec<Finding> {
    let each = patches(tree).flat_map(|patch| {
        let problems = match Variant::parse(&patch.path, &patch.text) {
            Ok(variant) => problems(tree, &variant),
            Err(problem) => vec![problem],
        };
        let remedy = "bring it up to date with the code that it breaks";
        let finding = |problem| Finding::new("sabotage", &patch.path, 1, problem, remedy);
        problems.into_iter().map(finding).collect::<Vec<_>>()
    });
    each.collect()
}

/// How many variants there are, and what is wrong with those that do not fit, for a checkout.
pub(crate) fn variants_fit(root: &Path) -> Result<(usize, Vec<String>)> {
    let tree = Tree::texts(root)?;
    let findings = still_fits(&tree).iter().map(ToString::to_string).collect();
    Ok((patches(&tree).count(), findings))
}

/// The patches, each of which is a variant.
pub(super) fn patches(tree: &Tree) -> impl Iterator<Item = &SourceFile> {
    tree.files.iter().filter(|file| file.path.starts_with(DIRECTORY))
}

fn problems(tree: &Tree, variant: &Variant) -> Vec<String> {
    let unfit = variant.edits.iter().filter_map(|edit| match tree.file(&edit.path) {
        None => Some(format!("there is no {}", edit.path)),
        Some(file) => edit.apply(&file.text).err(),
    });
    let catches = variant.catches.iter();
    unfit.chain(catches.filter_map(|it| checks::problem(tree, &it.to_string()))).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::problems;
    use super::*;

    #[test]
    fn variant_that_does_not_fit_or_names_no_test_is_found() {
        let patch = "Breaks: Two is three.\nCaught by: proof counting::two_is_two\n\
                     --- a/src/a.rs\n+++ b/src/a.rs\n@@ -1 +1 @@\n-two\n+three\n";
        let found = |source: &str, test: &str| {
            let (patch, test) =
                (("tests/sabotage/act/two.patch", patch), ("tests/tests/proof/counting.rs", test));
            problems("sabotage", &[patch, ("src/a.rs", source), test])
        };
        let test = "#[test]\nfn two_is_two() {}";
        assert_eq!(found("one\ntwo\n", test), Vec::<String>::new());
        assert_eq!(found("one\n2\n", test), ["a hunk that begins with \"two\" fits 0 times"]);
        let gone = "there is no test counting::two_is_two in proof";
        assert_eq!(found("two\n", "#[test]\nfn two_is_2() {}"), [gone]);
    }

    /// `tidy` says so as well; here it is said to a person who runs the tests alone.
    #[test]
    fn every_variant_fits_and_there_are_enough() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let (variants, findings) = variants_fit(&root).unwrap();
        assert!(findings.is_empty(), "{findings:#?}");
        assert!(variants >= 25, "{variants} variants");
    }
}
