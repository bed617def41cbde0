//! The Kubernetes adapter on a real API server: its port contract, and one test per fact about
//! Kubernetes and Crossplane that it depends on.

pub(crate) mod fixture;
mod roles;
mod world;

mod contract;

mod absence;

mod cache;

mod faults;
mod rbac;
