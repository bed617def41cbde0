//! Stages 3 and 5 on Kubernetes: observe, apply, delete and watch on a management cluster.
//!
//! Empty until the ports are settled. This is the only library crate that may name `kube`.
