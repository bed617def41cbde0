//! Conditional applies, what an API server refuses, and what stays as others left it.

use broker_domain::Phase;
use broker_kube::Cause;
use broker_ports::{ApplyRequest, Arming, Cluster, FailureClass};
use broker_render::{
    Armed, FIELD_MANAGER, PAUSED_ANNOTATION, Precondition, namespace, preserve_injection,
};
use broker_tests::proxy::HttpAnswer;
use broker_tests::until;
use http::StatusCode;
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::DeleteParams;
use serde_json::{Value, json};

use super::fixture::{FINALIZER, Fixture, cause, done};

#[tokio::test]
async fn what_others_wrote_stays_as_it_was() {
    let fixture = Fixture::new().await;
    let subject = fixture.machine();
    fixture.armed(&subject).await;
    let reference = subject.reference();
    let theirs = json!({
        "metadata": {
            "labels": {"team": "blue"}, "annotations": {PAUSED_ANNOTATION: "true", "note": "x"},
            "finalizers": [FINALIZER],
        },
        "spec": {"parameters": {"note": "theirs"}, "crossplane": {"resourceRefs": [
            {"apiVersion": "v1", "kind": "A", "name": "a"},
        ]}},
    });
    fixture.patch("somebody", &reference, theirs).await;
    let ready = json!([{
        "type": "Ready", "status": "True", "reason": "Said", "lastTransitionTime": "2026-01-02T03:04:05Z",
    }]);
    fixture.patch_status(&reference, ready).await;
    let before = fixture.object(&reference).await.unwrap();

    let changed = subject.with_parameters(r#"{"size":"large"}"#);
    let live = fixture.live(&changed).await;
    assert_eq!(live.armed, Arming::Armed(Armed::Token(changed.token_id)), "people pause, too");
    let report = fixture.port.inspect(&changed.target()).await.unwrap().xr.unwrap().unwrap();
    assert!(report.paused, "a pause by hand is reported");
    let manifest =
        preserve_injection(live.object.expose(), &changed.xr(), changed.token_id).unwrap();
    let precondition = live.object.version().unchanged();
    done(fixture.port.apply(&ApplyRequest::sealed(fixture.project, manifest, precondition)).await);

    let after = fixture.object(&reference).await.unwrap();
    assert_eq!(after["spec"]["parameters"]["size"], "large");
    for path in [
        "/metadata/labels/team",
        "/metadata/finalizers",
        "/spec/parameters/note",
        "/spec/crossplane",
        "/status",
    ] {
        assert!(before.pointer(path).is_some(), "{path}");
        assert_eq!(before.pointer(path), after.pointer(path), "{path}");
    }
    let annotations = &after["metadata"]["annotations"];
    assert_eq!(annotations[PAUSED_ANNOTATION], "true", "a pause by hand is not ours to end");
    let fields_of = |object: &Value, manager: &str| {
        let managers = object["metadata"]["managedFields"].as_array().unwrap().clone();
        let of = managers.into_iter().filter(|entry| entry["manager"] == manager);
        of.map(|entry| entry["fieldsV1"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(fields_of(&before, "somebody"), fields_of(&after, "somebody"));
    assert_eq!(fields_of(&after, FIELD_MANAGER).len(), 1);
    fixture.patch("somebody", &reference, json!({"metadata": {"finalizers": []}})).await;
}

#[tokio::test]
async fn a_stale_ready_does_not_count_on_the_way_up() {
    let fixture = Fixture::new().await;
    let subject = fixture.machine();
    fixture.armed(&subject).await;
    let reference = subject.reference();
    let generation = fixture.live(&subject).await.status.generation;
    let ready = json!([{
        "type": "Ready", "status": "True", "reason": "Said", "observedGeneration": generation,
        "lastTransitionTime": "2026-01-02T03:04:05Z",
    }]);
    fixture.patch_status(&reference, ready).await;
    let fresh = fixture.live(&subject).await.status;
    assert!(fresh.crossplane_ready(Phase::Provisioning));
    // As Crossplane does before the first Ready.
    fixture
        .patch(
            "crossplane",
            &reference,
            json!({"spec": {"crossplane": {"compositionRef": {"name": "c"}}}}),
        )
        .await;
    let stale = fixture.live(&subject).await.status;
    assert!(!stale.crossplane_ready(Phase::Provisioning), "it speaks of an older generation");
    assert!(stale.crossplane_ready(Phase::Ready), "what is Ready does not flap");
}

#[tokio::test]
async fn a_bare_500_is_the_objects_fault_unless_the_server_is_unwell() {
    let (fixture, proxy) = Fixture::proxied().await;
    let rows = [
        ("a field that is not declared", r#"{"colour":"blue"}"#, "colour"),
        ("a field of another type", r#"{"size":7}"#, "size"),
    ];
    for (why, parameters, field) in rows {
        let subject = fixture.machine().with_parameters(parameters);
        let answer = fixture.apply(subject.xr().shell(1), Precondition::Absent).await;
        let (cause_of_it, error) = cause(answer);
        assert_eq!(cause_of_it, Cause::Indigestible, "{why}: {error}");
        assert_eq!(error.class(), FailureClass::Rejected, "{why}: {error}");
        let reference = subject.reference();
        for part in [field, reference.name(), reference.kind(), reference.namespace().unwrap()] {
            assert!(error.to_string().contains(part), "{why}: {error} lacks {part}");
        }
        assert_eq!(fixture.object(&reference).await, None, "{why}");

        proxy
            .script()
            .each(|request| request.target == "/readyz")
            .before_forward()
            .answer(HttpAnswer::status(StatusCode::INTERNAL_SERVER_ERROR));
        let answer = fixture.apply(subject.xr().shell(1), Precondition::Absent).await;
        let (cause_of_it, error) = cause(answer);
        assert_eq!(cause_of_it, Cause::Unwell(500), "{why}: {error}");
        assert_eq!(error.class(), FailureClass::Unknown, "{why}: {error}");
        proxy.script().clear();
    }
}

#[tokio::test]
async fn a_namespace_that_is_ending_takes_nothing() {
    let fixture = Fixture::new().await;
    let everywhere = fixture.port_everywhere().await;
    let subject = fixture.machine();
    fixture.shell(&subject).await;
    let hold = json!({"metadata": {"finalizers": [FINALIZER]}});
    fixture.patch("holder", &subject.reference(), hold).await;
    let namespaces = Api::<Namespace>::all(fixture.admin.clone());
    let home = namespace(fixture.project);
    namespaces.delete(home.as_str(), &DeleteParams::default()).await.unwrap();
    let late = fixture.machine();
    let late = ApplyRequest::open(fixture.project, late.xr().shell(1), Precondition::Absent);
    let (why, error) = until("the end to be noticed", || async {
        let answer = everywhere.apply(&late).await;
        answer.is_err().then(|| cause(answer))
    })
    .await;
    assert_eq!(why, Cause::NamespaceTerminating, "{error}");
    assert_eq!(error.class(), FailureClass::Rejected);
    let release = json!({"metadata": {"finalizers": []}});
    fixture.patch("holder", &subject.reference(), release).await;
}
