//! The endpoint of each kind. An API server addresses objects by plural and scope; manifests and references name the
//! kind.
//!
//! An XRD declares both for its own kind. For every other kind the adapter runs discovery once and keeps the result
//! until the endpoint answers that it does not exist.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use broker_render::Xrd;
use serde::Deserialize;
use serde_json::Value;

use crate::call::{Detail, Server};
use crate::error::{Cause, Failure, RequestLabel, Verb};

/// Kinds of every API server: apiVersion, kind, plural, and whether they are namespaced.
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

    pub(crate) fn of(xrd: &Xrd) -> Self {
        Self::new(&xrd.api_version(), xrd.plural(), xrd.scope().is_namespaced())
    }

    pub(crate) fn plural(&self) -> &str {
        &self.plural
    }

    pub(crate) fn api_version(&self) -> &str {
        &self.api_version
    }

    /// The path of all objects, in one namespace or in all. A cluster-scoped kind ignores the namespace.
    pub(crate) fn collection(&self, namespace: Option<&str>) -> String {
        let root = root(&self.api_version);
        let plural = encode(&self.plural);
        match namespace.filter(|_| self.namespaced) {
            Some(namespace) => format!("{root}/namespaces/{}/{plural}", encode(namespace)),
            None => format!("{root}/{plural}"),
        }
    }

    /// The path of one object. `None` if a namespaced kind lacks its namespace, or a part of the name is a path
    /// traversal.
    pub(crate) fn object(&self, namespace: Option<&str>, name: &str) -> Option<String> {
        let complete = namespace.is_some() || !self.namespaced;
        let traverses = |part: &str| part == "." || part == "..";
        if !complete || traverses(name) || namespace.is_some_and(traverses) {
            return None;
        }
        Some(format!("{}/{}", self.collection(namespace), encode(name)))
    }
}

fn root(api_version: &str) -> String {
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

/// The known endpoints. A kind that is not served is never cached, because it may be installed at any time.
pub(crate) struct Kinds {
    known: Mutex<HashMap<(String, String), ServedKind>>,
}

impl Kinds {
    pub(crate) fn new() -> Self {
        let built_in = [NAMESPACE, EVENT].map(|(api_version, kind, plural, namespaced)| {
            let name = (api_version.to_owned(), kind.to_owned());
            (name, ServedKind::new(api_version, plural, namespaced))
        });
        Self { known: Mutex::new(built_in.into()) }
    }

    /// Takes the endpoint from an XRD, unless the kind is known already.
    pub(crate) fn learn(&self, xrd: &Xrd) {
        let kind = (xrd.api_version(), xrd.kind().to_owned());
        self.known().entry(kind).or_insert_with(|| ServedKind::of(xrd));
    }

    /// The endpoint of a kind; `None` if the kind is not served.
    pub(crate) async fn locate(
        &self,
        server: &Server,
        (api_version, kind): (&str, &str),
    ) -> Result<Option<ServedKind>, Failure> {
        match self.located((api_version, kind)) {
            Some(known) => Ok(Some(known)),
            None => self.ask(server, (api_version.to_owned(), kind.to_owned()), None).await,
        }
    }

    /// The cached endpoint of a kind, without a request.
    pub(crate) fn located(&self, (api_version, kind): (&str, &str)) -> Option<ServedKind> {
        self.known().get(&(api_version.to_owned(), kind.to_owned())).cloned()
    }

    /// Finds another endpoint of a kind after the API server did not know the current one.
    ///
    /// An object is the same in every version of its kind. An object that was recorded in a removed version still
    /// exists, so a missing version is no proof of absence.
    pub(crate) async fn relocate(
        &self,
        server: &Server,
        (api_version, kind): (&str, &str),
        disproved: &ServedKind,
    ) -> Result<Option<ServedKind>, Failure> {
        self.forget((api_version, kind));
        self.ask(server, (api_version.to_owned(), kind.to_owned()), Some(disproved)).await
    }

    pub(crate) fn forget(&self, (api_version, kind): (&str, &str)) {
        self.known().remove(&(api_version.to_owned(), kind.to_owned()));
    }

    async fn ask(
        &self,
        server: &Server,
        name: (String, String),
        disproved: Option<&ServedKind>,
    ) -> Result<Option<ServedKind>, Failure> {
        let (api_version, kind) = &name;
        let found = discover(server, api_version, kind, disproved).await?;
        if let Some(found) = &found {
            self.known().insert(name, found.clone());
        }
        Ok(found)
    }

    fn known(&self) -> MutexGuard<'_, HashMap<(String, String), ServedKind>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Searches the requested version of a kind, then the other versions of its group.
async fn discover(
    server: &Server,
    api_version: &str,
    kind: &str,
    disproved: Option<&ServedKind>,
) -> Result<Option<ServedKind>, Failure> {
    let within = discover_version(server, api_version, kind, disproved).await?;
    let Some((group, _)) = api_version.split_once('/').filter(|_| within.is_none()) else {
        return Ok(within);
    };
    let Some(group) = document(server, &format!("/apis/{}", encode(group))).await? else {
        return Ok(None);
    };
    let Group { versions } = read(&group, api_version)?;
    for Version { group_version } in versions {
        if group_version != api_version {
            let found = discover_version(server, &group_version, kind, disproved).await?;
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
    disproved: Option<&ServedKind>,
) -> Result<Option<ServedKind>, Failure> {
    let Some(version) = document(server, &root(api_version)).await? else { return Ok(None) };
    let Resources { resources } = read(&version, api_version)?;
    // A subresource has the kind of its parent.
    let objects = resources.into_iter().filter(|resource| !resource.name.contains('/'));
    let places = objects
        .filter(|resource| resource.kind == kind)
        .map(|resource| ServedKind::new(api_version, &resource.name, resource.namespaced));
    // The discovery document may be out of date.
    Ok(places.into_iter().find(|place| Some(place) != disproved))
}

#[derive(Deserialize)]
struct Group {
    versions: Vec<Version>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Version {
    group_version: String,
}

#[derive(Deserialize)]
struct Resources {
    resources: Vec<Resource>,
}

#[derive(Deserialize)]
struct Resource {
    name: String,
    kind: String,
    namespaced: bool,
}

/// A discovery document; `None` if the path is not served.
async fn document(server: &Server, path: &str) -> Result<Option<Value>, Failure> {
    let asked = RequestLabel::about(Verb::Discover, path);
    match server.get(&asked, path, Detail::Whole).await?.into_object(&asked)? {
        Ok(document) => Ok(Some(document)),
        Err(refusal) if refusal.cause("") == Cause::KindAbsent => Ok(None),
        Err(refusal) => Err(refusal.into_failure(&asked, "")),
    }
}

fn read<T: for<'a> Deserialize<'a>>(document: &Value, about: &str) -> Result<T, Failure> {
    T::deserialize(document).map_err(|error| {
        let text = format!("not a document of the discovery API: {error}");
        RequestLabel::about(Verb::Discover, about).failed(Cause::Unreadable, &text)
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
            (machines.collection(None), "/apis/example.org/v1/machines"),
            (machines.collection(Some("a")), "/apis/example.org/v1/namespaces/a/machines"),
            (nodes.collection(None), "/api/v1/nodes"),
            (nodes.collection(Some("a")), "/api/v1/nodes"),
            (nodes.object(Some("a"), "n").unwrap(), "/api/v1/nodes/n"),
            (nodes.object(None, "system:n").unwrap(), "/api/v1/nodes/system%3An"),
            (nodes.object(None, "a/../b?c#d").unwrap(), "/api/v1/nodes/a%2F..%2Fb%3Fc%23d"),
        ];
        for (path, expected) in rows {
            assert_eq!(path, expected);
        }
    }

    #[test]
    fn incomplete_or_traversing_name_has_no_path() {
        let machines = ServedKind::new("example.org/v1", "machines", true);
        assert_eq!(machines.object(None, "m"), None, "the namespace is missing");
        assert_eq!(machines.object(Some("a"), ".."), None, "path traversal");
        assert_eq!(machines.object(Some(".."), "m"), None, "path traversal");
    }
}
