//! Labels that cannot become cloud tags: log, plan and explain name each with its reason.

use broker_domain::{Phase, ProvisionedResource};
use broker_ports::PortName;
use broker_testkit::faults::{Fault, FaultPlan};
use broker_tests::world::{NODE, World, declaration, operator};

use crate::log_lines::with_info_log;

const LOG_MESSAGE: &str = "could not become a tag";

/// Two labels that the provider rejects, for different reasons, and one that it accepts.
fn add_labels(world: &World, resource: &ProvisionedResource) {
    world.platform.label(resource.resource_id(), "team", "blue");
    world.platform.label(resource.resource_id(), "a/b", "x");
    world.platform.label(resource.resource_id(), "note", "not so short ".repeat(9));
}

const SKIPPED: [(&str, &str); 2] = [("a/b", "key_invalid"), ("note", "value_too_long")];

#[track_caller]
fn assert_skipped(lines: &[String]) {
    assert_eq!(lines.len(), SKIPPED.len(), "{lines:?}");
    for (key, reason) in SKIPPED {
        let is_line = |line: &&String| line.contains(key) && line.contains(reason);
        assert_eq!(lines.iter().filter(is_line).count(), 1, "{key}: {lines:?}");
    }
}

#[test]
fn untaggable_label_is_logged_once_per_change() {
    with_info_log(async |log| {
        let plan = FaultPlan::none().on(PortName::TokenIssuer, "issue", 1, Fault::BeforeEffect);
        let world = World::with_faults(plan);
        let declared = world.declare(&declaration(NODE)).await.unwrap();
        add_labels(&world, &declared);
        world.reconciler.reconcile(declared.id()).await.unwrap_err();
        assert_eq!(log.take_lines(LOG_MESSAGE), [""; 0], "the pass failed before the tags");
        world.expire_leases();
        let ready = world.until(declared.id(), Phase::Ready).await;
        assert_skipped(&log.take_lines(LOG_MESSAGE));
        for _ in 0..3 {
            world.sweep().await;
            world.round(ready.id()).await.unwrap();
        }
        assert_eq!(log.take_lines(LOG_MESSAGE), [""; 0], "nothing changed");
    });
}

#[test]
fn untaggable_label_is_shown_by_plan_and_explain() {
    with_info_log(async |_| {
        let world = World::new();
        let declared = world.declare(&declaration(NODE)).await.unwrap();
        add_labels(&world, &declared);
        let plan = world.service.plan(&operator(), declared.id()).await.unwrap();
        let explained = world.explain(declared.id()).await.to_string();
        for line in [
            "label \"a/b\" is not a cloud tag: key_invalid",
            "label \"note\" is not a cloud tag: value_too_long",
        ] {
            assert_eq!(plan.to_string().matches(line).count(), 1, "{plan}");
            assert_eq!(explained.matches(line).count(), 1, "{explained}");
        }
    });
}
