//! A namespace for one test.

use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api,
    api::{ObjectMeta, PostParams},
};

use super::TestCluster;
use crate::failure::OrFail;

/// A namespace, which exists until the run ends. Per deletion, the namespace controller would list every
/// kind twice, which made two thirds of all requests.
#[derive(Debug)]
pub struct TestNamespace {
    name: String,
}

impl TestNamespace {
    pub(super) async fn create(cluster: &TestCluster, name: &str) -> Self {
        let namespace = Namespace {
            metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
            ..Namespace::default()
        };
        Api::all(cluster.admin().await)
            .create(&PostParams::default(), &namespace)
            .await
            .or_fail(format_args!("namespace {name} cannot be created"));
        Self { name: name.to_owned() }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }
}
