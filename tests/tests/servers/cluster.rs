//! Smoke tests of the control plane, and of what the harness promises about it.

use broker_tests::{TestCluster, TestNamespace, until};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client, Error,
    api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams},
    core::{ApiResource, GroupVersionKind},
};
use serde_json::json;

use super::processes::user_of;

const MANAGER: &str = "smoke-test";

fn config_map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({ "metadata": { "name": name } })).unwrap()
}

fn config_maps(client: &Client, namespace: &TestNamespace) -> Api<ConfigMap> {
    Api::namespaced(client.clone(), namespace.name())
}

fn status_of(error: &Error) -> u16 {
    let Error::Api(status) = error else { panic!("not an answer of the API server: {error:?}") };
    status.code
}

fn widget(size: u32) -> serde_json::Value {
    json!({
        "apiVersion": "smoke.example.org/v1",
        "kind": "Widget",
        "metadata": { "name": "w" },
        "spec": { "size": size },
    })
}

async fn allow(cluster: &TestCluster, namespace: &TestNamespace, subject: serde_json::Value) {
    let admin = cluster.admin().await;
    let role = json!({
        "metadata": { "name": "reader" },
        "rules": [{ "apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"] }],
    });
    let binding = json!({
        "metadata": { "name": "reader" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader" },
        "subjects": [subject],
    });
    let parameters = PostParams::default();
    Api::<k8s_openapi::api::rbac::v1::Role>::namespaced(admin.clone(), namespace.name())
        .create(&parameters, &serde_json::from_value(role).unwrap())
        .await
        .unwrap();
    Api::<k8s_openapi::api::rbac::v1::RoleBinding>::namespaced(admin, namespace.name())
        .create(&parameters, &serde_json::from_value(binding).unwrap())
        .await
        .unwrap();
}

#[tokio::test]
async fn an_object_of_a_new_kind_can_be_applied_and_remembers_its_manager() {
    let cluster = TestCluster::shared().await;
    let namespace = cluster.namespace().await;
    let schema = json!({ "type": "object", "properties": {
        "spec": { "type": "object", "properties": { "size": { "type": "integer" } } },
    } });
    cluster
        .install_crd(json!({
            "metadata": { "name": "widgets.smoke.example.org" },
            "spec": {
                "group": "smoke.example.org",
                "names": { "kind": "Widget", "plural": "widgets" },
                "scope": "Namespaced",
                "versions": [{
                    "name": "v1",
                    "served": true,
                    "storage": true,
                    "schema": { "openAPIV3Schema": schema },
                }],
            },
        }))
        .await;

    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("smoke.example.org", "v1", "Widget"));
    let widgets: Api<DynamicObject> =
        Api::namespaced_with(cluster.admin().await, namespace.name(), &kind);
    let applied =
        widgets.patch("w", &PatchParams::apply(MANAGER), &Patch::Apply(widget(3))).await.unwrap();

    let fields = applied.metadata.managed_fields.unwrap();
    let ours = fields.iter().find(|fields| fields.manager.as_deref() == Some(MANAGER)).unwrap();
    assert_eq!(ours.operation.as_deref(), Some("Apply"));
    let owned = &ours.fields_v1.as_ref().unwrap().0;
    assert!(owned.pointer("/f:spec/f:size").is_some(), "{owned}");

    let conflict = widgets
        .patch("w", &PatchParams::apply("other"), &Patch::Apply(widget(4)))
        .await
        .unwrap_err();
    assert_eq!(status_of(&conflict), 409);
}

#[tokio::test]
async fn an_identity_may_do_only_what_it_was_given() {
    let cluster = TestCluster::shared().await;
    let (own, foreign) = (cluster.namespace().await, cluster.namespace().await);
    let reader = cluster.identity("smoke-reader").await;

    let refused = config_maps(&reader, &own).get("kept").await.unwrap_err();
    assert_eq!(status_of(&refused), 403, "nothing was given yet");

    config_maps(&cluster.admin().await, &own)
        .create(&PostParams::default(), &config_map("kept"))
        .await
        .unwrap();
    allow(&cluster, &own, json!({ "kind": "User", "name": "smoke-reader" })).await;
    let objects = config_maps(&reader, &own);
    // RBAC learns of a new binding a moment after it was created.
    until("the right to read", || async { objects.get("kept").await.ok() }).await;

    let refused = objects.delete("kept", &DeleteParams::default()).await.unwrap_err();
    assert_eq!(status_of(&refused), 403, "another verb");
    let refused = config_maps(&reader, &foreign).get("kept").await.unwrap_err();
    assert_eq!(status_of(&refused), 403, "another namespace");
}

#[tokio::test]
async fn a_right_can_be_given_to_a_group() {
    let cluster = TestCluster::shared().await;
    let namespace = cluster.namespace().await;
    allow(&cluster, &namespace, json!({ "kind": "Group", "name": "smoke-readers" })).await;
    let member =
        config_maps(&cluster.identity_in("smoke-member", "smoke-readers").await, &namespace);
    until("the right to read", || async { member.list(&ListParams::default()).await.ok() }).await;
    let stranger = config_maps(&cluster.identity("smoke-stranger").await, &namespace);
    assert_eq!(status_of(&stranger.list(&ListParams::default()).await.unwrap_err()), 403);
}

#[tokio::test]
async fn a_foreground_deletion_ends_only_when_the_dependent_is_gone() {
    let cluster = TestCluster::shared().await;
    let namespace = cluster.namespace().await;
    let objects = config_maps(&cluster.admin().await, &namespace);
    let owner = objects.create(&PostParams::default(), &config_map("owner")).await.unwrap();
    let dependent: ConfigMap = serde_json::from_value(json!({ "metadata": {
        "name": "dependent",
        "finalizers": ["smoke.example.org/held"],
        "ownerReferences": [{
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": "owner",
            "uid": owner.metadata.uid.unwrap(),
            "blockOwnerDeletion": true,
        }],
    } }))
    .unwrap();
    objects.create(&PostParams::default(), &dependent).await.unwrap();

    objects.delete("owner", &DeleteParams::foreground()).await.unwrap();
    // The garbage collector has come to the dependent, which its finalizer holds.
    until("the dependent to be deleted", || async {
        objects.get("dependent").await.unwrap().metadata.deletion_timestamp
    })
    .await;
    let owner = objects.get("owner").await.expect("the owner went before its dependent");
    assert_eq!(owner.metadata.finalizers.unwrap(), ["foregroundDeletion"]);

    let release = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    objects.patch("dependent", &PatchParams::default(), &release).await.unwrap();
    until("the owner to be gone", || async {
        objects.get_opt("owner").await.unwrap().is_none().then_some(())
    })
    .await;
    assert_eq!(objects.get_opt("dependent").await.unwrap(), None);
}

#[tokio::test]
async fn the_audit_log_counts_what_one_identity_did() {
    let cluster = TestCluster::shared().await;
    let namespace = cluster.namespace().await;
    let name = format!("counted-{}", namespace.name());
    let counted = cluster.identity_in(&name, "system:masters").await;
    let objects = config_maps(&counted, &namespace);
    config_maps(&cluster.admin().await, &namespace).get_opt("somebody-elses").await.unwrap();
    objects.get_opt("before").await.unwrap();

    let log = cluster.audit_log();
    // So that the request before is complete, and the mark stands behind it.
    assert_eq!(log.since(log.start(), &name).await.len(), 1);
    let mark = log.mark();
    for _ in 0..3 {
        objects.get_opt("absent").await.unwrap();
    }
    let applied =
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "applied" } });
    for _ in 0..2 {
        objects
            .patch("applied", &PatchParams::apply(MANAGER), &Patch::Apply(&applied))
            .await
            .unwrap();
    }

    let requests = log.since(mark, &name).await;
    let seen: Vec<_> =
        requests.iter().map(|request| (request.verb.as_str(), request.code)).collect();
    assert_eq!(seen, [("get", 404), ("get", 404), ("get", 404), ("patch", 201), ("patch", 200)]);
    assert!(requests.iter().all(|request| request.resource == "configmaps"));
    assert!(requests.iter().all(|request| request.namespace.as_deref() == Some(namespace.name())));
}

#[tokio::test]
async fn a_dedicated_cluster_is_unprivileged_and_survives_the_death_of_each_part() {
    let cluster = TestCluster::dedicated().await;
    let namespace = cluster.namespace().await;
    let objects = config_maps(&cluster.admin().await, &namespace);
    objects.create(&PostParams::default(), &config_map("kept")).await.unwrap();

    for part in [cluster.controller_manager(), cluster.etcd(), cluster.api_server()] {
        let id = part.id().await.unwrap();
        assert_ne!(user_of(id), 0, "{part:?} runs as root");
        part.kill().await;
        assert_eq!(part.id().await, None);
        part.restart().await;
        until("the object to be there again", || async { objects.get("kept").await.ok() }).await;
    }
    cluster.api_server().stop().await;
    objects.get("kept").await.unwrap_err();
}
