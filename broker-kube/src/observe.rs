//! Observe: many composite resources at once, from the cache or from paged lists.
//!
//! Nothing of it is acted on, so it may be late; it must only be cheap. A kind that the cache has costs no
//! request, and one that the cache is about to have is waited for. Any other costs a list of what carries our label,
//! page by page, however many resources it has.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use broker_domain::ObjectReference;
use broker_ports::{CachedXr, ConfigKind, PortError, XrTarget};
use broker_render::{FIELD_MANAGER, MANAGED_BY_LABEL, NamespaceName, XrdScope};
use futures_util::future::join_all;
use futures_util::stream::{self, StreamExt as _};

use crate::cache::Cache;
use crate::call::Extent;
use crate::error::Failure;
use crate::objects::{Objects, Selection};
use crate::read::{AT_ONCE, named};

/// What is known of composite resources, in their order.
pub(crate) async fn observe_many(
    objects: &Objects,
    cache: &Cache,
    targets: &[XrTarget],
) -> Result<Vec<Result<CachedXr, PortError>>, PortError> {
    let mut answers: Vec<_> = targets.iter().map(|_| Ok(CachedXr::Absent)).collect();
    let kinds = by_kind(targets);
    // All at once: while one is waited for, the others come, too.
    let warm = join_all(kinds.iter().map(|indices| {
        let xrd = &targets[indices[0]].xrd;
        objects.kinds().learn(xrd);
        cache.warming(xrd)
    }));
    let mut cold = Vec::new();
    for (indices, warm) in kinds.into_iter().zip(warm.await) {
        match warm {
            Some(warm) => {
                for index in indices {
                    answers[index] = Ok(warm.observe(&targets[index]));
                }
            }
            None => cold.push(indices),
        }
    }
    let lists: Vec<_> = cold.iter().map(|indices| list(objects, targets, indices)).collect();
    let lists: Vec<_> = stream::iter(lists).buffered(AT_ONCE).collect().await;
    for (indices, listed) in cold.iter().zip(lists) {
        for index in indices {
            let reference = targets[*index].reference()?;
            answers[*index] = match &listed {
                Ok(seen) => Ok(seen.get(&reference).cloned().unwrap_or(CachedXr::Absent)),
                Err(failure) => Err(failure.clone().into()),
            };
        }
    }
    look_for_configs(objects, cache, targets, &mut answers);
    Ok(answers)
}

/// Adds what the cache has of ProviderConfigs. No request is made: of a kind that is not warm, or whose place is not known
/// yet, nothing is said.
fn look_for_configs(
    objects: &Objects,
    cache: &Cache,
    targets: &[XrTarget],
    answers: &mut [Result<CachedXr, PortError>],
) {
    // Most targets share the very value that names the kind.
    let mut warm = HashMap::new();
    for (target, answer) in targets.iter().zip(answers) {
        let (Some(kind), Ok(seen)) = (&target.config_kind, answer) else { continue };
        let ConfigKind { api_version, kind: name, scope, .. } = &**kind;
        let found = warm.entry(Arc::as_ptr(kind)).or_insert_with(|| {
            let at = objects.kinds().located((api_version, name))?;
            cache.warm_provider_configs(at.api_version(), at.plural())
        });
        if let Some(found) = found {
            let config = found.config(target, *scope);
            *seen = std::mem::replace(seen, CachedXr::Absent).with_config(config);
        }
    }
}

/// Which targets are of the same kind. One XRD may have several scopes in the course of its versions.
fn by_kind(targets: &[XrTarget]) -> Vec<Vec<usize>> {
    // Most share the very document, which is quicker seen than that two name the same kind.
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

/// Everything of one kind that carries our label.
async fn list(
    objects: &Objects,
    targets: &[XrTarget],
    indices: &[usize],
) -> Result<HashMap<ObjectReference, CachedXr>, Failure> {
    let XrTarget { xrd, .. } = &targets[indices[0]];
    let homes: BTreeSet<_> =
        indices.iter().map(|index| broker_render::namespace(targets[*index].project)).collect();
    // One list over all namespaces has fewer pages than one list for each; a single Project has few objects.
    let only = homes.first().filter(|_| homes.len() == 1 && xrd.scope().is_namespaced());
    let (api_version, selector) =
        (xrd.api_version(), format!("{MANAGED_BY_LABEL}={FIELD_MANAGER}"));
    let selection = Selection {
        api_version: &api_version,
        kind: xrd.kind(),
        namespace: only.map(NamespaceName::as_str),
        selector: ("labelSelector", &selector),
    };
    let mut seen = HashMap::new();
    let mut after = None;
    // Each page is digested before the next one is asked for: a page of whole objects is large.
    while let Some(page) = objects.page(&selection, after.as_deref(), Extent::Whole).await? {
        seen.extend(page.items.iter().filter_map(|object| digest(&selection, object, xrd.scope())));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    Ok(seen)
}

/// What is kept of an object. One without a name or a version is none that anybody could ask for.
fn digest(
    selection: &Selection<'_>,
    object: &serde_json::Value,
    scope: XrdScope,
) -> Option<(ObjectReference, CachedXr)> {
    Some((named(selection, object).ok()?, CachedXr::of(object, scope).ok()?))
}
