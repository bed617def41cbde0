//! Rule `edges`: who may depend on whom, and where the heavy crates may be named.
//!
//! ```text
//! domain ← render ← ports ← { pg, kube }        app → { domain, render, ports }
//! ```
//!
//! A cheap core is the point: the decision logic compiles without a runtime, a driver or a client,
//! and an embedder brings those of its own choice.

use cargo_metadata::{Dependency, DependencyKind, Package};

use super::Finding;
use super::tree::Tree;

const RULE: &str = "edges";

/// What a member may depend on beyond its lists.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Beyond {
    Nothing,
    SmallCrates,
    /// Whatever it takes: no library depends on these.
    Everything,
}

use Beyond::{Everything, Nothing, SmallCrates};

/// A member, the members and heavy crates that it may use, those that it may use if they are optional, and what beyond.
type Row = (&'static str, &'static [&'static str], &'static [&'static str], Beyond);

/// The whole map. ARCHITECTURE.md shows it to people.
const MAP: [Row; 12] = [
    ("broker-domain", &["thiserror", "time", "uuid"], &["serde"], Nothing),
    ("broker-render", &["broker-domain", "jsonschema", "serde-saphyr"], &[], SmallCrates),
    (
        "broker-ports",
        &["broker-domain", "broker-render"],
        &["mockall", "rand", "tokio"],
        SmallCrates,
    ),
    (
        "broker-memory",
        &["broker-domain", "broker-ports", "broker-render", "rand", "tokio"],
        &[],
        SmallCrates,
    ),
    (
        "broker-testkit",
        &["broker-domain", "broker-ports", "broker-render", "mockall", "rand", "tokio"],
        &[],
        SmallCrates,
    ),
    (
        "broker-pg",
        &["broker-domain", "broker-ports", "broker-render", "mockall", "rand", "sqlx", "tokio"],
        &[],
        SmallCrates,
    ),
    (
        "broker-kube",
        &[
            "broker-domain",
            "broker-ports",
            "broker-render",
            "hyper",
            "k8s-openapi",
            "kube",
            "tokio",
        ],
        &[],
        SmallCrates,
    ),
    ("broker-app", &["broker-domain", "broker-render", "broker-ports", "tokio"], &[], SmallCrates),
    ("provisioning-broker", &[], &[], Everything),
    ("xtask", &[], &[], Everything),
    ("broker-tests", &[], &[], Everything),
    ("broker-test-servers", &[], &[], Everything),
];

/// Crates that bring a runtime, a driver, a client, a server or a parser. Their companions, such as
/// `tokio-util`, count as they do; a companion that is on the list itself counts as itself.
const HEAVY: &[&str] = &[
    "actix-web",
    "aws-lc-rs",
    "axum",
    "clap",
    "diesel",
    "hyper",
    "jsonschema",
    "k8s-openapi",
    "kube",
    "metrics-exporter-prometheus",
    "mockall",
    "native-tls",
    "openssl",
    "postgres",
    "proptest",
    "rand",
    "reqwest",
    "ring",
    "rustls",
    "saphyr",
    "serde-saphyr",
    "serde_norway",
    "serde_yaml",
    "serde_yml",
    "sqlx",
    "tokio",
    "tokio-postgres",
    "tonic",
    "tower",
    "tracing-subscriber",
    "ureq",
    "warp",
    "yaml-rust",
    "yaml-rust2",
];

/// Members that the tests of every other one may use.
const FOR_TESTS: &[&str] = &["broker-memory", "broker-testkit"];

/// Named nowhere else, not even for tests: tests that need a server belong to `broker-tests`.
const NEVER_FOR_TESTS: &[&str] = &["kube", "sqlx"];

/// The features by which `k8s-openapi` fixes a Kubernetes version. The embedder's binary chooses
/// one.
fn is_version_choice(feature: &str) -> bool {
    ["v1_", "earliest", "latest"].iter().any(|prefix| feature.starts_with(prefix))
}

/// Every dependency that the map does not allow.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let names: Vec<_> = tree.members.iter().map(|member| member.name.as_str()).collect();
    tree.members.iter().flat_map(|member| check_member(&names, member)).collect()
}

fn check_member(members: &[&str], member: &Package) -> Vec<Finding> {
    let name = member.name.as_str();
    let manifest = format!("{name}'s Cargo.toml");
    let finding =
        |(problem, remedy): (String, String)| Finding::new(RULE, &manifest, 1, problem, remedy);
    let Some(row) = MAP.iter().find(|(member, ..)| *member == name) else {
        let problem = format!("{name} has no place in the map of dependencies");
        let remedy = "add it to xtask/src/tidy/edges.rs and to ARCHITECTURE.md".to_owned();
        return vec![finding((problem, remedy))];
    };
    let objections = member.dependencies.iter().filter_map(|it| object(members, row, it));
    objections.map(finding).collect()
}

/// What is wrong with a dependency and how to mend it, if anything is.
fn object(members: &[&str], row: &Row, dependency: &Dependency) -> Option<(String, String)> {
    let (member, may_use, behind_features, beyond) = row;
    let Dependency { name, kind, optional, features, .. } = dependency;
    if *beyond == Everything {
        return None;
    }
    let is_for_tests = *kind == DependencyKind::Development;
    if name == "k8s-openapi" && !is_for_tests && features.iter().any(|it| is_version_choice(it)) {
        return Some((
            format!("{member} must not choose the Kubernetes version of k8s-openapi"),
            "choose it in [dev-dependencies]; for everybody else the binary does".to_owned(),
        ));
    }
    let heavy = heavy(name);
    let is_on = |list: &[&str]| list.iter().any(|it| name == it || heavy == Some(it));
    let is_member = members.contains(&name.as_str());
    let is_free = if is_for_tests {
        (!is_member || is_on(FOR_TESTS)) && !is_on(NEVER_FOR_TESTS)
    } else {
        !is_member && heavy.is_none() && *beyond == SmallCrates
    };
    if is_free || is_on(may_use) || (*optional && is_on(behind_features)) {
        return None;
    }
    if is_on(behind_features) {
        return Some((
            format!("{member} must not depend on {name} unless a feature asks for it"),
            "make it `optional = true` and name it in a feature".to_owned(),
        ));
    }
    let listed: Vec<&str> = may_use.iter().chain(*behind_features).copied().collect();
    let small = if *beyond == SmallCrates { " and small crates" } else { "" };
    Some((
        format!("{member} must not depend on {name}"),
        format!("remove it: {member} may use {}{small}; see ARCHITECTURE.md", listed.join(", ")),
    ))
}

/// The heavy crate that this one is, or is a companion of.
fn heavy(name: &str) -> Option<&'static str> {
    let is_it = |heavy: &&str| {
        name.strip_prefix(*heavy)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '_']))
    };
    HEAVY.iter().copied().filter(is_it).max_by_key(|heavy| heavy.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Workspace;
    use cargo_metadata::MetadataCommand;
    use serde_json::json;
    use std::fs;

    /// A dependency as a manifest has it: `optional serde`, `dev kube`, `k8s-openapi latest`.
    fn dependency(words: &str) -> Dependency {
        let mut words: Vec<_> = words.split(' ').collect();
        let mut is = |word: &str| {
            let place = words.iter().position(|it| *it == word);
            place.map(|place| words.remove(place)).is_some()
        };
        let (optional, kind) = (is("optional"), if is("dev") { json!("dev") } else { json!(null) });
        let [name, features @ ..] = words.as_slice() else { panic!("a name") };
        let dependency = json!({
            "name": name, "req": "*", "kind": kind, "optional": optional, "features": features,
            "uses_default_features": true, "target": null, "rename": null, "source": null,
        });
        serde_json::from_value(dependency).unwrap()
    }

    #[test]
    fn map_allows_what_it_should_and_names_both_crates_of_the_rest() {
        let members: Vec<_> = MAP.iter().map(|(member, ..)| *member).collect();
        for (why, member, given, expected) in [
            ("the domain's three", "broker-domain", "uuid", ""),
            ("its fourth, behind a feature", "broker-domain", "optional serde", ""),
            ("its tests are free", "broker-domain", "dev proptest", ""),
            ("small crates are free", "broker-app", "futures", ""),
            ("an adapter its driver", "broker-pg", "sqlx", ""),
            ("and the driver's companions", "broker-kube", "tokio-util", ""),
            ("a runtime behind a feature", "broker-ports", "optional tokio", ""),
            ("or for tests", "broker-ports", "dev tokio", ""),
            ("a version for tests", "broker-kube", "dev k8s-openapi latest", ""),
            ("the binary everything", "provisioning-broker", "sqlx", ""),
            ("the tests everything", "broker-tests", "broker-pg", ""),
            ("a driver outside its adapter", "broker-app", "sqlx", "depend on sqlx"),
            ("nor a part of it", "broker-app", "sqlx-core", "depend on sqlx-core"),
            ("nor behind a feature", "broker-app", "optional kube", "depend on kube"),
            ("nor for tests", "broker-app", "dev kube", "depend on kube"),
            ("nor a rival of it", "broker-app", "tokio-postgres", "depend on tokio-postgres"),
            ("one adapter and another", "broker-pg", "broker-kube", "depend on broker-kube"),
            ("against the flow", "broker-render", "dev broker-ports", "depend on broker-ports"),
            ("the domain stays small", "broker-domain", "futures", "depend on futures"),
            ("to the letter", "broker-domain", "time-macros", "depend on time-macros"),
            (
                "serde is optional",
                "broker-domain",
                "serde",
                "depend on serde unless a feature asks for it",
            ),
            (
                "so is a runtime",
                "broker-ports",
                "tokio",
                "depend on tokio unless a feature asks for it",
            ),
            (
                "versions are the embedder's",
                "broker-kube",
                "k8s-openapi v1_34",
                "choose the Kubernetes version of k8s-openapi",
            ),
        ] {
            let row = MAP.iter().find(|(known, ..)| *known == member).unwrap();
            let found = object(&members, row, &dependency(given)).map(|(problem, _)| problem);
            let expected = (!expected.is_empty()).then(|| format!("{member} must not {expected}"));
            assert_eq!(found, expected, "{why}");
        }
    }

    /// Through cargo itself: a workspace in which the app names a driver under another name.
    #[test]
    fn real_manifest_with_a_renamed_driver_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = directory.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write(
            "Cargo.toml",
            "[workspace]\nresolver = \"3\"\nmembers = [\"broker-app\", \"sqlx\"]\n",
        );
        for (name, dependencies) in
            [("broker-app", "store = { package = \"sqlx\", path = \"../sqlx\" }\n"), ("sqlx", "")]
        {
            let package = format!("[package]\nname = \"{name}\"\nversion = \"1.0.0\"\n\n");
            write(
                &format!("{name}/Cargo.toml"),
                &format!("{package}[dependencies]\n{dependencies}"),
            );
            write(&format!("{name}/src/lib.rs"), "//! A crate.\n");
        }
        let mut command = MetadataCommand::new();
        command.current_dir(directory.path()).other_options(vec!["--offline".to_owned()]);

        let workspace = Workspace::load_from(&command).unwrap();
        let mut findings = check(&Tree::load(&workspace).unwrap());
        findings.sort();

        let lines: Vec<String> = findings.iter().map(ToString::to_string).collect();
        assert_eq!(
            lines,
            [
                "broker-app's Cargo.toml:1: [edges] broker-app must not depend on sqlx — remove it: broker-app may use \
                 broker-domain, broker-render, broker-ports, tokio and small crates; see ARCHITECTURE.md",
                "sqlx's Cargo.toml:1: [edges] sqlx has no place in the map of dependencies — add it to \
                 xtask/src/tidy/edges.rs and to ARCHITECTURE.md"
            ]
        );
    }
}
