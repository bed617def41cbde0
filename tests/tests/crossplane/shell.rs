//! Shell and arm, on a Crossplane that really looks: the broker's own requests, one by one.

use broker_domain::ProjectId;
use broker_kube::KubeCluster;
use broker_ports::{Applied, Deleted, ObjectVersion};
use broker_render::namespace;
use broker_tests::crossplane::{Blueprint, Requests, TestCrossplane, port};
use broker_tests::{TestCluster, TestNamespace, until};
use kube::ResourceExt;
use kube::api::{DynamicObject, ListParams};
use serde_json::json;
use uuid::Uuid;

/// A namespace in which somebody sends requests.
struct Scene {
    crossplane: TestCrossplane,
    port: KubeCluster,
    requests: Requests,
    home: TestNamespace,
}

impl Scene {
    async fn new() -> Self {
        let crossplane = TestCluster::with_crossplane().await;
        let project: ProjectId = Uuid::now_v7().try_into().unwrap();
        let home = crossplane.namespace_named(namespace(project).as_str()).await;
        let port = port(&crossplane.broker_in(home.name()).await);
        let blueprint = Blueprint::named("sample-machine");
        let requests = Requests::new(&blueprint, project, r#"{"diskGib":20,"size":"small"}"#);
        Self { crossplane, port, requests, home }
    }

    async fn xr(&self) -> Option<DynamicObject> {
        let composites =
            self.requests.blueprint.composites(&self.crossplane.admin, self.home.name());
        composites.get_opt(self.requests.xr().name()).await.unwrap()
    }

    async fn composed(&self) -> Vec<DynamicObject> {
        let composed = self.requests.blueprint.composed(&self.crossplane.admin, self.home.name());
        composed.list(&ListParams::default()).await.unwrap().items
    }

    /// Waits until Crossplane has seen the shell and said that it is paused.
    async fn seen(&self) -> DynamicObject {
        until("Crossplane to see the shell", || async {
            self.xr().await.filter(|xr| has_reason(xr, "ReconcilePaused"))
        })
        .await
    }
}

fn has_reason(xr: &DynamicObject, reason: &str) -> bool {
    let conditions = xr.data.pointer("/status/conditions").and_then(|all| all.as_array());
    conditions.into_iter().flatten().any(|condition| condition["reason"] == reason)
}

fn version(xr: &DynamicObject) -> ObjectVersion {
    ObjectVersion::new(xr.uid().unwrap(), xr.resource_version().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shell_composes_nothing_and_deletes_freely() {
    let scene = Scene::new().await;
    scene.requests.shell(&scene.port, 1).await;
    let xr = scene.seen().await;
    assert_eq!(xr.finalizers(), [] as [String; 0], "nobody holds a shell");
    let chosen = xr.data.pointer("/spec/crossplane/compositionRef/name");
    assert_eq!(chosen, Some(&json!("sample-machine")), "the broker pins its Composition");
    let revision = xr.data.pointer("/spec/crossplane/compositionRevisionRef");
    assert_eq!(revision, None, "Crossplane selects nothing for a shell");
    assert!(scene.composed().await.is_empty());

    let deleted = scene.requests.delete(&scene.port, &xr.uid().unwrap()).await;
    assert_eq!(deleted, Deleted::Accepted);
    until("the shell to go", || async { scene.xr().await.is_none().then_some(()) }).await;
    assert!(scene.composed().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_arm_starts_it_and_one_of_an_older_epoch_is_refused() {
    let scene = Scene::new().await;
    let Scene { requests, port, .. } = &scene;
    requests.shell(port, 1).await;
    let first = version(&scene.seen().await);
    let Applied::Done(touched) = requests.touch(port, 2, &first).await else {
        panic!("a shell that nobody changed can be touched")
    };
    assert_eq!(requests.arm(port, &first).await, Applied::Conflict, "its epoch is over");
    let seen = scene.seen().await;
    assert_eq!(version(&seen), touched, "nothing changed, and Crossplane had nothing new to say");
    assert!(scene.composed().await.is_empty());

    assert!(matches!(requests.arm(port, &touched).await, Applied::Done(_)));
    let composed = until("the composed object", || async { scene.composed().await.pop() }).await;
    assert_eq!(composed.labels()["crossplane.io/composite"], requests.xr().name());
    let xr = scene.xr().await.unwrap();
    assert_eq!(requests.delete(port, &xr.uid().unwrap()).await, Deleted::Accepted);
    until("everything to go", || async {
        (scene.xr().await.is_none() && scene.composed().await.is_empty()).then_some(())
    })
    .await;
}
