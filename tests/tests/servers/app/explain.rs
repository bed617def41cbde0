//! Explanations on real servers: refusals by the API server itself, and objects missing from it.
//! All other verdicts are tested in memory.

use std::sync::Arc;

use broker_app::explain::{Explanation, Party, Verdict};
use broker_domain::Phase;
use broker_tests::TestCluster;
use broker_tests::real::RealWorld;
use broker_tests::until;
use broker_tests::world::{NODE, SIZED, operator};
use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

/// Asserts a verdict, its party, and the kind of the next action.
fn assert_explained(explained: &Explanation, verdict: Verdict, party: Party, action: &str) {
    let found = (explained.verdict, explained.party, explained.action.kind());
    assert_eq!(found, (verdict, party, action), "{explained}");
}

async fn wait_until(what: &str, condition: impl AsyncFn() -> bool) {
    until(what, || async { condition().await.then_some(()) }).await;
}

/// Creates a policy with which the API server refuses an operation on objects of one kind in the Project's namespace.
/// Returns its name.
async fn create_policy(world: &RealWorld, plural: &str, operation: &str, message: &str) -> String {
    let name = format!("deny-{operation}-{}", world.project).to_lowercase();
    let policies: Api<ValidatingAdmissionPolicy> = Api::all(world.admin.clone());
    let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(world.admin.clone());
    let namespace = world.namespace();
    let rules = json!([{
        "apiGroups": [world.kinds.group()], "apiVersions": ["v1"],
        "operations": [operation], "resources": [plural],
    }]);
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": rules, "namespaceSelector": {
                "matchLabels": {"kubernetes.io/metadata.name": namespace},
            }},
            "validations": [{"expression": "false", "message": message}],
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {"policyName": name, "validationActions": ["Deny"]},
    });
    let post = PostParams::default();
    policies.create(&post, &serde_json::from_value(policy).unwrap()).await.unwrap();
    bindings.create(&post, &serde_json::from_value(binding).unwrap()).await.unwrap();
    name
}

async fn remove_policy(world: &RealWorld, name: &str) {
    let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(world.admin.clone());
    let policies: Api<ValidatingAdmissionPolicy> = Api::all(world.admin.clone());
    bindings.delete(name, &DeleteParams::default()).await.unwrap();
    policies.delete(name, &DeleteParams::default()).await.unwrap();
}

#[tokio::test]
async fn refusing_policy_is_explained_in_convergence_and_teardown() {
    let world = Arc::new(RealWorld::new().await);
    let declared = world.declare(&world.declaration(NODE)).await.unwrap();
    let id = declared.id();
    let name = create_policy(&world, "machines", "CREATE", "no machines on Fridays").await;
    // A stored policy takes effect with a delay. `plan` detects the effect with a dry run, which changes nothing.
    wait_until("the policy to be enforced", async || {
        let plan = world.service.plan(&operator(), id).await.unwrap();
        plan.refusal().is_some_and(|(_, words)| words.contains("no machines on Fridays"))
    })
    .await;
    world.reconciler.reconcile(id).await.unwrap_err();
    let refused = world.explain(id).await;
    assert_explained(&refused, Verdict::WebhookRefused, Party::Platform, "mend_webhook");
    remove_policy(&world, &name).await;
    wait_until("the policy to be removed", async || {
        world.service.plan(&operator(), id).await.unwrap().refusal().is_none()
    })
    .await;
    world.until(id, Phase::Ready).await;

    // The message with which Crossplane's webhook protects an object in use.
    let name = create_policy(&world, "machines", "DELETE", "in-use by 1 usage(s)").await;
    let (api, object) = world.object(&world.xr(&world.get(id).await));
    let dry = DeleteParams { dry_run: true, ..DeleteParams::default() };
    wait_until("the policy to be enforced", async || api.delete(&object, &dry).await.is_err())
        .await;
    world.service.deprovision(&operator(), id).await.unwrap();
    // Enough passes to reach the deletion, whose refusal is the error of its pass.
    for _ in 0..3 {
        drop(world.round(id).await);
    }
    assert_explained(&world.explain(id).await, Verdict::Usage, Party::Platform, "remove_usage");
    remove_policy(&world, &name).await;
    wait_until("the policy to be removed", async || api.delete(&object, &dry).await.is_ok()).await;
    world.until(id, Phase::Deleted).await;
    assert_explained(&world.explain(id).await, Verdict::Deleted, Party::None, "wait");
}

#[tokio::test]
async fn mismatched_kind_schema_and_namespace_are_explained() {
    let world = RealWorld::with_exclusive_kinds(&TestCluster::shared().await).await;
    let declared = world.declaration(SIZED).with_parameters(r#"{"size":"small"}"#);
    let declared = world.declare(&declared).await.unwrap();
    let id = declared.id();
    let crds: Api<
        k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    > = Api::all(world.admin.clone());
    let name = format!("clusters.{}", world.kinds.group());

    // The schema accepts one size only.
    let path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/parameters";
    let narrow =
        json!([{"op": "add", "path": format!("{path}/properties/size/enum"), "value": ["large"]}]);
    let narrow: Patch<Value> = Patch::Json(serde_json::from_value(narrow).unwrap());
    crds.patch(&name, &PatchParams::default(), &narrow).await.unwrap();
    wait_until("the narrow schema to be enforced", async || {
        world.service.plan(&operator(), id).await.unwrap().refusal().is_some()
    })
    .await;
    world.reconciler.reconcile(id).await.unwrap_err();
    let refused = world.explain(id).await;
    assert_explained(&refused, Verdict::SchemaRefused, Party::Platform, "align_schema");
    assert!(refused.blocker.unwrap().message.unwrap().contains("spec.parameters.size"));
    let wide = json!([{"op": "remove", "path": format!("{path}/properties/size/enum")}]);
    let wide: Patch<Value> = Patch::Json(serde_json::from_value(wide).unwrap());
    crds.patch(&name, &PatchParams::default(), &wide).await.unwrap();
    wait_until("the wide schema to be enforced", async || {
        world.service.plan(&operator(), id).await.unwrap().refusal().is_none()
    })
    .await;

    crds.delete(&name, &DeleteParams::default()).await.unwrap();
    wait_until("the kind to be removed", async || {
        world.explain(id).await.verdict == Verdict::KindMissing
    })
    .await;
    assert_explained(
        &world.explain(id).await,
        Verdict::KindMissing,
        Party::Platform,
        "install_kind",
    );
    world.kinds.install(&world.cluster).await;
    world.until(id, Phase::Ready).await;
}

#[tokio::test]
async fn terminating_namespace_is_explained() {
    let world = RealWorld::new().await;
    let declared = world.declare(&world.declaration(NODE)).await.unwrap();
    let id = declared.id();
    let namespace = world.namespace();
    let maps: Api<k8s_openapi::api::core::v1::ConfigMap> =
        Api::namespaced(world.admin.clone(), &namespace);
    // The finalizer keeps the namespace terminating until the test removes it.
    let blocker = json!({"metadata": {"name": "blocker", "finalizers": ["example.org/blocker"]}});
    let blocker = serde_json::from_value(blocker).unwrap();
    maps.create(&PostParams::default(), &blocker).await.unwrap();
    let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(world.admin.clone());
    namespaces.delete(&namespace, &DeleteParams::default()).await.unwrap();
    let terminating = world.explain(id).await;
    let verdict = Verdict::NamespaceTerminating;
    assert_explained(&terminating, verdict, Party::Platform, "replace_namespace");

    let release = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    maps.patch("blocker", &PatchParams::default(), &release).await.unwrap();
    wait_until("the namespace to be deleted", async || {
        namespaces.get_opt(&namespace).await.unwrap().is_none()
    })
    .await;
    let absent = world.explain(id).await;
    assert_explained(&absent, Verdict::NamespaceAbsent, Party::Platform, "create_namespace");
    let recreated = serde_json::from_value(json!({"metadata": {"name": namespace}})).unwrap();
    namespaces.create(&PostParams::default(), &recreated).await.unwrap();
    // The broker's RoleBinding was deleted with the namespace.
    world.broker.admit_to(&namespace).await;
    world.until(id, Phase::Ready).await;
    namespaces.delete(&namespace, &DeleteParams::default()).await.unwrap();
}
