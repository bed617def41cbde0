//! Tests on real servers: Postgres and a Kubernetes control plane. `cargo xtask test` starts them
//! once for all.

#![expect(clippy::unwrap_used, reason = "in a test, a panic is the report")]

mod servers {
    mod processes;

    mod pg;

    mod lifetime;

    mod render;

    mod cloud_init;

    mod agent;

    mod kube;

    mod app;

    mod cli;

    mod oracle;
}
