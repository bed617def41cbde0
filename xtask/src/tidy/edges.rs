//! Rule `edges`: who may depend on whom, and where the heavy crates may be named.
//!
//! ```text
//! domain ← render ← ports ← { pg, kube }        app → { domain, render, ports }
//! ```
//!
//! A cheap core is the point: the decision logic compiles without a runtime, a driver or a client,
//! and an embedder brings those of its own choice.

use cargo_metadata::DependencyKind;

use super::tree::{Dependency, Member, Tree};
use super::{Finding, manifests};

const RULE: &str = "edges";

/// What a member may depend on.
struct Row {
    member: &'static str,
    /// Members and heavy crates.
    may_use: &'static [&'static str],
    /// The same, if they are optional.
    behind_features: &'static [&'static str],
    beyond: Beyond,
}

/// What a member may depend on beyond its lists.
#[derive(PartialEq, Eq)]
enum Beyond {
    Nothing,
    SmallCrates,
    /// Whatever it takes: no library depends on these.
    Everything,
}

/// The whole map. ARCHITECTURE.md shows it to people.
const MAP: &[Row] = &[
    Row {
        member: "broker-domain",
        may_use: &["thiserror", "time", "uuid"],
        behind_features: &["serde"],
        beyond: Beyond::Nothing,
    },
    Row {
        member: "broker-render",
        may_use: &["broker-domain", "jsonschema", "serde-saphyr"],
        behind_features: &[],
        beyond: Beyond::SmallCrates,
    },
    Row {
        member: "broker-ports",
        may_use: &["broker-domain", "broker-render"],
        behind_features: &["mockall", "rand", "tokio"],
        beyond: Beyond::SmallCrates,
    },
    Row {
        member: "broker-memory",
        may_use: &["broker-domain", "broker-ports", "broker-render", "rand", "tokio"],
        behind_features: &[],
        beyond: Beyond::SmallCrates,
    },
    Row {
        member: "broker-testkit",
        may_use: &["broker-domain", "broker-ports", "broker-render", "mockall", "rand", "tokio"],
        behind_features: &[],
        beyond: Beyond::SmallCrates,
    },
    Row {
        member: "broker-pg",
        may_use: &[
            "broker-domain",
            "broker-ports",
            "broker-render",
            "mockall",
            "rand",
            "sqlx",
            "tokio",
        ],
        behind_features: &[],
        beyond: Beyond::SmallCrates,
    },
    Row {
        member: "broker-kube",
        may_use: &[
            "broker-domain",
            "broker-ports",
            "broker-render",
            "hyper",
            "k8s-openapi",
            "kube",
            "tokio",
        ],
        behind_features: &[],
        beyond: Beyond::SmallCrates,
    },
    Row {
        member: "broker-app",
        may_use: &["broker-domain", "broker-render", "broker-ports", "tokio"],
        behind_features: &[],
        beyond: Beyond::SmallCrates,
    },
    everything("provisioning-broker"),
    everything("xtask"),
    everything("broker-tests"),
    everything("broker-test-servers"),
];

const fn everything(member: &'static str) -> Row {
    Row { member, may_use: &[], behind_features: &[], beyond: Beyond::Everything }
}

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
    tree.members.iter().flat_map(|member| check_member(tree, member)).collect()
}

fn check_member(tree: &Tree, member: &Member) -> Vec<Finding> {
    let Some(row) = MAP.iter().find(|row| row.member == member.name) else {
        return vec![Finding {
            path: member.manifest.clone(),
            line: 1,
            rule: RULE,
            problem: format!("{} has no place in the map of dependencies", member.name),
            remedy: "add it to xtask/src/tidy/edges.rs and to ARCHITECTURE.md".to_owned(),
        }];
    };
    let objections = member.dependencies.iter().filter_map(|dependency| {
        let (problem, remedy) = object(tree, row, dependency)?;
        let line = manifests::dependency_line(tree, &member.manifest, dependency);
        Some(Finding { path: member.manifest.clone(), line, rule: RULE, problem, remedy })
    });
    objections.collect()
}

/// What is wrong with a dependency and how to mend it, if anything is.
fn object(tree: &Tree, row: &Row, dependency: &Dependency) -> Option<(String, String)> {
    let Row { member, may_use, behind_features, beyond } = row;
    let Dependency { name, key: _, kind, optional, features } = dependency;
    if *beyond == Beyond::Everything {
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
    let is_member = tree.members.iter().any(|member| member.name == *name);
    let is_free = if is_for_tests {
        (!is_member || is_on(FOR_TESTS)) && !is_on(NEVER_FOR_TESTS)
    } else {
        !is_member && heavy.is_none() && *beyond == Beyond::SmallCrates
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
    let small = if *beyond == Beyond::SmallCrates { " and small crates" } else { "" };
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
    use std::fs;
    use std::path::Path;

    fn dependency(name: &str) -> Dependency {
        Dependency {
            name: name.to_owned(),
            key: name.to_owned(),
            kind: DependencyKind::Normal,
            optional: false,
            features: Vec::new(),
        }
    }

    fn optional(name: &str) -> Dependency {
        Dependency { optional: true, ..dependency(name) }
    }

    fn for_tests(name: &str) -> Dependency {
        Dependency { kind: DependencyKind::Development, ..dependency(name) }
    }

    fn with_feature(feature: &str, dependency: Dependency) -> Dependency {
        Dependency { features: vec![feature.to_owned()], ..dependency }
    }

    fn problems(member: &str, dependency: Dependency) -> Vec<String> {
        let members = [
            "broker-domain",
            "broker-render",
            "broker-ports",
            "broker-pg",
            "broker-kube",
            "broker-app",
        ];
        let mut tree = Tree::default();
        for name in members.iter().copied().filter(|name| *name != member).chain([member]) {
            let manifest = format!("{name}/Cargo.toml");
            tree.members.push(Member { name: name.to_owned(), manifest, dependencies: Vec::new() });
        }
        if let Some(last) = tree.members.last_mut() {
            last.dependencies.push(dependency);
        }
        check(&tree).into_iter().map(|finding| finding.problem).collect()
    }

    #[test]
    fn the_map_allows_what_it_should() {
        let table = [
            ("the domain's three", "broker-domain", dependency("uuid")),
            ("its fourth, behind a feature", "broker-domain", optional("serde")),
            ("its tests are free", "broker-domain", for_tests("proptest")),
            ("small crates are free", "broker-app", dependency("futures")),
            ("an adapter its driver", "broker-pg", dependency("sqlx")),
            ("and the driver's companions", "broker-kube", dependency("tokio-util")),
            ("a runtime behind a feature", "broker-ports", optional("tokio")),
            ("or for tests", "broker-ports", for_tests("tokio")),
            (
                "a version for tests",
                "broker-kube",
                with_feature("latest", for_tests("k8s-openapi")),
            ),
            ("the binary everything", "provisioning-broker", dependency("sqlx")),
            ("the tests everything", "broker-tests", dependency("broker-pg")),
        ];
        for (why, member, dependency) in table {
            assert_eq!(problems(member, dependency), Vec::<String>::new(), "{why}");
        }
    }

    #[test]
    fn the_map_refuses_the_rest_and_names_both_crates() {
        let table = [
            (
                "a driver outside its adapter",
                "broker-app",
                dependency("sqlx"),
                "broker-app must not depend on sqlx",
            ),
            (
                "nor a part of it",
                "broker-app",
                dependency("sqlx-core"),
                "broker-app must not depend on sqlx-core",
            ),
            (
                "nor behind a feature",
                "broker-app",
                optional("kube"),
                "broker-app must not depend on kube",
            ),
            (
                "nor for tests",
                "broker-app",
                for_tests("kube"),
                "broker-app must not depend on kube",
            ),
            (
                "nor a rival that sounds like a companion",
                "broker-app",
                dependency("tokio-postgres"),
                "broker-app must not depend on tokio-postgres",
            ),
            (
                "one adapter and another",
                "broker-pg",
                dependency("broker-kube"),
                "broker-pg must not depend on broker-kube",
            ),
            (
                "against the flow",
                "broker-render",
                for_tests("broker-ports"),
                "broker-render must not depend on broker-ports",
            ),
            (
                "the domain stays small",
                "broker-domain",
                dependency("futures"),
                "broker-domain must not depend on futures",
            ),
            (
                "to the letter",
                "broker-domain",
                dependency("time-macros"),
                "broker-domain must not depend on time-macros",
            ),
            (
                "serde is optional there",
                "broker-domain",
                dependency("serde"),
                "broker-domain must not depend on serde unless a feature asks for it",
            ),
            (
                "so is a runtime here",
                "broker-ports",
                dependency("tokio"),
                "broker-ports must not depend on tokio unless a feature asks for it",
            ),
            (
                "versions are the embedder's",
                "broker-kube",
                with_feature("v1_34", dependency("k8s-openapi")),
                "broker-kube must not choose the Kubernetes version of k8s-openapi",
            ),
        ];
        for (why, member, dependency, expected) in table {
            assert_eq!(problems(member, dependency), [expected], "{why}");
        }
    }

    #[test]
    fn a_member_that_is_not_on_the_map_is_found() {
        assert_eq!(
            problems("broker-extra", dependency("uuid")),
            ["broker-extra has no place in the map of dependencies"]
        );
    }

    /// Through cargo itself: a workspace in which the app names a driver under another name.
    #[test]
    fn a_real_manifest_is_read_with_its_line() {
        let directory = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = directory.path().join(path);
            fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).unwrap();
            fs::write(path, text).unwrap();
        };
        write(
            "Cargo.toml",
            "[workspace]\nresolver = \"3\"\nmembers = [\"broker-app\"]\nexclude = [\"sqlx\"]\n",
        );
        write("sqlx/Cargo.toml", "[package]\nname = \"sqlx\"\nversion = \"1.0.0\"\n");
        write("sqlx/src/lib.rs", "//! Stands in for the driver.\n");
        write(
            "broker-app/Cargo.toml",
            "[package]\nname = \"broker-app\"\nversion = \"1.0.0\"\n\n[dependencies]\n\
             store = { package = \"sqlx\", path = \"../sqlx\" }\n",
        );
        write("broker-app/src/lib.rs", "//! Depends on what it must not.\n");
        let mut command = MetadataCommand::new();
        command.current_dir(directory.path()).other_options(vec!["--offline".to_owned()]);

        let workspace = Workspace::load_from(&command).unwrap();
        let findings = check(&Tree::load(&workspace).unwrap());

        let lines: Vec<String> = findings.iter().map(ToString::to_string).collect();
        assert_eq!(
            lines,
            [
                "broker-app/Cargo.toml:6: [edges] broker-app must not depend on sqlx — remove it: broker-app may use \
              broker-domain, broker-render, broker-ports, tokio and small crates; see ARCHITECTURE.md"
            ]
        );
    }
}
