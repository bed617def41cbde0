//! Deletion: in the foreground, of one very object, and of nothing else.

use broker_ports::{Cluster, DeleteRequest, Deleted, Standing, XrReading};
use broker_render::Precondition;
use broker_tests::until;
use serde_json::{Value, json};

use super::fixture::{Fixture, Subject, done};

async fn delete(fixture: &Fixture, subject: &Subject, uid: &str) -> Deleted {
    let target = subject.reference();
    let request = DeleteRequest::new(fixture.project, &target, uid);
    fixture.port.delete(&request).await.unwrap()
}

async fn read(fixture: &Fixture, subject: &Subject) -> XrReading {
    fixture.port.read(&subject.target()).await.unwrap().xr
}

#[tokio::test]
async fn in_the_foreground_the_composite_outlives_what_it_composed() {
    let fixture = Fixture::new().await;
    let (ours, theirs) = (fixture.machine(), fixture.machine());
    let (version, other) = (fixture.armed(&ours).await, fixture.armed(&theirs).await);
    let part = fixture.compose(&ours, &version.uid).await;
    let orphan = fixture.compose(&theirs, &other.uid).await;

    // In the background the composite is gone while its part lives on.
    fixture.delete_in_background(&theirs.reference()).await;
    until("the other composite to vanish", || async {
        matches!(read(&fixture, &theirs).await, XrReading::Absent).then_some(())
    })
    .await;
    let mut target = theirs.target();
    target.recorded = [orphan.clone()].into();
    let reading = fixture.port.read(&target).await.unwrap();
    assert_eq!(reading.recorded[&orphan], Standing::Present, "it is found by its recorded name");
    assert_eq!(reading.labelled, [orphan.clone()].into(), "and by its label");

    // Not so through the port.
    assert_eq!(delete(&fixture, &ours, &version.uid).await, Deleted::Accepted);
    until("the part to be asked to go", || async {
        let part = fixture.object(&part).await.unwrap();
        part["metadata"].get("deletionTimestamp").cloned()
    })
    .await;
    let live = fixture.live(&ours).await;
    assert!(live.status.deleting && !live.status.crossplane_ready(broker_domain::Phase::Ready));
    assert_eq!(delete(&fixture, &ours, &version.uid).await, Deleted::Accepted, "asked again");
    for held in [&part, &orphan] {
        fixture.patch("provider", held, json!({"metadata": {"finalizers": []}})).await;
    }
    until("the composite to follow", || async {
        matches!(read(&fixture, &ours).await, XrReading::Absent).then_some(())
    })
    .await;
    assert_eq!(delete(&fixture, &ours, &version.uid).await, Deleted::Gone);
}

#[tokio::test]
async fn another_object_of_that_name_is_spared() {
    let fixture = Fixture::new().await;
    let subject = fixture.machine();
    let version = fixture.shell(&subject).await;
    assert_eq!(delete(&fixture, &subject, "another").await, Deleted::Replaced);
    assert_eq!(fixture.live(&subject).await.object.version(), &version);
}

#[tokio::test]
async fn a_life_from_shell_to_gone_asks_for_nothing_that_is_not_ours() {
    let fixture = Fixture::new().await;
    let log = fixture.cluster.audit_log();
    let mark = log.mark();
    let subject = fixture.machine();
    let config = done(fixture.apply(subject.provider_config(), Precondition::Absent).await);
    let version = fixture.armed(&subject).await;
    fixture.port.inspect(&subject.target()).await.unwrap();
    fixture.port.observe_many(&[subject.xr_target()]).await.unwrap();
    assert_eq!(delete(&fixture, &subject, &version.uid).await, Deleted::Accepted);
    let target = subject.target().provider_config.unwrap();
    let request = DeleteRequest::new(fixture.project, &target, &config.uid);
    assert_eq!(fixture.port.delete(&request).await.unwrap(), Deleted::Accepted);
    until("everything to be gone", || async {
        let reading = fixture.port.read(&subject.target()).await.unwrap();
        let gone = matches!(reading.xr, XrReading::Absent) && reading.provider_config.is_none();
        gone.then_some(())
    })
    .await;

    let requests = log.since(mark, &fixture.broker.user).await;
    let writes: Vec<_> = requests
        .iter()
        .filter(|request| !["get", "list"].contains(&request.verb.as_str()))
        .map(|request| (request.verb.as_str(), request.resource.as_str(), request.code))
        .collect();
    let expected = [
        ("patch", "providerconfigs", 201),
        ("patch", "machines", 201),
        ("patch", "machines", 200),
        ("delete", "machines", 200),
        ("delete", "providerconfigs", 200),
    ];
    assert_eq!(writes, expected, "three writes up, two down, and no namespace among them");
    assert!(requests.iter().all(|request| request.resource != "secrets"), "no right on Secrets");
    let home = broker_render::namespace(fixture.project);
    let stays = cluster_namespace(&fixture, home.as_str()).await;
    assert_eq!(stays["status"]["phase"], "Active");
}

async fn cluster_namespace(fixture: &Fixture, name: &str) -> Value {
    let request = http::Request::get(format!("/api/v1/namespaces/{name}")).body(Vec::new());
    fixture.admin.request(request.unwrap()).await.unwrap()
}
