//! Observe: the facts that `explain` reports about one resource, each known or with its own error.

mod shared_reads;

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
use crate::objects::{Lookup, ObjectClient, Selection};
use crate::read::{CONCURRENT_READS, read_labelled, xr_reference};
use shared_reads::SharedReads;

/// Namespace of the events about cluster-scoped objects.
const CLUSTER_EVENTS: &str = "default";

const CONCURRENT_INSPECTIONS: usize = 4;

pub(crate) async fn inspect(
    client: &ObjectClient,
    target: &Target,
) -> Result<Inspection, PortError> {
    client.kinds().learn(&target.xr.xrd);
    inspect_with(client, &SharedReads::default(), target).await
}

pub(crate) async fn inspect_many(
    client: &ObjectClient,
    targets: &[Target],
) -> Vec<Result<Inspection, PortError>> {
    let shared = SharedReads::read_all(client, targets).await;
    let inspections: Vec<_> =
        targets.iter().map(|target| inspect_with(client, &shared, target)).collect();
    stream::iter(inspections).buffered(CONCURRENT_INSPECTIONS).collect().await
}

async fn inspect_with(
    client: &ObjectClient,
    shared: &SharedReads,
    target: &Target,
) -> Result<Inspection, PortError> {
    let reference = xr_reference(&target.xr)?;
    let namespace_name = namespace(target.xr.project);
    let (cluster, namespace, xr, labelled) = join4(
        shared.cluster(client),
        shared.namespace(client, namespace_name.as_str()),
        shared.get(client, &reference),
        read_labelled(client, target),
    )
    .await;
    let live = xr.as_ref().ok().and_then(found_object);
    let secrets = live.map(injected).unwrap_or_default();
    let mut names = target.recorded.clone();
    names.extend(live.map(|live| references(live, target.xr.xrd.scope())).unwrap_or_default());
    // A failed list adds no names. The recorded names are still read directly.
    names.extend(labelled.unwrap_or_default());
    names.retain(|name| target.provider_config.as_ref() != Some(name) && !name.is_plain_data());
    let (provider_config, composed, events) = join3(
        async {
            match &target.provider_config {
                Some(config) => to_report(shared.get(client, config).await, &secrets),
                None => Ok(None),
            }
        },
        read_reports(client, names, &secrets),
        list_events(client, &reference, &secrets),
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
    let xr_report = |xr: Lookup| {
        xr.into_object().map(|xr| ObjectReport::of_composite(&xr, scope, &secrets)).transpose()
    };
    inspection.xr = xr.map_err(PortError::from).and_then(xr_report);
    inspection.provider_config = provider_config;
    inspection.composed = composed;
    inspection.events = events;
    require_one_fact(inspection)
}

/// Fails if no fact could be read. A rejection counts as a fact.
fn require_one_fact(inspection: Inspection) -> Result<Inspection, PortError> {
    fn is_unread<T>(fact: &Inspected<T>) -> bool {
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
    let all_unread = is_unread(cluster)
        && is_unread(namespace)
        && is_unread(kind_installed)
        && is_unread(xr)
        && is_unread(provider_config)
        && is_unread(events)
        && composed.iter().all(|(_, fact)| is_unread(fact));
    match inspection.cluster {
        Err(error) if all_unread => Err(error),
        _ => Ok(inspection),
    }
}

fn found_object(lookup: &Lookup) -> Option<&Value> {
    match lookup {
        Lookup::Found(object) => Some(object),
        Lookup::NoObject | Lookup::NoKind => None,
    }
}

fn to_report(
    lookup: Result<Lookup, Failure>,
    secrets: &[SecretString],
) -> Inspected<Option<ObjectReport>> {
    lookup?.into_object().map(|object| ObjectReport::of(&object, secrets)).transpose()
}

async fn read_report(
    client: &ObjectClient,
    reference: &ObjectReference,
    secrets: &[SecretString],
) -> Inspected<Option<ObjectReport>> {
    to_report(client.get(reference, Detail::Whole).await, secrets)
}

async fn read_reports(
    client: &ObjectClient,
    names: BTreeSet<ObjectReference>,
    secrets: &[SecretString],
) -> Vec<(ObjectReference, Inspected<Option<ObjectReport>>)> {
    let named_report = async |name: ObjectReference| {
        let report = read_report(client, &name, secrets).await;
        (name, report)
    };
    let reports: Vec<_> = names.into_iter().map(named_report).collect();
    stream::iter(reports).buffered(CONCURRENT_READS).collect().await
}

/// The recent events about an object, newest first.
async fn list_events(
    client: &ObjectClient,
    object: &ObjectReference,
    secrets: &[SecretString],
) -> Inspected<Vec<ClusterEvent>> {
    let selector = format!("regarding.kind={},regarding.name={}", object.kind(), object.name());
    let selection = Selection {
        api_version: "events.k8s.io/v1",
        kind: "Event",
        namespace: Some(object.namespace().unwrap_or(CLUSTER_EVENTS)),
        selector: ("fieldSelector", &selector),
    };
    // Events expire after an hour and a repeated event is one object, so one page suffices.
    let page = client.page(&selection, None, Detail::Whole).await?.unwrap_or_default();
    let mut events: Vec<_> = page.items.iter().map(|event| read_event(event, secrets)).collect();
    events.sort_by_key(|event| std::cmp::Reverse(event.at));
    Ok(events)
}

fn read_event(event: &Value, secrets: &[SecretString]) -> ClusterEvent {
    let secrets: Vec<_> = secrets.iter().map(ExposeSecret::expose_secret).collect();
    let text = |key: &str| event.get(key).and_then(Value::as_str).unwrap_or_default();
    let scrubbed = |key: &str| scrub(text(key), &secrets);
    let parse_time =
        |path: &str| OffsetDateTime::parse(event.pointer(path)?.as_str()?, &Rfc3339).ok();
    let times = ["/series/lastObservedTime", "/deprecatedLastTimestamp", "/eventTime"];
    let at = times.into_iter().filter_map(parse_time).max();
    let event = ClusterEvent::new(at, scrubbed("reason"), scrubbed("note"));
    if text("type") == "Warning" { event.as_warning() } else { event }
}
