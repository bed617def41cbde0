//! Observe: many composite resources at once, from the cache or from paged lists.
//!
//! The broker never acts on this observation, so it may be stale but must be cheap. A warm kind costs no request. If
//! the cache is listing a kind, the call waits for that list. A cold kind costs one paged list, however many targets it
//! has.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use broker_domain::ObjectReference;
use broker_ports::{CachedXr, ConfigKind, PortError, XrTarget};
use broker_render::{FIELD_MANAGER, MANAGED_BY_LABEL, NamespaceName, XrdScope};
use futures_util::future::join_all;
use futures_util::stream::{self, StreamExt as _};

use crate::cache::Cache;
use crate::call::Detail;
use crate::error::Failure;
use crate::objects::{ObjectClient, Selection};
use crate::read::{CONCURRENT_READS, listed_reference, xr_reference};

/// The cached or listed view of each target, in order.
pub(crate) async fn observe_many(
    client: &ObjectClient,
    cache: &Cache,
    targets: &[XrTarget],
) -> Result<Vec<Result<CachedXr, PortError>>, PortError> {
    let mut views: Vec<_> = targets.iter().map(|_| Ok(CachedXr::Absent)).collect();
    let kinds = by_kind(targets);
    // Waits for all kinds concurrently.
    let warm = join_all(kinds.iter().map(|indices| {
        let xrd = &targets[indices[0]].xrd;
        client.kinds().learn(xrd);
        cache.warming(xrd)
    }));
    let mut cold = Vec::new();
    for (indices, warm_kind) in kinds.into_iter().zip(warm.await) {
        match warm_kind {
            Some(warm_kind) => {
                for index in indices {
                    views[index] = Ok(warm_kind.observe(&targets[index]));
                }
            }
            None => cold.push(indices),
        }
    }
    let lists: Vec<_> = cold.iter().map(|indices| list_kind(client, targets, indices)).collect();
    let lists: Vec<_> = stream::iter(lists).buffered(CONCURRENT_READS).collect().await;
    for (indices, listed) in cold.iter().zip(lists) {
        for index in indices {
            let reference = xr_reference(&targets[*index])?;
            views[*index] = match &listed {
                Ok(listed) => Ok(listed.get(&reference).cloned().unwrap_or(CachedXr::Absent)),
                Err(failure) => Err(failure.clone().into()),
            };
        }
    }
    add_configs(client, cache, targets, &mut views);
    Ok(views)
}

/// Adds the cached state of ProviderConfigs without a request. A kind that is cold or not yet discovered adds
/// nothing.
fn add_configs(
    client: &ObjectClient,
    cache: &Cache,
    targets: &[XrTarget],
    views: &mut [Result<CachedXr, PortError>],
) {
    // Most targets share one `Arc`, so its pointer serves as the key.
    let mut warm_kinds = HashMap::new();
    for (target, view) in targets.iter().zip(views) {
        let (Some(kind), Ok(cached)) = (&target.config_kind, view) else { continue };
        let ConfigKind { api_version, kind: name, .. } = &**kind;
        let warm_kind = warm_kinds.entry(Arc::as_ptr(kind)).or_insert_with(|| {
            let served_kind = client.kinds().cached((api_version, name))?;
            cache.warm_provider_configs(served_kind.api_version(), served_kind.plural())
        });
        if let Some(warm_kind) = warm_kind {
            let config = warm_kind.config(target, kind);
            *cached = std::mem::replace(cached, CachedXr::Absent).with_config(config);
        }
    }
}

/// Groups the targets by kind. An XRD may change its scope between versions, so the scope is part of the key.
fn by_kind(targets: &[XrTarget]) -> Vec<Vec<usize>> {
    // Groups by pointer first: most targets share one document, and pointers compare faster than names.
    let mut documents: HashMap<_, Vec<_>> = HashMap::new();
    for (index, XrTarget { xrd, .. }) in targets.iter().enumerate() {
        documents.entry(Arc::as_ptr(xrd)).or_default().push(index);
    }
    let mut kinds: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for indices in documents.into_values() {
        let xrd = &targets[indices[0]].xrd;
        let kind = (xrd.api_version(), xrd.kind().to_owned(), xrd.scope().as_str());
        kinds.entry(kind).or_default().extend(indices);
    }
    kinds.into_values().collect()
}

/// Every labelled object of one kind.
async fn list_kind(
    client: &ObjectClient,
    targets: &[XrTarget],
    indices: &[usize],
) -> Result<HashMap<ObjectReference, CachedXr>, Failure> {
    let XrTarget { xrd, .. } = &targets[indices[0]];
    let namespaces: BTreeSet<_> =
        indices.iter().map(|index| broker_render::namespace(targets[*index].project)).collect();
    // One list over all namespaces has fewer pages than one list per namespace; a single Project has few objects.
    let only_namespace =
        namespaces.first().filter(|_| namespaces.len() == 1 && xrd.scope().is_namespaced());
    let (api_version, selector) =
        (xrd.api_version(), format!("{MANAGED_BY_LABEL}={FIELD_MANAGER}"));
    let selection = Selection {
        api_version: &api_version,
        kind: xrd.kind(),
        namespace: only_namespace.map(NamespaceName::as_str),
        selector: ("labelSelector", &selector),
    };
    let mut listed = HashMap::new();
    let mut after = None;
    // Reduces each page before the next request: a page of whole objects is large.
    while let Some(page) = client.page(&selection, after.as_deref(), Detail::Whole).await? {
        listed.extend(
            page.items.iter().filter_map(|object| keyed_view(&selection, object, xrd.scope())),
        );
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    Ok(listed)
}

/// The observation of an object. `None` without a name or version, which no target matches.
fn keyed_view(
    selection: &Selection<'_>,
    object: &serde_json::Value,
    scope: XrdScope,
) -> Option<(ObjectReference, CachedXr)> {
    Some((listed_reference(selection, object).ok()?, CachedXr::of(object, scope).ok()?))
}
