//! The facade: visibility, permissions, responses to callers, and dry runs.

use std::time::Duration;

use broker_app::decide::Mode;
use broker_app::explain::Verdict;
use broker_app::{BootError, ErrorKind, PassResult, WaitOutcome, one_line};
use broker_domain::{Action, Declaration, MeshRole, Phase, ProvisionedResource};
use broker_memory::{BlueprintDocuments, Verb};
use broker_ports::{
    AuditAction, CloudView, ListQuery, NamespaceObservation, NamespacePhase, PageSize, Schedule,
};
use broker_render::{InjectionStrategy, Provider, ProviderConfigUse};
use broker_testkit::builders::id;
use broker_tests::world::{
    NODE, SIZED, STANDALONE, World, background, config_with, declaration, operator, project,
    xrd_document,
};

fn audit_count(world: &World) -> usize {
    world.store.audit_trail().len()
}

#[tokio::test]
async fn refused_declaration_stores_nothing_and_is_audited() {
    let world = World::new();
    let unpublished = Declaration::new(project(), id(2), id(0xdead), id(4));
    let unassigned = Declaration::new(project(), id(2), id(NODE), id(0xdead));
    let unassigned_project = Declaration::new(id(0xbad), id(2), id(NODE), id(4));
    let rows = [
        ("an unpublished blueprint", unpublished, "blueprint_not_found"),
        ("a foreign credential", unassigned, "credential_not_found"),
        ("a Project without a namespace", unassigned_project, "assignment_not_found"),
        ("a parameter is missing", declaration(SIZED), "parameter_values_invalid"),
    ];
    for (why, declared, reason) in rows {
        let before = audit_count(&world);
        for refused in [
            world.service.provision(&operator(), &declared).await.map(drop),
            world.service.admit(&operator(), &declared).await.map(drop),
        ] {
            assert_eq!(refused.unwrap_err().reason(), reason, "{why}");
        }
        let lines = world.store.audit_trail();
        let actions: Vec<_> = lines[before..].iter().map(|line| line.entry.action).collect();
        assert_eq!(actions, [AuditAction::DeclarationRefused; 2], "{why}");
    }
    let page = world.service.list(&operator(), &ListQuery::new(PageSize::MAX)).await.unwrap();
    assert_eq!(page.resources, []);
}

/// Publishes the blueprint again, without `size` in its XRD.
fn publish_without_size(world: &World) {
    let mut xrd = xrd_document("example.org", "Cluster", "clusters");
    let spec = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties";
    let parameters = xrd.pointer_mut(&format!("{spec}/parameters/properties")).unwrap();
    parameters.as_object_mut().unwrap().remove("size");
    let documents = BlueprintDocuments {
        xrd: xrd.to_string().into_bytes(),
        composition: BlueprintDocuments::composition_named("clusters"),
        parameter_schema: br#"{"parameters":[{"name":"size","type":"string"},
            {"name":"count","type":"integer"}]}"#
            .to_vec(),
        injection_strategy: InjectionStrategy::CloudInitUserData,
        mesh_role: MeshRole::Node,
        composed_kinds: Vec::new(),
        provider_config: ProviderConfigUse::PerResource,
    };
    world.platform.publish(id(SIZED), documents);
}

/// Only operators can repair these faults, and only operators see the message.
#[tokio::test]
async fn fault_of_the_platform_is_internal_and_not_audited() {
    type Break = fn(&World);
    let rows: [(&str, Break, Verdict); 2] = [
        (
            "assignment.namespace",
            |world| {
                world
                    .platform
                    .place(project(), NamespaceObservation::new("default", NamespacePhase::Ready));
            },
            Verdict::CannotRender,
        ),
        (
            "cloud.endpoint",
            |world| {
                let provider = Provider::new("hetzner").unwrap();
                world.platform.add_cloud(CloudView::new(id(0xc0), provider, "[]"));
            },
            Verdict::PassFailing,
        ),
    ];
    for (field, break_platform, verdict) in rows {
        let world = World::new();
        let declared = declaration(SIZED).with_parameters(r#"{"size":"small"}"#);
        let stored = world.declare(&declared).await.unwrap().id();
        break_platform(&world);
        let before = audit_count(&world);
        let service = &world.service;
        for (call, result) in [
            ("provision", service.provision(&operator(), &declared).await.map(drop)),
            ("admit", service.admit(&operator(), &declared).await.map(drop)),
            ("plan", service.plan_declaration(&operator(), &declared).await.map(drop)),
            ("replace", service.replace(&operator(), stored, None).await.map(drop)),
        ] {
            let error = result.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Internal, "{call}: {error}");
            assert_eq!(error.reason(), "platform_misconfigured", "{call}: {error}");
            assert!(!error.public_message().contains(field), "{call}: {error}");
            assert!(one_line(&error).contains(field), "{call}: {error}");
        }
        assert_eq!(audit_count(&world), before, "{field}: an audit line");

        let error = world.round(stored).await.unwrap_err();
        assert_eq!(error.reason(), "platform_misconfigured", "{field}");
        let explained = world.explain(stored).await;
        assert_eq!(explained.verdict, verdict, "{field}");
        assert!(explained.to_string().contains(field), "{explained}");
    }
}

#[tokio::test]
async fn value_that_only_the_xrd_refuses_is_a_refusal_that_names_it() {
    let world = World::new();
    let declared = declaration(SIZED).with_parameters(r#"{"size":"small"}"#);
    let stored = world.declare(&declared).await.unwrap().id();
    publish_without_size(&world);
    let error = world.service.provision(&operator(), &declared).await.unwrap_err();
    assert_eq!((error.kind(), error.reason()), (ErrorKind::Invalid, "invalid_input"));
    assert!(error.public_message().contains("spec.parameters.size"), "{error}");
    world.round(stored).await.unwrap_err();
    assert_eq!(world.explain(stored).await.verdict, Verdict::CannotRender);
}

#[tokio::test(start_paused = true)]
async fn wait_ends_on_phase_on_impossibility_and_on_timeout() {
    let world = World::new();
    let wait = |resource: &ProvisionedResource, phase, seconds| {
        let (service, id) = (&world.service, resource.id());
        async move {
            let timeout = Duration::from_secs(seconds);
            service.wait_for(&operator(), id, phase, timeout).await.unwrap()
        }
    };
    let ready = world.declare_until(Phase::Ready, &declaration(NODE)).await;
    assert_eq!(wait(&ready, Phase::Ready, 0).await, WaitOutcome::Reached(ready.clone()));
    let pending = world.declare(&declaration(NODE)).await.unwrap();
    assert_eq!(wait(&pending, Phase::Ready, 3).await, WaitOutcome::TimedOut(pending.clone()));
    let later = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        world.until(pending.id(), Phase::Ready).await
    };
    let (seen, ready) = tokio::join!(wait(&pending, Phase::Ready, 60), later);
    assert_eq!(seen, WaitOutcome::Reached(ready));
    let leaving = world.service.deprovision(&operator(), pending.id()).await.unwrap();
    assert_eq!(wait(&leaving, Phase::Ready, 60).await, WaitOutcome::Never(leaving.clone()));
}

#[tokio::test(start_paused = true)]
async fn declaration_starts_a_pass_before_the_next_poll() {
    let world = World::new();
    let an_hour = Duration::from_hours(1);
    let config = config_with(|config| {
        config.sweep_interval = an_hour;
        config.poll_interval = an_hour;
    });
    background(world.runner_with(config), async {
        // The first poll for due work, which begins the subscription, is immediate.
        tokio::time::sleep(Duration::from_millis(10)).await;
        let resource = world.declare(&declaration(STANDALONE)).await.unwrap();
        tokio::time::sleep(Duration::from_millis(10)).await;
        assert!(world.cluster.exists(&world.xr(&resource)), "a pass applied the resource");
    })
    .await;
}

#[tokio::test]
async fn strict_runner_does_not_start_with_a_resource_error() {
    let world = World::new();
    let resource = world.declare(&declaration(STANDALONE)).await.unwrap();
    world.platform.withdraw(project(), id(4));
    world.cluster.forbid(Verb::List, "Bucket");
    let strict = world.runner_with(config_with(|config| config.strict = true));
    let Err(BootError::ResourceError { resource: named, .. }) = strict.boot().await else {
        panic!("the strict runner started");
    };
    assert_eq!(named, resource.id());
    assert!(world.runner().boot().await.is_ok(), "without strict, the runner starts");
}

#[tokio::test(start_paused = true)]
async fn dry_run_stores_requests_and_acts_on_none() {
    let world = World::in_mode(Mode::DryRun);
    let live = world.replica_in_mode("live", Mode::Live);
    let fresh = world.declare(&declaration(NODE)).await.unwrap();
    let ready = world.declare(&declaration(NODE)).await.unwrap();
    for _ in 0..6 {
        live.reconcile(ready.id()).await.unwrap();
        world.cluster.tick();
        world.boot_agents();
    }
    let leaving = world.service.deprovision(&operator(), ready.id()).await.unwrap();
    let token = leaving.bootstrap_token_id().expect("a Ready Node has a token");

    let snapshot = async || {
        let entries = [world.store.entry(fresh.id()).await, world.store.entry(leaving.id()).await];
        let claims = entries.map(|entry| entry.unwrap().map(|entry| (entry.epoch, entry.lease)));
        (world.cluster.writes(), world.existing_objects(), audit_count(&world), claims)
    };
    let before = snapshot().await;
    for (id, action, phase) in [
        (fresh.id(), Action::Apply, Phase::Pending),
        (leaving.id(), Action::DeregisterNode, Phase::Deregistering),
    ] {
        let planned = world.reconciler.reconcile(id).await.unwrap();
        assert_eq!(planned, PassResult::Completed { action, from: phase, to: phase }, "as planned");
    }
    // The dry run's runner still delivers both events.
    background(world.runner(), async {
        for _ in 0..20 {
            world.let_time_pass().await;
        }
    })
    .await;
    assert_eq!(snapshot().await, before, "nothing was sent, written or claimed");
    assert_eq!((world.get(fresh.id()).await, world.get(leaving.id()).await), (fresh, leaving));
    assert!(!world.mesh.consumer(token).unwrap().deregistered);
    let event_types: Vec<_> =
        world.sink.deliveries().iter().map(|envelope| envelope.event_type).collect();
    assert_eq!(event_types.len(), 4, "{event_types:?}");
}
