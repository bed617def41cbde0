//! Drift: an edited composite resource is reported, a missing ProviderConfig is restored.

use broker_app::explain::Verdict;
use broker_app::{Error, ErrorKind, SweepReport};
use broker_domain::{ObjectReference, Phase, ProvisionedResource};
use broker_ports::{CloudView, PageSize};
use broker_render::{BLUEPRINT_VERSION_LABEL, Provider};
use broker_testkit::builders::id;
use broker_tests::world::{NODE, STANDALONE, World, declaration, operator};
use serde_json::json;

/// The reference of a ProviderConfig, and the version of its composite resource.
fn config_and_xr_version(
    world: &World,
    resource: &ProvisionedResource,
) -> (ObjectReference, String) {
    let config = resource.substrate().provider_config().unwrap().clone();
    let xr = world.cluster.object(&world.xr(resource)).unwrap();
    (config, xr["metadata"]["resourceVersion"].to_string())
}

/// Sweeps without a pass; returns whether the sweep requested a pass, and the report.
async fn sweep(world: &World, resource: &ProvisionedResource) -> (bool, SweepReport) {
    let (work, report) = world.sweep().await;
    (work.iter().any(|work| work.resource == resource.id()), report)
}

#[tokio::test]
async fn missing_config_is_found_by_a_sweep_without_a_hint() {
    let world = World::new();
    let ready = world.declare_until(Phase::Ready, &declaration(STANDALONE)).await;
    for _ in 0..2 {
        let (pass_requested, report) = sweep(&world, &ready).await;
        assert!(!pass_requested && report.missing_configs == 0, "{report:?}");
    }
    let (config, _) = config_and_xr_version(&world, &ready);
    world.cluster.delete_in_background(&config);
    let (pass_requested, report) = sweep(&world, &ready).await;
    assert!(pass_requested && report.missing_configs == 1, "{report:?}");
    world.round(ready.id()).await.unwrap();
    let (_, report) = sweep(&world, &ready).await;
    assert_eq!(report.missing_configs, 0);
}

/// A provider needs its ProviderConfig to finalise a composed object.
#[tokio::test]
async fn missing_config_is_restored_during_a_teardown() {
    let world = World::new();
    let ready = world.declare_until(Phase::Ready, &declaration(NODE)).await;
    let (config, _) = config_and_xr_version(&world, &ready);
    world.cluster.add_finalizer(&world.xr(&ready), "example.org/held");
    world.service.deprovision(&operator(), ready.id()).await.unwrap();
    world.until(ready.id(), Phase::Deprovisioning).await;
    world.cluster.delete_in_background(&config);
    world.round(ready.id()).await.unwrap();
    assert!(world.cluster.exists(&config));
    world.cluster.remove_finalizer(&world.xr(&ready), "example.org/held");
    world.until(ready.id(), Phase::Deleted).await;
    assert_eq!(world.existing_objects(), []);
}

/// Decision 31: no phase depends on a restored ProviderConfig.
#[tokio::test]
async fn denied_restore_of_a_config_does_not_block_ready() {
    let world = World::new();
    let enrolling = world.declare_until(Phase::Enrolling, &declaration(NODE)).await;
    let (config, _) = config_and_xr_version(&world, &enrolling);
    world.cluster.delete_in_background(&config);
    world.cluster.deny(config.kind(), "no ProviderConfigs today");
    world.boot_agents();
    let error = world.round(enrolling.id()).await.unwrap_err();
    assert!(broker_app::one_line(&error).contains("no ProviderConfigs today"), "{error}");
    assert_eq!(world.get(enrolling.id()).await.phase(), Phase::Ready);
    world.cluster.stop_denying(config.kind());
    world.round(enrolling.id()).await.unwrap();
    assert!(world.cluster.exists(&config));
}

/// An object of the new kind would outlive Deleted: no row records it.
#[tokio::test]
async fn config_of_another_provider_is_not_restored() {
    let world = World::new();
    let ready = world.declare_until(Phase::Ready, &declaration(STANDALONE)).await;
    let (config, _) = config_and_xr_version(&world, &ready);
    let provider = Provider::new("aws").unwrap();
    world.platform.add_cloud(CloudView::new(id(0xc0), provider, "{}"));
    world.cluster.delete_in_background(&config);
    let error = world.round(ready.id()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Internal, "{error}");
    assert_eq!(error.reason(), "platform_misconfigured", "{error}");
    assert!(error.to_string().starts_with("provider_config: "), "{error}");
    assert!(!world.cluster.exists(&config));
}

#[tokio::test]
async fn edited_spec_of_a_ready_resource_is_only_reported() -> Result<(), Error> {
    let world = World::new();
    let ready = world.declare_until(Phase::Ready, &declaration(NODE)).await;
    world.platform.label(ready.resource_id(), "team", "blue");
    let (_, report) = sweep(&world, &ready).await;
    assert_eq!(report.drifted, 0, "a label that changed later is not drift");
    let change = json!({"metadata": {"labels": {BLUEPRINT_VERSION_LABEL: "another"}}});
    world.cluster.patch_as("kubectl", &world.xr(&ready), &change);
    let (pass_requested, report) = sweep(&world, &ready).await;
    assert!(!pass_requested && report.drifted == 1, "{report:?}");
    let (_, edited) = config_and_xr_version(&world, &ready);
    world.round(ready.id()).await?;
    assert_eq!(
        config_and_xr_version(&world, &ready).1,
        edited,
        "a Ready resource is not applied again"
    );

    let explained = world.explain(ready.id()).await;
    assert_eq!(explained.verdict, Verdict::Drifted, "{explained:?}");
    assert!(explained.action.to_string().contains("kubectl"), "{}", explained.action);
    let page = world.service.explain_all(&operator(), None, PageSize::MAX).await?;
    assert_eq!(page.explanations[0].verdict, Verdict::Drifted);
    Ok(())
}
