//! Observe: the broker's objects on the cluster, page by page, to find orphans.
//!
//! A warm kind is one page without a request. Its data is as old as the last watch event; decision 11 states the
//! bound and why it suffices. A cold kind is listed.

use std::sync::Arc;

use broker_ports::{
    ObjectVersion, OwnedKinds, OwnedObject, OwnedPage, OwnedQuery, OwnedRole, PortError,
};
use broker_render::{FIELD_MANAGER, MANAGED_BY_LABEL, Xrd};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::cache::{Cache, WarmKind};
use crate::call::Detail;
use crate::objects::{ObjectClient, Page, Selection};
use crate::read::listed_reference;

/// The start of a page: a kind, and a position in its list.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Cursor {
    api_version: String,
    kind: String,
    after: Option<String>,
}

/// A kind that may contain the broker's objects.
struct OwnedKind {
    role: OwnedRole,
    api_version: String,
    kind: String,
    /// Set for a composite resource.
    xrd: Option<Arc<Xrd>>,
}

/// One page, from at most one list request. A kind without objects yields an empty page.
pub(crate) async fn list_owned(
    client: &ObjectClient,
    cache: &Cache,
    query: &OwnedQuery,
) -> Result<OwnedPage, PortError> {
    let OwnedQuery { kinds, after, except, .. } = query;
    for xrd in &kinds.xrds {
        client.kinds().learn(xrd);
    }
    let kinds = sorted_kinds(kinds);
    let (index, after) = match after {
        None => (0, None),
        Some(text) => parse_cursor(&kinds, text)?,
    };
    let Some(kind) = kinds.get(index) else { return Ok(OwnedPage::default()) };
    let (items, next) = match after {
        // A list that started at the API server continues there.
        Some(after) => list_page(client, kind, Some(&after)).await?,
        None => match kind.warm_kind(client, cache).await? {
            Some(warm) => (warm.owned(&kind.api_version, &kind.kind, except), None),
            None => list_page(client, kind, None).await?,
        },
    };
    let next = match next {
        Some(after) => Some((kind, Some(after))),
        None => kinds.get(index + 1).map(|kind| (kind, None)),
    };
    Ok(OwnedPage::new(items, next.map(|(kind, after)| kind.cursor(after))))
}

/// A page from the API server, and the continue token of the next one.
async fn list_page(
    client: &ObjectClient,
    OwnedKind { role, api_version, kind, .. }: &OwnedKind,
    after: Option<&str>,
) -> Result<(Vec<OwnedObject>, Option<String>), PortError> {
    let selector = format!("{MANAGED_BY_LABEL}={FIELD_MANAGER}");
    let selection =
        Selection { api_version, kind, namespace: None, selector: ("labelSelector", &selector) };
    let page = client.page(&selection, after, Detail::Metadata).await?;
    let Page { items, next } = page.unwrap_or_default();
    let items = items.iter().map(|object| owned_object(&selection, *role, object));
    Ok((items.collect::<Result<_, _>>()?, next))
}

/// Each kind once, composite resources first. Two versions of a kind list the same objects.
fn sorted_kinds(kinds: &OwnedKinds) -> Vec<OwnedKind> {
    let OwnedKinds { xrds, provider_configs, .. } = kinds;
    let xrds = xrds.iter().map(|xrd| OwnedKind {
        role: OwnedRole::Xr,
        api_version: xrd.api_version(),
        kind: xrd.kind().to_owned(),
        xrd: Some(Arc::clone(xrd)),
    });
    let configs = provider_configs.iter().map(|(api_version, kind)| OwnedKind {
        role: OwnedRole::ProviderConfig,
        api_version: api_version.clone(),
        kind: kind.clone(),
        xrd: None,
    });
    let mut all: Vec<_> = xrds.chain(configs).collect();
    all.sort_by(|one, other| one.sort_key().cmp(&other.sort_key()));
    all.dedup_by(|later, earlier| later.group() == earlier.group() && later.kind == earlier.kind);
    all
}

impl OwnedKind {
    fn group(&self) -> Option<&str> {
        self.api_version.split_once('/').map(|(group, _)| group)
    }

    /// Sort key that groups the versions of a kind.
    fn sort_key(&self) -> (OwnedRole, Option<&str>, &str, &str) {
        (self.role, self.group(), &self.kind, &self.api_version)
    }

    /// The warm cache of the kind. The endpoint of a ProviderConfig kind needs discovery once.
    async fn warm_kind(
        &self,
        client: &ObjectClient,
        cache: &Cache,
    ) -> Result<Option<WarmKind>, PortError> {
        if let Some(xrd) = &self.xrd {
            return Ok(cache.warming(xrd).await);
        }
        let kind = (self.api_version.as_str(), self.kind.as_str());
        let located = client.kinds().locate(client.server(), kind).await?;
        let Some(served_kind) = located else { return Ok(None) };
        Ok(cache.warming_provider_configs(served_kind.api_version(), served_kind.plural()).await)
    }

    fn cursor(&self, after: Option<String>) -> String {
        let Self { api_version, kind, .. } = self;
        let cursor = Cursor { api_version: api_version.clone(), kind: kind.clone(), after };
        // A struct of strings always serializes.
        serde_json::to_string(&cursor).unwrap_or_default()
    }
}

fn parse_cursor(kinds: &[OwnedKind], text: &str) -> Result<(usize, Option<String>), PortError> {
    let invalid_cursor =
        || PortError::rejected("the cursor is not valid for this list; start from the first page");
    let Cursor { api_version, kind, after } =
        serde_json::from_str(text).map_err(|_| invalid_cursor())?;
    let is_same = |owned: &OwnedKind| owned.api_version == api_version && owned.kind == kind;
    Ok((kinds.iter().position(is_same).ok_or_else(invalid_cursor)?, after))
}

fn owned_object(
    selection: &Selection<'_>,
    role: OwnedRole,
    object: &Value,
) -> Result<OwnedObject, PortError> {
    let uid = ObjectVersion::of(object)?.uid;
    let owned = OwnedObject::new(listed_reference(selection, object)?, uid, role);
    let deleting = object.pointer("/metadata/deletionTimestamp").is_some();
    Ok(if deleting { owned.being_deleted() } else { owned })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn xrd(kind: &str, version: &str) -> Arc<Xrd> {
        let text = crate::testing::xrd(kind, version, "Namespaced");
        Arc::new(Xrd::parse(text.as_bytes()).unwrap())
    }

    #[test]
    fn each_kind_is_listed_once_across_versions() {
        let config = |group: &str| (format!("{group}/v1beta1"), "ProviderConfig".to_owned());
        let kinds = OwnedKinds::new(
            vec![xrd("Machine", "v2"), xrd("Bucket", "v1"), xrd("Machine", "v1")],
            vec![config("b.example.org"), config("a.example.org"), config("b.example.org")],
        );
        let all: Vec<_> = sorted_kinds(&kinds).iter().map(|kind| kind.cursor(None)).collect();
        let cursor = |api_version: &str, kind: &str| {
            format!(r#"{{"api_version":"{api_version}","kind":"{kind}","after":null}}"#)
        };
        let expected = [
            cursor("example.org/v1", "Bucket"),
            cursor("example.org/v1", "Machine"),
            cursor("a.example.org/v1beta1", "ProviderConfig"),
            cursor("b.example.org/v1beta1", "ProviderConfig"),
        ];
        assert_eq!(all, expected);
    }
}
