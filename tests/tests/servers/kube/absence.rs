//! Only a direct read that the API server itself answered with 404 proves that an object does not exist.

use broker_domain::ObjectReference;
use broker_kube::Cause;
use broker_ports::{Cluster, DeleteRequest, Deleted, FailureClass, Presence, XrReading};
use broker_render::Precondition;
use broker_tests::proxy::HttpResponse;
use broker_tests::{HttpProxy, crd, until};
use http::StatusCode;
use serde_json::{Value, json};

use super::fixture::{Fixture, Subject, VERSIONED, cause, document, expect_applied, spec};

#[tokio::test]
async fn unserved_version_hides_no_object() {
    let fixture = Fixture::new().await;
    let both = document(VERSIONED, &["v1", "v2"], &spec(&json!({"type": "string"})));
    let mut definition = crd::from_xrd(&both);
    fixture.cluster.install_crd(definition.clone()).await;
    let subject = fixture.resource_of(VERSIONED);
    let version = fixture.shell(&subject).await;

    definition["spec"]["versions"][0]["served"] = json!(false);
    fixture.cluster.install_crd(definition).await;
    until("v1 to be removed", || async {
        let request = http::Request::get("/apis/facts.plexsphere.io/v1/versioneds");
        fixture.admin.request::<Value>(request.body(Vec::new()).unwrap()).await.err()
    })
    .await;

    fixture.live(&subject).await;
    let mut target = subject.target();
    target.recorded = [subject.reference()].into();
    let recorded = fixture.port.read(&target).await.unwrap().recorded;
    assert_eq!(recorded[&subject.reference()], Presence::Present);
    let (why, error) = cause(fixture.apply(subject.xr().shell(2), version.unchanged()).await);
    assert_eq!(why, Cause::KindAbsent, "{error}");
    let target = subject.reference();
    let request = DeleteRequest::new(fixture.project, &target, &version.uid);
    assert_eq!(fixture.port.delete(&request).await.unwrap(), Deleted::Accepted);
    until("the composite resource to be deleted", || async {
        let xr = fixture.port.read(&subject.target()).await.unwrap().xr;
        matches!(xr, XrReading::Absent).then_some(())
    })
    .await;
}

async fn proxied_subject() -> (Fixture, HttpProxy, Subject) {
    let (fixture, proxy) = Fixture::proxied().await;
    let subject = fixture.machine();
    fixture.shell(&subject).await;
    (fixture, proxy, subject)
}

#[tokio::test]
async fn response_with_another_object_proves_nothing() {
    let (fixture, proxy, subject) = proxied_subject().await;
    let name = subject.reference().name().to_owned();
    let is_about_subject =
        move |request: &broker_tests::proxy::Request| request.target.contains(&name);
    proxy.script().each(is_about_subject).before_forward().respond(HttpResponse::ok("{}"));
    let read = fixture.port.read(&subject.target()).await;
    assert!(read.is_err(), "{:?}", read.unwrap().xr);
    proxy.script().clear();
    fixture.live(&subject).await;
}

#[tokio::test]
async fn cluster_is_identified_by_its_kube_system_uid() {
    let (fixture, proxy, subject) = proxied_subject().await;
    let here = fixture.port.identity().await.unwrap();
    assert_eq!(fixture.port.read(&subject.target()).await.unwrap().cluster, here);
    let other =
        json!({"metadata": {"uid": "7d2c52b8-another", "resourceVersion": "1"}}).to_string();
    let is_identity =
        |request: &broker_tests::proxy::Request| request.target.contains("kube-system");
    proxy.script().each(is_identity).before_forward().respond(HttpResponse::ok(other));
    let there = fixture.port.read(&subject.target()).await.unwrap().cluster;
    assert_eq!(there.as_str(), "7d2c52b8-another", "the identity was cached");
    proxy.script().clear();
    let nothing = HttpResponse::failure(StatusCode::NOT_FOUND, "NotFound", "no such namespace");
    proxy.script().each(is_identity).before_forward().respond(nothing);
    assert!(fixture.port.read(&subject.target()).await.is_err(), "an absent namespace");
}

#[tokio::test]
async fn failed_discovery_of_a_kind_is_not_absence() {
    let (fixture, proxy, subject) = proxied_subject().await;
    let recorded =
        ObjectReference::new("silent.plexsphere.io/v1", "Silent", "s", Some("nowhere")).unwrap();
    let mut target = subject.target();
    target.recorded = [recorded].into();
    let rows = [
        ("discovery is forbidden", HttpResponse::failure(StatusCode::FORBIDDEN, "Forbidden", "no")),
        ("discovery is down", HttpResponse::status(StatusCode::SERVICE_UNAVAILABLE)),
        ("discovery is malformed", HttpResponse::ok("{}")),
    ];
    for (what, answer) in rows {
        proxy
            .script()
            .each(|request| request.target.starts_with("/apis/silent.plexsphere.io"))
            .before_forward()
            .respond(answer);
        assert!(fixture.port.read(&target).await.is_err(), "{what}");
        proxy.script().clear();
    }
    assert!(fixture.port.read(&target).await.is_ok(), "the server has no such kind");
}

#[tokio::test]
async fn foreign_continue_token_is_refused() {
    let fixture = Fixture::new().await;
    let subject = fixture.machine();
    expect_applied(fixture.apply(subject.provider_config(), Precondition::Absent).await);
    let mut query = broker_ports::OwnedQuery::default();
    query.kinds.xrds = vec![subject.xr_target().xrd];
    for after in ["", "nonsense", r#"{"api_version":"a/v1","kind":"B","after":null}"#] {
        query.after = Some(after.to_owned());
        let error = fixture.port.list_owned(&query).await.unwrap_err();
        assert_eq!(error.class(), FailureClass::Rejected, "{error}");
    }
}
