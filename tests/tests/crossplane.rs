//! Tests on real Crossplane: the binary, Postgres, an API server, Crossplane with its functions,
//! and a provider. `cargo xtask test` starts the servers once for all; this process starts
//! Crossplane.

#![expect(clippy::unwrap_used, reason = "in a test, a panic is the report")]
#![expect(
    clippy::disallowed_methods,
    reason = "a test process is a composition root: it reads its environment, and mints ids"
)]

mod crossplane {
    mod composition;
    mod connection;
    mod scale;
    mod disturbances;
    mod lifetimes;
    mod nested;
    mod replay;
    mod shell;
    mod teardown;
    mod withdrawal;

    fn required_parameters(slug: &str) -> &'static [&'static str] {
        match slug {
            "sample-machine" => &["size=small"],
            "sample-database" => &["engine=postgres", "storage.gib=1"],
            _ => &[],
        }
    }

    fn is_ready(xr: &kube::api::DynamicObject) -> bool {
        let conditions = xr.data.pointer("/status/conditions").and_then(|all| all.as_array());
        let is_true = |condition: &serde_json::Value| {
            condition["type"] == "Ready" && condition["status"] == "True"
        };
        conditions.into_iter().flatten().any(is_true)
    }
}
