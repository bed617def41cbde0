//! The facade: who may see and touch what, what a caller is told, and what a dry run leaves undone.

use std::collections::BTreeMap;
use std::time::Duration;

use broker_app::decide::Mode;
use broker_app::{BootError, Passed, RunnerConfig, Service, Waited, one_line};
use broker_domain::EventType::{Deleting, Ready, Requested};
use broker_domain::{
    Action, ClusterId, Declaration, Phase, ProvisionedResource, ProvisionedResourceId, RequestId,
};
use broker_memory::Verb;
use broker_ports::{
    AuditAction, LeaseEpoch, ListQuery, PageSize, PortName, RequestContext, Resume, Schedule,
};
use broker_testkit::builders::id;
use broker_testkit::faults::{Fault, FaultPlan, Late};
use broker_tests::world::{
    NODE, SIZED, STANDALONE, World, beside, caller_of, declaration, operator, project,
    runner_config,
};
use tokio::time::timeout;

/// What each call of the facade about one resource is told.
async fn calls(
    service: &Service,
    context: &RequestContext,
    id: ProvisionedResourceId,
) -> BTreeMap<&'static str, &'static str> {
    fn told<T>(answer: Result<T, broker_app::Error>) -> &'static str {
        answer.map_or_else(|error| error.reason(), |_| "")
    }
    let here = ClusterId::new("kube-system-uid").unwrap();
    let second = Duration::from_secs(1);
    BTreeMap::from([
        ("get", told(service.get(context, id).await)),
        ("wait_for", told(service.wait_for(context, id, Phase::Ready, second).await)),
        ("pause", told(service.pause(context, id).await)),
        ("resume", told(service.resume(context, id).await)),
        ("reconcile_now", told(service.reconcile_now(context, id).await)),
        ("resume_events", told(service.resume_events(context, id, Resume::Skip).await)),
        ("deprovision", told(service.deprovision(context, id).await)),
        ("replace", told(service.replace(context, id, None).await)),
        ("abandon", told(service.abandon(context, id, "why not").await)),
        ("brake_status", told(service.brake_status(context).await)),
        ("set_brake", told(service.set_brake(context, None).await)),
        ("retry", told(service.retry(context, id).await)),
        ("scrub_audit", told(service.scrub_audit(context, id).await)),
        ("release_brake", told(service.release_brake(context, &here, None).await)),
    ])
}

fn trail(world: &World) -> usize {
    world.store.audit_trail().len()
}

fn requested(name: &str) -> Declaration {
    declaration(NODE).with_request_id(RequestId::new(name).unwrap())
}

#[tokio::test]
async fn a_refused_declaration_stores_nothing_and_is_on_record() {
    let world = World::new();
    let unpublished = Declaration::new(project(), id(2), id(0xdead), id(4));
    let unassigned = Declaration::new(project(), id(2), id(NODE), id(0xdead));
    let homeless = Declaration::new(id(0xbad), id(2), id(NODE), id(4));
    let rows = [
        ("a blueprint that nobody published", unpublished, "blueprint_not_found"),
        ("a credential of others", unassigned, "credential_not_found"),
        ("a Project without a namespace", homeless, "assignment_not_found"),
        ("a parameter is missing", declaration(SIZED), "parameter_values_invalid"),
    ];
    for (why, declared, reason) in rows {
        let before = trail(&world);
        for refused in [
            world.service.provision(&operator(), &declared).await.map(drop),
            world.service.admit(&operator(), &declared).await.map(drop),
        ] {
            assert_eq!(refused.unwrap_err().reason(), reason, "{why}");
        }
        let lines = world.store.audit_trail();
        let told: Vec<_> = lines[before..].iter().map(|line| line.entry.action).collect();
        assert_eq!(told, [AuditAction::DeclarationRefused; 2], "{why}");
    }
    let page = world.service.list(&operator(), &ListQuery::new(PageSize::MAX)).await.unwrap();
    assert_eq!(page.resources, []);
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_when_the_phase_is_there_when_it_cannot_come_and_when_time_is_up() {
    let world = World::new();
    let waited = |resource: &ProvisionedResource, phase, seconds| {
        let (service, id) = (&world.service, resource.id());
        async move {
            let at_most = Duration::from_secs(seconds);
            service.wait_for(&operator(), id, phase, at_most).await.unwrap()
        }
    };
    let ready = world.brought_to(Phase::Ready, &declaration(NODE)).await;
    assert_eq!(waited(&ready, Phase::Ready, 0).await, Waited::Reached(ready.clone()));
    let pending = world.declare(&declaration(NODE)).await.unwrap();
    assert_eq!(waited(&pending, Phase::Ready, 3).await, Waited::TimedOut(pending.clone()));
    let later = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        world.until(pending.id(), Phase::Ready).await
    };
    let (seen, ready) = tokio::join!(waited(&pending, Phase::Ready, 60), later);
    assert_eq!(seen, Waited::Reached(ready));
    let leaving = world.service.deprovision(&operator(), pending.id()).await.unwrap();
    assert_eq!(waited(&leaving, Phase::Ready, 60).await, Waited::Never(leaving.clone()));
}

/// The backstop of a caller that follows events: what changed since it last looked, and nothing else.
#[tokio::test]
async fn a_listing_goes_on_where_the_last_one_was_complete() {
    let world = World::new();
    let mut all = Vec::new();
    for _ in 0..7 {
        all.push(world.declare(&declaration(STANDALONE)).await.unwrap().id());
    }
    let listed = |query: ListQuery| {
        let service = &world.service;
        async move {
            let (mut query, mut ids, mut watermark) = (query, Vec::new(), None);
            loop {
                let page = service.list(&caller_of(project()), &query).await.unwrap();
                ids.extend(page.resources.iter().map(ProvisionedResource::id));
                watermark.get_or_insert(page.watermark);
                match page.next {
                    Some(next) => query = query.after(next),
                    None => return (ids, watermark.unwrap()),
                }
            }
        }
    };
    let query = ListQuery::new(PageSize::new(3).unwrap());
    let (seen, watermark) = listed(query.clone()).await;
    assert_eq!(seen, all);
    world.clock.advance(Duration::from_secs(1));
    world.service.deprovision(&operator(), all[4]).await.unwrap();
    let (changed, _) = listed(query.updated_since(watermark)).await;
    assert!(changed.contains(&all[4]));
    let (leaving, _) = listed(ListQuery::new(PageSize::MAX).in_phase(Phase::Deregistering)).await;
    assert_eq!(leaving, [all[4]]);
}

/// Every call that the facade makes, and the call of its own that makes it.
#[tokio::test(start_paused = true)]
async fn a_caller_is_not_kept_waiting_by_a_collaborator_that_hangs_or_is_dead() {
    let hangs = Fault::Delay { by: Duration::from_hours(24), late: Late::Never };
    let rows = [
        (PortName::Repository, "get_by_id", "get"),
        (PortName::Repository, "record_deletion_intent", "deprovision"),
        (PortName::Repository, "replace", "replace"),
        (PortName::Repository, "scrub_audit", "scrub_audit"),
        (PortName::Schedule, "set_paused", "pause"),
        (PortName::Schedule, "schedule", "reconcile_now"),
        (PortName::Schedule, "release_brake", "release_brake"),
        (PortName::Schedule, "claim", "abandon"),
        (PortName::TokenIssuer, "close", "abandon"),
        (PortName::Repository, "record_closed", "abandon"),
        (PortName::Repository, "update_phase", "abandon"),
        (PortName::AuditSink, "record", "reconcile_now"),
        (PortName::Outbox, "resume_events", "resume_events"),
    ];
    for (port, method, call) in rows {
        for fault in [hangs, Fault::BeforeEffect] {
            let world = World::new();
            let resource = world.declare(&declaration(NODE)).await.unwrap();
            let service = world.service_with(FaultPlan::none().from_call(port, method, 1, fault));
            let me = operator();
            let told = timeout(Duration::from_mins(5), calls(&service, &me, resource.id()));
            let told = told.await.unwrap_or_else(|_| panic!("{port}.{method} {fault}: hangs"));
            assert!(told[call].starts_with(port.as_str()), "{port}.{method} {fault}: {told:?}");
        }
    }
    let admission = [
        (PortName::BlueprintResolver, "resolve"),
        (PortName::AssignmentReader, "read"),
        (PortName::CredentialResolver, "resolve"),
        (PortName::CloudResolver, "resolve"),
        (PortName::LabelTagResolver, "resolve"),
        (PortName::Repository, "get_by_request"),
        (PortName::Repository, "create"),
    ];
    for (port, method) in admission {
        for fault in [hangs, Fault::BeforeEffect] {
            let world = World::new();
            let service = world.service_with(FaultPlan::none().from_call(port, method, 1, fault));
            let (me, order) = (operator(), requested("order-1"));
            let told = timeout(Duration::from_mins(1), service.provision(&me, &order)).await;
            let error = told.unwrap_or_else(|_| panic!("{port}.{method} hangs")).unwrap_err();
            assert!(error.reason().starts_with(port.as_str()), "{}", one_line(&error));
            // Whoever was not answered asks again, under the same name, and gets one resource.
            let first = world.declare(&order).await.unwrap();
            assert_eq!(world.declare(&order).await.unwrap().id(), first.id());
            let page = world.service.list(&me, &ListQuery::new(PageSize::MAX)).await.unwrap();
            assert_eq!(page.resources.len(), 1, "{port}.{method} {fault}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_declaration_does_not_wait_for_the_ticker() {
    let world = World::new();
    let never = Duration::from_hours(24);
    let config = RunnerConfig { sweep_interval: never, poll_interval: never, ..runner_config() };
    beside(world.runner_with(config), async {
        // The first look for due work, with which it begins to listen, is at once.
        tokio::time::sleep(Duration::from_millis(10)).await;
        let resource = world.declare(&declaration(STANDALONE)).await.unwrap();
        tokio::time::sleep(Duration::from_millis(10)).await;
        assert!(world.cluster.stands(&world.xr(&resource)), "it was looked at");
    })
    .await;
}

#[tokio::test]
async fn a_strict_runner_does_not_start_with_a_resource_in_trouble() {
    let world = World::new();
    let resource = world.declare(&declaration(STANDALONE)).await.unwrap();
    world.neighbours.withdraw(project(), id(4));
    world.cluster.forbid(Verb::List, "Bucket");
    let strict = world.runner_with(RunnerConfig { strict: true, ..runner_config() });
    let Err(BootError::Trouble { resource: named, .. }) = strict.boot().await else {
        panic!("it started");
    };
    assert_eq!(named, resource.id());
    assert!(world.runner().boot().await.is_ok(), "otherwise it is that resource's own business");
}

/// How often a resource was claimed. Panics when a lease on it exists.
async fn unleased_epoch(world: &World, id: ProvisionedResourceId) -> LeaseEpoch {
    let entry = world.store.entry(id).await.unwrap().unwrap();
    assert_eq!(entry.lease, None);
    entry.epoch
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_stores_what_is_asked_for_and_does_nothing_about_it() {
    let world = World::in_mode(Mode::DryRun);
    let live = world.replica_in_mode("live", Mode::Live);
    let fresh = world.declare(&declaration(NODE)).await.unwrap();
    let ready = world.declare(&declaration(NODE)).await.unwrap();
    for _ in 0..6 {
        live.reconcile(ready.id()).await.unwrap();
        world.cluster.tick();
        world.boot_agents();
    }
    assert_eq!(world.get(ready.id()).await.phase(), Phase::Ready);
    let leaving = world.service.deprovision(&operator(), ready.id()).await.unwrap();

    let (writes, lines) = (world.cluster.writes(), trail(&world));
    let standing = world.standing();
    let (fresh_epoch, leaving_epoch) =
        (unleased_epoch(&world, fresh.id()).await, unleased_epoch(&world, leaving.id()).await);
    for (id, action, from, to) in [
        (fresh.id(), Action::Apply, Phase::Pending, Phase::Pending),
        (leaving.id(), Action::DeregisterNode, Phase::Deregistering, Phase::Deregistering),
    ] {
        for _ in 0..3 {
            let planned = world.reconciler.reconcile(id).await.unwrap();
            assert_eq!(planned, Passed::Through { action, from, to }, "what it would do");
        }
    }
    assert_eq!(world.get(fresh.id()).await, fresh);
    assert_eq!(world.get(leaving.id()).await, leaving);
    assert_eq!((world.cluster.writes(), trail(&world)), (writes, lines), "nothing was sent");
    assert_eq!(world.standing(), standing);
    let node = world.mesh.consumer(leaving.bootstrap_token_id().unwrap()).unwrap();
    assert!(!node.deregistered);
    assert_eq!(world.tokens.live_token(fresh.id()), None, "no token was issued");

    // Both are told of, all the same, by the runner of the dry run.
    beside(world.runner(), async {
        for _ in 0..20 {
            world.let_time_pass().await;
        }
    })
    .await;
    let told = |id| {
        let types = world.sink.deliveries_of(id).into_iter().map(|envelope| envelope.event_type);
        types.collect::<Vec<_>>()
    };
    assert_eq!(told(fresh.id()), [Requested]);
    assert_eq!(told(leaving.id()), [Requested, Ready, Deleting]);
    assert_eq!((world.cluster.writes(), world.standing()), (writes, standing), "nor by the runner");
    assert_eq!(unleased_epoch(&world, fresh.id()).await, fresh_epoch, "the dry run took a lease");
    assert_eq!(
        unleased_epoch(&world, leaving.id()).await,
        leaving_epoch,
        "the dry run took a lease"
    );
}
