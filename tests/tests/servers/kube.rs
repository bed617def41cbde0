//! The Kubernetes adapter on a real API server: its port contract, and one test for each fact about Kubernetes and
//! Crossplane on which the adapter depends.

pub(crate) mod fixture;
mod roles;
mod world;

mod contract;

mod absence;

mod cache;

mod faults;
mod rbac;
