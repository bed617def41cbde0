//! Rule `edges`: the allowed dependencies of each library. `deny.toml` covers indirect ones.
//!
//! ```text
//! domain ← render ← ports ← { pg, kube }        app → { domain, render, ports }
//! ```
//!
//! The core compiles without a runtime, a driver or a client, so an embedder chooses these.

use std::collections::BTreeSet;

use cargo_metadata::DependencyKind;

use super::Finding;
use crate::workspace::Workspace;

/// Every allowed edge.
const ALLOWED: &str = include_str!("dependencies.txt");
const PATH: &str = "xtask/src/tidy/dependencies.txt";

/// No library depends on these, so their dependencies are not restricted.
const UNRESTRICTED: [&str; 9] = [
    "broker-test-servers",
    "broker-tests",
    "custom-token-issuer",
    "embed-axum",
    "embed-memory",
    "embed-postgres-kubernetes",
    "forward-events",
    "provisioning-broker",
    "xtask",
];

/// Finds every edge that is not allowed, and every allowed edge that no manifest has.
pub(super) fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut edges = BTreeSet::new();
    for package in
        workspace.packages().filter(|package| !UNRESTRICTED.contains(&package.name.as_str()))
    {
        for dependency in &package.dependencies {
            let kind = match (dependency.kind, dependency.optional) {
                (DependencyKind::Development, _) => ", for tests",
                (_, true) => ", optional",
                (_, false) => "",
            };
            edges.insert(format!("{}{kind}: {}", package.name, dependency.name));
        }
    }
    compare(&edges)
}

fn compare(edges: &BTreeSet<String>) -> Vec<Finding> {
    let allowed: BTreeSet<_> = ALLOWED
        .lines()
        .filter_map(|line| line.split_once(": ").filter(|_| !line.starts_with('#')))
        .flat_map(|(dependent, names)| {
            names.split(' ').map(move |name| format!("{dependent}: {name}"))
        })
        .collect();
    let finding = |edge: &String, problem, remedy| {
        Finding::new("edges", PATH, 1, format!("{edge}: {problem}"), remedy)
    };
    let remedy =
        "remove it from the manifest, or add it to dependencies.txt if ARCHITECTURE.md allows it";
    let new = edges.difference(&allowed).map(|edge| finding(edge, "is not allowed", remedy));
    let removed = allowed.difference(edges);
    new.chain(removed.map(|edge| {
        finding(edge, "does not exist in any manifest", "remove it from dependencies.txt")
    }))
    .collect()
}
