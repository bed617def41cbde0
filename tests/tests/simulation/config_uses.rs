//! The ProviderConfig that a blueprint refers to: of its own, shared, or the platform's.

use broker_app::OrphanState;
use std::time::Duration;

use broker_app::explain::Verdict;
use broker_app::plan::{ApplyPurpose, PlannedStep};
use broker_domain::{Declaration, MeshRole, ObjectReference, Phase, ProvisionedResource};
use broker_memory::{Behaviour, Verb};
use broker_ports::{CredentialView, PortName, Repository as _, SharedConfigRef};
use broker_render::{ProviderConfigUse, namespace};
use broker_testkit::builders::id;
use broker_testkit::faults::{Fault, FaultPlan, LateArrival};
use broker_tests::world::{World, declaration, operator, project};
use tokio::time::timeout;

/// A blueprint whose composed objects refer to a ProviderConfig of the platform.
const LEASED: u128 = 0xb4;
/// A blueprint whose composed objects refer to a ProviderConfig by a literal name.
const SHARING: u128 = 0xb5;
/// Another credential of the Project, in the same cloud.
const OTHER_CREDENTIAL: u128 = 5;

fn world_of_the_platform() -> World {
    let world = World::new();
    let schema = r#"{"parameters":[]}"#;
    let names = ("Lease", "leases");
    world.publish_using(ProviderConfigUse::Platform, LEASED, names, MeshRole::Node, schema);
    // The broker has no right on the platform's ProviderConfigs.
    for verb in [Verb::Get, Verb::List, Verb::Create, Verb::Patch, Verb::Delete] {
        world.cluster.forbid(verb, "ProviderConfig");
    }
    world
}

#[tokio::test]
async fn config_of_the_platform_is_neither_written_nor_read() {
    let world = world_of_the_platform();
    let ready = world.declare_until(Phase::Ready, &declaration(LEASED)).await;
    assert_eq!(ready.substrate().provider_config(), None);
    assert!(world.existing_objects().iter().all(|object| object.kind() != "ProviderConfig"));
    for _ in 0..2 {
        let (work, report) = world.sweep().await;
        assert!(work.is_empty() && report.missing_configs == 0, "{report:?}");
        assert!(report.errors.is_empty() && report.unlisted_kinds.is_empty(), "{report:?}");
    }
    assert_eq!(world.explain(ready.id()).await.verdict, Verdict::Ready);

    world.service.deprovision(&operator(), ready.id()).await.unwrap();
    world.until(ready.id(), Phase::Deleted).await;
    assert_eq!(world.existing_objects(), []);
}

#[tokio::test]
async fn plan_contains_no_config_of_the_platform() {
    let world = world_of_the_platform();
    let declared = world.declare(&declaration(LEASED)).await.unwrap();
    let plan = world.service.plan(&operator(), declared.id()).await.unwrap();
    let purposes = plan.steps.iter().filter_map(|step| {
        let PlannedStep::Apply(apply) = step else { return None };
        Some(apply.purpose)
    });
    assert_eq!(purposes.collect::<Vec<_>>(), [ApplyPurpose::Shell, ApplyPurpose::Arm]);
}

fn share(world: &World) {
    let sharing = ProviderConfigUse::parse("shared:openstack").unwrap();
    let schema = r#"{"parameters":[]}"#;
    world.publish_using(sharing, SHARING, ("Server", "servers"), MeshRole::Standalone, schema);
    let other = CredentialView::new(id(OTHER_CREDENTIAL), id(0xc0), "kv", "team/other");
    world.platform.add_credential(other);
    world.platform.assign(project(), id(OTHER_CREDENTIAL));
}

fn sharing_world() -> World {
    let world = World::new();
    share(&world);
    world
}

fn with_other_credential() -> Declaration {
    Declaration::new(project(), id(2), id(SHARING), id(OTHER_CREDENTIAL))
}

fn shared_config() -> ObjectReference {
    let home = namespace(project()).as_str().to_owned();
    let api_version = "hetzner.crossplane.io/v1beta1";
    ObjectReference::new(api_version, "ProviderConfig", "openstack", Some(&home)).unwrap()
}

/// The uid of the shared ProviderConfig, if it exists.
fn uid(world: &World) -> Option<String> {
    let object = world.cluster.object(&shared_config())?;
    Some(object["metadata"]["uid"].as_str().unwrap().to_owned())
}

async fn is_marked(world: &World) -> bool {
    let name = SharedConfigRef::new(project(), shared_config());
    let configs = world.store.shared_configs(&[name]).await.unwrap();
    configs.iter().any(|config| config.deleting.is_some())
}

async fn deprovision(world: &World, resource: &ProvisionedResource) {
    world.service.deprovision(&operator(), resource.id()).await.unwrap();
}

/// Sweeps and ticks until the shared ProviderConfig is gone and its mark is cleared.
async fn sweep_until_gone(world: &World) {
    for _ in 0..4 {
        world.sweep().await;
        world.cluster.settle(2);
    }
    assert_eq!((uid(world), is_marked(world).await), (None, false));
    let (work, report) = world.sweep().await;
    assert!(work.is_empty() && report.orphans.is_empty(), "{report:?}");
}

#[tokio::test]
async fn shared_config_exists_until_its_last_user_leaves() {
    let world = sharing_world();
    let first = world.declare_until(Phase::Ready, &declaration(SHARING)).await;
    let before = uid(&world).unwrap();
    let second = world.declare_until(Phase::Ready, &declaration(SHARING)).await;
    let live = world.cluster.object(&shared_config()).unwrap();
    assert_eq!(live["metadata"]["generation"], 1, "the second user renders the same object");
    assert!(live["metadata"]["labels"].get("plexsphere.io/provisioned-resource-id").is_none());
    let (work, report) = world.sweep().await;
    assert!(work.is_empty() && report.orphans.is_empty(), "{report:?}");

    deprovision(&world, &first).await;
    world.until(first.id(), Phase::Deleted).await;
    assert_eq!(uid(&world), Some(before), "another resource uses it");
    deprovision(&world, &second).await;
    world.until(second.id(), Phase::Deleted).await;
    sweep_until_gone(&world).await;
    assert_eq!(world.existing_objects(), []);
}

#[tokio::test]
async fn missing_shared_config_is_restored_by_any_user() {
    let world = sharing_world();
    let ready = world.declare_until(Phase::Ready, &declaration(SHARING)).await;
    world.sweep().await;
    world.cluster.delete_in_background(&shared_config());
    let (work, report) = world.sweep().await;
    assert!(work.iter().any(|work| work.resource == ready.id()), "{report:?}");
    world.round(ready.id()).await.unwrap();
    assert!(uid(&world).is_some());
}

/// A new user registers before the last one leaves: it keeps the object. Afterwards: it waits for another object.
#[tokio::test]
async fn new_user_keeps_the_shared_config_or_waits_for_another() {
    let world = sharing_world();
    let first = world.declare_until(Phase::Ready, &declaration(SHARING)).await;
    let before = uid(&world).unwrap();
    let second = world.declare(&declaration(SHARING)).await.unwrap();
    deprovision(&world, &first).await;
    world.until(first.id(), Phase::Deleted).await;
    assert!(!is_marked(&world).await);
    world.until(second.id(), Phase::Ready).await;
    assert_eq!(uid(&world).as_ref(), Some(&before));

    world.cluster.add_finalizer(&shared_config(), "example.org/held");
    deprovision(&world, &second).await;
    world.until(second.id(), Phase::Deleted).await;
    assert!(is_marked(&world).await, "the last user left");
    let third = world.declare(&declaration(SHARING)).await.unwrap();
    world.round(third.id()).await.unwrap();
    let explained = world.explain(third.id()).await;
    assert_eq!(explained.verdict, Verdict::SharedConfigLeaving);
    let waiting = world.get(third.id()).await;
    assert_eq!((waiting.phase(), waiting.substrate().provider_config()), (Phase::Pending, None));
    world.cluster.remove_finalizer(&shared_config(), "example.org/held");
    world.until(third.id(), Phase::Ready).await;
    assert!(uid(&world).is_some_and(|after| after != before), "it has an object of its own");
    assert!(!is_marked(&world).await);
}

#[tokio::test]
async fn two_last_users_leaving_at_once_remove_the_shared_config_once() {
    let world = sharing_world();
    let first = world.declare_until(Phase::Ready, &declaration(SHARING)).await;
    let second = world.declare_until(Phase::Ready, &declaration(SHARING)).await;
    for user in [&first, &second] {
        deprovision(&world, user).await;
    }
    // Both composite resources are gone before either resource is Deleted.
    for _ in 0..12 {
        for user in [&first, &second] {
            world.round(user.id()).await.unwrap();
        }
        if uid(&world).is_none() {
            break;
        }
    }
    for user in [&first, &second] {
        assert_eq!(world.get(user.id()).await.phase(), Phase::Deleted);
    }
    sweep_until_gone(&world).await;
    let deletions = world.cluster.requests(Verb::Delete);
    assert_eq!(deletions, 3, "two composite resources and one ProviderConfig");
}

/// The worker that was cut off created the object after the last user had left and the mark was cleared.
#[tokio::test(start_paused = true)]
async fn late_create_of_a_shared_config_is_removed_by_a_sweep() {
    let hangs = Fault::Delay { by: Duration::from_hours(1), late: LateArrival::Completes };
    let world = World::with_faults(FaultPlan::none().on(PortName::Cluster, "apply", 1, hangs));
    share(&world);
    let declared = world.declare(&declaration(SHARING)).await.unwrap();
    timeout(Duration::from_secs(1), world.reconciler.reconcile(declared.id())).await.unwrap_err();
    world.expire_leases();
    deprovision(&world, &declared).await;
    world.until(declared.id(), Phase::Deleted).await;
    for _ in 0..2 {
        world.sweep().await;
    }
    assert_eq!((uid(&world), is_marked(&world).await), (None, false));
    assert_eq!(world.faults.complete_pending().await, 1);
    assert!(uid(&world).is_some(), "the late object exists");
    let (_, report) = world.sweep().await;
    let states: Vec<_> = report.orphans.iter().map(|orphan| orphan.state).collect();
    assert_eq!(states, [OrphanState::Deleting]);
    sweep_until_gone(&world).await;
}

#[tokio::test]
async fn second_credential_of_a_shared_config_is_refused() {
    let world = sharing_world();
    let first = world.declare(&declaration(SHARING)).await.unwrap();
    let other = with_other_credential();
    let error = world.declare(&other).await.unwrap_err();
    assert_eq!(error.reason(), "shared_config_held");
    let holder = format!("has the credential of provisioned resource {}", first.id());
    assert!(error.public_message().contains(&holder), "{error:?}");

    deprovision(&world, &first).await;
    world.until(first.id(), Phase::Deleted).await;
    world.declare(&other).await.unwrap();
    let error = world.declare(&declaration(SHARING)).await.unwrap_err();
    assert_eq!(error.reason(), "shared_config_held");
}

#[tokio::test]
async fn one_of_two_simultaneous_credentials_is_stored() {
    let world = sharing_world();
    let (one, other) = (declaration(SHARING), with_other_credential());
    let (one, other) = tokio::join!(world.declare(&one), world.declare(&other));
    let (stored, refused) = match (one, other) {
        (Ok(stored), Err(refused)) | (Err(refused), Ok(stored)) => (stored, refused),
        both => panic!("one of the two is stored: {both:?}"),
    };
    assert!(refused.public_message().contains(&stored.id().to_string()), "{refused:?}");
}

/// An operator deletes what an abandoned resource left, and a new user may adopt it.
#[tokio::test]
async fn shared_config_of_an_abandoned_resource_is_only_reported() {
    let world = sharing_world();
    let ready = world.declare_until(Phase::Ready, &declaration(SHARING)).await;
    world.cluster.behave_for(ready.id(), Behaviour::ready_after(1));
    deprovision(&world, &ready).await;
    world.service.abandon(&operator(), ready.id(), "lost").await.unwrap();
    let before = uid(&world);
    let (_, report) = world.sweep().await;
    assert!(
        report
            .orphans
            .iter()
            .any(|orphan| orphan.reference == shared_config()
                && orphan.state == OrphanState::Abandoned),
        "{report:?}"
    );
    assert_eq!((uid(&world), is_marked(&world).await), (before.clone(), false));
    let next = world.declare_until(Phase::Ready, &declaration(SHARING)).await;
    assert_eq!(uid(&world), before);
    deprovision(&world, &next).await;
    world.until(next.id(), Phase::Deleted).await;
    assert!(is_marked(&world).await || uid(&world).is_none());
}
