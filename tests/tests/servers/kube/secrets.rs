//! A canary token is provoked into every answer that could repeat it, and shows up nowhere: in no error, no
//! source of one, no log line down to the finest, and no event.

use broker_kube::Cause;
use broker_ports::{Applied, Cluster};
use broker_tests::canary::everything;
use broker_tests::cluster::say;
use broker_tests::proxy::HttpAnswer;
use broker_tests::rights::BrokerIdentity;
use http::StatusCode;
use serde_json::json;

use super::adapter::uncached;
use super::fixture::{CANARY, COUNTING, Fixture, MACHINE, PICKY, Subject, claimed};
use crate::servers::log::Log;

#[track_caller]
fn assert_clean(what: &str, text: &str) {
    assert!(!text.contains(CANARY), "{what} repeats the token: {text}");
    assert!(!text.contains("cloud-config"), "{what} repeats the document: {text}");
}

#[tokio::test]
async fn no_refusal_repeats_a_token() {
    let (log, _logging) = Log::start();
    let (fixture, proxy) = Fixture::proxied().await;

    let mut tried = Vec::new();
    let mut refuse =
        async |what: &'static str, port: &dyn Cluster, subject: &Subject, expected: Cause| {
            let shell = fixture.shell(subject).await;
            let request = fixture.arming(subject, &shell);
            let errors = [
                ("dry run", port.dry_run(&request).await.map(drop).unwrap_err()),
                ("apply", port.apply(&request).await.map(drop).unwrap_err()),
            ];
            for (verb, error) in errors {
                let cause =
                    std::error::Error::source(&error).and_then(|cause| cause.downcast_ref());
                assert_eq!(cause, Some(&expected), "{what}, {verb}: {error}");
                assert_clean(what, &everything(&error));
            }
            tried.push(what);
        };
    let of = |kind| Subject::new(fixture.project, claimed(kind));
    let field = Cause::Invalid(vec!["spec.userData".to_owned()]);
    refuse("a rule that quotes what broke it", &fixture.port, &of(PICKY), field).await;
    refuse(
        "a type that quotes what is not of it",
        &fixture.port,
        &of(COUNTING),
        Cause::Indigestible,
    )
    .await;
    // Without roles, because the lack of every right is the case.
    let without_roles = BrokerIdentity::new(&fixture.cluster, "without-roles").await;
    let without_roles = uncached(&without_roles);
    refuse("a lack of rights", &without_roles, &of(MACHINE), Cause::Forbidden).await;

    // What somebody in between would say who has seen the request: a server of another make.
    let document = format!("I read #cloud-config\n{CANARY} and did not like it");
    let echoes = [
        (StatusCode::BAD_REQUEST, Cause::Refused(400)),
        (StatusCode::TOO_MANY_REQUESTS, Cause::Throttled),
        (StatusCode::SERVICE_UNAVAILABLE, Cause::Unwell(503)),
    ];
    for (status, expected) in echoes {
        let subject = of(MACHINE);
        let shell = fixture.shell(&subject).await;
        proxy
            .script()
            .each(|request| request.verb == "PATCH")
            .before_answer()
            .answer(HttpAnswer::failure(status, "Echo", &document));
        let error = fixture.port.apply(&fixture.arming(&subject, &shell)).await.unwrap_err();
        let cause = std::error::Error::source(&error).and_then(|cause| cause.downcast_ref());
        assert_eq!(cause, Some(&expected), "{error}");
        let said = everything(&error);
        assert!(!said.contains(CANARY), "{said}");
        proxy.script().clear();
    }

    // A conflict, a success, and everything that is read afterwards.
    let subject = of(MACHINE);
    let armed = fixture.armed(&subject).await;
    let stale = fixture.port.apply(&fixture.arming(&subject, &armed)).await;
    assert!(matches!(stale, Ok(Applied::Done(_))), "the same once more: {stale:?}");
    let message = format!("the cloud refused {CANARY}");
    let failed = json!([{
        "type": "ProvisioningFailed", "status": "True", "reason": "Refused", "message": message,
        "lastTransitionTime": "2026-01-02T03:04:05Z",
    }]);
    fixture.patch_status(&subject.reference(), failed).await;
    say(&fixture.admin, &subject.reference(), &message).await;
    let inspection = fixture.port.inspect(&subject.target()).await.unwrap();
    assert_eq!(inspection.events.as_ref().unwrap().len(), 1, "the event is read");
    let reading = fixture.port.read(&subject.target()).await.unwrap();
    let seen = fixture.port.observe_many(&[subject.xr_target()]).await.unwrap();
    let said = format!("{inspection:?} {reading:?} {seen:?} {:?}", fixture.port);
    assert!(said.contains("the cloud refused"), "{said}");
    assert_clean("what is read", &said);

    assert_eq!(tried.len(), 3);
    let text = log.text();
    for logged in ["kube.apply", "requesting"] {
        assert!(text.contains(logged), "{logged} was not logged in {} bytes", text.len());
    }
    assert_clean("the log", &text);
}
