//! The facade: visibility, permissions, answers to callers, and dry runs.

use std::time::Duration;

use broker_app::decide::Mode;
use broker_app::explain::Verdict;
use broker_app::{BootError, ErrorKind, PassResult, WaitOutcome, one_line};
use broker_domain::{Action, Declaration, MeshRole, Phase, ProvisionedResource};
use broker_memory::{BlueprintDocuments, Verb};
use broker_ports::{AuditAction, CloudView, ListQuery, NamespaceObservation, PageSize, Schedule};
use broker_render::{InjectionStrategy, Provider};
use broker_testkit::builders::id;
use broker_tests::world::{
    NODE, SIZED, STANDALONE, World, background, config_with, declaration, operator, project,
    xrd_document,
};

fn trail(world: &World) -> usize {
    world.store.audit_trail().len()
}

#[tokio::test]
async fn refused_declaration_stores_nothing_and_is_audited() {
    let world = World::new();
    let unpublished = Declaration::new(project(), id(2), id(0xdead), id(4));
    let unassigned = Declaration::new(project(), id(2), id(NODE), id(0xdead));
    let homeless = Declaration::new(id(0xbad), id(2), id(NODE), id(4));
    let rows = [
        ("an unpublished blueprint", unpublished, "blueprint_not_found"),
        ("a foreign credential", unassigned, "credential_not_found"),
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

/// The XRD of the blueprint declares no size any more.
fn narrow(world: &World) {
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
    };
    world.neighbours.publish(id(SIZED), documents);
}

/// No caller can mend these, and their text is for the operators.
#[tokio::test]
async fn fault_of_the_platform_is_internal_and_not_audited() {
    type Spoil = fn(&World);
    let rows: [(&str, Spoil, Verdict); 3] = [
        (
            "assignment.namespace",
            |world| world.neighbours.place(project(), NamespaceObservation::new("default", true)),
            Verdict::CannotRender,
        ),
        (
            "cloud.endpoint",
            |world| {
                let provider = Provider::new("hetzner").unwrap();
                world.neighbours.add_cloud(CloudView::new(id(0xc0), provider, "[]"));
            },
            Verdict::PassFailing,
        ),
        ("spec.parameters.size", narrow, Verdict::CannotRender),
    ];
    for (field, spoil, verdict) in rows {
        let world = World::new();
        let declared = declaration(SIZED).with_parameters(r#"{"size":"small"}"#);
        let stored = world.declare(&declared).await.unwrap().id();
        spoil(&world);
        let before = trail(&world);
        let service = &world.service;
        for (call, answer) in [
            ("provision", service.provision(&operator(), &declared).await.map(drop)),
            ("admit", service.admit(&operator(), &declared).await.map(drop)),
            ("plan", service.plan_declaration(&operator(), &declared).await.map(drop)),
            ("replace", service.replace(&operator(), stored, None).await.map(drop)),
        ] {
            let error = answer.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Internal, "{call}: {error}");
            assert_eq!(error.reason(), "platform_misconfigured", "{call}: {error}");
            assert!(!error.public_message().contains(field), "{call}: {error}");
            assert!(one_line(&error).contains(field), "{call}: {error}");
        }
        assert_eq!(trail(&world), before, "{field}: an audit line");

        let error = world.round(stored).await.unwrap_err();
        assert_eq!(error.reason(), "platform_misconfigured", "{field}");
        let explained = world.explain(stored).await;
        assert_eq!(explained.verdict, verdict, "{field}");
        assert!(explained.to_string().contains(field), "{explained}");
    }
}

#[tokio::test(start_paused = true)]
async fn wait_ends_on_phase_on_impossibility_and_on_timeout() {
    let world = World::new();
    let waited = |resource: &ProvisionedResource, phase, seconds| {
        let (service, id) = (&world.service, resource.id());
        async move {
            let at_most = Duration::from_secs(seconds);
            service.wait_for(&operator(), id, phase, at_most).await.unwrap()
        }
    };
    let ready = world.declare_until(Phase::Ready, &declaration(NODE)).await;
    assert_eq!(waited(&ready, Phase::Ready, 0).await, WaitOutcome::Reached(ready.clone()));
    let pending = world.declare(&declaration(NODE)).await.unwrap();
    assert_eq!(waited(&pending, Phase::Ready, 3).await, WaitOutcome::TimedOut(pending.clone()));
    let later = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        world.until(pending.id(), Phase::Ready).await
    };
    let (seen, ready) = tokio::join!(waited(&pending, Phase::Ready, 60), later);
    assert_eq!(seen, WaitOutcome::Reached(ready));
    let leaving = world.service.deprovision(&operator(), pending.id()).await.unwrap();
    assert_eq!(waited(&leaving, Phase::Ready, 60).await, WaitOutcome::Never(leaving.clone()));
}

#[tokio::test(start_paused = true)]
async fn a_declaration_does_not_wait_for_the_ticker() {
    let world = World::new();
    let never = Duration::from_hours(1);
    let config = config_with(|config| {
        config.sweep_interval = never;
        config.poll_interval = never;
    });
    background(world.runner_with(config), async {
        // The first poll for due work, which begins the subscription, is immediate.
        tokio::time::sleep(Duration::from_millis(10)).await;
        let resource = world.declare(&declaration(STANDALONE)).await.unwrap();
        tokio::time::sleep(Duration::from_millis(10)).await;
        assert!(world.cluster.exists(&world.xr(&resource)), "the resource was read");
    })
    .await;
}

#[tokio::test]
async fn strict_runner_does_not_start_with_a_resource_error() {
    let world = World::new();
    let resource = world.declare(&declaration(STANDALONE)).await.unwrap();
    world.neighbours.withdraw(project(), id(4));
    world.cluster.forbid(Verb::List, "Bucket");
    let strict = world.runner_with(config_with(|it| it.strict = true));
    let Err(BootError::ResourceError { resource: named, .. }) = strict.boot().await else {
        panic!("it started");
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
    let token = leaving.bootstrap_token_id().expect("it was Ready");

    let picture = async || {
        let entries = [world.store.entry(fresh.id()).await, world.store.entry(leaving.id()).await];
        let claims = entries.map(|entry| entry.unwrap().map(|it| (it.epoch, it.lease)));
        (world.cluster.writes(), world.existing_objects(), trail(&world), claims)
    };
    let before = picture().await;
    for (id, action, phase) in [
        (fresh.id(), Action::Apply, Phase::Pending),
        (leaving.id(), Action::DeregisterNode, Phase::Deregistering),
    ] {
        let planned = world.reconciler.reconcile(id).await.unwrap();
        assert_eq!(
            planned,
            PassResult::Completed { action, from: phase, to: phase },
            "what it would do"
        );
    }
    // The dry run's runner still delivers both events.
    background(world.runner(), async {
        for _ in 0..20 {
            world.let_time_pass().await;
        }
    })
    .await;
    assert_eq!(picture().await, before, "nothing was sent, written or claimed");
    assert_eq!((world.get(fresh.id()).await, world.get(leaving.id()).await), (fresh, leaving));
    assert!(!world.mesh.consumer(token).unwrap().deregistered);
    let told: Vec<_> = world.sink.deliveries().iter().map(|it| it.event_type).collect();
    assert_eq!(told.len(), 4, "{told:?}");
}
