//! Rule `link`: the target file of every relative link exists, and so does the heading of its fragment.

use std::path::{Component, Path, PathBuf};

use super::Finding;
use super::tree::{Tree, extension, numbered};

/// Checks every Markdown file. Links may also lead to a directory or a binary file below `root`, the checkout.
pub(super) fn resolve(tree: &Tree, root: &Path) -> Vec<Finding> {
    let mut findings = Vec::new();
    for page in tree.files.iter().filter(|file| extension(&file.path) == Some("md")) {
        for (line, target) in links(&page.text) {
            if let Some(problem) = problem(tree, root, &page.path, target) {
                findings.push(Finding::new("link", &page.path, line, problem, "correct the link"));
            }
        }
    }
    findings
}

fn problem(tree: &Tree, root: &Path, page: &str, target: &str) -> Option<String> {
    let (file, fragment) = target.split_once('#').unwrap_or((target, ""));
    let path = if file.is_empty() { page.to_owned() } else { resolve_path(page, file) };
    if tree.text(&path).is_none() && (path.is_empty() || !root.join(&path).exists()) {
        return Some(format!("{target} is a broken link"));
    }
    let text = tree.text(&path).filter(|_| extension(&path) == Some("md"));
    let is_missing = |text: &str| !headings(text).any(|heading| anchor(heading) == fragment);
    (!fragment.is_empty() && text.is_some_and(is_missing))
        .then(|| format!("{target} has no such heading"))
}

/// The relative targets of the Markdown links in a text, with their lines. Code blocks contain none.
fn links(text: &str) -> impl Iterator<Item = (usize, &str)> {
    outside_code(text).flat_map(|(line, text)| {
        let targets = text.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
        let targets = targets.map(|(target, _)| target);
        targets
            .filter(|target| !target.contains("://") && !target.contains(' '))
            .map(move |target| (line, target))
    })
}

fn headings(text: &str) -> impl Iterator<Item = &str> {
    let headings = outside_code(text).filter(|(_, text)| text.starts_with('#'));
    headings.map(|(_, text)| text.trim_start_matches('#').trim())
}

fn outside_code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut in_code = false;
    numbered(text).filter(move |(_, text)| {
        let is_fence = text.trim_start().starts_with("```");
        in_code ^= is_fence;
        !in_code && !is_fence
    })
}

/// The fragment that a Markdown viewer gives to a heading.
fn anchor(heading: &str) -> String {
    let kept = heading
        .chars()
        .filter(|letter| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_'));
    kept.map(|letter| if letter == ' ' { '-' } else { letter.to_ascii_lowercase() }).collect()
}

/// The path of `target` as seen from `page`, without `.` and `..`. Empty if it leaves the checkout.
fn resolve_path(page: &str, target: &str) -> String {
    let mut path = PathBuf::new();
    let from = Path::new(page).parent().unwrap_or(Path::new(""));
    for part in from.join(target).components() {
        match part {
            Component::Normal(name) => path.push(name),
            Component::ParentDir => {
                if !path.pop() {
                    return String::new();
                }
            }
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_to_a_missing_file_or_heading_is_found() {
        let page = "# One\n\n[a](b.md) [b](b.md#two-parts) [c](../README.md) [d](https://x.example/y)\n\n\
                    [e](c.md)\n[f](b.md#three) [g](#one) [h](#two)\n[i](../../up.md)\n\n\
                    ```text\n[j](none.md)\n```\n";
        let files = [("docs/a.md", page), ("docs/b.md", "## Two parts\n"), ("README.md", "")];
        let found = resolve(&Tree::of_files(&files), Path::new("/nonexistent"));
        let found: Vec<_> = found.iter().map(|it| (it.line, it.problem.as_str())).collect();
        assert_eq!(
            found,
            [
                (5, "c.md is a broken link"),
                (6, "b.md#three has no such heading"),
                (6, "#two has no such heading"),
                (7, "../../up.md is a broken link"),
            ]
        );
    }
}
