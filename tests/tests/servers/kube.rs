//! The Kubernetes adapter on a real API server: the contract of its port, and one test for each fact about
//! Kubernetes and Crossplane that it has to respect.

pub(crate) mod fixture;
mod roles;
mod world;

mod contract;

mod absence;

mod cache;

mod faults;
mod rbac;
