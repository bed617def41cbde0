//! Objects by name and objects by the page: every read of the adapter ends here.
//!
//! **No information is not absence.** A read tells an object that does not exist from a kind that does not,
//! and either from an API server that did not say.

use std::sync::atomic::{AtomicU32, Ordering};

use broker_domain::ObjectReference;
use broker_ports::NamespaceState;
use serde::Deserialize;
use serde_json::Value;

use crate::call::{Extent, Server};
use crate::error::{Asked, Cause, Failure, Verb};
use crate::kinds::{Kinds, Served, encode};
use crate::single_flight::{SingleFlight, SingleFlightByName};

/// How many bytes a page of a list may have, as text. Decoded it takes several times as much, and the lists of several
/// kinds may run side by side.
const PAGE_BYTES: usize = 4 << 20;

/// The API server, what is known of its kinds, and what many ask it at once.
pub(crate) struct Objects {
    server: Server,
    kinds: Kinds,
    /// How many objects the next page is asked for: fewer than the options say while objects are large.
    page_size: AtomicU32,
    /// The uid that tells which cluster it is.
    pub(crate) identity: SingleFlight<Result<String, Failure>>,
    /// Whether namespaces stand.
    pub(crate) namespaces: SingleFlightByName<Result<NamespaceState, Failure>>,
}

/// What a read by name found.
pub(crate) enum Lookup {
    Found(Value),
    /// There is no such object. A namespace that does not exist shows as this, too.
    NoObject,
    /// No version of such a kind is served.
    NoKind,
}

impl Lookup {
    pub(crate) fn object(self) -> Option<Value> {
        match self {
            Self::Found(object) => Some(object),
            Self::NoObject | Self::NoKind => None,
        }
    }
}

/// Which objects of a kind to list.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Selection<'a> {
    pub(crate) api_version: &'a str,
    pub(crate) kind: &'a str,
    /// In one namespace, or in all.
    pub(crate) namespace: Option<&'a str>,
    /// What to select by, such as `labelSelector`, and the selector.
    pub(crate) selector: (&'static str, &'a str),
}

/// A page of a list.
#[derive(Default)]
pub(crate) struct Page {
    pub(crate) items: Vec<Value>,
    /// Where the next page begins.
    pub(crate) next: Option<String>,
}

impl Objects {
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

    /// Reads an object by its name, from the API server's store and from no cache.
    pub(crate) async fn get(
        &self,
        object: &ObjectReference,
        extent: Extent,
    ) -> Result<Lookup, Failure> {
        let asked = Asked::of(Verb::Get, object);
        let path = |served: &Served| served.object(object.namespace(), object.name());
        let kind = (object.api_version(), object.kind());
        match self.ask(&asked, kind, path, (extent, usize::MAX)).await? {
            Said::Object(object) => Ok(Lookup::Found(object)),
            Said::NoKind => Ok(Lookup::NoKind),
            Said::NoObject => Ok(Lookup::NoObject),
            Said::TooLarge => Err(asked.failed(Cause::Unreadable, "the answer has no end")),
        }
    }

    /// A page of objects, from its beginning or from where the last one ended; `None` if no version of such
    /// a kind is served.
    ///
    /// A page has at most [`PAGE_BYTES`]. One that is larger is asked for again with half as many objects, down to one. The
    /// pages after it keep that size; the next list tries twice as many.
    pub(crate) async fn page(
        &self,
        selection: &Selection<'_>,
        after: Option<&str>,
        extent: Extent,
    ) -> Result<Option<Page>, Failure> {
        let Selection { api_version, kind, namespace, selector: (by, selector) } = *selection;
        let asked = Asked::of_all(Verb::List, api_version, kind, namespace);
        let largest = self.server.options().page_size.get();
        let mut size = self.page_size.load(Ordering::Relaxed);
        if after.is_none() {
            size = size.saturating_mul(2).min(largest);
        }
        let after = after.map(|after| format!("&continue={}", encode(after))).unwrap_or_default();
        loop {
            let query = format!("?{by}={}&limit={size}{after}", encode(selector));
            let path = |served: &Served| Some(format!("{}{query}", served.collection(namespace)));
            let most = if size > 1 { PAGE_BYTES } else { usize::MAX };
            match self.ask(&asked, (api_version, kind), path, (extent, most)).await? {
                Said::Object(list) => {
                    self.page_size.store(size, Ordering::Relaxed);
                    return read(list, &asked).map(Some);
                }
                Said::TooLarge => size = (size / 2).max(1),
                Said::NoKind => return Ok(None),
                // A list is never absent: a server that says so is no API server.
                Said::NoObject => {
                    return Err(asked.failed(Cause::Unreadable, "a list was not found"));
                }
            }
        }
    }

    /// Every object of a selection; none if no version of such a kind is served.
    pub(crate) async fn all(
        &self,
        selection: &Selection<'_>,
        extent: Extent,
    ) -> Result<Vec<Value>, Failure> {
        let mut items = Vec::new();
        let mut after = None;
        while let Some(page) = self.page(selection, after.as_deref(), extent).await? {
            items.extend(page.items);
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        Ok(items)
    }

    /// Asks at a place and, if the API server does not know the place, once more where it says.
    async fn ask(
        &self,
        asked: &Asked,
        kind: (&str, &str),
        path: impl Fn(&Served) -> Option<String>,
        (extent, most): (Extent, usize),
    ) -> Result<Said, Failure> {
        let Some(mut served) = self.kinds.locate(&self.server, kind).await? else {
            return Ok(Said::NoKind);
        };
        for _ in 0..2 {
            let Some(path) = path(&served) else {
                let words = "the name is not complete, or no name; a namespaced object needs both";
                return Err(asked.failed(Cause::Unaddressable, words));
            };
            let answer = self.server.get_within(asked, &path, extent, most).await?;
            let Some(answer) = answer else { return Ok(Said::TooLarge) };
            let refusal = match answer.into_object(asked)? {
                Ok(object) => return Ok(Said::Object(object)),
                Err(refusal) => refusal,
            };
            let cause = refusal.cause(served.plural());
            if cause == Cause::ObjectAbsent {
                return Ok(Said::NoObject);
            }
            if cause != Cause::KindAbsent {
                return Err(refusal.into_failure(asked, served.plural()));
            }
            match self.kinds.relocate(&self.server, kind, &served).await? {
                Some(elsewhere) => served = elsewhere,
                None => return Ok(Said::NoKind),
            }
        }
        Err(asked.failed(Cause::Unreadable, "the server does not serve what it says it serves"))
    }
}

/// What the API server said.
enum Said {
    Object(Value),
    NoObject,
    NoKind,
    /// More bytes than were allowed.
    TooLarge,
}

fn read(list: Value, asked: &Asked) -> Result<Page, Failure> {
    #[derive(Deserialize)]
    struct List {
        metadata: Metadata,
        /// Has to be there, or it would be an object that is no list; an empty list may have `null`.
        #[serde(deserialize_with = "Option::deserialize")]
        items: Option<Vec<Value>>,
    }
    #[derive(Deserialize)]
    struct Metadata {
        #[serde(default, rename = "continue")]
        next: String,
    }
    // The error is not repeated: it may quote an object.
    let list = List::deserialize(list);
    let List { items, metadata } =
        list.map_err(|_| asked.failed(Cause::Unreadable, "the answer is no list"))?;
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

    /// A list of seven objects that each have so many bytes, by pages.
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
    async fn page_with_too_many_bytes_is_asked_for_in_parts() {
        for (bytes, expected) in [
            (10, vec![4, 4]),
            // One and a half fit.
            (PAGE_BYTES * 2 / 3, vec![4, 2, 1, 1, 1, 1, 1, 1, 1]),
            // None fits, and each is taken all the same.
            (2 * PAGE_BYTES, vec![4, 2, 1, 1, 1, 1, 1, 1, 1]),
        ] {
            let asked = Arc::new(Mutex::new(Vec::new()));
            let seen = Arc::clone(&asked);
            let service = tower::service_fn(move |request| {
                let (limit, answer) = serve(&request, bytes);
                seen.lock().unwrap().push(limit);
                std::future::ready(Ok::<_, Infallible>(answer))
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
            let all = Objects::new(server).all(&selection, Extent::Whole).await;
            let Ok(all) = all else { panic!("{bytes}: it was not listed") };
            assert_eq!(all.len(), 7, "{bytes}");
            assert_eq!(*asked.lock().unwrap(), expected, "{bytes}");
        }
    }

    #[test]
    fn only_a_list_is_a_list() {
        let asked = Asked::about(Verb::List, "it");
        let rows = [
            ("two", json!({"metadata": {}, "items": [{}, {}]}), Some(2)),
            ("none", json!({"metadata": {}, "items": []}), Some(0)),
            ("none, of metadata", json!({"metadata": {}, "items": null}), Some(0)),
            ("an object", json!({"metadata": {"name": "it"}}), None),
            ("nothing", json!({}), None),
        ];
        for (why, list, expected) in rows {
            assert_eq!(read(list, &asked).ok().map(|page| page.items.len()), expected, "{why}");
        }
        let next = json!({"metadata": {"continue": "here"}, "items": []});
        assert_eq!(read(next, &asked).unwrap().next.as_deref(), Some("here"));
    }
}
