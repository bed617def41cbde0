//! Every path of a resource's life, walked from end to end.

use broker_app::{Passed, step::Ending};
use broker_domain::{Action, MeshRole, OnFailure, Phase};
use broker_ports::memory::{Behaviour, Verb};
use broker_ports::testing::builders::id;
use broker_ports::{AuditAction, NodeDeregistrar, PortName, Repository};
use broker_tests::world::{NODE, SIZED, STANDALONE, World, declaration, operator};

#[tokio::test]
async fn a_node_comes_up_and_enrols() {
    let world = World::new();
    let declared = world.declare(&declaration(NODE)).await.unwrap();
    assert_eq!(declared.phase(), Phase::Pending);

    let ready = world.until(declared.id(), Phase::Ready).await;
    assert!(ready.bootstrap_token_id().is_some());
    assert!(ready.first_ready_at().is_some());
    assert_eq!(ready.substrate().composed().len(), 1);
    assert_eq!(
        world.standing().len(),
        3,
        "composite resource, ProviderConfig, one composed object"
    );

    let settled = world.round(ready.id()).await.unwrap();
    let stays = Passed::Through { action: Action::Noop, from: Phase::Ready, to: Phase::Ready };
    assert_eq!(settled, stays);
    assert_eq!(world.get(ready.id()).await.version(), ready.version(), "and writes nothing");
}

#[tokio::test]
async fn a_standalone_resource_comes_up_without_a_token() {
    let world = World::new();
    let ready = world.brought_to(Phase::Ready, &declaration(STANDALONE)).await;
    assert_eq!(ready.mesh_role(), MeshRole::Standalone);
    assert_eq!(ready.bootstrap_token_id(), None);
    assert!(world.cluster.agent_documents().is_empty());
}

#[tokio::test]
async fn required_parameters_are_kept_and_rendered() {
    let world = World::new();
    let refused = world.declare(&declaration(SIZED)).await.unwrap_err();
    assert_eq!(refused.reason(), "parameter_values_invalid");

    let sized = declaration(SIZED).with_parameters(r#"{"size": "large"}"#);
    let ready = world.brought_to(Phase::Ready, &sized).await;
    assert_eq!(ready.parameters().as_json(), r#"{"count":1,"size":"large"}"#);
    let xr = world.cluster.object(&world.xr(&ready)).unwrap();
    assert_eq!(xr.pointer("/spec/parameters/size").unwrap(), "large");
    assert_eq!(xr.pointer("/spec/parameters/count").unwrap(), 1);
}

#[tokio::test]
async fn a_namespace_that_is_not_ready_is_waited_for() {
    let world = World::new();
    world.place(false);
    let declared = world.declare(&declaration(NODE)).await.unwrap();
    for _ in 0..3 {
        world.round(declared.id()).await.unwrap();
    }
    assert_eq!(world.get(declared.id()).await.phase(), Phase::Pending);
    assert!(world.standing().is_empty());

    world.place(true);
    world.until(declared.id(), Phase::Ready).await;
}

#[tokio::test]
async fn a_terminal_failure_is_retained() {
    let world = World::new();
    let declared = world.declare(&declaration(NODE)).await.unwrap();
    world.cluster.behave_for(declared.id(), Behaviour::failing_after(1, "quota exceeded"));
    let failed = world.until(declared.id(), Phase::Failed).await;
    let failure = failed.failure().unwrap();
    assert_eq!(failure.reason().as_str(), "quota exceeded");
    assert_eq!(failure.step(), Phase::Provisioning);
    assert_eq!(world.round(failed.id()).await.unwrap(), Passed::NotClaimed, "it is at rest");
}

#[tokio::test]
async fn a_terminal_failure_is_rolled_back() {
    let world = World::new();
    let declared = world.declare(&declaration(NODE).on_failure(OnFailure::Rollback)).await.unwrap();
    world.cluster.behave_for(declared.id(), Behaviour::failing_after(1, "quota exceeded"));
    world.until(declared.id(), Phase::Failed).await;
    let gone = world.until(declared.id(), Phase::Deleted).await;
    assert_eq!(gone.failure().unwrap().reason().as_str(), "quota exceeded");
    assert!(world.standing().is_empty());
}

#[tokio::test]
async fn deletion_leads_away_from_every_phase() {
    for blueprint in [NODE, STANDALONE] {
        for phase in [Phase::Pending, Phase::Provisioning, Phase::Enrolling, Phase::Ready] {
            if blueprint == STANDALONE && phase == Phase::Enrolling {
                continue;
            }
            let world = World::new();
            let resource = world.brought_to(phase, &declaration(blueprint)).await;
            world.service.deprovision(&operator(), resource.id()).await.unwrap();
            let gone = world.until(resource.id(), Phase::Deleted).await;
            assert!(world.standing().is_empty(), "from {phase}: {:?}", world.standing());
            assert!(gone.substrate().composed().is_empty(), "from {phase}");
            if let Some(token) = gone.bootstrap_token_id() {
                let consumer = world.mesh.consumer(token);
                assert!(consumer.is_none_or(|consumer| consumer.deregistered), "from {phase}");
            }
        }
    }
}

#[tokio::test]
async fn deletion_leads_away_from_failed_as_well() {
    let world = World::new();
    let declared = world.declare(&declaration(NODE)).await.unwrap();
    world.cluster.behave_for(declared.id(), Behaviour::failing_after(1, "quota exceeded"));
    world.until(declared.id(), Phase::Failed).await;
    world.service.deprovision(&operator(), declared.id()).await.unwrap();
    let gone = world.until(declared.id(), Phase::Deleted).await;
    assert!(world.standing().is_empty());
    assert_eq!(gone.failure().unwrap().reason().as_str(), "quota exceeded", "it stays on the row");
}

#[tokio::test]
async fn asking_for_a_deletion_again_changes_nothing() {
    for phase in [Phase::Deregistering, Phase::Deprovisioning, Phase::Deleted] {
        let world = World::new();
        let ready = world.brought_to(Phase::Ready, &declaration(NODE)).await;
        world.service.deprovision(&operator(), ready.id()).await.unwrap();
        while world.get(ready.id()).await.phase() != phase {
            world.round(ready.id()).await.unwrap();
        }
        let before = world.get(ready.id()).await;
        let lines = world.store.audit_trail().len();
        let again = world.service.deprovision(&operator(), ready.id()).await.unwrap();
        assert_eq!((again, world.store.audit_trail().len()), (before, lines), "{phase}");
        while world.get(ready.id()).await.phase() != Phase::Deleted {
            world.round(ready.id()).await.unwrap();
        }
        assert!(world.standing().is_empty(), "{phase}");
    }
}

#[tokio::test]
async fn a_composite_resource_deleted_by_hand_is_made_again() {
    for blueprint in [NODE, STANDALONE] {
        for phase in [Phase::Pending, Phase::Provisioning, Phase::Enrolling, Phase::Ready] {
            if blueprint == STANDALONE && phase == Phase::Enrolling {
                continue;
            }
            let world = World::new();
            let resource = world.brought_to(phase, &declaration(blueprint)).await;
            if phase == Phase::Pending {
                // The first pass applies, and the row stays in Pending until that is observed.
                world.reconciler.reconcile(resource.id()).await.unwrap();
                assert_eq!(world.get(resource.id()).await.phase(), Phase::Pending);
            }
            let before = world.cluster.object(&world.xr(&resource)).unwrap();
            world.cluster.delete_in_background(&world.xr(&resource));
            let again = world.until(resource.id(), Phase::Ready).await;
            let after = world.cluster.object(&world.xr(&resource)).unwrap();
            assert_ne!(before.pointer("/metadata/uid"), after.pointer("/metadata/uid"), "{phase}");
            assert_eq!(again.phase(), Phase::Ready);
        }
    }
}

#[tokio::test]
async fn a_composite_resource_deleted_by_hand_on_the_way_down_is_not_made_again() {
    for phase in [Phase::Deregistering, Phase::Deprovisioning] {
        let world = World::new();
        let ready = world.brought_to(Phase::Ready, &declaration(NODE)).await;
        world.service.deprovision(&operator(), ready.id()).await.unwrap();
        while world.get(ready.id()).await.phase() != phase {
            world.round(ready.id()).await.unwrap();
        }
        world.cluster.delete_in_background(&world.xr(&ready));
        world.cluster.settle(5);
        assert!(!world.cluster.stands(&world.xr(&ready)));
        let applies = world.cluster.requests(Verb::Patch);
        world.until(ready.id(), Phase::Deleted).await;
        assert_eq!(world.cluster.requests(Verb::Patch), applies, "{phase}");
        assert!(world.standing().is_empty(), "{phase}");
        let node = world.mesh.consumer(ready.bootstrap_token_id().unwrap()).unwrap();
        assert!(node.deregistered, "{phase}: its Node was drained all the same");
    }
}

#[tokio::test]
async fn a_composite_resource_deleted_by_hand_leaves_a_failure_as_it_is() {
    let world = World::new();
    let declared = world.declare(&declaration(NODE)).await.unwrap();
    world.cluster.behave_for(declared.id(), Behaviour::failing_after(1, "quota exceeded"));
    let failed = world.until(declared.id(), Phase::Failed).await;
    world.cluster.delete_in_background(&world.xr(&failed));
    world.cluster.settle(5);
    let (work, _) = world.sweep().await;
    assert_eq!(work, []);
    assert_eq!(world.round(failed.id()).await.unwrap(), Passed::NotClaimed);
    assert_eq!(world.get(failed.id()).await, failed);
    world.service.deprovision(&operator(), failed.id()).await.unwrap();
    world.until(failed.id(), Phase::Deleted).await;
    assert!(world.standing().is_empty());
}

#[tokio::test]
async fn an_expired_token_is_not_replaced() {
    let world = World::new();
    let waiting = world.brought_to(Phase::Enrolling, &declaration(NODE)).await;
    world.clock.advance(std::time::Duration::from_hours(2));
    assert_eq!(world.tokens.live_token(waiting.id()), None, "it has expired");
    let issued = world.faults.calls()[&(PortName::TokenIssuer, "issue")];
    for _ in 0..3 {
        world.round(waiting.id()).await.unwrap();
    }
    let still = world.get(waiting.id()).await;
    assert_eq!(
        (still.phase(), still.bootstrap_token_id()),
        (Phase::Enrolling, waiting.bootstrap_token_id())
    );
    assert_eq!(world.faults.calls()[&(PortName::TokenIssuer, "issue")], issued);
}

#[tokio::test]
async fn an_enrolled_node_is_replaced_by_a_new_one_with_a_new_token() {
    let world = World::new();
    let first = world.brought_to(Phase::Ready, &declaration(NODE)).await;
    world.cluster.delete_in_background(&world.xr(&first));
    world.until(first.id(), Phase::Pending).await;
    let second = world.until(first.id(), Phase::Ready).await;
    assert_ne!(second.bootstrap_token_id(), first.bootstrap_token_id());
    assert_eq!(second.token_ordinal().get(), 2);
    let old = world.mesh.consumer(first.bootstrap_token_id().unwrap()).unwrap();
    assert!(old.deregistered, "the old Node left before the new one came");
    assert_eq!(second.event_sequence(), first.event_sequence() + 1, "Ready was told again");
}

#[tokio::test]
async fn a_lost_node_is_waited_for_and_gets_no_second_token() {
    let world = World::new();
    let ready = world.brought_to(Phase::Ready, &declaration(NODE)).await;
    let token = ready.bootstrap_token_id().unwrap();
    world.mesh.deregistrar().deregister(token).await.unwrap();
    let waiting = world.until(ready.id(), Phase::Enrolling).await;
    for _ in 0..3 {
        world.round(ready.id()).await.unwrap();
    }
    assert_eq!(world.get(ready.id()).await.bootstrap_token_id(), waiting.bootstrap_token_id());
    assert_eq!(world.get(ready.id()).await.phase(), Phase::Enrolling);
}

#[tokio::test]
async fn a_credential_of_another_project_does_not_exist() {
    let world = World::new();
    world.neighbours.withdraw(broker_tests::world::project(), id(4));
    let refused = world.declare(&declaration(NODE)).await.unwrap_err();
    assert_eq!(refused.reason(), "credential_not_found");
    let refusals = world.store.audit_trail();
    assert!(refusals.iter().any(|line| line.entry.action == AuditAction::DeclarationRefused));
}

#[tokio::test]
async fn a_retry_is_free_and_another_declaration_under_its_name_is_refused() {
    let world = World::new();
    let request = broker_domain::RequestId::new("order-1").unwrap();
    let declared = declaration(NODE).with_request_id(request);
    let first = world.declare(&declared).await.unwrap();
    // Nothing is resolved for a retry: not even what it would now be refused for.
    world.neighbours.withdraw(broker_tests::world::project(), id(4));
    assert_eq!(world.declare(&declared).await.unwrap().id(), first.id());
    let other = world.declare(&declared.clone().on_failure(OnFailure::Rollback)).await.unwrap_err();
    assert_eq!(other.reason(), "idempotency_conflict");
}

#[tokio::test]
async fn drift_is_mended_and_the_injected_token_is_kept() {
    let world = World::new();
    let waiting = world.declare(&declaration(NODE)).await.unwrap();
    world.cluster.behave_for(waiting.id(), Behaviour::never_ready());
    world.until(waiting.id(), Phase::Provisioning).await;
    let xr = world.xr(&waiting);
    let injected = world.cluster.object(&xr).unwrap().pointer("/spec/userData").cloned();
    assert!(injected.is_some());
    let edit =
        serde_json::json!({"metadata": {"labels": {"plexsphere.io/project-id": "somebody-elses"}}});
    world.cluster.patch_as("a person", &xr, &edit);
    world.round(waiting.id()).await.unwrap();
    let mended = world.cluster.object(&xr).unwrap();
    let label = mended.pointer("/metadata/labels/plexsphere.io~1project-id").unwrap();
    assert_eq!(label, &waiting.project_id().to_string());
    assert_eq!(mended.pointer("/spec/userData").cloned(), injected);
}

#[tokio::test]
async fn the_provider_config_goes_last() {
    let world = World::new();
    let resource = world.declare(&declaration(NODE)).await.unwrap();
    world.cluster.behave_for(resource.id(), Behaviour::ready_after(0).finalizing_after(3));
    world.until(resource.id(), Phase::Ready).await;
    world.service.deprovision(&operator(), resource.id()).await.unwrap();
    for _ in 0..20 {
        let _ = world.round(resource.id()).await.unwrap();
        let standing = world.standing();
        let config = standing.iter().any(|object| object.kind() == "ProviderConfig");
        assert!(
            config || standing.is_empty(),
            "something outlived its ProviderConfig: {standing:?}"
        );
        if world.get(resource.id()).await.phase() == Phase::Deleted {
            return;
        }
    }
    panic!("teardown did not end");
}

#[tokio::test]
async fn an_abandoned_resource_is_left_alone() {
    let world = World::new();
    let ready = world.brought_to(Phase::Ready, &declaration(NODE)).await;
    let early = world.service.abandon(&operator(), ready.id(), "lost").await.unwrap_err();
    assert_eq!(early.reason(), "illegal_transition");
    world.service.deprovision(&operator(), ready.id()).await.unwrap();
    let given_up = world.service.abandon(&operator(), ready.id(), "lost").await.unwrap();
    assert!(given_up.abandoned() && given_up.token_closed());
    let standing = world.standing();
    assert_eq!(world.round(ready.id()).await.unwrap(), Passed::NotClaimed);
    let (work, _) = world.sweep().await;
    assert!(work.is_empty());
    assert_eq!(world.standing(), standing);
}

#[tokio::test]
async fn a_paused_resource_is_not_worked_on() {
    let world = World::new();
    let declared = world.declare(&declaration(NODE)).await.unwrap();
    world.service.pause(&operator(), declared.id()).await.unwrap();
    assert_eq!(world.round(declared.id()).await.unwrap(), Passed::NotClaimed);
    world.service.resume(&operator(), declared.id()).await.unwrap();
    world.until(declared.id(), Phase::Ready).await;
}

#[tokio::test]
async fn a_converged_and_a_waiting_world_cost_a_sweep_nothing() {
    let world = World::new();
    let ready = world.brought_to(Phase::Ready, &declaration(NODE)).await;
    let waiting = world.declare(&declaration(NODE)).await.unwrap();
    world.cluster.behave_for(waiting.id(), Behaviour::never_ready());
    for _ in 0..4 {
        world.round(waiting.id()).await.unwrap();
    }
    assert_eq!(world.get(waiting.id()).await.phase(), Phase::Provisioning);
    world.clock.advance(std::time::Duration::from_mins(10));
    let writes = world.cluster.writes();
    let lines = world.store.audit_trail().len();
    let (work, report) = world.sweep().await;
    assert_eq!(work, [], "{report:?}");
    assert_eq!((report.looked_at, report.settled), (2, 2));
    assert_eq!((world.cluster.writes(), world.store.audit_trail().len()), (writes, lines));

    world.cluster.delete_in_background(&world.xr(&ready));
    let (work, report) = world.sweep().await;
    assert_eq!(
        work.iter().map(|work| work.resource).collect::<Vec<_>>(),
        [ready.id()],
        "{report:?}"
    );
}

#[tokio::test]
async fn a_mass_disappearance_pulls_the_brake() {
    let world = World::new();
    let mut resources = Vec::new();
    for _ in 0..8 {
        resources.push(world.brought_to(Phase::Ready, &declaration(NODE)).await);
    }
    for resource in &resources {
        world.cluster.delete_in_background(&world.xr(resource));
    }
    world.cluster.settle(5);
    let (work, report) = world.sweep().await;
    assert_eq!(work, [], "{report:?}");
    assert_eq!(report.brake.as_ref().unwrap().absent, 8);

    // A pass that is asked for by hand obeys, too.
    let first = &resources[0];
    world.round(first.id()).await.unwrap();
    assert_eq!(world.get(first.id()).await.phase(), Phase::Ready);
    assert!(!world.cluster.stands(&world.xr(first)));

    let cluster = first.substrate().cluster().unwrap().clone();
    world.service.release_brake(&operator(), &cluster).await.unwrap();
    world.round(first.id()).await.unwrap();
    world.until(first.id(), Phase::Ready).await;
    assert!(world.cluster.stands(&world.xr(first)));
}

#[tokio::test]
async fn another_cluster_proves_nothing() {
    let world = World::new();
    let ready = world.brought_to(Phase::Ready, &declaration(NODE)).await;
    world.cluster.swap_identity(broker_domain::ClusterId::new("another").unwrap());
    let error = world.round(ready.id()).await.unwrap_err();
    assert!(error.is_infrastructure(), "{error}");
    assert_eq!(world.get(ready.id()).await.phase(), Phase::Ready);
}

#[tokio::test]
async fn the_audit_tells_the_story() {
    let world = World::new();
    let ready = world.brought_to(Phase::Ready, &declaration(NODE)).await;
    world.service.deprovision(&operator(), ready.id()).await.unwrap();
    world.until(ready.id(), Phase::Deleted).await;
    let story: Vec<_> = world
        .store
        .history(ready.id())
        .await
        .unwrap()
        .into_iter()
        .map(|line| line.entry.action.as_str())
        .collect();
    assert_eq!(story.first(), Some(&"declared"));
    assert_eq!(story.last(), Some(&"phase_changed"));
    for action in [
        "token_issue",
        "token_recorded",
        "substrate_apply",
        "tokens_close",
        "node_deregister",
        "substrate_delete",
    ] {
        assert!(story.contains(&action), "{action}: {story:?}");
    }
}

#[tokio::test]
async fn a_race_that_was_lost_ends_quietly() {
    let world = World::new();
    let declared = world.declare(&declaration(NODE)).await.unwrap();
    world.round(declared.id()).await.unwrap();
    // Somebody armed the composite resource with a token that the row does not know.
    let xr = world.xr(&declared);
    let armed = "00000000-0000-0000-0000-0000000000ff";
    let edit = serde_json::json!({"metadata": {"annotations": {"plexsphere.io/armed": armed}}});
    world.cluster.patch_as("a late worker", &xr, &edit);
    world.cluster.behave_for(declared.id(), Behaviour::never_ready());
    assert_eq!(world.round(declared.id()).await.unwrap(), Passed::Ended(Ending::StaleRow));
}
