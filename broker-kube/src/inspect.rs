//! Observe: the reports that explain one resource, each with its own error.

mod common;

use std::collections::BTreeSet;

use broker_domain::ObjectReference;
use broker_ports::{
    ClusterEvent, FailureClass, Inspected, Inspection, ObjectReport, PortError, Target,
};
use broker_render::{injected, namespace, references, scrub};
use futures_util::future::{join3, join4};
use futures_util::stream::{self, StreamExt as _};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::call::Detail;
use crate::error::Failure;
use crate::objects::{Lookup, Objects, Selection};
use crate::read::{CONCURRENT_READS, read_labelled, xr_reference};
use common::Common;

/// Namespace of the events about cluster-scoped objects.
const CLUSTER_EVENTS: &str = "default";

const CONCURRENT_INSPECTIONS: usize = 4;

pub(crate) async fn inspect(objects: &Objects, target: &Target) -> Result<Inspection, PortError> {
    objects.kinds().learn(&target.xr.xrd);
    inspect_with(objects, &Common::default(), target).await
}

pub(crate) async fn inspect_many(
    objects: &Objects,
    targets: &[Target],
) -> Vec<Result<Inspection, PortError>> {
    let common = Common::of(objects, targets).await;
    let each: Vec<_> = targets.iter().map(|it| inspect_with(objects, &common, it)).collect();
    stream::iter(each).buffered(CONCURRENT_INSPECTIONS).collect().await
}

async fn inspect_with(
    objects: &Objects,
    common: &Common,
    target: &Target,
) -> Result<Inspection, PortError> {
    let reference = xr_reference(&target.xr)?;
    let home = namespace(target.xr.project);
    let (cluster, namespace, xr, labelled) = join4(
        common.cluster(objects),
        common.namespace(objects, home.as_str()),
        common.get(objects, &reference),
        read_labelled(objects, target),
    )
    .await;
    let live = xr.as_ref().ok().and_then(found);
    let hidden = live.map(injected).unwrap_or_default();
    let mut names = target.recorded.clone();
    names.extend(live.map(|live| references(live, target.xr.xrd.scope())).unwrap_or_default());
    // A failed list adds no names. The recorded names are still read directly.
    names.extend(labelled.unwrap_or_default());
    names.retain(|name| target.provider_config.as_ref() != Some(name) && !name.is_plain_data());
    let (provider_config, composed, events) = join3(
        async {
            match &target.provider_config {
                Some(config) => report(common.get(objects, config).await, &hidden),
                None => Ok(None),
            }
        },
        report_on_all(objects, names, &hidden),
        events_about(objects, &reference, &hidden),
    )
    .await;
    let mut inspection = Inspection::new();
    inspection.cluster = cluster;
    inspection.namespace = namespace;
    inspection.kind_installed = match &xr {
        Ok(lookup) => Ok(!matches!(lookup, Lookup::NoKind)),
        Err(failure) => Err(failure.clone().into()),
    };
    let scope = target.xr.xrd.scope();
    let report_on_xr = |xr: Lookup| {
        xr.object().map(|xr| ObjectReport::of_composite(&xr, scope, &hidden)).transpose()
    };
    inspection.xr = xr.map_err(PortError::from).and_then(report_on_xr);
    inspection.provider_config = provider_config;
    inspection.composed = composed;
    inspection.events = events;
    answered(inspection)
}

/// An inspection without any answer is a failure. A rejection counts as an answer.
fn answered(inspection: Inspection) -> Result<Inspection, PortError> {
    fn unanswered<T>(fact: &Inspected<T>) -> bool {
        fact.as_ref().is_err_and(|error| error.class() != FailureClass::Rejected)
    }
    let Inspection {
        cluster,
        namespace,
        kind_installed,
        xr,
        provider_config,
        composed,
        events,
        ..
    } = &inspection;
    let all_unanswered = unanswered(cluster)
        && unanswered(namespace)
        && unanswered(kind_installed)
        && unanswered(xr)
        && unanswered(provider_config)
        && unanswered(events)
        && composed.iter().all(|(_, fact)| unanswered(fact));
    match inspection.cluster {
        Err(error) if all_unanswered => Err(error),
        _ => Ok(inspection),
    }
}

fn found(lookup: &Lookup) -> Option<&Value> {
    match lookup {
        Lookup::Found(object) => Some(object),
        Lookup::NoObject | Lookup::NoKind => None,
    }
}

fn report(
    lookup: Result<Lookup, Failure>,
    hidden: &[SecretString],
) -> Inspected<Option<ObjectReport>> {
    lookup?.object().map(|object| ObjectReport::of(&object, hidden)).transpose()
}

async fn report_on(
    objects: &Objects,
    reference: &ObjectReference,
    hidden: &[SecretString],
) -> Inspected<Option<ObjectReport>> {
    report(objects.get(reference, Detail::Whole).await, hidden)
}

async fn report_on_all(
    objects: &Objects,
    names: BTreeSet<ObjectReference>,
    hidden: &[SecretString],
) -> Vec<(ObjectReference, Inspected<Option<ObjectReport>>)> {
    let report = async |name: ObjectReference| {
        let report = report_on(objects, &name, hidden).await;
        (name, report)
    };
    let reports: Vec<_> = names.into_iter().map(report).collect();
    stream::iter(reports).buffered(CONCURRENT_READS).collect().await
}

/// The recent events about an object, newest first.
async fn events_about(
    objects: &Objects,
    about: &ObjectReference,
    hidden: &[SecretString],
) -> Inspected<Vec<ClusterEvent>> {
    let selector = format!("regarding.kind={},regarding.name={}", about.kind(), about.name());
    let selection = Selection {
        api_version: "events.k8s.io/v1",
        kind: "Event",
        namespace: Some(about.namespace().unwrap_or(CLUSTER_EVENTS)),
        selector: ("fieldSelector", &selector),
    };
    // Events expire after an hour and repeats are counted, so one page is enough.
    let page = objects.page(&selection, None, Detail::Whole).await?.unwrap_or_default();
    let mut events: Vec<_> = page.items.iter().map(|event| read_event(event, hidden)).collect();
    events.sort_by_key(|event| std::cmp::Reverse(event.at));
    Ok(events)
}

fn read_event(event: &Value, hidden: &[SecretString]) -> ClusterEvent {
    let hidden: Vec<_> = hidden.iter().map(ExposeSecret::expose_secret).collect();
    let text = |key: &str| event.get(key).and_then(Value::as_str).unwrap_or_default();
    let scrubbed = |key: &str| scrub(text(key), &hidden);
    let moment = |path: &str| OffsetDateTime::parse(event.pointer(path)?.as_str()?, &Rfc3339).ok();
    let times = ["/series/lastObservedTime", "/deprecatedLastTimestamp", "/eventTime"];
    let at = times.into_iter().filter_map(moment).max();
    let event = ClusterEvent::new(at, scrubbed("reason"), scrubbed("note"));
    if text("type") == "Warning" { event.as_warning() } else { event }
}
