//! A blueprint that composes a Secret with connection details, on which the broker has no right.

use broker_domain::Phase;
use broker_tests::TestCluster;
use broker_tests::collector::wait_until_collector_knows_kinds;
use broker_tests::crossplane::Installation;
use kube::ResourceExt;
use serde_json::Value;

/// Every verb of RBAC that reads or writes an object.
const VERBS: [&str; 8] =
    ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];

#[tokio::test(flavor = "multi_thread")]
async fn composed_secret_exists_while_ready_and_is_never_read() {
    let installation = Installation::new(TestCluster::with_crossplane().await).await;
    // The composite resource would not wait for objects of a kind that the collector does not know.
    wait_until_collector_knows_kinds(&installation.crossplane.admin, installation.namespace())
        .await;
    let mark = installation.crossplane.audit_log().mark();
    let _replica = installation.replica();
    let account = installation.provision("sample-account", &[]).await;
    installation.wait_for_phase(&account, Phase::Ready).await;
    let name = format!("{}-connection", account.xr_name());
    let secret = installation.secrets().get(&name).await.unwrap();
    let keys: Vec<_> = secret.data["data"].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["endpoint", "username"]);
    assert!(secret.owner_references()[0].block_owner_deletion.unwrap());
    assert_eq!(kinds(&installation.get(&account).await), ["NopResource", "Secret"]);

    installation.deprovision(&account).await;
    installation.wait_for_phase(&account, Phase::Deleted).await;
    // The record is empty: the pass saw the end of a foreground deletion, which proves that the
    // Secret is deleted.
    assert_eq!(kinds(&installation.get(&account).await), [""; 0]);
    assert_eq!(installation.remaining_objects(&[account]).await, Vec::<String>::new());

    let broker = &installation.broker;
    for verb in VERBS {
        let right = ["", "secrets", verb].map(str::to_owned).into();
        assert!(!broker.is_allowed(&right, Some(installation.namespace())).await, "{verb} Secrets");
    }
    let requests = installation.crossplane.audit_log().since(mark, &broker.user).await;
    let of_secrets: Vec<_> =
        requests.iter().filter(|request| request.resource == "secrets").collect();
    assert!(!requests.is_empty() && of_secrets.is_empty(), "{of_secrets:?}");
    let refused: Vec<_> = requests.iter().filter(|request| request.code == 403).collect();
    assert!(refused.is_empty(), "{refused:?}");
}

fn kinds(shown: &Value) -> Vec<String> {
    let composed = shown["composed"].as_array().into_iter().flatten();
    composed.map(|object| object["kind"].as_str().unwrap_or_default().to_owned()).collect()
}
