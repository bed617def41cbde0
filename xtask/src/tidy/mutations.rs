//! Rule `mutations`: every mutation patch applies, and its tests exist.
//!
//! `cargo xtask prove --nightly mutations` runs them, which takes a build.

use std::path::Path;

use anyhow::Result;

use super::Finding;
use super::checks;
use super::tree::{SourceFile, Tree};
use crate::prove::variant::{DIRECTORY, MutationPatch};

pub(super) fn patches_apply(tree: &Tree) -> Vec<Finding> {
    let findings = patches(tree).flat_map(|patch| {
        let problems = match MutationPatch::parse(&patch.path, &patch.text) {
            Ok(variant) => problems(tree, &variant),
            Err(problem) => vec![problem],
        };
        let remedy = "update the patch to the current code";
        let finding = |problem| Finding::new("mutations", &patch.path, 1, problem, remedy);
        problems.into_iter().map(finding).collect::<Vec<_>>()
    });
    findings.collect()
}

/// The number of patches of a checkout, and the problems with those that do not apply.
pub(crate) fn check_patches(root: &Path) -> Result<(usize, Vec<String>)> {
    let tree = Tree::load(root)?;
    let findings = patches_apply(&tree).iter().map(ToString::to_string).collect();
    Ok((patches(&tree).count(), findings))
}

/// The patch files.
pub(super) fn patches(tree: &Tree) -> impl Iterator<Item = &SourceFile> {
    tree.files.iter().filter(|file| file.path.starts_with(DIRECTORY))
}

fn problems(tree: &Tree, variant: &MutationPatch) -> Vec<String> {
    let not_applying = variant.edits.iter().filter_map(|edit| match tree.text(&edit.path) {
        None => Some(format!("{} does not exist", edit.path)),
        Some(text) => edit.apply(text).err(),
    });
    let detectors = variant.detectors.iter();
    let missing = detectors.filter_map(|detector| checks::problem(tree, &detector.to_string()));
    not_applying.chain(missing).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patch_that_does_not_apply_or_names_no_test_is_found() {
        let patch = "Breaks: Two is three.\nCaught by: proof counting::two_is_two\n\
                     --- a/src/a.rs\n+++ b/src/a.rs\n@@ -1 +1 @@\n-two\n+three\n";
        for (source, test, expected) in [
            ("one\ntwo\n", "two_is_two", ""),
            (
                "one\n2\n",
                "two_is_two",
                "the hunk that begins with \"two\" matches 0 times, not once",
            ),
            ("two\n", "two_is_2", "proof has no test counting::two_is_two"),
        ] {
            let test = format!("#[test]\nfn {test}() {{}}");
            let tree = Tree::of_files(&[
                ("tests/mutations/act/two.patch", patch),
                ("src/a.rs", source),
                ("tests/tests/proof/counting.rs", &test),
            ]);
            let found: String = patches_apply(&tree).into_iter().map(|it| it.problem).collect();
            assert_eq!(found, expected);
        }
    }
}
