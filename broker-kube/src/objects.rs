//! Reads objects by name and by page. Every read of the adapter uses this module.
//!
//! **No information is not absence.** A read distinguishes an object that does not exist, a kind that is not served,
//! and a missing response.

use std::sync::atomic::{AtomicU32, Ordering};

use broker_domain::ObjectReference;
use broker_ports::NamespaceState;
use serde::Deserialize;
use serde_json::Value;

use crate::call::{Detail, Server};
use crate::error::{Cause, Failure, RequestLabel, Verb};
use crate::kinds::{Kinds, ServedKind, encode};
use crate::single_flight::{SingleFlight, SingleFlightByName};

/// Limit of a list page, in bytes of text. A decoded page takes several times as much, and several lists may run at
/// once.
const PAGE_BYTES: usize = 4 << 20;

/// The API server, its known kinds, and the single-flight reads.
pub(crate) struct ObjectClient {
    server: Server,
    kinds: Kinds,
    /// Objects per page for the next request. Below the configured size while objects are large.
    page_size: AtomicU32,
    /// The uid of `kube-system`, which identifies the cluster.
    pub(crate) identity: SingleFlight<Result<String, Failure>>,
    pub(crate) namespaces: SingleFlightByName<Result<NamespaceState, Failure>>,
}

pub(crate) enum Lookup {
    Found(Value),
    /// The object does not exist, or its namespace does not.
    NoObject,
    /// No version of the kind is served.
    NoKind,
}

impl Lookup {
    pub(crate) fn into_object(self) -> Option<Value> {
        match self {
            Self::Found(object) => Some(object),
            Self::NoObject | Self::NoKind => None,
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Selection<'a> {
    pub(crate) api_version: &'a str,
    pub(crate) kind: &'a str,
    /// `None` lists all namespaces.
    pub(crate) namespace: Option<&'a str>,
    /// The query parameter, such as `labelSelector`, and its value.
    pub(crate) selector: (&'static str, &'a str),
}

#[derive(Default)]
pub(crate) struct Page {
    pub(crate) items: Vec<Value>,
    pub(crate) next: Option<String>,
}

impl ObjectClient {
    pub(crate) fn new(server: Server) -> Self {
        let (identity, namespaces) = (SingleFlight::default(), SingleFlightByName::default());
        let page_size = AtomicU32::new(server.options().page_size.get());
        Self { server, kinds: Kinds::new(), page_size, identity, namespaces }
    }

    pub(crate) const fn server(&self) -> &Server {
        &self.server
    }

    pub(crate) const fn kinds(&self) -> &Kinds {
        &self.kinds
    }

    /// Reads an object by name from the API server's store, not from a cache.
    pub(crate) async fn get(
        &self,
        object: &ObjectReference,
        detail: Detail,
    ) -> Result<Lookup, Failure> {
        let label = RequestLabel::for_object(Verb::Get, object);
        let path =
            |served_kind: &ServedKind| served_kind.object_path(object.namespace(), object.name());
        let kind = (object.api_version(), object.kind());
        match self.fetch(&label, kind, path, (detail, usize::MAX)).await? {
            GetResult::Object(object) => Ok(Lookup::Found(object)),
            GetResult::NoKind => Ok(Lookup::NoKind),
            GetResult::NoObject => Ok(Lookup::NoObject),
            GetResult::TooLarge => {
                Err(label.failure(Cause::Unreadable, "the response exceeds the size limit"))
            }
        }
    }

    /// One page: the first, or the one after a continue token. `None` if no version of the kind is served.
    ///
    /// A page has at most [`PAGE_BYTES`]. A larger page is requested again with half as many objects, down to one.
    /// Later pages keep that size; the next list tries twice as many.
    pub(crate) async fn page(
        &self,
        selection: &Selection<'_>,
        after: Option<&str>,
        detail: Detail,
    ) -> Result<Option<Page>, Failure> {
        let Selection { api_version, kind, namespace, selector: (parameter, selector) } =
            *selection;
        let label = RequestLabel::for_kind(Verb::List, api_version, kind, namespace);
        let largest = self.server.options().page_size.get();
        let mut size = self.page_size.load(Ordering::Relaxed);
        if after.is_none() {
            size = size.saturating_mul(2).min(largest);
        }
        let after = after.map(|after| format!("&continue={}", encode(after))).unwrap_or_default();
        loop {
            let query = format!("?{parameter}={}&limit={size}{after}", encode(selector));
            let path = |served_kind: &ServedKind| {
                Some(format!("{}{query}", served_kind.collection_path(namespace)))
            };
            let max_bytes = if size > 1 { PAGE_BYTES } else { usize::MAX };
            match self.fetch(&label, (api_version, kind), path, (detail, max_bytes)).await? {
                GetResult::Object(list) => {
                    self.page_size.store(size, Ordering::Relaxed);
                    return parse_page(list, &label).map(Some);
                }
                GetResult::TooLarge => size = (size / 2).max(1),
                GetResult::NoKind => return Ok(None),
                // A collection always exists, so an API server never sends this.
                GetResult::NoObject => {
                    return Err(label.failure(Cause::Unreadable, "the server sent 404 for a list"));
                }
            }
        }
    }

    pub(crate) async fn list_all(
        &self,
        selection: &Selection<'_>,
        detail: Detail,
    ) -> Result<Vec<Value>, Failure> {
        let mut items = Vec::new();
        let mut after = None;
        while let Some(page) = self.page(selection, after.as_deref(), detail).await? {
            items.extend(page.items);
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        Ok(items)
    }

    /// Sends a GET request and, if the path is not served, retries once at the endpoint that discovery reports.
    async fn fetch(
        &self,
        label: &RequestLabel,
        kind: (&str, &str),
        path: impl Fn(&ServedKind) -> Option<String>,
        (detail, max_bytes): (Detail, usize),
    ) -> Result<GetResult, Failure> {
        let Some(mut served_kind) = self.kinds.locate(&self.server, kind).await? else {
            return Ok(GetResult::NoKind);
        };
        for _ in 0..2 {
            let Some(path) = path(&served_kind) else {
                let text =
                    "the name is incomplete or invalid; a namespaced object needs its namespace";
                return Err(label.failure(Cause::Unaddressable, text));
            };
            let response = self.server.get_up_to(label, &path, detail, max_bytes).await?;
            let Some(response) = response else { return Ok(GetResult::TooLarge) };
            let refusal = match response.into_object(label)? {
                Ok(object) => return Ok(GetResult::Object(object)),
                Err(refusal) => refusal,
            };
            let cause = refusal.cause(served_kind.plural());
            if cause == Cause::ObjectAbsent {
                return Ok(GetResult::NoObject);
            }
            if cause != Cause::KindAbsent {
                return Err(refusal.into_failure(label, served_kind.plural()));
            }
            match self.kinds.relocate(&self.server, kind, &served_kind).await? {
                Some(other_kind) => served_kind = other_kind,
                None => return Ok(GetResult::NoKind),
            }
        }
        Err(label.failure(
            Cause::Unreadable,
            "discovery lists the kind, but the server does not serve it",
        ))
    }
}

enum GetResult {
    Object(Value),
    NoObject,
    NoKind,
    TooLarge,
}

fn parse_page(list: Value, label: &RequestLabel) -> Result<Page, Failure> {
    #[derive(Deserialize)]
    struct List {
        metadata: Metadata,
        /// Required, or a plain object would pass as a list. An empty list may have `null`.
        #[serde(deserialize_with = "Option::deserialize")]
        items: Option<Vec<Value>>,
    }
    #[derive(Deserialize)]
    struct Metadata {
        #[serde(default, rename = "continue")]
        next: String,
    }
    // Drops the decoding error: it may quote an object.
    let list = List::deserialize(list);
    let List { items, metadata } =
        list.map_err(|_| label.failure(Cause::Unreadable, "the response is not a list"))?;
    let items = items.unwrap_or_default();
    Ok(Page { items, next: Some(metadata.next).filter(|next| !next.is_empty()) })
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::num::NonZeroU32;
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use kube::Client;
    use kube::client::Body;
    use serde_json::json;

    use super::*;
    use crate::call::KubeOptions;

    /// Serves a paged list of seven objects with `bytes` bytes each.
    fn serve(request: &http::Request<Body>, bytes: usize) -> (usize, http::Response<Body>) {
        let query = request.uri().query().unwrap_or_default();
        let number = |key: &str| {
            let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
            pairs.find(|(name, _)| *name == key).and_then(|(_, value)| value.parse().ok())
        };
        let (from, limit): (usize, usize) =
            (number("continue").unwrap_or(0), number("limit").unwrap());
        let to = 7.min(from + limit);
        let next = if to < 7 { to.to_string() } else { String::new() };
        let items: Vec<_> = (from..to).map(|_| json!({"note": "x".repeat(bytes)})).collect();
        let list = json!({"metadata": {"continue": next}, "items": items});
        (limit, http::Response::new(Body::from(list.to_string().into_bytes())))
    }

    #[tokio::test]
    async fn oversized_page_is_requested_in_parts() {
        for (bytes, expected) in [
            (10, vec![4, 4]),
            // A page has room for one and a half objects.
            (PAGE_BYTES * 2 / 3, vec![4, 2, 1, 1, 1, 1, 1, 1, 1]),
            // A page has room for no object; a single object is accepted anyway.
            (2 * PAGE_BYTES, vec![4, 2, 1, 1, 1, 1, 1, 1, 1]),
        ] {
            let limits = Arc::new(Mutex::new(Vec::new()));
            let sent_limits = Arc::clone(&limits);
            let service = tower::service_fn(move |request| {
                let (limit, response) = serve(&request, bytes);
                sent_limits.lock().unwrap().push(limit);
                std::future::ready(Ok::<_, Infallible>(response))
            });
            let minute = Duration::from_mins(1);
            let options =
                KubeOptions::new(minute, minute).with_page_size(NonZeroU32::new(4).unwrap());
            let server = Server::new(Client::new(service, "default"), options);
            let selection = Selection {
                api_version: "events.k8s.io/v1",
                kind: "Event",
                namespace: None,
                selector: ("labelSelector", "a"),
            };
            let all = ObjectClient::new(server).list_all(&selection, Detail::Whole).await;
            let Ok(all) = all else { panic!("{bytes}: the list failed") };
            assert_eq!(all.len(), 7, "{bytes}");
            assert_eq!(*limits.lock().unwrap(), expected, "{bytes}");
        }
    }

    #[test]
    fn document_without_items_is_refused_as_a_list() {
        let label = RequestLabel::new(Verb::List, "things");
        let rows = [
            ("two objects", json!({"metadata": {}, "items": [{}, {}]}), Some(2)),
            ("no object", json!({"metadata": {}, "items": []}), Some(0)),
            ("null for no object", json!({"metadata": {}, "items": null}), Some(0)),
            ("an object", json!({"metadata": {"name": "a"}}), None),
            ("an empty document", json!({}), None),
        ];
        for (why, list, expected) in rows {
            assert_eq!(
                parse_page(list, &label).ok().map(|page| page.items.len()),
                expected,
                "{why}"
            );
        }
        let next = json!({"metadata": {"continue": "here"}, "items": []});
        assert_eq!(parse_page(next, &label).unwrap().next.as_deref(), Some("here"));
    }
}
