//! The Kubernetes adapter on a real API server: the contract of its port, and one test for each fact about
//! Kubernetes and Crossplane that it has to respect.

mod adapter;
pub(crate) mod fixture;
mod roles;
mod usage;
mod world;

mod contract;

mod absence;
mod applying;
mod deleting;
mod secrets;

mod cache;

mod budget;
mod faults;
mod rbac;
