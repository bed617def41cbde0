//! Cases for inspections: each part is known or an error, and none contains a secret.

use broker_ports::{ClusterEvent, NamespaceState, ObjectReport};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use uuid::Uuid;

use super::prelude::*;
use crate::builders::second;

pub(super) fn cases<W: ClusterUnderTest + 'static>() -> Vec<Case<W>> {
    suite_of!(Scene {
        an_inspection_reports_every_part,
        an_inspection_reports_absent_parts_as_absent,
        a_forbidden_part_of_an_inspection_is_an_error,
        inspect_many_equals_single_inspections,
        conditions_and_events_contain_no_token,
        a_namespace_being_deleted_is_terminating,
        composed_objects_are_found_from_three_sources,
        events_come_newest_first,
    })
}

fn present(
    what: &str,
    report: broker_ports::Inspected<Option<ObjectReport>>,
) -> Checked<ObjectReport> {
    report?.ok_or_else(|| Violation::new(format!("{what} exists, but is reported as absent")))
}

async fn an_inspection_reports_every_part(scene: &Scene<'_>) -> Outcome {
    let subject = scene.machine()?;
    let part = scene.composed(&subject).await?;
    done(scene.apply(subject.provider_config()?, Precondition::Absent).await?)?;
    scene.add_finalizer(&subject.reference()?).await?;
    let condition = json!({
        "type": "Synced", "status": "False", "reason": "ReconcileError", "message": "it broke",
        "lastTransitionTime": "2026-01-02T03:04:05Z", "observedGeneration": 1,
    });
    let patch = json!({"status": {"conditions": [condition]}});
    scene.world.patch_status(&subject.reference()?, &patch).await?;
    let inspection = scene.cluster.inspect(&subject.target()?).await?;
    require(inspection.cluster? == scene.cluster.identity().await?, "it is another cluster")?;
    require(inspection.namespace? == NamespaceState::Active, "the namespace is not active")?;
    require(inspection.kind_installed?, "the kind is not reported as installed")?;
    let xr = present("the composite resource", inspection.xr)?;
    let live = scene.live(&subject).await?;
    require(xr.uid == live.object.version().uid, "another object is reported")?;
    require(xr.finalizers == [FINALIZER], "the finalizers are not reported")?;
    require(
        !xr.paused && xr.deleting_since.is_none(),
        "it is reported as paused or being deleted",
    )?;
    require(xr.armed == Some(subject.token_id.to_string()), "it has another arming")?;
    let composition = xr.composition.as_deref();
    require(composition == Some("machine"), "another Composition is reported")?;
    let [synced] = &xr.conditions[..] else {
        return Err(Violation::new("the conditions are not reported"));
    };
    let said =
        (synced.kind.as_str(), synced.status, synced.reason.as_str(), synced.message.as_str());
    let expected = ("Synced", ConditionStatus::False, "ReconcileError", "it broke");
    require(said == expected, "a condition is reported differently")?;
    require(synced.since.is_some(), "a condition has no transition time")?;
    present("the ProviderConfig", inspection.provider_config)?;
    let mut composed = inspection.composed;
    let (name, report) =
        composed.pop().ok_or_else(|| Violation::new("the composed object is not reported"))?;
    require(name == part && composed.is_empty(), "other composed objects are reported")?;
    require(
        present("the composed object", report)?.finalizers == [FINALIZER],
        "its finalizer is not reported",
    )
}

async fn an_inspection_reports_absent_parts_as_absent(scene: &Scene<'_>) -> Outcome {
    let elsewhere = ProjectId::new(scene.world.fresh_id())?;
    let subject = scene.of_an_absent_kind().await?.in_project(elsewhere);
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

async fn a_forbidden_part_of_an_inspection_is_an_error(scene: &Scene<'_>) -> Outcome {
    let (subject, _) = scene.existing_objects().await?;
    let mut target = subject.target()?;
    target.recorded = [subject.part("recorded")?].into();
    let limited = scene.world.limited_to(&[core_namespace()]).await?;
    let inspection = limited.inspect(&target).await?;
    require(inspection.cluster.is_ok(), "a fact that is allowed is unknown")?;
    require(inspection.namespace.is_ok(), "a fact that is allowed is unknown")?;
    require(inspection.xr.is_err(), "a forbidden composite resource is a known fact")?;
    require(inspection.provider_config.is_err(), "a forbidden ProviderConfig is a known fact")?;
    require(inspection.events.is_err(), "forbidden events are a known fact")?;
    let unknown = matches!(&inspection.composed[..], [(_, Err(_))]);
    require(unknown, "a forbidden composed object is a known fact")
}

async fn inspect_many_equals_single_inspections(scene: &Scene<'_>) -> Outcome {
    let (shell, composing, missing) = (scene.machine()?, scene.machine()?, scene.machine()?);
    scene.shell(&shell).await?;
    scene.composed(&composing).await?;
    done(scene.apply(composing.provider_config()?, Precondition::Absent).await?)?;
    let targets = [missing.target()?, composing.target()?, shell.target()?];
    let limited = scene.world.limited_to(&[core_namespace()]).await?;
    for cluster in [&*scene.cluster, &*limited] {
        let answers = cluster.inspect_many(&targets).await;
        require(answers.len() == targets.len(), "there is not one result per target")?;
        for (target, answer) in targets.iter().zip(answers) {
            let alone = cluster.inspect(target).await?;
            require(
                format!("{:?}", answer?) == format!("{alone:?}"),
                "a batch inspection differs from a single one",
            )?;
        }
    }
    Ok(())
}

async fn conditions_and_events_contain_no_token(scene: &Scene<'_>) -> Outcome {
    let subject = scene.machine()?;
    let part = scene.composed(&subject).await?;
    let condition = json!({
        "type": "ProvisioningFailed", "status": "True", "reason": format!("Refused-{CANARY}"),
        "message": format!("the cloud refused {CANARY}"),
        "lastTransitionTime": "2026-01-02T03:04:05Z",
    });
    let patch = json!({"status": {"conditions": [condition]}});
    scene.world.patch_status(&subject.reference()?, &patch).await?;
    scene.world.patch_status(&part, &patch).await?;
    let mut event = said(10, format!("an event repeated {CANARY}"));
    event.reason = format!("Refused-{CANARY}");
    scene.world.say(&subject.reference()?, &event).await?;
    let inspection = scene.cluster.inspect(&subject.target()?).await?;
    let text = format!("{inspection:?}");
    for words in ["the cloud refused", "an event repeated"] {
        require(text.contains(words), "a message is not reported")?;
    }
    require(!text.contains(CANARY), "an inspection repeats the token")?;
    let reading = scene.read(&subject).await?;
    require(!format!("{reading:?}").contains(CANARY), "a reading prints the token")?;
    let seen = scene.cluster.observe_many(&[subject.xr_target()]).await?;
    require(!format!("{seen:?}").contains(CANARY), "an observation prints the token")
}

async fn a_namespace_being_deleted_is_terminating(scene: &Scene<'_>) -> Outcome {
    let subject = scene.machine()?;
    // Its finalizer keeps it, and it keeps its namespace.
    let part = subject.part("held")?;
    scene.create_part(&subject, &part, json!([])).await?;
    scene.world.remove_namespace(namespace(scene.project).as_str()).await?;
    let mut rounds = scene.rounds("a namespace being deleted is reported as active");
    loop {
        let state = scene.cluster.inspect(&subject.target()?).await?.namespace?;
        if state == NamespaceState::Terminating {
            return scene.remove_finalizer(&part).await;
        }
        require(
            state == NamespaceState::Active,
            "a namespace being deleted is reported as absent",
        )?;
        rounds.wait().await?;
    }
}

async fn composed_objects_are_found_from_three_sources(scene: &Scene<'_>) -> Outcome {
    let subject = scene.machine()?;
    let referred = scene.composed(&subject).await?;
    let (labelled, recorded) = (subject.part("labelled")?, subject.part("recorded")?);
    scene.create_part(&subject, &labelled, json!([])).await?;
    let unlabelled = |target: &ObjectReference| {
        json!({
            "apiVersion": target.api_version(), "kind": target.kind(), "spec": {},
            "metadata": {"name": target.name(), "namespace": target.namespace()},
        })
    };
    scene.world.create(&recorded, &unlabelled(&recorded)).await?;
    // Only the reference leads to this one.
    let strip = json!({"metadata": {"labels": {"crossplane.io/composite": Value::Null}}});
    scene.world.patch("another-writer", &referred, &strip).await?;
    let target = subject.target()?.with_recorded([recorded.clone()].into());
    let inspection = scene.cluster.inspect(&target).await?;
    let mut found = Vec::new();
    for (name, report) in inspection.composed {
        present("a composed object", report)?;
        found.push(name);
    }
    found.sort();
    let mut expected = vec![referred, labelled, recorded];
    expected.sort();
    require(found == expected, "composed objects are not found in all three ways, once each")
}

/// An event some seconds after a fixed moment.
fn said(at: i64, message: impl Into<String>) -> ClusterEvent {
    ClusterEvent::new(Some(second(at)), "ComposeResources", message).as_warning()
}

async fn events_come_newest_first(scene: &Scene<'_>) -> Outcome {
    let (subject, neighbour) = (scene.machine()?, scene.machine()?);
    for subject in [&subject, &neighbour] {
        scene.shell(subject).await?;
    }
    scene.world.say(&neighbour.reference()?, &said(25, "about a neighbour")).await?;
    for at in [20, 10, 30] {
        scene.world.say(&subject.reference()?, &said(at, format!("reported at {at}"))).await?;
    }
    let events = scene.cluster.inspect(&subject.target()?).await?.events?;
    let expected: Vec<_> = [30, 20, 10].map(|at| said(at, format!("reported at {at}"))).into();
    require(events == expected, &format!("instead of the newest first, there is {events:?}"))
}

/// An event as an API server stores it. For an object without a namespace, it is in `default`.
pub(super) fn core_event(
    about: &ObjectReference,
    live: &Value,
    said: &ClusterEvent,
    id: Uuid,
) -> Result<(ObjectReference, Value), PortError> {
    let ClusterEvent { at, reason, message, warning, .. } = said;
    let within = about.namespace().unwrap_or("default");
    let reference =
        ObjectReference::new("v1", "Event", format!("{}.{}", about.name(), id), Some(within))?;
    let at = at.unwrap_or(OffsetDateTime::UNIX_EPOCH).format(&Rfc3339).map_err(|error| {
        PortError::rejected("the time of an event cannot be written").with_source(error)
    })?;
    let event = json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": {"name": reference.name(), "namespace": within},
        "involvedObject": {
            "apiVersion": about.api_version(), "kind": about.kind(), "name": about.name(),
            "namespace": about.namespace(), "uid": live["metadata"]["uid"],
        },
        "reason": reason, "message": message, "type": if *warning { "Warning" } else { "Normal" },
        "count": 1, "firstTimestamp": at, "lastTimestamp": at,
        "source": {"component": "contract"},
    });
    Ok((reference, event))
}
