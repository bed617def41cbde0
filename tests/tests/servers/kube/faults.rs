//! What the adapter reports when the API server, or the connection to it, fails.
//!
//! Each row is one fault of one request, with the expected error and whether the server executed the
//! request. Then the test removes the fault and retries: the object exists once, or not at all.
//! **No fault is ever reported as absence.** The class and cause of each status are tested in the
//! adapter's unit tests.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use broker_kube::cache::CacheOptions;
use broker_kube::{Cause, KubeCluster};
use broker_ports::{Applied, Cluster, DeleteRequest, FailureClass, PortError, XrReading};
use broker_render::Precondition;
use broker_tests::proxy::{HeldRequests, HttpResponse, Request};
use broker_tests::{HttpProxy, TestCluster, until};
use http::StatusCode;

use super::fixture::{Fixture, Subject};
use super::roles::{adapter_over, options};

/// The adapter's timeout for faults without a response.
const SHORT: Duration = Duration::from_secs(3);
const LONG: Duration = Duration::from_mins(1);

enum Fault {
    /// A canned response before the server receives the request.
    Before(HttpResponse),
    /// A canned response after the server has executed the request.
    After(HttpResponse),
    /// The connection is cut before the server receives the request.
    CutBefore,
    /// The connection is cut after the server has executed the request.
    CutAfter,
    /// Nothing is forwarded until the client's timeout.
    Held,
    /// The port is closed.
    Refused,
}

use Fault::{After, Before, CutAfter, CutBefore, Refused};

/// A status without the API server's body.
fn without_body(code: u16) -> HttpResponse {
    HttpResponse::status(StatusCode::from_u16(code).unwrap())
}

/// The expected error, and whether the request was executed.
struct ExpectedError {
    class: FailureClass,
    cause: Cause,
    executed: bool,
}

/// The request was rejected.
fn rejected(cause: Cause) -> ExpectedError {
    ExpectedError { class: FailureClass::Rejected, cause, executed: false }
}

/// The request was not executed.
fn transient(cause: Cause) -> ExpectedError {
    ExpectedError { class: FailureClass::Transient, cause, executed: false }
}

/// The adapter cannot know that the request was not executed.
fn unknown_not_executed(cause: Cause) -> ExpectedError {
    ExpectedError { class: FailureClass::Unknown, cause, executed: false }
}

/// The adapter cannot know that the request was executed.
fn unknown_executed(cause: Cause) -> ExpectedError {
    ExpectedError { class: FailureClass::Unknown, cause, executed: true }
}

impl ExpectedError {
    fn check(&self, why: &str, error: &PortError) {
        let cause = error.source().and_then(|source| source.downcast_ref());
        assert_eq!(error.class(), self.class, "{why}: {error:?}");
        assert_eq!(cause, Some(&self.cause), "{why}: {error:?}");
    }
}

/// The adapter behind a proxy with one fault for the first matching request.
struct FaultyAdapter<'f> {
    fixture: &'f Fixture,
    proxy: HttpProxy,
    cluster: Arc<KubeCluster>,
    refused: bool,
    _held: Option<HeldRequests>,
}

impl<'f> FaultyAdapter<'f> {
    async fn new(
        fixture: &'f Fixture,
        fault: Fault,
        expected: &ExpectedError,
        matches: impl Fn(&Request) -> bool + Send + Sync + 'static,
    ) -> Self {
        let deadline = if expected.cause == Cause::Deadline { SHORT } else { LONG };
        let (proxy, client) = fixture.broker.proxied().await;
        let (cluster, _) = adapter_over(client, options(deadline), CacheOptions::default());
        // The adapter discovers its kinds now, so that no discovery request precedes the request to disturb.
        let any = fixture.machine().target();
        until("the kinds to be known", || async { cluster.read(&any).await.ok() }).await;
        let refused = matches!(fault, Refused);
        let rule = proxy.script().first(matches);
        let mut held = None;
        match fault {
            Before(response) => rule.before_forward().respond(response),
            After(response) => rule.before_response().respond(response),
            CutBefore => rule.before_forward().cut(),
            CutAfter => rule.before_response().cut(),
            Fault::Held => held = Some(rule.before_forward().hold()),
            Refused => proxy.close_port().await,
        }
        Self { fixture, proxy, cluster, refused, _held: held }
    }

    fn assert_sent_once(&self, why: &str, verb: &str) {
        let seen = self.proxy.script().requests();
        let sent = seen.iter().filter(|request| request.verb == verb).count();
        assert_eq!(sent, usize::from(!self.refused), "{why}: not sent exactly once");
    }

    /// An adapter without the fault. A closed port stays closed, so its replacement is the fixture's own adapter.
    fn recovered(&self) -> &KubeCluster {
        self.proxy.script().clear();
        if self.refused { &self.fixture.port } else { &self.cluster }
    }
}

#[tokio::test]
async fn failed_apply_is_reported_and_happens_once() {
    let fixture = Fixture::new().await;
    let rows = [
        ("no connection", Refused, transient(Cause::Unreachable)),
        ("cut before it is processed", CutBefore, unknown_not_executed(Cause::Broken)),
        ("cut after it was processed", CutAfter, unknown_executed(Cause::Broken)),
        ("reset before", Before(HttpResponse::reset()), unknown_not_executed(Cause::Broken)),
        ("reset after", After(HttpResponse::reset()), unknown_executed(Cause::Broken)),
        ("no response", Fault::Held, unknown_not_executed(Cause::Deadline)),
        ("slow headers", After(HttpResponse::partial_head()), unknown_executed(Cause::Deadline)),
        (
            "half a body",
            After(HttpResponse::from_server().cut_after(40)),
            unknown_executed(Cause::Broken),
        ),
        (
            "a body stalls",
            After(HttpResponse::from_server().stalled_after(40)),
            unknown_executed(Cause::Deadline),
        ),
        ("nonsense", After(HttpResponse::ok("<html>")), unknown_executed(Cause::Unreadable)),
        ("a gateway timeout", After(without_body(504)), unknown_executed(Cause::ServerError(504))),
    ];
    for (why, fault, expected) in rows {
        let adapter =
            FaultyAdapter::new(&fixture, fault, &expected, |request| request.verb == "PATCH").await;
        let resource = fixture.machine();
        let shell = || resource.request(resource.shell(), Precondition::Absent);
        expected.check(why, &adapter.cluster.apply(&shell()).await.unwrap_err());
        adapter.assert_sent_once(why, "PATCH");
        let first = fixture.object(&resource.reference()).await;
        assert_eq!(first.is_some(), expected.executed, "{why}");

        let again = adapter.recovered().apply(&shell()).await.unwrap();
        assert_eq!(matches!(again, Applied::Conflict), expected.executed, "{why}: {again:?}");
        let second = fixture.object(&resource.reference()).await.unwrap();
        if let Some(first) = first {
            assert_eq!(first["metadata"]["uid"], second["metadata"]["uid"], "{why}: replaced");
        }
    }
}

#[tokio::test]
async fn failed_read_is_never_absence() {
    let fixture = Fixture::new().await;
    let half_an_object = HttpResponse::ok(r#"{"metadata": {"uid": "#);
    let rows = [
        ("no connection", Refused, transient(Cause::Unreachable)),
        ("reset", Before(HttpResponse::reset()), transient(Cause::Broken)),
        ("slow headers", Before(HttpResponse::partial_head()), transient(Cause::Deadline)),
        ("half a body", After(HttpResponse::from_server().cut_after(40)), transient(Cause::Broken)),
        ("half an object", Before(half_an_object), transient(Cause::Unreadable)),
        ("a page", Before(HttpResponse::ok("<h1>Not found</h1>")), transient(Cause::Unreadable)),
        ("a response of another server", Before(without_body(404)), rejected(Cause::Refused(404))),
    ];
    for (why, fault, expected) in rows {
        let resource = fixture.machine();
        let version = fixture.shell(&resource).await;
        let path = format!("/machines/{}", resource.reference().name());
        let is_object =
            move |request: &Request| request.verb == "GET" && request.target.ends_with(&path);
        let adapter = FaultyAdapter::new(&fixture, fault, &expected, is_object).await;
        expected.check(why, &adapter.cluster.read(&resource.target()).await.unwrap_err());

        let again = adapter.recovered().read(&resource.target()).await.unwrap();
        let XrReading::Present(live) = again.xr else { panic!("{why}: the object exists") };
        assert_eq!(live.object.version(), &version, "{why}: a read changed something");
    }
    let (resource, expected) = (fixture.machine(), rejected(Cause::Refused(404)));
    let (version, target) = (fixture.shell(&resource).await, resource.reference());
    let is_deletion = |request: &Request| request.verb == "DELETE";
    let answer = Before(without_body(404));
    let adapter = FaultyAdapter::new(&fixture, answer, &expected, is_deletion).await;
    let request = DeleteRequest::new(fixture.project, &target, &version.uid);
    expected.check("a deletion", &adapter.cluster.delete(&request).await.unwrap_err());
}

/// Without the second page, a list is incomplete and proves nothing about any resource.
#[tokio::test]
async fn failed_list_is_never_absence() {
    let fixture = Fixture::alone(&TestCluster::shared().await).await;
    let resources: Vec<Subject> = (0..6).map(|_| fixture.machine()).collect();
    for resource in &resources {
        fixture.shell(resource).await;
    }
    let targets: Vec<_> = resources.iter().map(Subject::xr_target).collect();
    let (any, second) = ("limit=", "continue=");
    let half = After(HttpResponse::from_server().cut_after(40));
    let rows = [
        ("no connection", any, Refused, transient(Cause::Unreachable)),
        ("half a page", any, half, transient(Cause::Broken)),
        ("no second page", second, Before(without_body(503)), transient(Cause::ServerError(503))),
    ];
    for (why, page, fault, expected) in rows {
        let is_page = move |request: &Request| request.target.contains(page);
        let adapter = FaultyAdapter::new(&fixture, fault, &expected, is_page).await;
        for seen in adapter.cluster.observe_many(&targets).await.unwrap() {
            expected.check(why, &seen.unwrap_err());
        }
        let again = adapter.recovered().observe_many(&targets).await.unwrap();
        assert!(again.iter().all(Result::is_ok), "{why}: {again:?}");
    }
}

/// A 500 is the object's fault only if the server is healthy.
#[tokio::test]
async fn apply_at_an_unhealthy_server_is_unknown() {
    let fixture = Fixture::new().await;
    let expected = unknown_executed(Cause::ServerError(500));
    let is_apply = |request: &Request| request.verb == "PATCH";
    let adapter = FaultyAdapter::new(&fixture, After(without_body(500)), &expected, is_apply).await;
    let is_probe = |request: &Request| request.target.starts_with("/readyz");
    adapter.proxy.script().each(is_probe).before_forward().respond(without_body(500));
    let resource = fixture.machine();
    let shell = resource.request(resource.shell(), Precondition::Absent);
    expected.check("an unhealthy server", &adapter.cluster.apply(&shell).await.unwrap_err());
    assert!(fixture.object(&resource.reference()).await.is_some());
}
