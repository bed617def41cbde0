//! What the adapter reports when the way to the API server, or the API server itself, fails.
//!
//! Each case is one fault at one request. It says what the caller is told, and whether the server had done
//! what it was asked for; then the way is cleared, the caller tries again, and there is one object, or none,
//! as there should be. **No fault is ever reported as absence.**

mod outage;

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use broker_kube::cache::CacheOptions;
use broker_kube::{Cause, KubeCluster};
use broker_ports::{Applied, Cluster, DeleteRequest, Deleted, FailureClass, PortError, XrReading};
use broker_render::Precondition;
use broker_tests::proxy::{Held, HttpAnswer, Request};
use broker_tests::{HttpProxy, TestCluster, until};
use http::StatusCode;
use kube::api::ListParams;

use super::adapter::{AdapterClient, adapter, adapter_within, build, proxied};
use super::cache::world::{World, observed};
use super::fixture::Subject;

/// Nothing is answered within it, because nothing ever is.
const SHORT: Duration = Duration::from_secs(3);
const LONG: Duration = Duration::from_mins(1);

/// What happens to the one request that matters.
enum Fault {
    /// The server is not asked.
    Before(HttpAnswer),
    /// The server has done it.
    After(HttpAnswer),
    /// The connection is closed, and the server is not asked.
    CutBefore,
    /// The connection is closed when the server has done it.
    CutAfter,
    /// Nothing is passed on for as long as the client waits.
    Held,
    /// Nobody listens.
    Refused,
}

use Fault::{After, Before, CutAfter, CutBefore, Refused};

/// A `Status` of the API server.
fn status(code: u16) -> HttpAnswer {
    HttpAnswer::failure(StatusCode::from_u16(code).unwrap(), "Fault", "a fault of the test")
}

/// A status without a body that the API server would send.
fn bare(code: u16) -> HttpAnswer {
    HttpAnswer::status(StatusCode::from_u16(code).unwrap())
}

fn page(code: u16) -> HttpAnswer {
    let text = "<html>somebody else's page</html>";
    HttpAnswer::failure(StatusCode::from_u16(code).unwrap(), text, text)
}

/// What the caller is told, and whether it happened.
struct Told {
    class: FailureClass,
    cause: Cause,
    happened: bool,
}

/// It will not work.
fn rejected(cause: Cause) -> Told {
    Told { class: FailureClass::Rejected, cause, happened: false }
}

/// It did not happen.
fn transient(cause: Cause) -> Told {
    Told { class: FailureClass::Transient, cause, happened: false }
}

/// It may have happened, and did not.
fn lost(cause: Cause) -> Told {
    Told { class: FailureClass::Unknown, cause, happened: false }
}

/// It may have happened, and did.
fn unseen(cause: Cause) -> Told {
    Told { class: FailureClass::Unknown, cause, happened: true }
}

impl Told {
    fn check(&self, error: &PortError) {
        let cause = error.source().and_then(|source| source.downcast_ref());
        let told = format!("{error:?}");
        assert_eq!(error.class(), self.class, "{told}");
        assert_eq!(cause, Some(&self.cause), "{told}");
    }
}

/// A Project whose API server is behind a proxy.
struct Faulty {
    world: World,
    proxy: HttpProxy,
    client: AdapterClient,
    cluster: Arc<KubeCluster>,
    /// The same past the proxy.
    direct: Arc<KubeCluster>,
}

impl Faulty {
    async fn new(deadline: Duration) -> Self {
        let cluster = TestCluster::shared().await;
        let world = World::of(&cluster, "faults.example.org").await;
        world.install_neighbours().await;
        let (proxy, _) = proxied(&world.broker).await;
        let client = AdapterClient::from_kubeconfig(&proxy.kubeconfig()).await;
        let (cluster, _) = adapter_within(&client, CacheOptions::default(), deadline);
        let (direct, _) = adapter(&*world.broker, CacheOptions::default());
        let faulty = Self { world, proxy, client, cluster, direct };
        // So that the adapter knows its kinds, and the next request is the one that matters.
        let any = faulty.world.resource();
        until("the kinds to be known", || async { faulty.cluster.read(&any.target()).await.ok() })
            .await;
        faulty
    }

    /// The fault strikes the first such request from now on.
    async fn strike(
        &self,
        fault: Fault,
        matches: impl Fn(&Request) -> bool + Send + Sync + 'static,
    ) -> Option<Held> {
        let rule = self.proxy.script().first(matches);
        match fault {
            Before(answer) => rule.before_forward().answer(answer),
            After(answer) => rule.before_answer().answer(answer),
            CutBefore => rule.before_forward().cut(),
            CutAfter => rule.before_answer().cut(),
            Fault::Held => return Some(rule.before_forward().hold()),
            Refused => self.proxy.refuse().await,
        }
        None
    }

    fn sent(&self, verb: &str) -> usize {
        self.proxy.script().seen().iter().filter(|request| request.verb == verb).count()
    }

    /// The adapter once the fault is over: what refuses does so for good.
    fn recovered(&self, refused: bool) -> &KubeCluster {
        self.proxy.script().clear();
        if refused { &self.direct } else { &self.cluster }
    }
}

fn deadline(fault: &Fault, told: &Told) -> Duration {
    let stalls = matches!(fault, Fault::Held) || told.cause == Cause::Deadline;
    if stalls { SHORT } else { LONG }
}

async fn applying(fault: Fault, told: Told) -> PortError {
    let faulty = Faulty::new(deadline(&fault, &told)).await;
    let refused = matches!(fault, Refused);
    let resource = faulty.world.resource();
    let shell = || resource.request(resource.shell(), Precondition::Absent);
    let _held = faulty.strike(fault, |request| request.verb == "PATCH").await;
    let error = faulty.cluster.apply(&shell()).await.unwrap_err();
    told.check(&error);
    assert_eq!(faulty.sent("PATCH"), usize::from(!refused), "it was not sent once");
    let first = faulty.world.live(&resource).await;
    assert_eq!(first.is_some(), told.happened);

    let again = faulty.recovered(refused).apply(&shell()).await.unwrap();
    assert_eq!(matches!(again, Applied::Conflict), told.happened, "{again:?}");
    let all = faulty.world.machines().list(&ListParams::default()).await.unwrap();
    assert_eq!(all.items.len(), 1, "it was done twice");
    if let Some(first) = first {
        assert_eq!(all.items[0].metadata.uid, first.metadata.uid, "it was replaced");
    }
    error
}

async fn deleting(fault: Fault, told: Told) {
    let faulty = Faulty::new(deadline(&fault, &told)).await;
    let refused = matches!(fault, Refused);
    let resource = faulty.world.resource();
    let uid = resource.start(&faulty.direct).await.uid;
    let target = resource.reference();
    let request = DeleteRequest::new(resource.identity.project, &target, &uid);
    let _held = faulty.strike(fault, |request| request.verb == "DELETE").await;
    told.check(&faulty.cluster.delete(&request).await.unwrap_err());
    assert_eq!(faulty.sent("DELETE"), usize::from(!refused), "it was not sent once");
    let stands = faulty.world.live(&resource).await;
    let stands = stands.is_some_and(|live| live.metadata.deletion_timestamp.is_none());
    assert_eq!(stands, !told.happened);

    let again = faulty.recovered(refused).delete(&request).await.unwrap();
    let expected = matches!(again, Deleted::Accepted) || told.happened && again == Deleted::Gone;
    assert!(expected, "{again:?}");
}

async fn reading(fault: Fault, told: Told) -> PortError {
    let faulty = Faulty::new(deadline(&fault, &told)).await;
    let refused = matches!(fault, Refused);
    let resource = faulty.world.resource();
    let version = resource.start(&faulty.direct).await;
    let name = resource.reference().name().to_owned();
    let is_object = move |request: &Request| {
        request.verb == "GET" && request.target.ends_with(&format!("/machines/{name}"))
    };
    let _held = faulty.strike(fault, is_object).await;
    let error = faulty.cluster.read(&resource.target()).await.unwrap_err();
    told.check(&error);

    let again = faulty.recovered(refused).read(&resource.target()).await.unwrap();
    let XrReading::Present(live) = again.xr else { panic!("it stands") };
    assert_eq!(live.object.version(), &version, "a read changed something");
    error
}

async fn observing(fault: Fault, told: Told) {
    let faulty = Faulty::new(deadline(&fault, &told)).await;
    let refused = matches!(fault, Refused);
    let resource = faulty.world.resource();
    resource.start(&faulty.direct).await;
    let _held = faulty.strike(fault, |request| request.target.contains("limit=")).await;
    told.check(&observed(&faulty.cluster, &resource).await.unwrap_err());
    observed(faulty.recovered(refused), &resource).await.unwrap();
}

/// A test for each row.
macro_rules! faults {
    ($($name:ident: $act:ident($fault:expr) is $told:expr;)*) => {$(
        #[tokio::test]
        async fn $name() {
            $act($fault, $told).await;
        }
    )*};
}

faults! {
    apply_without_a_connection: applying(Refused) is transient(Cause::Unreachable);
    apply_cut_before_it_is_processed: applying(CutBefore) is lost(Cause::Broken);
    apply_cut_after_it_was_processed: applying(CutAfter) is unseen(Cause::Broken);
    apply_reset_before_it_is_processed: applying(Before(HttpAnswer::reset())) is lost(Cause::Broken);
    apply_reset_after_it_was_processed: applying(After(HttpAnswer::reset())) is unseen(Cause::Broken);
    apply_that_nobody_answers: applying(Fault::Held) is lost(Cause::Deadline);
    apply_with_slow_headers: applying(After(HttpAnswer::half_a_head())) is unseen(Cause::Deadline);
    apply_with_half_a_body: applying(After(HttpAnswer::servers().cut_after(40)))
        is unseen(Cause::Broken);
    apply_with_a_body_that_stalls: applying(After(HttpAnswer::servers().stalled_after(40)))
        is unseen(Cause::Deadline);
    apply_answered_with_nonsense: applying(After(HttpAnswer::ok("<html>"))) is unseen(Cause::Unreadable);
    apply_throttled: applying(Before(status(429))) is transient(Cause::Throttled);
    apply_unauthenticated: applying(Before(status(401))) is transient(Cause::Unauthenticated);
    apply_forbidden: applying(Before(status(403))) is rejected(Cause::Forbidden);
    apply_indigestible: applying(Before(status(500))) is rejected(Cause::Indigestible);
    apply_to_an_unwell_gateway: applying(Before(page(502))) is lost(Cause::Unwell(502));
    apply_to_an_unavailable_server: applying(Before(status(503))) is lost(Cause::Unwell(503));
    apply_that_a_gateway_gave_up_on: applying(After(bare(504))) is unseen(Cause::Unwell(504));

    delete_without_a_connection: deleting(Refused) is transient(Cause::Unreachable);
    delete_reset_before_it_is_processed: deleting(Before(HttpAnswer::reset())) is lost(Cause::Broken);
    delete_reset_after_it_was_processed: deleting(After(HttpAnswer::reset())) is unseen(Cause::Broken);
    delete_with_slow_headers: deleting(After(HttpAnswer::half_a_head())) is unseen(Cause::Deadline);
    delete_throttled: deleting(Before(status(429))) is transient(Cause::Throttled);
    delete_at_an_unwell_server: deleting(Before(status(500))) is lost(Cause::Unwell(500));
    delete_that_a_gateway_gave_up_on: deleting(After(bare(504))) is unseen(Cause::Unwell(504));
    delete_answered_by_somebody_else: deleting(Before(bare(404))) is rejected(Cause::Refused(404));

    read_without_a_connection: reading(Refused) is transient(Cause::Unreachable);
    read_reset: reading(Before(HttpAnswer::reset())) is transient(Cause::Broken);
    read_with_slow_headers: reading(Before(HttpAnswer::half_a_head())) is transient(Cause::Deadline);
    read_with_half_a_body: reading(After(HttpAnswer::servers().cut_after(40)))
        is transient(Cause::Broken);
    read_of_half_an_object: reading(Before(HttpAnswer::ok(r#"{"metadata": {"uid": "#)))
        is transient(Cause::Unreadable);
    read_of_a_page: reading(Before(HttpAnswer::ok("<h1>Not found</h1>")))
        is transient(Cause::Unreadable);
    read_of_nothing_without_a_name: reading(Before(status(404))) is rejected(Cause::Refused(404));
    read_unauthenticated: reading(Before(status(401))) is transient(Cause::Unauthenticated);
    read_forbidden: reading(Before(status(403))) is rejected(Cause::Forbidden);
    read_answered_by_somebody_else: reading(Before(bare(404))) is rejected(Cause::Refused(404));
    read_at_an_unwell_server: reading(Before(status(500))) is transient(Cause::Unwell(500));
    read_at_an_unavailable_server: reading(Before(status(503))) is transient(Cause::Unwell(503));
    read_that_a_gateway_gave_up_on: reading(Before(bare(504))) is transient(Cause::Unwell(504));

    list_without_a_connection: observing(Refused) is transient(Cause::Unreachable);
    list_with_half_a_page: observing(After(HttpAnswer::servers().cut_after(40)))
        is transient(Cause::Broken);
    list_throttled: observing(Before(status(429))) is transient(Cause::Throttled);
    list_at_an_unavailable_server: observing(Before(status(503))) is transient(Cause::Unwell(503));
    list_forbidden: observing(Before(status(403))) is rejected(Cause::Forbidden);
}

#[tokio::test]
async fn the_time_that_a_throttled_client_is_asked_for_is_passed_on() {
    let busy = || Before(status(429).with_header("Retry-After", "7"));
    let seven = Some(Duration::from_secs(7));
    assert_eq!(applying(busy(), transient(Cause::Throttled)).await.retry_after(), seven);
    assert_eq!(reading(busy(), transient(Cause::Throttled)).await.retry_after(), seven);
    let unsaid = Before(status(429));
    assert_eq!(reading(unsaid, transient(Cause::Throttled)).await.retry_after(), None);
}

/// A 500 is the object's fault only if the server is well.
#[tokio::test]
async fn apply_at_an_unwell_server_may_have_happened() {
    let faulty = Faulty::new(LONG).await;
    let is_probe = |request: &Request| request.target.starts_with("/readyz");
    faulty.proxy.script().each(is_probe).before_forward().answer(bare(500));
    let _none = faulty.strike(After(status(500)), |request| request.verb == "PATCH").await;
    let resource = faulty.world.resource();
    let shell = resource.request(resource.shell(), Precondition::Absent);
    unseen(Cause::Unwell(500)).check(&faulty.cluster.apply(&shell).await.unwrap_err());
    assert!(faulty.world.live(&resource).await.is_some());
}

/// The second page is part of the list: without it nothing is known of anybody.
#[tokio::test]
async fn list_whose_second_page_fails() {
    let faulty = Faulty::new(LONG).await;
    let resources: Vec<Subject> = (0..3).map(|_| faulty.world.resource()).collect();
    for resource in &resources {
        resource.start(&faulty.direct).await;
    }
    let second = |request: &Request| request.target.contains("continue=");
    faulty.proxy.script().each(second).before_forward().answer(bare(503));
    let pages = broker_kube::KubeOptions::new(LONG, LONG).with_page_size(2.try_into().unwrap());
    let (cluster, _) = build(&faulty.client, pages, CacheOptions::default());
    let targets: Vec<_> = resources.iter().map(Subject::xr_target).collect();
    for seen in cluster.observe_many(&targets).await.unwrap() {
        transient(Cause::Unwell(503)).check(&seen.unwrap_err());
    }
}
