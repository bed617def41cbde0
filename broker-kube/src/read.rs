//! Observe: reads one resource directly, by name.
//!
//! The composite resource is read before its composed objects. In the opposite order, an object that it
//! composes between the two reads could escape both.

use std::collections::{BTreeMap, BTreeSet};

use broker_domain::{ClusterId, ObjectReference};
use broker_ports::{
    LiveObject, LiveXr, NamespaceState, PortError, Presence, Reading, Target, XrReading, XrTarget,
};
use broker_render::catalog::ComposedKind;
use futures_util::future::{try_join, try_join3};
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use serde_json::Value;

use crate::call::Detail;
use crate::error::{Cause, Failure, RequestLabel, Verb, rule_violation};
use crate::objects::{Lookup, ObjectClient, Selection};

pub(crate) const CONCURRENT_READS: usize = 8;

/// Crossplane's label on every composed object.
const COMPOSITE_LABEL: &str = "crossplane.io/composite";

/// The cluster identity from a current request: the broker must notice a replaced cluster before it acts.
pub(crate) async fn identity(client: &ObjectClient) -> Result<ClusterId, PortError> {
    let kube_system = namespace_reference("kube-system")?;
    let uid = client.identity.get(read_uid(client, &kube_system)).await?;
    cluster_id(&uid)
}

fn cluster_id(uid: &str) -> Result<ClusterId, PortError> {
    ClusterId::new(uid).map_err(|error| rule_violation("the uid of kube-system", error))
}

async fn read_uid(client: &ObjectClient, kube_system: &ObjectReference) -> Result<String, Failure> {
    let found = client.get(kube_system, Detail::Metadata).await?.into_object();
    let uid = found.as_ref().and_then(|object| object.pointer("/metadata/uid")?.as_str());
    uid.map(str::to_owned).ok_or_else(|| {
        let text = "the namespace does not exist, so this is not a Kubernetes cluster";
        RequestLabel::for_object(Verb::Get, kube_system).failure(Cause::Unreadable, text)
    })
}

pub(crate) async fn read(client: &ObjectClient, target: &Target) -> Result<Reading, PortError> {
    client.kinds().learn(&target.xr.xrd);
    let (cluster, xr) = try_join(identity(client), read_xr(client, &target.xr)).await?;
    let (provider_config, recorded, labelled) = try_join3(
        read_provider_config(client, target),
        read_recorded(client, &target.recorded),
        read_labelled(client, target),
    )
    .await?;
    Ok(Reading::new(cluster, xr, provider_config, recorded, labelled))
}

async fn read_xr(client: &ObjectClient, target: &XrTarget) -> Result<XrReading, PortError> {
    let reference = xr_reference(target)?;
    match client.get(&reference, Detail::Whole).await? {
        Lookup::Found(object) => {
            let xr = LiveXr::from_json(object, target.xrd.scope())?;
            return Ok(XrReading::Present(Box::new(xr)));
        }
        Lookup::NoKind => return Ok(XrReading::KindAbsent),
        Lookup::NoObject => {}
    }
    // A missing namespace gets the same response, so the namespace is read separately.
    let Some(namespace) = reference.namespace() else { return Ok(XrReading::Absent) };
    let namespace_is_absent = namespace_state(client, namespace).await? == NamespaceState::Absent;
    Ok(if namespace_is_absent { XrReading::NamespaceAbsent } else { XrReading::Absent })
}

pub(crate) async fn namespace_state(
    client: &ObjectClient,
    name: &str,
) -> Result<NamespaceState, PortError> {
    let reference = namespace_reference(name)?;
    Ok(client.namespaces.get(name, read_namespace(client, &reference)).await?)
}

async fn read_namespace(
    client: &ObjectClient,
    reference: &ObjectReference,
) -> Result<NamespaceState, Failure> {
    let found = client.get(reference, Detail::Metadata).await?.into_object();
    Ok(match found {
        None => NamespaceState::Absent,
        Some(object) if object.pointer("/metadata/deletionTimestamp").is_some() => {
            NamespaceState::Terminating
        }
        Some(_) => NamespaceState::Active,
    })
}

fn namespace_reference(name: &str) -> Result<ObjectReference, PortError> {
    ObjectReference::new("v1", "Namespace", name, None)
        .map_err(|error| rule_violation(format_args!("the namespace {name}"), error))
}

pub(crate) fn xr_reference(target: &XrTarget) -> Result<ObjectReference, PortError> {
    target.reference().map_err(|error| rule_violation("the name of the composite resource", error))
}

async fn read_provider_config(
    client: &ObjectClient,
    target: &Target,
) -> Result<Option<LiveObject>, PortError> {
    let Some(reference) = &target.provider_config else { return Ok(None) };
    let found = client.get(reference, Detail::Whole).await?;
    found.into_object().map(LiveObject::from_json).transpose()
}

/// Reads only whether a composed object exists, never its content.
async fn read_recorded(
    client: &ObjectClient,
    recorded: &BTreeSet<ObjectReference>,
) -> Result<BTreeMap<ObjectReference, Presence>, PortError> {
    let reads: Vec<_> = recorded.iter().map(|reference| presence(client, reference)).collect();
    Ok(stream::iter(reads).buffered(CONCURRENT_READS).try_collect().await?)
}

async fn presence(
    client: &ObjectClient,
    reference: &ObjectReference,
) -> Result<(ObjectReference, Presence), Failure> {
    let presence = match client.get(reference, Detail::Metadata).await? {
        Lookup::Found(_) => Presence::Present,
        Lookup::NoObject | Lookup::NoKind => Presence::Gone,
    };
    Ok((reference.clone(), presence))
}

/// Objects of the blueprint's composed kinds that carry the composite label of the resource.
pub(crate) async fn read_labelled(
    client: &ObjectClient,
    target: &Target,
) -> Result<BTreeSet<ObjectReference>, PortError> {
    let xr = xr_reference(&target.xr)?;
    let requests: Vec<_> =
        target.composed_kinds.iter().map(|kind| list_labelled(client, &xr, kind)).collect();
    let lists: Vec<_> = stream::iter(requests).buffered(CONCURRENT_READS).try_collect().await?;
    Ok(lists.into_iter().flatten().collect())
}

async fn list_labelled(
    client: &ObjectClient,
    xr: &ObjectReference,
    kind: &ComposedKind,
) -> Result<Vec<ObjectReference>, PortError> {
    let ComposedKind { api_version, kind } = kind;
    let selector = format!("{COMPOSITE_LABEL}={}", xr.name());
    let selection = Selection {
        api_version,
        kind,
        // A namespaced composite resource composes within its namespace.
        namespace: xr.namespace(),
        selector: ("labelSelector", &selector),
    };
    let found = client.list_all(&selection, Detail::Metadata).await?;
    found.iter().map(|object| listed_reference(&selection, object)).collect()
}

pub(crate) fn listed_reference(
    selection: &Selection<'_>,
    object: &Value,
) -> Result<ObjectReference, PortError> {
    let text = |key: &str| object.pointer(&format!("/metadata/{key}")).and_then(Value::as_str);
    let Selection { api_version, kind, .. } = *selection;
    let name = text("name").unwrap_or_default();
    ObjectReference::new(api_version, kind, name, text("namespace"))
        .map_err(|error| rule_violation(format_args!("a listed {kind}"), error))
}

#[cfg(test)]
mod tests {
    use broker_ports::FailureClass;
    use serde_json::json;

    use super::*;

    /// The broker's caller chose neither name, so the errors are not refusals of its request.
    #[test]
    fn invalid_name_from_the_cluster_is_not_a_refusal() {
        let selection = Selection {
            api_version: "example.org/v1",
            kind: "Part",
            namespace: None,
            selector: ("labelSelector", "a=b"),
        };
        let unnamed = json!({"metadata": {"uid": "u"}});
        for (what, error) in [
            ("the uid of kube-system", cluster_id("two words").unwrap_err()),
            ("a listed Part", listed_reference(&selection, &unnamed).unwrap_err()),
        ] {
            assert_eq!((error.class(), error.is_refusal()), (FailureClass::Rejected, false));
            assert_eq!(error.to_string(), format!("{what} breaks the domain's rules"));
            assert!(error.domain().is_some(), "{what}: the field is not listed_reference");
        }
    }
}
