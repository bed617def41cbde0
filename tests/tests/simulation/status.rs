//! A status costs one read, and says what holds a resource up as far as this process can know.

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

async fn status(service: &Service, id: ProvisionedResourceId) -> Status {
    service.status(&operator(), id).await.unwrap()
}

/// One read of the store, and nothing of any other port.
#[tokio::test]
async fn status_costs_one_read_of_the_store() {
    let world = World::new();
    let ready = world.brought_to(Phase::Ready, &declaration(NODE)).await;
    let (service, faults) = world.service_under(FaultPlan::none());
    assert_eq!(status(&service, ready.id()).await.hold_up, None);
    let calls: Vec<_> = faults.calls().into_iter().collect();
    assert_eq!(calls, [((PortName::Repository, "get_by_id"), 1)]);
}

#[tokio::test]
async fn status_without_a_runner_rests_on_the_row() {
    let world = World::new();
    let declared = world.brought_to(Phase::Provisioning, &declaration(NODE)).await;
    let told = status(&world.service, declared.id()).await;
    assert_eq!((told.phase, told.hold_up, told.basis), (Phase::Provisioning, None, Basis::Row));
    assert_eq!((told.since, told.is_leaving), (declared.phase_entered_at(), false));

    world.clock.advance(Duration::from_mins(31));
    assert_eq!(status(&world.service, declared.id()).await.hold_up, Some(HoldUp::Slow));

    world.service.deprovision(&operator(), declared.id()).await.unwrap();
    assert!(status(&world.service, declared.id()).await.is_leaving);
}

#[tokio::test]
async fn status_of_a_failed_resource_says_so() {
    let world = World::new();
    let failed = declaration(NODE).on_failure(OnFailure::Retain);
    let failed = world.declare(&failed).await.unwrap().id();
    world.cluster.behave_for(failed, Behaviour::failing_after(1, "no quota"));
    world.until(failed, Phase::Failed).await;
    assert_eq!(status(&world.service, failed).await.hold_up, Some(HoldUp::Failed));
}

#[tokio::test]
async fn status_is_only_told_within_the_callers_scope() {
    let world = World::new();
    let ready = world.brought_to(Phase::Ready, &declaration(NODE)).await;
    assert!(world.service.status(&caller_of(project()), ready.id()).await.is_ok());
    let hidden = world.service.status(&caller_of(id(0xbad)), ready.id()).await.unwrap_err();
    assert_eq!(hidden.reason(), "provisioned_resource_not_found");
}

/// What the runner of this process learnt is told in words that name nothing of the platform.
#[tokio::test(start_paused = true)]
async fn status_beside_a_runner_knows_what_holds_a_resource_up() {
    type Break = fn(&World);
    let rows: [(Break, Option<HoldUp>); 4] = [
        (|_| {}, None),
        (|world| world.neighbours.withdraw(project(), id(4)), Some(HoldUp::ReferenceMissing)),
        (|world| world.cluster.take_down(), Some(HoldUp::Unavailable)),
        (|world| world.cluster.forbid(Verb::Create, "Bucket"), Some(HoldUp::Refused)),
    ];
    for (number, (spoil, expected)) in rows.into_iter().enumerate() {
        let world = World::new();
        world.place(false);
        let declared = world.declare(&declaration(STANDALONE)).await.unwrap().id();
        let runner = world.runner_with(config("replica-1"));
        let service = world.service.clone().with_probe(runner.probe());
        background(runner, async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            world.place(true);
            spoil(&world);
            for _ in 0..20 {
                world.let_time_pass().await;
                world.service.reconcile_now(&operator(), declared).await.ok();
            }
            let told = status(&service, declared).await;
            assert_eq!((told.hold_up, told.basis), (expected, Basis::RowAndRunner), "row {number}");
        })
        .await;
    }
}
