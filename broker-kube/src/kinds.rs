//! The endpoint of each kind. An API server addresses objects by plural and scope; manifests and references name the
//! kind.
//!
//! An XRD declares plural and scope of its own kind. For every other kind the adapter runs discovery once and keeps the
//! result until a request to the endpoint fails with "no such path".

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use broker_render::Xrd;
use serde::Deserialize;
use serde_json::Value;

use crate::call::{Detail, Server};
use crate::error::{Cause, Failure, RequestLabel, Verb};

/// Built-in kinds: API version, kind, plural, and whether the kind is namespaced.
const NAMESPACE: (&str, &str, &str, bool) = ("v1", "Namespace", "namespaces", false);
const EVENT: (&str, &str, &str, bool) = ("events.k8s.io/v1", "Event", "events", true);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServedKind {
    api_version: String,
    plural: String,
    namespaced: bool,
}

impl ServedKind {
    pub(crate) fn new(api_version: &str, plural: &str, namespaced: bool) -> Self {
        Self { api_version: api_version.to_owned(), plural: plural.to_owned(), namespaced }
    }

    pub(crate) fn from_xrd(xrd: &Xrd) -> Self {
        Self::new(&xrd.api_version(), xrd.plural(), xrd.scope().is_namespaced())
    }

    pub(crate) fn plural(&self) -> &str {
        &self.plural
    }

    pub(crate) fn api_version(&self) -> &str {
        &self.api_version
    }

    /// The path of all objects, in one namespace or in all. A cluster-scoped kind ignores the namespace.
    pub(crate) fn collection_path(&self, namespace: Option<&str>) -> String {
        let root = api_root(&self.api_version);
        let plural = encode(&self.plural);
        match namespace.filter(|_| self.namespaced) {
            Some(namespace) => format!("{root}/namespaces/{}/{plural}", encode(namespace)),
            None => format!("{root}/{plural}"),
        }
    }

    /// The path of one object. `None` if a namespaced kind lacks its namespace, or a part of the name is a path
    /// traversal.
    pub(crate) fn object_path(&self, namespace: Option<&str>, name: &str) -> Option<String> {
        let complete = namespace.is_some() || !self.namespaced;
        let traverses = |part: &str| part == "." || part == "..";
        if !complete || traverses(name) || namespace.is_some_and(traverses) {
            return None;
        }
        Some(format!("{}/{}", self.collection_path(namespace), encode(name)))
    }
}

fn api_root(api_version: &str) -> String {
    match api_version.split_once('/') {
        Some((group, version)) => format!("/apis/{}/{}", encode(group), encode(version)),
        None => format!("/api/{}", encode(api_version)),
    }
}

pub(crate) fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push('%');
            for digit in [byte >> 4, byte & 0xf] {
                encoded.extend(
                    char::from_digit(digit.into(), 16).map(|digit| digit.to_ascii_uppercase()),
                );
            }
        }
    }
    encoded
}

/// Known endpoints by API version and kind. A missing kind is not cached, because it may be installed at any time.
pub(crate) struct Kinds {
    endpoints: Mutex<HashMap<(String, String), ServedKind>>,
}

impl Kinds {
    pub(crate) fn new() -> Self {
        let built_in = [NAMESPACE, EVENT].map(|(api_version, kind, plural, namespaced)| {
            let name = (api_version.to_owned(), kind.to_owned());
            (name, ServedKind::new(api_version, plural, namespaced))
        });
        Self { endpoints: Mutex::new(built_in.into()) }
    }

    /// Adds the endpoint from an XRD, unless the kind is known already.
    pub(crate) fn learn(&self, xrd: &Xrd) {
        let kind = (xrd.api_version(), xrd.kind().to_owned());
        self.lock().entry(kind).or_insert_with(|| ServedKind::from_xrd(xrd));
    }

    /// The endpoint of a kind; `None` if the kind is not served.
    pub(crate) async fn locate(
        &self,
        server: &Server,
        (api_version, kind): (&str, &str),
    ) -> Result<Option<ServedKind>, Failure> {
        match self.cached((api_version, kind)) {
            Some(known) => Ok(Some(known)),
            None => {
                self.discover_and_cache(server, (api_version.to_owned(), kind.to_owned()), None)
                    .await
            }
        }
    }

    /// The cached endpoint of a kind, without a request.
    pub(crate) fn cached(&self, (api_version, kind): (&str, &str)) -> Option<ServedKind> {
        self.lock().get(&(api_version.to_owned(), kind.to_owned())).cloned()
    }

    /// Finds another endpoint of a kind after the API server no longer serves `stale`.
    ///
    /// An object is the same in every version of its kind. An object that was recorded in a removed version still
    /// exists, so a missing version is no proof of absence.
    pub(crate) async fn relocate(
        &self,
        server: &Server,
        (api_version, kind): (&str, &str),
        stale: &ServedKind,
    ) -> Result<Option<ServedKind>, Failure> {
        self.forget((api_version, kind));
        self.discover_and_cache(server, (api_version.to_owned(), kind.to_owned()), Some(stale))
            .await
    }

    pub(crate) fn forget(&self, (api_version, kind): (&str, &str)) {
        self.lock().remove(&(api_version.to_owned(), kind.to_owned()));
    }

    async fn discover_and_cache(
        &self,
        server: &Server,
        name: (String, String),
        stale: Option<&ServedKind>,
    ) -> Result<Option<ServedKind>, Failure> {
        let (api_version, kind) = &name;
        let found = discover(server, api_version, kind, stale).await?;
        if let Some(found) = &found {
            self.lock().insert(name, found.clone());
        }
        Ok(found)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<(String, String), ServedKind>> {
        self.endpoints.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Searches the requested version of a kind, then the other versions of its group.
async fn discover(
    server: &Server,
    api_version: &str,
    kind: &str,
    stale: Option<&ServedKind>,
) -> Result<Option<ServedKind>, Failure> {
    let exact_version = discover_version(server, api_version, kind, stale).await?;
    let Some((group, _)) = api_version.split_once('/').filter(|_| exact_version.is_none()) else {
        return Ok(exact_version);
    };
    let Some(group) = fetch_document(server, &format!("/apis/{}", encode(group))).await? else {
        return Ok(None);
    };
    let ApiGroup { versions } = parse_document(&group, api_version)?;
    for GroupVersion { group_version } in versions {
        if group_version != api_version {
            let found = discover_version(server, &group_version, kind, stale).await?;
            if found.is_some() {
                return Ok(found);
            }
        }
    }
    Ok(None)
}

async fn discover_version(
    server: &Server,
    api_version: &str,
    kind: &str,
    stale: Option<&ServedKind>,
) -> Result<Option<ServedKind>, Failure> {
    let Some(version) = fetch_document(server, &api_root(api_version)).await? else {
        return Ok(None);
    };
    let ResourceList { resources } = parse_document(&version, api_version)?;
    // A subresource has the kind of its parent.
    let objects = resources.into_iter().filter(|resource| !resource.name.contains('/'));
    let endpoints = objects
        .filter(|resource| resource.kind == kind)
        .map(|resource| ServedKind::new(api_version, &resource.name, resource.namespaced));
    // The discovery document may be out of date.
    Ok(endpoints.into_iter().find(|endpoint| Some(endpoint) != stale))
}

#[derive(Deserialize)]
struct ApiGroup {
    versions: Vec<GroupVersion>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GroupVersion {
    group_version: String,
}

#[derive(Deserialize)]
struct ResourceList {
    resources: Vec<Resource>,
}

#[derive(Deserialize)]
struct Resource {
    name: String,
    kind: String,
    namespaced: bool,
}

/// A discovery document; `None` if the path is not served.
async fn fetch_document(server: &Server, path: &str) -> Result<Option<Value>, Failure> {
    let label = RequestLabel::new(Verb::Discover, path);
    match server.get(&label, path, Detail::Whole).await?.into_object(&label)? {
        Ok(document) => Ok(Some(document)),
        Err(refusal) if refusal.cause("") == Cause::KindAbsent => Ok(None),
        Err(refusal) => Err(refusal.into_failure(&label, "")),
    }
}

fn parse_document<T: for<'a> Deserialize<'a>>(document: &Value, path: &str) -> Result<T, Failure> {
    T::deserialize(document).map_err(|error| {
        let text = format!("not a document of the discovery API: {error}");
        RequestLabel::new(Verb::Discover, path).failure(Cause::Unreadable, &text)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_match_the_kubernetes_api() {
        let machines = ServedKind::new("example.org/v1", "machines", true);
        let nodes = ServedKind::new("v1", "nodes", false);
        let rows = [
            (machines.collection_path(None), "/apis/example.org/v1/machines"),
            (machines.collection_path(Some("a")), "/apis/example.org/v1/namespaces/a/machines"),
            (nodes.collection_path(None), "/api/v1/nodes"),
            (nodes.collection_path(Some("a")), "/api/v1/nodes"),
            (nodes.object_path(Some("a"), "n").unwrap(), "/api/v1/nodes/n"),
            (nodes.object_path(None, "system:n").unwrap(), "/api/v1/nodes/system%3An"),
            (nodes.object_path(None, "a/../b?c#d").unwrap(), "/api/v1/nodes/a%2F..%2Fb%3Fc%23d"),
        ];
        for (path, expected) in rows {
            assert_eq!(path, expected);
        }
    }

    #[test]
    fn incomplete_or_traversing_name_has_no_path() {
        let machines = ServedKind::new("example.org/v1", "machines", true);
        assert_eq!(machines.object_path(None, "m"), None, "the namespace is missing");
        assert_eq!(machines.object_path(Some("a"), ".."), None, "path traversal");
        assert_eq!(machines.object_path(Some(".."), "m"), None, "path traversal");
    }
}
