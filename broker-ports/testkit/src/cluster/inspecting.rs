//! Cases for inspections: each part is known or an error, and none contains a secret.

use broker_ports::{ClusterEvent, NamespaceState, ObjectReport};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use uuid::Uuid;

use super::prelude::*;
use crate::builders::second;

pub(super) fn cases<W: ClusterUnderTest + 'static>() -> Vec<Case<W>> {
    suite_of!(Fixture {
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

fn existing(
    what: &str,
    report: broker_ports::Inspected<Option<ObjectReport>>,
) -> Checked<ObjectReport> {
    report?.ok_or_else(|| Violation::new(format!("{what} exists, but is reported as absent")))
}

async fn an_inspection_reports_every_part(fixture: &Fixture<'_>) -> Outcome {
    let subject = fixture.machine()?;
    let part = fixture.apply_composed(&subject).await?;
    applied_version(fixture.apply(subject.provider_config()?, Precondition::Absent).await?)?;
    fixture.add_finalizer(&subject.reference()?).await?;
    let condition = json!({
        "type": "Synced", "status": "False", "reason": "ReconcileError", "message": "it broke",
        "lastTransitionTime": "2026-01-02T03:04:05Z", "observedGeneration": 1,
    });
    let patch = json!({"status": {"conditions": [condition]}});
    fixture.world.patch_status(&subject.reference()?, &patch).await?;
    let inspection = fixture.cluster.inspect(&subject.target()?).await?;
    require(inspection.cluster? == fixture.cluster.identity().await?, "it is another cluster")?;
    require(inspection.namespace? == NamespaceState::Active, "the namespace is not active")?;
    require(inspection.kind_installed?, "the kind is not reported as installed")?;
    let xr = existing("the composite resource", inspection.xr)?;
    let live = fixture.live(&subject).await?;
    require(xr.uid == live.object.version().uid, "another object is reported")?;
    require(xr.finalizers == [FINALIZER], "the finalizers are not reported")?;
    require(!xr.paused && xr.deleting_since.is_none(), "it is reported as paused or deleting")?;
    require(xr.armed == Some(subject.token_id.to_string()), "it has another arming")?;
    let composition = xr.composition.as_deref();
    require(composition == Some("machine"), "another Composition is reported")?;
    let [synced] = &xr.conditions[..] else {
        return Err(Violation::new("the conditions are not reported"));
    };
    let reported =
        (synced.kind.as_str(), synced.status, synced.reason.as_str(), synced.message.as_str());
    let expected = ("Synced", ConditionStatus::False, "ReconcileError", "it broke");
    require(reported == expected, "a condition is reported differently")?;
    require(synced.since.is_some(), "a condition has no transition time")?;
    existing("the ProviderConfig", inspection.provider_config)?;
    let mut composed = inspection.composed;
    let (name, report) =
        composed.pop().ok_or_else(|| Violation::new("the composed object is not reported"))?;
    require(name == part && composed.is_empty(), "other composed objects are reported")?;
    require(existing("the composed object", report)?.finalizers == [FINALIZER], "no finalizer")
}

async fn an_inspection_reports_absent_parts_as_absent(fixture: &Fixture<'_>) -> Outcome {
    let project = ProjectId::new(fixture.world.fresh_id())?;
    let subject = fixture.resource_of_removed_kind().await?.in_project(project);
    let mut target = subject.target()?;
    target.recorded = [subject.composed_object("gone")?].into();
    let inspection = fixture.cluster.inspect(&target).await?;
    require(inspection.namespace? == NamespaceState::Absent, "the namespace is not absent")?;
    require(!inspection.kind_installed?, "the kind is not reported as missing")?;
    require(inspection.xr?.is_none(), "the composite resource is not absent")?;
    require(inspection.provider_config?.is_none(), "the ProviderConfig is not absent")?;
    let composed = inspection.composed;
    let is_absent = matches!(&composed[..], [(_, Ok(None))]);
    require(is_absent, "a missing recorded object is not reported as absent")
}

async fn a_forbidden_part_of_an_inspection_is_an_error(fixture: &Fixture<'_>) -> Outcome {
    let (subject, _) = fixture.machine_with_shell().await?;
    let mut target = subject.target()?;
    target.recorded = [subject.composed_object("recorded")?].into();
    let limited = fixture.world.limited_to(&[namespace_kind()]).await?;
    let inspection = limited.inspect(&target).await?;
    require(inspection.cluster.is_ok(), "an allowed part is an error")?;
    require(inspection.namespace.is_ok(), "an allowed part is an error")?;
    require(inspection.xr.is_err(), "a forbidden composite resource is not an error")?;
    require(inspection.provider_config.is_err(), "a forbidden ProviderConfig is not an error")?;
    require(inspection.events.is_err(), "forbidden events are a known fact")?;
    let is_error = matches!(&inspection.composed[..], [(_, Err(_))]);
    require(is_error, "a forbidden composed object is not an error")
}

async fn inspect_many_equals_single_inspections(fixture: &Fixture<'_>) -> Outcome {
    let (shell, armed, missing) = (fixture.machine()?, fixture.machine()?, fixture.machine()?);
    fixture.apply_shell(&shell).await?;
    fixture.apply_composed(&armed).await?;
    applied_version(fixture.apply(armed.provider_config()?, Precondition::Absent).await?)?;
    let targets = [missing.target()?, armed.target()?, shell.target()?];
    let limited = fixture.world.limited_to(&[namespace_kind()]).await?;
    for cluster in [&*fixture.cluster, &*limited] {
        let results = cluster.inspect_many(&targets).await;
        require(results.len() == targets.len(), "the batch does not return one result per target")?;
        for (target, result) in targets.iter().zip(results) {
            let single = cluster.inspect(target).await?;
            require(
                format!("{:?}", result?) == format!("{single:?}"),
                "a batch inspection differs from a single one",
            )?;
        }
    }
    Ok(())
}

async fn conditions_and_events_contain_no_token(fixture: &Fixture<'_>) -> Outcome {
    let subject = fixture.machine()?;
    let part = fixture.apply_composed(&subject).await?;
    let condition = json!({
        "type": "ProvisioningFailed", "status": "True", "reason": format!("Refused-{CANARY}"),
        "message": format!("the cloud refused {CANARY}"),
        "lastTransitionTime": "2026-01-02T03:04:05Z",
    });
    let patch = json!({"status": {"conditions": [condition]}});
    fixture.world.patch_status(&subject.reference()?, &patch).await?;
    fixture.world.patch_status(&part, &patch).await?;
    let mut event = event_at(10, format!("an event repeated {CANARY}"));
    event.reason = format!("Refused-{CANARY}");
    fixture.world.record_event(&subject.reference()?, &event).await?;
    let inspection = fixture.cluster.inspect(&subject.target()?).await?;
    let text = format!("{inspection:?}");
    for message in ["the cloud refused", "an event repeated"] {
        require(text.contains(message), "a message is not reported")?;
    }
    require(!text.contains(CANARY), "an inspection repeats the token")?;
    let reading = fixture.read(&subject).await?;
    require(!format!("{reading:?}").contains(CANARY), "a reading prints the token")?;
    let observed = fixture.cluster.observe_many(&[subject.xr_target()]).await?;
    require(!format!("{observed:?}").contains(CANARY), "an observation prints the token")
}

async fn a_namespace_being_deleted_is_terminating(fixture: &Fixture<'_>) -> Outcome {
    let subject = fixture.machine()?;
    // The finalizer keeps the object, and the object keeps the namespace.
    let part = subject.composed_object("held")?;
    fixture.create_composed(&subject, &part, json!([])).await?;
    fixture.world.remove_namespace(namespace(fixture.project).as_str()).await?;
    let mut polls = fixture.polls("a namespace being deleted is reported as active");
    loop {
        let state = fixture.cluster.inspect(&subject.target()?).await?.namespace?;
        if state == NamespaceState::Terminating {
            return fixture.remove_finalizer(&part).await;
        }
        require(state == NamespaceState::Active, "a deleting namespace is reported as absent")?;
        polls.wait().await?;
    }
}

async fn composed_objects_are_found_from_three_sources(fixture: &Fixture<'_>) -> Outcome {
    let subject = fixture.machine()?;
    let referred = fixture.apply_composed(&subject).await?;
    let (labelled, recorded) =
        (subject.composed_object("labelled")?, subject.composed_object("recorded")?);
    fixture.create_composed(&subject, &labelled, json!([])).await?;
    let unlabelled = |target: &ObjectReference| {
        json!({
            "apiVersion": target.api_version(), "kind": target.kind(), "spec": {},
            "metadata": {"name": target.name(), "namespace": target.namespace()},
        })
    };
    fixture.world.create(&recorded, &unlabelled(&recorded)).await?;
    // This object is found by its reference only.
    let without_label = json!({"metadata": {"labels": {"crossplane.io/composite": Value::Null}}});
    fixture.world.patch("another-writer", &referred, &without_label).await?;
    let target = subject.target()?.with_recorded([recorded.clone()].into());
    let inspection = fixture.cluster.inspect(&target).await?;
    let mut found = Vec::new();
    for (name, report) in inspection.composed {
        existing("a composed object", report)?;
        found.push(name);
    }
    found.sort();
    let mut expected = vec![referred, labelled, recorded];
    expected.sort();
    require(found == expected, "an object of one of the three sources is missing or found twice")
}

/// An event this many seconds after a fixed moment.
fn event_at(at: i64, message: impl Into<String>) -> ClusterEvent {
    ClusterEvent::new(Some(second(at)), "ComposeResources", message).as_warning()
}

async fn events_come_newest_first(fixture: &Fixture<'_>) -> Outcome {
    let (subject, other) = (fixture.machine()?, fixture.machine()?);
    for subject in [&subject, &other] {
        fixture.apply_shell(subject).await?;
    }
    fixture
        .world
        .record_event(&other.reference()?, &event_at(25, "about another resource"))
        .await?;
    for at in [20, 10, 30] {
        fixture
            .world
            .record_event(&subject.reference()?, &event_at(at, format!("reported at {at}")))
            .await?;
    }
    let events = fixture.cluster.inspect(&subject.target()?).await?.events?;
    let expected: Vec<_> = [30, 20, 10].map(|at| event_at(at, format!("reported at {at}"))).into();
    require(events == expected, &format!("the events are not ordered newest first: {events:?}"))
}

/// An event as an API server stores it. Events about cluster-scoped objects are in namespace `default`.
pub(super) fn core_event(
    about: &ObjectReference,
    live: &Value,
    event: &ClusterEvent,
    id: Uuid,
) -> Result<(ObjectReference, Value), PortError> {
    let ClusterEvent { at, reason, message, warning, .. } = event;
    let namespace = about.namespace().unwrap_or("default");
    let reference =
        ObjectReference::new("v1", "Event", format!("{}.{}", about.name(), id), Some(namespace))?;
    let at = at.unwrap_or(OffsetDateTime::UNIX_EPOCH).format(&Rfc3339).map_err(|error| {
        PortError::rejected("the time of an event cannot be written").with_source(error)
    })?;
    let event = json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": {"name": reference.name(), "namespace": namespace},
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
