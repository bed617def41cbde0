//! Rule `generated`: a committed file that follows from the code is what the code would write now.

use super::Finding;
use super::tree::Tree;
use crate::docs::Generated;

/// Every generated file that is missing or different, at its first different line.
pub(super) fn are_current(tree: &Tree, generated: &[Generated]) -> Vec<Finding> {
    let findings = generated.iter().filter_map(|Generated { path, content }| {
        let (line, problem) = match tree.file(path) {
            None => (1, "the file is generated, and missing"),
            Some(file) if file.text == *content => return None,
            Some(file) => {
                (first_difference(&file.text, content), "differs from what the code generates")
            }
        };
        Some(Finding {
            path: (*path).to_owned(),
            line,
            rule: "generated",
            problem: problem.to_owned(),
            remedy: "run `cargo xtask docs`".to_owned(),
        })
    });
    findings.collect()
}

fn first_difference(one: &str, other: &str) -> usize {
    one.lines().zip(other.lines()).take_while(|(one, other)| one == other).count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_or_missing_file_is_found_at_its_first_difference() {
        let generated = [Generated { path: "docs/a.md", content: "one\ntwo\n".to_owned() }];
        for (text, lines) in [
            ("one\ntwo\n", vec![]),
            ("one\nTWO\n", vec![2]),
            ("one\n", vec![2]),
            ("one\ntwo\nthree\n", vec![3]),
        ] {
            let findings = are_current(&Tree::of_files(&[("docs/a.md", text)]), &generated);
            assert_eq!(
                findings.iter().map(|finding| finding.line).collect::<Vec<_>>(),
                lines,
                "{text:?}"
            );
        }
        let missing = are_current(&Tree::default(), &generated);
        assert_eq!(
            missing[0].to_string(),
            "docs/a.md:1: [generated] the file is generated, and missing — run `cargo xtask docs`"
        );
    }
}
