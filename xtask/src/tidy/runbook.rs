//! The runbook has an entry for each verdict, and none for anything else.

use std::collections::BTreeMap;

use broker_app::explain::Verdict;

use super::Finding;
use super::tree::Tree;

const PATH: &str = "docs/runbook.md";
const RULE: &str = "runbook";

/// What each entry has to say.
const PARTS: [&str; 3] = ["- **Symptom.** ", "- **Diagnosis.** ", "- **Remedy.** "];

/// Every verdict of the code.
pub(super) fn codes() -> Vec<&'static str> {
    Verdict::ALL.iter().map(|verdict| verdict.as_str()).collect()
}

/// Every code has one whole entry, and every entry a code.
pub(super) fn has_every_code(tree: &Tree, codes: &[&str]) -> Vec<Finding> {
    let page = tree.files.iter().find(|file| file.path == PATH).map(|file| file.text.as_str());
    let Some(page) = page else {
        return vec![finding(1, "it does not exist".to_owned(), "write it")];
    };
    let mut entries: BTreeMap<&str, usize> = BTreeMap::new();
    let mut findings = Vec::new();
    let lines: Vec<_> = page.lines().collect();
    for (place, line) in lines.iter().enumerate() {
        let Some(code) = line.strip_prefix("### `").and_then(|rest| rest.strip_suffix('`')) else {
            continue;
        };
        if entries.insert(code, place + 1).is_some() {
            findings.push(finding(place + 1, format!("{code} has two entries"), "keep one"));
        }
        let entry = lines[place + 1..].iter().take_while(|line| !line.starts_with('#'));
        let entry: Vec<_> = entry.collect();
        for part in PARTS.iter().filter(|part| !entry.iter().any(|line| line.starts_with(**part))) {
            let problem = format!("the entry of {code} has no {}", part.trim());
            findings.push(finding(place + 1, problem, "add it"));
        }
    }
    for (code, line) in entries.iter().filter(|(code, _)| !codes.contains(code)) {
        let problem = format!("{code} is no verdict of explain");
        findings.push(finding(*line, problem, "remove the entry"));
    }
    for code in codes.iter().filter(|code| !entries.contains_key(**code)) {
        let problem = format!("the verdict {code} has no entry");
        findings.push(finding(1, problem, "say symptom, diagnosis and remedy"));
    }
    findings
}

fn finding(line: usize, problem: String, remedy: &str) -> Finding {
    let (path, remedy) = (PATH.to_owned(), remedy.to_owned());
    Finding { path, line, rule: RULE, problem, remedy }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(page: &str, codes: &[&str]) -> Vec<String> {
        let tree = Tree::of_files(&[(PATH, page)]);
        has_every_code(&tree, codes).into_iter().map(|finding| finding.problem).collect()
    }

    #[test]
    fn entries_and_codes_are_the_same_set_and_entries_are_whole() {
        let entry = |code| {
            format!("### `{code}`\n\n- **Symptom.** a\n- **Diagnosis.** b\n- **Remedy.** c\n")
        };
        let both = entry("one") + &entry("two");
        assert_eq!(problems(&both, &["one", "two"]), Vec::<String>::new());
        assert_eq!(problems(&both, &["one"]), ["two is no verdict of explain"]);
        assert_eq!(problems(&entry("one"), &["one", "two"]), ["the verdict two has no entry"]);
        let half =
            "### `one`\n\n- **Symptom.** a\n- **Remedy.** c\n### `two`\n- **Diagnosis.** x\n";
        let found = problems(half, &["one", "two"]);
        assert!(
            found.contains(&"the entry of one has no - **Diagnosis.**".to_owned()),
            "{found:?}"
        );
        assert_eq!(found.len(), 3);
        assert_eq!(problems(&(both.clone() + &entry("one")), &["one", "two"]).len(), 1);
    }
}
