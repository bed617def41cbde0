//! A namespace that one test has for itself.

use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api,
    api::{DeleteParams, ObjectMeta, PostParams},
};

use super::TestCluster;
use crate::{failure::OrFail, wait::in_own_runtime};

/// A cluster that was killed or frozen by its test keeps its namespaces; its directory goes soon.
const DELETE_TIMEOUT: Duration = Duration::from_secs(5);

/// A namespace. Dropping it asks for its deletion, with everything in it, and does not wait for
/// that.
#[derive(Debug)]
pub struct TestNamespace {
    cluster: TestCluster,
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
        Self { cluster: cluster.clone(), name: name.to_owned() }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for TestNamespace {
    fn drop(&mut self) {
        // Nothing can be done about a run that has ended before its tests.
        if !self.cluster.is_there() {
            return;
        }
        let delete = async {
            let namespaces = Api::<Namespace>::all(self.cluster.admin().await);
            namespaces.delete(&self.name, &DeleteParams::default()).await.map(drop)
        };
        // Best effort: what is left goes with the run.
        let _ = in_own_runtime(DELETE_TIMEOUT, delete);
    }
}
