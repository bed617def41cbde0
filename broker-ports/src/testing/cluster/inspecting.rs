//! Inspection: every fact by itself, known or unknown, and no secret in any.

use broker_domain::ProjectId;
use broker_render::Precondition;
use serde_json::json;

use super::ClusterUnderTest;
use super::kinds::{Blueprint, core_namespace};
use super::scene::{CANARY, FINALIZER, Outcome, Scene, done};
use crate::cluster::{ConditionStatus, NamespaceState, ObjectReport, XrReading};
use crate::testing::Violation;
use crate::testing::cases::require;

fn present(
    what: &str,
    report: crate::cluster::Fact<Option<ObjectReport>>,
) -> Result<ObjectReport, Violation> {
    report?.ok_or_else(|| Violation::new(format!("{what} stands, but is reported as absent")))
}

pub(super) async fn every_fact_is_reported(world: &dyn ClusterUnderTest) -> Outcome {
    let scene = Scene::new(world).await?;
    let subject = scene.machine()?;
    let part = scene.composed(&subject).await?;
    done(scene.apply(subject.provider_config()?, Precondition::Absent).await?)?;
    scene.hold(&subject.reference()?).await?;
    let condition = json!({
        "type": "Synced", "status": "False", "reason": "ReconcileError", "message": "it broke",
        "lastTransitionTime": "2026-01-02T03:04:05Z", "observedGeneration": 1,
    });
    let patch = json!({"status": {"conditions": [condition]}});
    world.patch_status(&subject.reference()?, &patch).await?;
    let inspection = scene.cluster.inspect(&subject.target()?).await?;
    require(inspection.cluster? == scene.cluster.identity().await?, "it is another cluster")?;
    require(inspection.namespace? == NamespaceState::Active, "the namespace is not active")?;
    require(inspection.kind_installed?, "the kind is not reported as installed")?;
    let xr = present("the composite resource", inspection.xr)?;
    let live = scene.live(&subject).await?;
    require(xr.uid == live.object.version().uid, "another object is reported")?;
    require(xr.finalizers == [FINALIZER], "the finalizers are not reported")?;
    require(!xr.paused && xr.deleting_since.is_none(), "it is neither paused nor going")?;
    require(xr.armed == Some(subject.token_id.to_string()), "it is armed with something else")?;
    let [synced] = &xr.conditions[..] else {
        return Err(Violation::new("the conditions are not reported"));
    };
    let said =
        (synced.kind.as_str(), synced.status, synced.reason.as_str(), synced.message.as_str());
    let expected = ("Synced", ConditionStatus::False, "ReconcileError", "it broke");
    require(said == expected, "a condition is reported in other words")?;
    require(synced.since.is_some(), "it is not said since when a condition holds")?;
    present("the ProviderConfig", inspection.provider_config)?;
    let mut composed = inspection.composed;
    let (name, report) =
        composed.pop().ok_or_else(|| Violation::new("the composed object is not reported"))?;
    require(name == part && composed.is_empty(), "other composed objects are reported")?;
    require(present("the composed object", report)?.finalizers == [FINALIZER], "it is not held")
}

pub(super) async fn absent_things_are_reported_as_absent(world: &dyn ClusterUnderTest) -> Outcome {
    let scene = Scene::new(world).await?;
    let elsewhere = ProjectId::new(world.fresh_id())?;
    let subject = scene.resource(Blueprint::Fleeting)?.in_project(elsewhere);
    world.remove_kind(&Blueprint::Fleeting.kind()).await?;
    scene.until_read(&subject, |xr| matches!(xr, XrReading::KindAbsent)).await?;
    let mut target = subject.target()?;
    target.recorded = [subject.part("gone")?].into();
    let inspection = scene.cluster.inspect(&target).await?;
    require(inspection.namespace? == NamespaceState::Absent, "the namespace is not absent")?;
    require(!inspection.kind_installed?, "the kind is not reported as missing")?;
    require(inspection.xr?.is_none(), "the composite resource is not absent")?;
    require(inspection.provider_config?.is_none(), "the ProviderConfig is not absent")?;
    let composed = inspection.composed;
    let gone = matches!(&composed[..], [(_, Ok(None))]);
    require(gone, "a recorded object that is gone is not reported as that")
}

pub(super) async fn a_forbidden_fact_is_unknown(world: &dyn ClusterUnderTest) -> Outcome {
    let scene = Scene::new(world).await?;
    let subject = scene.machine()?;
    scene.shell(&subject).await?;
    let mut target = subject.target()?;
    target.recorded = [subject.part("recorded")?].into();
    let limited = world.limited_to(&[core_namespace()]).await?;
    let inspection = limited.inspect(&target).await?;
    require(inspection.cluster.is_ok(), "a fact that is allowed is unknown")?;
    require(inspection.namespace.is_ok(), "a fact that is allowed is unknown")?;
    require(inspection.xr.is_err(), "a forbidden composite resource is a known fact")?;
    require(inspection.provider_config.is_err(), "a forbidden ProviderConfig is a known fact")?;
    require(inspection.events.is_err(), "forbidden events are a known fact")?;
    let unknown = matches!(&inspection.composed[..], [(_, Err(_))]);
    require(unknown, "a forbidden composed object is a known fact")
}

pub(super) async fn a_rival_manager_is_named(world: &dyn ClusterUnderTest) -> Outcome {
    let scene = Scene::new(world).await?;
    let subject = scene.machine()?;
    scene.composed(&subject).await?;
    let calm = scene.cluster.inspect(&subject.target()?).await?;
    let calm = present("the composite resource", calm.xr)?;
    require(calm.rival_managers.is_empty(), "Crossplane is called a rival")?;
    let patch = json!({"spec": {"parameters": {"size": "large"}}});
    world.patch("somebody", &subject.reference()?, &patch).await?;
    let inspection = scene.cluster.inspect(&subject.target()?).await?;
    let report = present("the composite resource", inspection.xr)?;
    require(report.rival_managers == ["somebody"], "who changed a field of ours is not named")
}

pub(super) async fn a_condition_repeats_no_token(world: &dyn ClusterUnderTest) -> Outcome {
    let scene = Scene::new(world).await?;
    let subject = scene.machine()?;
    let part = scene.composed(&subject).await?;
    let condition = json!({
        "type": "ProvisioningFailed", "status": "True", "reason": "Refused",
        "message": format!("the cloud refused {CANARY}"),
        "lastTransitionTime": "2026-01-02T03:04:05Z",
    });
    let patch = json!({"status": {"conditions": [condition]}});
    world.patch_status(&subject.reference()?, &patch).await?;
    world.patch_status(&part, &patch).await?;
    let inspection = scene.cluster.inspect(&subject.target()?).await?;
    let text = format!("{inspection:?}");
    require(text.contains("the cloud refused"), "the message is not reported")?;
    require(!text.contains(CANARY), "an inspection repeats the token")?;
    let reading = scene.read(&subject).await?;
    require(!format!("{reading:?}").contains(CANARY), "a reading prints the token")?;
    let seen = scene.cluster.observe_many(&[subject.xr_target()]).await?;
    require(!format!("{seen:?}").contains(CANARY), "an observation prints the token")
}
