//! A status costs one read, and names what blocks a resource as far as this process knows.

use std::time::Duration;

use broker_app::{Basis, HoldUp, Service, Status};
use broker_domain::{OnFailure, Phase, ProvisionedResourceId};
use broker_memory::{Behaviour, Verb};
use broker_ports::PortName;
use broker_testkit::builders::id;
use broker_testkit::faults::FaultPlan;
use broker_tests::world::{
    NODE, STANDALONE, World, background, caller_of, config, declaration, operator, project,
};

async fn status_of(service: &Service, id: ProvisionedResourceId) -> Status {
    service.status(&operator(), id).await.unwrap()
}

/// One read of the store, and no call of any other port.
#[tokio::test]
async fn status_costs_one_read_of_the_store() {
    let world = World::new();
    let ready = world.declare_until(Phase::Ready, &declaration(NODE)).await;
    let (service, faults) = world.service_under(FaultPlan::none());
    assert_eq!(status_of(&service, ready.id()).await.hold_up, None);
    let calls: Vec<_> = faults.calls().into_iter().collect();
    assert_eq!(calls, [((PortName::Repository, "get_by_id"), 1)]);
}

#[tokio::test]
async fn status_without_a_runner_uses_only_the_row() {
    let world = World::new();
    let declared = world.declare_until(Phase::Provisioning, &declaration(NODE)).await;
    let shown = status_of(&world.service, declared.id()).await;
    assert_eq!((shown.phase, shown.hold_up, shown.basis), (Phase::Provisioning, None, Basis::Row));
    assert_eq!((shown.since, shown.is_leaving), (declared.phase_entered_at(), false));

    world.clock.advance(Duration::from_mins(31));
    assert_eq!(status_of(&world.service, declared.id()).await.hold_up, Some(HoldUp::Slow));

    world.service.deprovision(&operator(), declared.id()).await.unwrap();
    assert!(status_of(&world.service, declared.id()).await.is_leaving);
}

#[tokio::test]
async fn status_of_a_failed_resource_is_failed() {
    let world = World::new();
    let failed = declaration(NODE).on_failure(OnFailure::Retain);
    let failed = world.declare(&failed).await.unwrap().id();
    world.cluster.behave_for(failed, Behaviour::failing_after(1, "no quota"));
    world.until(failed, Phase::Failed).await;
    assert_eq!(status_of(&world.service, failed).await.hold_up, Some(HoldUp::Failed));
}

#[tokio::test]
async fn status_outside_the_callers_scope_is_not_found() {
    let world = World::new();
    let ready = world.declare_until(Phase::Ready, &declaration(NODE)).await;
    assert!(world.service.status(&caller_of(project()), ready.id()).await.is_ok());
    let hidden = world.service.status(&caller_of(id(0xbad)), ready.id()).await.unwrap_err();
    assert_eq!(hidden.reason(), "provisioned_resource_not_found");
}

/// The findings of a sweep last until the next one. A pause by this process shows at once.
#[tokio::test(start_paused = true)]
async fn status_with_a_runner_knows_pause_brake_and_namespace() {
    let world = World::new();
    world.place(false);
    let declared = world.declare(&declaration(STANDALONE)).await.unwrap().id();
    let runner = world.runner_with(config("replica-1"));
    let service = world.service.clone().with_probe(runner.probe());
    let hold_up = async || status_of(&service, declared).await.hold_up;
    let next_sweep = || tokio::time::sleep(Duration::from_secs(31));
    background(runner, async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(hold_up().await, Some(HoldUp::NamespaceNotReady));

        service.pause(&operator(), declared).await.unwrap();
        assert_eq!(hold_up().await, Some(HoldUp::Paused), "this process paused the resource");
        world.service.resume(&operator(), declared).await.unwrap();
        assert_eq!(
            hold_up().await,
            Some(HoldUp::Paused),
            "this process does not know of the resume"
        );
        next_sweep().await;
        assert_eq!(hold_up().await, Some(HoldUp::NamespaceNotReady));
        world.service.pause(&operator(), declared).await.unwrap();
        next_sweep().await;
        assert_eq!(hold_up().await, Some(HoldUp::Paused));
        service.resume(&operator(), declared).await.unwrap();
        assert_eq!(hold_up().await, Some(HoldUp::NamespaceNotReady));

        service.set_brake(&operator(), None).await.unwrap();
        next_sweep().await;
        assert_eq!(hold_up().await, Some(HoldUp::SafetyBrake));
    })
    .await;
}

/// The hold-up names what the local runner knows, without details of the platform.
#[tokio::test(start_paused = true)]
async fn status_with_a_runner_names_the_hold_up() {
    type Break = fn(&World);
    let rows: [(Break, Option<HoldUp>); 4] = [
        (|_| {}, None),
        (|world| world.platform.withdraw(project(), id(4)), Some(HoldUp::ReferenceMissing)),
        (|world| world.cluster.take_down(), Some(HoldUp::Unavailable)),
        (|world| world.cluster.forbid(Verb::Create, "Bucket"), Some(HoldUp::Refused)),
    ];
    for (number, (break_world, expected)) in rows.into_iter().enumerate() {
        let world = World::new();
        world.place(false);
        let declared = world.declare(&declaration(STANDALONE)).await.unwrap().id();
        let runner = world.runner_with(config("replica-1"));
        let service = world.service.clone().with_probe(runner.probe());
        background(runner, async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            world.place(true);
            break_world(&world);
            for _ in 0..20 {
                world.let_time_pass().await;
                world.service.reconcile_now(&operator(), declared).await.ok();
            }
            let shown = status_of(&service, declared).await;
            assert_eq!(
                (shown.hold_up, shown.basis),
                (expected, Basis::RowAndRunner),
                "row {number}"
            );
        })
        .await;
    }
}

/// What Crossplane reports on the composite resource, as the last sweep found it in the watch cache.
#[tokio::test(start_paused = true)]
async fn status_with_a_runner_knows_a_reported_problem() {
    const PROBLEM: &str = "quota of 10.0.0.7 exceeded";
    let rows: [(&str, Option<Behaviour>, Option<HoldUp>); 3] = [
        (
            "the Composition fails",
            Some(Behaviour::unsynced(PROBLEM)),
            Some(HoldUp::ProblemReported),
        ),
        ("nothing is reported", Some(Behaviour::never_ready()), None),
        ("the resource reached Ready", None, None),
    ];
    for (why, behaviour, expected) in rows {
        let world = World::new();
        let declared = world.declare(&declaration(STANDALONE)).await.unwrap().id();
        if let Some(behaviour) = behaviour {
            world.cluster.behave_for(declared, behaviour);
        }
        let runner = world.runner_with(config("replica-1"));
        let service = world.service.clone().with_probe(runner.probe());
        background(runner, async {
            for _ in 0..20 {
                world.let_time_pass().await;
            }
            tokio::time::sleep(Duration::from_secs(31)).await;
            let shown = status_of(&service, declared).await;
            assert_eq!((shown.hold_up, shown.basis), (expected, Basis::RowAndRunner), "{why}");
            assert!(!shown.to_json().to_string().contains("10.0.0.7"), "{why}");

            world.cluster.behave_for(declared, Behaviour::never_ready());
            world.let_time_pass().await;
            tokio::time::sleep(Duration::from_secs(31)).await;
            assert_eq!(
                status_of(&service, declared).await.hold_up,
                None,
                "{why}: the problem is gone"
            );
        })
        .await;
    }
}

/// Every pause sets Synced to False: that of a shell, and that of a cluster operator.
#[tokio::test(start_paused = true)]
async fn status_of_a_paused_composite_reports_no_problem() {
    let world = World::new();
    let declared = world.declare(&declaration(STANDALONE)).await.unwrap();
    world.cluster.behave_for(declared.id(), Behaviour::never_ready());
    world.until(declared.id(), Phase::Provisioning).await;
    world.cluster.pause(&world.xr(&declared));
    world.cluster.tick();
    let runner = world.runner_with(config("replica-1"));
    let service = world.service.clone().with_probe(runner.probe());
    background(runner, async {
        tokio::time::sleep(Duration::from_secs(31)).await;
        assert_eq!(status_of(&service, declared.id()).await.hold_up, None);
    })
    .await;
}
