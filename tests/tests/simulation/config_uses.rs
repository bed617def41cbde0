//! The ProviderConfig that a blueprint refers to: of its own, shared, or the platform's.

use broker_app::explain::Verdict;
use broker_app::plan::{ApplyPurpose, PlannedStep};
use broker_domain::{MeshRole, Phase};
use broker_memory::Verb;
use broker_render::ProviderConfigUse;
use broker_tests::world::{World, declaration, operator};

/// A blueprint whose composed objects refer to a ProviderConfig of the platform.
const LEASED: u128 = 0xb4;

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
    let purposes = plan.steps.iter().filter_map(|step| match step {
        PlannedStep::Apply(apply) => Some(apply.purpose),
        _ => None,
    });
    assert_eq!(purposes.collect::<Vec<_>>(), [ApplyPurpose::Shell, ApplyPurpose::Arm]);
}
