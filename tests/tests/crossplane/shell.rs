//! A shell on real Crossplane.

use broker_domain::ProjectId;
use broker_ports::Deleted;
use broker_render::namespace;
use broker_tests::crossplane::{Blueprint, Requests, cluster_port};
use broker_tests::{TestCluster, until};
use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::json;
use uuid::Uuid;

#[tokio::test(flavor = "multi_thread")]
async fn shell_composes_nothing_and_can_be_deleted() {
    let crossplane = TestCluster::with_crossplane().await;
    let project: ProjectId = Uuid::now_v7().try_into().unwrap();
    let namespace = crossplane.namespace_named(namespace(project).as_str()).await;
    let port = cluster_port(&crossplane.broker_for_namespace(namespace.name()).await);
    let blueprint = Blueprint::named("sample-machine");
    let requests = Requests::new(&blueprint, project, r#"{"diskGib":20,"size":"small"}"#);
    let xr = async || {
        let composites = blueprint.composites(&crossplane.admin, namespace.name());
        composites.get_opt(requests.xr().name()).await.unwrap()
    };
    let composed = async || {
        let composed = blueprint.composed(&crossplane.admin, namespace.name());
        composed.list(&ListParams::default()).await.unwrap().items.len()
    };

    requests.apply_shell(&port, 1).await;
    let shell = until("Crossplane to report the shell as paused", || async {
        let xr = xr().await?;
        let conditions = xr.data.pointer("/status/conditions")?.as_array()?;
        let paused = conditions.iter().any(|condition| condition["reason"] == "ReconcilePaused");
        paused.then_some(xr)
    })
    .await;
    assert_eq!(shell.finalizers(), [] as [String; 0], "Crossplane adds no finalizer to a shell");
    let chosen = shell.data.pointer("/spec/crossplane/compositionRef/name");
    assert_eq!(chosen, Some(&json!("sample-machine")), "the broker pins its Composition");
    let revision = shell.data.pointer("/spec/crossplane/compositionRevisionRef");
    assert_eq!(revision, None, "Crossplane selects nothing for a shell");
    assert_eq!(composed().await, 0);

    let deleted = requests.delete_xr(&port, &shell.uid().unwrap()).await;
    assert_eq!(deleted, Deleted::Accepted);
    until("the shell to be deleted", || async { xr().await.is_none().then_some(()) }).await;
    assert_eq!(composed().await, 0);
}
