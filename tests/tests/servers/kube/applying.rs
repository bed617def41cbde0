//! Conditional applies, what an API server refuses, and what stays as others left it.

use broker_domain::{Phase, ProjectId};
use broker_kube::Cause;
use broker_ports::{
    Applied, ApplyRequest, Arming, Cluster, FailureClass, NamespaceState, ObjectVersion,
};
use broker_render::{
    ARMED_ANNOTATION, Armed, EPOCH_ANNOTATION, FIELD_MANAGER, PAUSED_ANNOTATION, Precondition,
    namespace, preserve_injection,
};
use broker_tests::proxy::HttpAnswer;
use broker_tests::until;
use http::StatusCode;
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::DeleteParams;
use serde_json::{Value, json};

use super::fixture::{CANARY, FINALIZER, Fixture, Subject, cause, done};
use super::world::fresh_id;

fn holds_token(object: &Value) -> bool {
    object["spec"]["userData"].as_str().is_some_and(|text| text.contains(CANARY))
}

#[tokio::test]
async fn an_apply_that_comes_too_late_changes_nothing() {
    let fixture = Fixture::new().await;
    let subject = fixture.machine();
    let reference = subject.reference();
    let first = fixture.shell(&subject).await;
    let second = done(fixture.apply(subject.xr().shell(2), first.unchanged()).await);
    fixture.delete_in_background(&reference).await;
    until("it to be gone", || async { fixture.object(&reference).await.is_none().then_some(()) })
        .await;

    let gone = fixture.apply(subject.xr().shell(3), second.unchanged()).await.unwrap();
    assert_eq!(gone, Applied::Conflict, "what is gone is not revived");
    assert_eq!(fixture.object(&reference).await, None);

    let namesake = fixture.shell(&subject).await;
    let chance = ObjectVersion::new(&first.uid, &namesake.resource_version);
    let rows = [
        ("the name is taken", Precondition::Absent, Applied::Conflict),
        ("another object, another version", second.unchanged(), Applied::Conflict),
        ("another object, the same version", chance.unchanged(), Applied::NameTaken),
    ];
    for (why, precondition, expected) in rows {
        let answer = fixture.apply(subject.xr().shell(4), precondition).await.unwrap();
        assert_eq!(answer, expected, "{why}");
        let live = fixture.object(&reference).await.unwrap();
        assert_eq!(ObjectVersion::of(&live).unwrap(), namesake, "{why}");
    }
    let touched = done(fixture.apply(subject.xr().shell(5), namesake.unchanged()).await);
    let stale = fixture.apply(subject.xr().shell(6), namesake.unchanged()).await.unwrap();
    assert_eq!(stale, Applied::Conflict, "what was seen is stale");
    let live = fixture.object(&reference).await.unwrap();
    assert_eq!(ObjectVersion::of(&live).unwrap(), touched);
}

#[tokio::test]
async fn only_a_shell_can_land_late_and_only_its_own_arm_arms_it() {
    let fixture = Fixture::new().await;
    let subject = fixture.machine();
    let shell = fixture.shell(&subject).await;
    let live = fixture.live(&subject).await;
    assert_eq!(live.armed, Arming::Shell);
    let annotations = &live.object.expose()["metadata"]["annotations"];
    assert_eq!(annotations[PAUSED_ANNOTATION], "true", "a shell composes nothing");
    assert_eq!(annotations[EPOCH_ANNOTATION], "1");
    assert!(!holds_token(live.object.expose()));

    let touched = done(fixture.apply(subject.xr().shell(2), shell.unchanged()).await);
    let late = fixture.port.apply(&fixture.arming(&subject, &shell)).await.unwrap();
    assert_eq!(late, Applied::Conflict, "the arm of a worker that was overtaken");
    assert_eq!(fixture.live(&subject).await.armed, Arming::Shell);

    done(fixture.port.apply(&fixture.arming(&subject, &touched)).await);
    let live = fixture.live(&subject).await;
    assert_eq!(live.armed, Arming::Armed(Armed::Token(subject.token_id)));
    assert!(holds_token(live.object.expose()));
    let annotations = &live.object.expose()["metadata"]["annotations"];
    assert_eq!(annotations.get(PAUSED_ANNOTATION), None, "the arm starts it");
}

#[tokio::test]
async fn a_token_stays_when_others_fields_are_mended() {
    let fixture = Fixture::new().await;
    let subject = fixture.machine();
    fixture.armed(&subject).await;
    let reference = subject.reference();
    fixture.patch("somebody", &reference, json!({"spec": {"parameters": {"size": "large"}}})).await;
    let live = fixture.live(&subject).await;
    let manifest =
        preserve_injection(live.object.expose(), &subject.xr(), subject.token_id).unwrap();
    let precondition = live.object.version().unchanged();
    let request = ApplyRequest::sealed(fixture.project, manifest, precondition);
    done(fixture.port.apply(&request).await);
    let mended = fixture.object(&reference).await.unwrap();
    assert_eq!(mended["spec"]["parameters"]["size"], "small", "the drift is mended");
    assert!(holds_token(&mended), "server-side apply removes what its owner leaves out");
}

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
async fn a_broken_rule_is_told_by_its_field() {
    let fixture = Fixture::new().await;
    let subject = fixture.machine().with_parameters(r#"{"size":"huge"}"#);
    let (why, error) = cause(fixture.apply(subject.xr().shell(1), Precondition::Absent).await);
    assert_eq!(why, Cause::Invalid(vec!["spec.parameters.size".to_owned()]), "{error}");
    assert_eq!(error.class(), FailureClass::Rejected);
    assert!(error.to_string().contains(r#""small", "large""#), "the server's own words: {error}");
}

#[tokio::test]
async fn a_namespace_is_never_made_and_an_ending_one_takes_nothing() {
    let fixture = Fixture::new().await;
    // The generated writer role is bound in no absent namespace, and the API server drops the binding from an ending
    // one. A missing binding hides the namespace's state, so the right to write everywhere shows the cause.
    let everywhere = fixture.port_everywhere().await;
    let elsewhere = ProjectId::new(fresh_id()).unwrap();
    let homeless = Subject::new(elsewhere, fixture.machine().xr_target().xrd);
    for manifest in [homeless.xr().shell(1), homeless.provider_config()] {
        let request = ApplyRequest::open(elsewhere, manifest, Precondition::Absent);
        let ports = [(&fixture.port, Cause::Forbidden), (&everywhere, Cause::NamespaceAbsent)];
        for (port, expected) in ports {
            let (why, error) = cause(port.apply(&request).await);
            assert_eq!(why, expected, "{error}");
            assert_eq!(error.class(), FailureClass::Rejected);
        }
    }
    let namespaces = Api::<Namespace>::all(fixture.admin.clone());
    assert!(namespaces.get_opt(namespace(elsewhere).as_str()).await.unwrap().is_none());

    let subject = fixture.machine();
    fixture.shell(&subject).await;
    let hold = json!({"metadata": {"finalizers": [FINALIZER]}});
    fixture.patch("holder", &subject.reference(), hold).await;
    let home = namespace(fixture.project);
    namespaces.delete(home.as_str(), &DeleteParams::default()).await.unwrap();
    let state = fixture.port.inspect(&subject.target()).await.unwrap().namespace.unwrap();
    assert_eq!(state, NamespaceState::Terminating);
    let late = fixture.machine();
    let late = ApplyRequest::open(fixture.project, late.xr().shell(1), Precondition::Absent);
    let (why, error) = until("the end to be noticed", || async {
        let answer = everywhere.apply(&late).await;
        answer.is_err().then(|| cause(answer))
    })
    .await;
    assert_eq!(why, Cause::NamespaceTerminating, "{error}");
    assert_eq!(error.class(), FailureClass::Rejected);
    until("the binding to be gone", || async {
        let (why, error) = cause(fixture.port.apply(&late).await);
        assert_eq!(error.class(), FailureClass::Rejected, "{error}");
        (why == Cause::Forbidden).then_some(())
    })
    .await;
    let release = json!({"metadata": {"finalizers": []}});
    fixture.patch("holder", &subject.reference(), release).await;
}

#[tokio::test]
async fn an_annotation_by_hand_is_not_taken_for_a_token() {
    let fixture = Fixture::new().await;
    let subject = fixture.machine();
    fixture.shell(&subject).await;
    let by_hand = json!({"metadata": {"annotations": {ARMED_ANNOTATION: "by hand"}}});
    fixture.patch("kubectl", &subject.reference(), by_hand).await;
    assert_eq!(fixture.live(&subject).await.armed, Arming::Unreadable);
}
