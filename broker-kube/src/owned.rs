//! Stage 5, act: what is ours on the cluster, page by page, to find what nobody wants any more.

use broker_ports::{
    ObjectVersion, OwnedKinds, OwnedObject, OwnedPage, OwnedQuery, OwnedRole, PortError,
};
use broker_render::{FIELD_MANAGER, MANAGED_BY_LABEL};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::call::Extent;
use crate::objects::{Objects, Page, Selection};
use crate::read::named;

/// Where a page begins: with which kind, and where in its list.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Cursor {
    api_version: String,
    kind: String,
    after: Option<String>,
}

/// A kind that may hold objects of ours.
struct OwnedKind {
    role: OwnedRole,
    api_version: String,
    kind: String,
}

/// One page, by one request: a kind without objects is a page without objects.
pub(crate) async fn list_owned(
    objects: &Objects,
    query: &OwnedQuery,
) -> Result<OwnedPage, PortError> {
    let OwnedQuery { kinds, after, .. } = query;
    for xrd in &kinds.xrds {
        objects.kinds().learn(xrd);
    }
    let kinds = in_order(kinds);
    let (place, after) = match after {
        None => (0, None),
        Some(text) => find(&kinds, text)?,
    };
    let Some(kind) = kinds.get(place) else { return Ok(OwnedPage::default()) };
    let OwnedKind { role, api_version, kind } = kind;
    let selector = format!("{MANAGED_BY_LABEL}={FIELD_MANAGER}");
    let selection =
        Selection { api_version, kind, namespace: None, selector: ("labelSelector", &selector) };
    let page = objects.page(&selection, after.as_deref(), Extent::Metadata).await?;
    let Page { items, next } = page.unwrap_or_default();
    let items = items.iter().map(|object| owned(&selection, *role, object));
    let next = match next {
        Some(after) => Some((&kinds[place], Some(after))),
        None => kinds.get(place + 1).map(|kind| (kind, None)),
    };
    let next = next.map(|(kind, after)| kind.cursor(after));
    Ok(OwnedPage::new(items.collect::<Result<_, _>>()?, next))
}

/// Each kind once, composite resources first: two versions of a kind show the same objects.
fn in_order(kinds: &OwnedKinds) -> Vec<OwnedKind> {
    let OwnedKinds { xrds, provider_configs, .. } = kinds;
    let xrds = xrds.iter().map(|xrd| (OwnedRole::Xr, xrd.api_version(), xrd.kind().to_owned()));
    let configs = provider_configs.iter().cloned();
    let configs = configs.map(|(version, kind)| (OwnedRole::ProviderConfig, version, kind));
    let mut all: Vec<_> = xrds.chain(configs).collect();
    all.sort();
    all.dedup_by(|later, earlier| {
        let group = |(_, version, kind): &(OwnedRole, String, String)| {
            (version.split_once('/').map(|(group, _)| group.to_owned()), kind.clone())
        };
        group(later) == group(earlier)
    });
    all.into_iter().map(|(role, api_version, kind)| OwnedKind { role, api_version, kind }).collect()
}

impl OwnedKind {
    fn cursor(&self, after: Option<String>) -> String {
        let Self { role: _, api_version, kind } = self;
        let cursor = Cursor { api_version: api_version.clone(), kind: kind.clone(), after };
        // Three texts always make JSON.
        serde_json::to_string(&cursor).unwrap_or_default()
    }
}

fn find(kinds: &[OwnedKind], text: &str) -> Result<(usize, Option<String>), PortError> {
    let anew = || PortError::rejected("the page does not continue any other; begin anew");
    let Cursor { api_version, kind, after } = serde_json::from_str(text).map_err(|_| anew())?;
    let is_it = |at: &OwnedKind| at.api_version == api_version && at.kind == kind;
    Ok((kinds.iter().position(is_it).ok_or_else(anew)?, after))
}

fn owned(
    selection: &Selection<'_>,
    role: OwnedRole,
    object: &Value,
) -> Result<OwnedObject, PortError> {
    let uid = ObjectVersion::of(object)?.uid;
    let owned = OwnedObject::new(named(selection, object)?, uid, role);
    let deleting = object.pointer("/metadata/deletionTimestamp").is_some();
    Ok(if deleting { owned.being_deleted() } else { owned })
}
