//! Smoke tests of the control plane, and of what the harness promises about it.

use broker_tests::{TestCluster, TestNamespace, until};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
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
