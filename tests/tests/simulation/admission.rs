//! What a withdrawn credential, a retired blueprint and the phase of a namespace hold: new objects, and never a
//! teardown.

use broker_app::explain::Verdict;
use broker_domain::{Phase, ProvisionedResource};
use broker_memory::Behaviour;
use broker_ports::{
    ApprovalState, BlueprintState, CredentialState, NamespacePhase, PageSize, PortName,
};
use broker_testkit::builders::id;
use broker_testkit::faults::{Fault, FaultPlan, Faults};
use broker_tests::world::{NODE, STANDALONE, World, declaration, operator, project};

/// Each withdrawal of the world's credential, its reason for a declaration, and its verdict.
const WITHDRAWALS: &[(CredentialState, ApprovalState, &str, Verdict)] = {
    use ApprovalState::{Approved, Rejected, Requested};
    use CredentialState::{Active, Expired, Revoked};
    const NOT_APPROVED: (&str, Verdict) =
        ("credential_not_approved", Verdict::CredentialNotApproved);
    &[
        (Expired, Approved, "credential_expired", Verdict::CredentialExpired),
        (Revoked, Approved, "credential_revoked", Verdict::CredentialRevoked),
        (Revoked, Rejected, "credential_revoked", Verdict::CredentialRevoked),
        (Active, Requested, NOT_APPROVED.0, NOT_APPROVED.1),
        (Active, Rejected, NOT_APPROVED.0, NOT_APPROVED.1),
        (Active, ApprovalState::Revoked, NOT_APPROVED.0, NOT_APPROVED.1),
    ]
};

fn set_credential(world: &World, state: CredentialState, approval: ApprovalState) {
    world.platform.set_credential_state(id(4), state);
    world.platform.set_approval(project(), id(4), approval);
}

fn restore_credential(world: &World) {
    set_credential(world, CredentialState::Active, ApprovalState::Approved);
}

/// Deletes the composite resource of a resource behind the broker's back, and all that it composed.
fn lose(world: &World, resource: &ProvisionedResource) {
    world.cluster.delete_in_background(&world.xr(resource));
    world.cluster.settle(5);
    assert!(!world.cluster.exists(&world.xr(resource)));
}

/// Several passes and sweeps.
async fn keep_passing(world: &World, resource: &ProvisionedResource) {
    for _ in 0..4 {
        world.round(resource.id()).await.unwrap();
        world.sweep().await;
    }
}

#[tokio::test]
async fn declaration_with_a_withdrawn_reference_is_refused_with_its_reason() {
    let world = World::new();
    let ready = world.declare_until(Phase::Ready, &declaration(NODE)).await;
    let refused = async |reason: &str| {
        let trail = world.store.audit_trail().len();
        let declaration = declaration(NODE);
        let declared = world.declare(&declaration).await.unwrap_err();
        let planned = world.service.plan_declaration(&operator(), &declaration).await.unwrap_err();
        let replaced = world.service.replace(&operator(), ready.id(), None).await.unwrap_err();
        for (what, error) in [("declare", declared), ("plan", planned), ("replace", replaced)] {
            assert_eq!((error.reason(), error.is_refusal()), (reason, true), "{what}: {error}");
        }
        let refusals = world.store.audit_trail().len() - trail;
        assert_eq!(refusals, 2, "declare and replace are audited, and nothing else is stored");
    };
    for (state, approval, reason, _) in WITHDRAWALS {
        set_credential(&world, *state, *approval);
        refused(reason).await;
    }
    restore_credential(&world);
    world.platform.set_blueprint_state(id(NODE), BlueprintState::Retired);
    refused("blueprint_retired").await;
    world.platform.set_blueprint_state(id(NODE), BlueprintState::Active);
    world.declare_until(Phase::Ready, &declaration(NODE)).await;
}

/// No token, no shell and no permit. The loss does not count, because no pass repairs it.
#[tokio::test]
async fn withdrawn_credential_holds_a_recreation_and_never_a_teardown() {
    for (state, approval, _, verdict) in WITHDRAWALS {
        let world = World::new();
        let ready = world.declare_until(Phase::Ready, &declaration(NODE)).await;
        set_credential(&world, *state, *approval);
        keep_passing(&world, &ready).await;
        assert_eq!(world.get(ready.id()).await.phase(), Phase::Ready, "what runs keeps running");
        assert_eq!(world.explain(ready.id()).await.verdict, *verdict);
        let all = world.service.explain_all(&operator(), None, PageSize::MAX).await.unwrap();
        assert_eq!(all.explanations[0].verdict, *verdict);

        lose(&world, &ready);
        let tokens = world.get(ready.id()).await.token_ordinal();
        keep_passing(&world, &ready).await;
        assert!(!world.cluster.exists(&world.xr(&ready)), "{verdict}: no shell");
        let held = world.get(ready.id()).await;
        assert_eq!((held.phase(), held.token_ordinal()), (Phase::Pending, tokens), "{verdict}");
        assert_eq!(held.bootstrap_token_id(), ready.bootstrap_token_id(), "{verdict}: no token");
        let explained = world.explain(ready.id()).await;
        assert_eq!(explained.verdict, *verdict, "{explained}");
        let (work, report) = world.sweep().await;
        assert!(work.is_empty() && report.missing == 0, "{verdict}: {report:?}");
        let plan = world.service.plan(&operator(), ready.id()).await.unwrap();
        assert!(plan.is_nothing(), "{plan}");
        assert!(
            plan.notes.iter().any(|note| note.contains("nothing is created with its credential")),
            "{plan}"
        );

        world.service.deprovision(&operator(), ready.id()).await.unwrap();
        world.until(ready.id(), Phase::Deleted).await;
        assert_eq!(world.existing_objects(), []);
    }
}

#[tokio::test]
async fn restored_credential_lets_a_held_resource_continue() {
    let world = World::new();
    let ready = world.declare_until(Phase::Ready, &declaration(STANDALONE)).await;
    set_credential(&world, CredentialState::Revoked, ApprovalState::Approved);
    lose(&world, &ready);
    keep_passing(&world, &ready).await;
    restore_credential(&world);
    let (work, report) = world.sweep().await;
    assert_eq!((work.len(), report.missing), (1, 1), "{report:?}");
    world.until(ready.id(), Phase::Ready).await;
}

/// A shell composes nothing yet: without a usable credential it never gets a token.
#[tokio::test]
async fn withdrawn_credential_holds_the_arm_of_a_shell() {
    let plan = FaultPlan::none().on(PortName::TokenIssuer, "issue", 1, Fault::BeforeEffect);
    let world = World::with_faults(plan);
    let declared = world.declare(&declaration(NODE)).await.unwrap();
    world.round(declared.id()).await.unwrap_err();
    assert!(world.cluster.exists(&world.xr(&declared)), "the shell stands");
    world.platform.set_credential_state(id(4), CredentialState::Revoked);
    world.expire_leases();
    keep_passing(&world, &declared).await;
    let held = world.get(declared.id()).await;
    assert_eq!((held.bootstrap_token_id(), held.substrate().applied()), (None, None));
    assert_eq!(world.explain(declared.id()).await.verdict, Verdict::CredentialRevoked);
    let (work, report) = world.sweep().await;
    assert!(work.is_empty(), "{report:?}");

    world.service.deprovision(&operator(), declared.id()).await.unwrap();
    world.until(declared.id(), Phase::Deleted).await;
    assert_eq!(world.existing_objects(), []);
}

/// An armed composite resource runs: a change of its tags still reaches it.
#[tokio::test]
async fn withdrawn_credential_does_not_hold_a_reapply() {
    let world = World::new();
    let running = world.declare(&declaration(NODE)).await.unwrap();
    world.cluster.behave_for(running.id(), Behaviour::never_ready());
    for _ in 0..3 {
        world.round(running.id()).await.unwrap();
    }
    world.platform.set_credential_state(id(4), CredentialState::Revoked);
    world.platform.label(running.resource_id(), "team", "blue");
    world.round(running.id()).await.unwrap();
    let xr = world.cluster.object(&world.xr(&running)).unwrap();
    assert!(xr["spec"]["cloudTags"].to_string().contains("blue"), "{xr}");
}

#[tokio::test]
async fn retired_blueprint_holds_nothing_that_was_declared_before() {
    let world = World::new();
    let declared = world.declare(&declaration(NODE)).await.unwrap();
    world.platform.set_blueprint_state(id(NODE), BlueprintState::Retired);
    let ready = world.until(declared.id(), Phase::Ready).await;
    assert_eq!(world.explain(ready.id()).await.verdict, Verdict::BlueprintRetired);
    lose(&world, &ready);
    world.round(ready.id()).await.unwrap();
    let recreated = world.until(ready.id(), Phase::Ready).await;
    assert_ne!(recreated.substrate().applied(), ready.substrate().applied());
}

#[tokio::test]
async fn degraded_namespace_admits_an_applied_resource_and_holds_a_new_one() {
    let world = World::new();
    let applied = world.declare_until(Phase::Ready, &declaration(STANDALONE)).await;
    world.place_in(NamespacePhase::Degraded);
    let new = world.declare(&declaration(STANDALONE)).await.unwrap();
    keep_passing(&world, &new).await;
    assert!(!world.cluster.exists(&world.xr(&new)), "a new one waits");
    let explained = world.explain(new.id()).await;
    assert_eq!(explained.verdict, Verdict::NamespaceNotReady);
    let message = explained.blocker.as_ref().and_then(|it| it.message.as_deref());
    assert!(message.is_some_and(|it| it.contains("its phase is Degraded")), "{explained}");

    lose(&world, &applied);
    world.round(applied.id()).await.unwrap();
    world.until(applied.id(), Phase::Ready).await;

    world.place_in(NamespacePhase::Ready);
    world.until(new.id(), Phase::Ready).await;
}

/// Nothing is re-created in these phases, so a loss is no reason for a brake. A teardown needs no open gate.
#[tokio::test]
async fn closed_namespace_holds_a_lost_resource_without_a_brake() {
    use NamespacePhase::{Deleted, Pending, Provisioning, Terminating};
    for phase in [Pending, Provisioning, Terminating, Deleted] {
        let world = World::new();
        let mut resources = Vec::new();
        for _ in 0..8 {
            resources.push(world.declare_until(Phase::Ready, &declaration(STANDALONE)).await);
        }
        world.place_in(phase);
        for resource in &resources {
            lose(&world, resource);
        }
        let (_, report) = world.sweep().await;
        assert!(report.brakes.is_empty() && report.missing == 0, "{phase}: {report:?}");
        let first = &resources[0];
        keep_passing(&world, first).await;
        assert!(!world.cluster.exists(&world.xr(first)), "{phase}");
        let explained = world.explain(first.id()).await;
        let message = explained.blocker.as_ref().and_then(|it| it.message.as_deref());
        let expected = format!("its phase is {phase};");
        assert!(message.is_some_and(|it| it.contains(&expected)), "{explained}");
        world.service.deprovision(&operator(), first.id()).await.unwrap();
        world.until(first.id(), Phase::Deleted).await;
    }
}

/// No answer is no fact: the pass fails, and creates nothing.
#[tokio::test]
async fn unreachable_credential_is_no_withdrawal() {
    let mut world = World::new();
    let ready = world.declare_until(Phase::Ready, &declaration(NODE)).await;
    lose(&world, &ready);
    let port = PortName::CredentialResolver;
    let faults = Faults::new(FaultPlan::none().from_call(port, "resolve", 1, Fault::BeforeEffect));
    world.rewire(|ports| ports.credentials = faults.wrap(ports.credentials.clone()));
    let error = world.round(ready.id()).await.unwrap_err();
    assert_eq!(error.reason(), "credential_resolver_transient");
    assert!(!world.cluster.exists(&world.xr(&ready)));
}
