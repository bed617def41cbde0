//! The clusters that execute a history: an API server and the in-memory cluster.

use std::sync::Arc;

use async_trait::async_trait;
use broker_domain::{ClusterId, ObjectReference};
use broker_memory::{KindScope, ManualClock, MemoryCluster, Part};
use broker_ports::Cluster;
use broker_render::{Xrd, namespace};
use broker_testkit::builders::second;
use broker_tests::until;
use serde_json::{Value, json};

use crate::servers::kube::fixture::{Fixture, MACHINE, Subject, document, part_kind, spec};

/// A cluster, with the actions of other parties.
#[async_trait]
pub(super) trait TestedCluster: Sync {
    fn port(&self) -> &dyn Cluster;
    async fn object(&self, target: &ObjectReference) -> Option<Value>;
    async fn patch(&self, target: &ObjectReference, patch: Value);
    async fn delete_by_hand(&self, target: &ObjectReference);
    async fn compose(&self, subject: &Subject, owner_uid: &str) -> ObjectReference;
    /// Waits until an object is deleted or, if a finalizer holds it, until its deletion was accepted.
    async fn settle(&self, target: &ObjectReference, held: bool);
}

#[async_trait]
impl TestedCluster for Fixture {
    fn port(&self) -> &dyn Cluster {
        &self.port
    }

    async fn object(&self, target: &ObjectReference) -> Option<Value> {
        Fixture::object(self, target).await
    }

    async fn patch(&self, target: &ObjectReference, patch: Value) {
        Fixture::patch(self, "another-party", target, patch).await;
    }

    async fn delete_by_hand(&self, target: &ObjectReference) {
        self.delete_in_background(target).await;
    }

    async fn compose(&self, subject: &Subject, owner_uid: &str) -> ObjectReference {
        Fixture::compose(self, subject, owner_uid).await
    }

    async fn settle(&self, target: &ObjectReference, held: bool) {
        until(format!("{target} to be deleted"), || async {
            is_settled(Fixture::object(self, target).await.as_ref(), held).then_some(())
        })
        .await;
    }
}

pub(super) struct Memory(MemoryCluster);

impl Memory {
    pub(super) fn new(subject: &Subject) -> Self {
        let clock = Arc::new(ManualClock::at(second(10_000)));
        let cluster = MemoryCluster::new(clock, ClusterId::new("kube-system-uid").unwrap());
        let installed = document(MACHINE, &["v1"], &spec(&json!({"type": "string"})));
        let installed = Xrd::parse(installed.to_string().as_bytes()).unwrap();
        cluster.install_xrd(&Arc::new(installed));
        let config = subject.provider_config().reference().clone();
        for (api_version, kind) in [
            (part_kind().api_version, part_kind().kind),
            (config.api_version().to_owned(), config.kind().to_owned()),
        ] {
            cluster.install_kind(&api_version, &kind, KindScope::Namespaced);
        }
        cluster.create_namespace(namespace(subject.identity.project).as_str());
        cluster.stop(Part::Crossplane);
        Self(cluster)
    }
}

#[async_trait]
impl TestedCluster for Memory {
    fn port(&self) -> &dyn Cluster {
        &self.0
    }

    async fn object(&self, target: &ObjectReference) -> Option<Value> {
        self.0.object(target)
    }

    async fn patch(&self, target: &ObjectReference, patch: Value) {
        self.0.patch_as("another-party", target, &patch);
    }

    async fn delete_by_hand(&self, target: &ObjectReference) {
        self.0.delete_in_background(target);
    }

    async fn compose(&self, subject: &Subject, owner_uid: &str) -> ObjectReference {
        let (part, object) = subject.composed(owner_uid);
        self.0.create_as("crossplane", &part, &object);
        part
    }

    async fn settle(&self, target: &ObjectReference, held: bool) {
        for _ in 0..10 {
            self.0.tick();
        }
        assert!(is_settled(self.0.object(target).as_ref(), held), "{target} in memory");
    }
}

/// Whether an object is deleted or, if a finalizer holds it, being deleted.
fn is_settled(object: Option<&Value>, held: bool) -> bool {
    match object {
        None => true,
        Some(object) => held && object.pointer("/metadata/deletionTimestamp").is_some(),
    }
}
