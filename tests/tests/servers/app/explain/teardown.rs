//! What holds a teardown on a real API server.

use std::sync::atomic::Ordering;
use std::time::Duration;

use broker_app::explain::{Budgets, Party, Verdict};
use broker_domain::{OnFailure, Phase};
use broker_tests::real::{Behaviour, RealWorld};
use broker_tests::world::{NODE, STANDALONE, operator};
use serde_json::json;

use super::{assert_goes_on, assert_told};

#[tokio::test]
async fn objects_that_stay_are_told_with_what_holds_them() {
    let world = RealWorld::new().await;
    let ready = world.brought_to(Phase::Ready, &world.declaration(STANDALONE)).await;
    let (id, xr) = (ready.id(), world.xr(&ready));
    let part = world.get(id).await.substrate().composed().iter().next().unwrap().clone();
    world.crossplane.deletes.store(false, Ordering::Relaxed);
    let (api, name) = world.object(&xr);
    let mut finalizers = api.get(&name).await.unwrap().metadata.finalizers.unwrap();
    finalizers.push("example.org/backup".to_owned());
    world.change(&xr, &json!({"metadata": {"finalizers": finalizers}})).await;
    world.service.deprovision(&operator(), id).await.unwrap();
    world.until(id, Phase::Deprovisioning).await;
    world.round(id).await.unwrap();
    let held = world.explain(id).await;
    assert_told(&held, Verdict::ForeignFinalizer, Party::Platform, "remove_finalizer");
    let kept = api.get(&name).await.unwrap().metadata.finalizers.unwrap();
    let kept: Vec<_> = kept.into_iter().filter(|it| it != "example.org/backup").collect();
    world.change(&xr, &json!({"metadata": {"finalizers": kept}})).await;
    assert_told(&world.explain(id).await, Verdict::Deprovisioning, Party::Nobody, "wait");

    let mut impatient = Budgets::default();
    impatient.deprovisioning = Duration::ZERO;
    let remains = world.explain_within(id, impatient).await;
    assert_told(&remains, Verdict::ComposedRemains, Party::Cloud, "mend_composed");
    assert_eq!(remains.blocker.unwrap().object, Some(part.clone()));
    // Its provider finishes it; Crossplane does not look yet.
    let (parts, part_name) = world.object(&part);
    world.change(&part, &json!({"metadata": {"finalizers": null}})).await;
    drop(parts.delete(&part_name, &kube::api::DeleteParams::default()).await);
    let alone = world.explain_within(id, impatient).await;
    assert_told(&alone, Verdict::CompositeRemains, Party::Platform, "finish_deletion");

    world.crossplane.deletes.store(true, Ordering::Relaxed);
    world.until(id, Phase::Deleted).await;
    assert_told(&world.explain(id).await, Verdict::Deleted, Party::Nobody, "wait");
}

#[tokio::test]
async fn ends_are_told() {
    let world = RealWorld::new().await;
    for (on_failure, verdict, party, action) in [
        (OnFailure::Retain, Verdict::Failed, Party::Caller, "replace"),
        (OnFailure::Rollback, Verdict::RollingBack, Party::Nobody, "wait"),
    ] {
        let declared = world.declaration(NODE).on_failure(on_failure);
        let declared = world.declare(&declared).await.unwrap();
        let failing = Behaviour::Failing("no such machine type".to_owned());
        world.crossplane.behave_for(declared.id(), failing);
        world.until(declared.id(), Phase::Failed).await;
        let explained = world.explain(declared.id()).await;
        assert_told(&explained, verdict, party, action);
        if on_failure == OnFailure::Retain {
            let message = explained.blocker.unwrap().message;
            assert_eq!(message.as_deref(), Some("no such machine type"));
            let replacement = world.brought_to(Phase::Ready, &world.declaration(NODE)).await;
            assert_goes_on(&world.explain(replacement.id()).await);
        } else {
            world.until(declared.id(), Phase::Deleted).await;
        }
    }
    let ready = world.brought_to(Phase::Ready, &world.declaration(NODE)).await;
    world.service.deprovision(&operator(), ready.id()).await.unwrap();
    world.service.abandon(&operator(), ready.id(), "the cloud is gone").await.unwrap();
    let given_up = world.explain(ready.id()).await;
    assert_told(&given_up, Verdict::Abandoned, Party::Platform, "clean_up");
}
