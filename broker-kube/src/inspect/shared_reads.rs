//! Reads shared by several inspections, each sent once: the cluster identity, their namespaces, and the objects of
//! kinds that more than one target uses, page by page.
//!
//! A failure here is ignored: each inspection then reads by itself and reports its own error.

use std::collections::{BTreeMap, BTreeSet};

use broker_domain::{ClusterId, ObjectReference};
use broker_ports::{Inspected, NamespaceState, Target};
use broker_render::namespace;
use serde_json::Value;

use crate::call::Detail;
use crate::error::Failure;
use crate::objects::{Lookup, ObjectClient, Selection};
use crate::read::{identity, listed_reference, namespace_state};

/// A kind, by requested API version and name.
type Kind = (String, String);

/// The shared results. Empty for a single inspection.
#[derive(Default)]
pub(super) struct SharedReads {
    cluster: Option<ClusterId>,
    namespaces: BTreeMap<String, NamespaceState>,
    kinds: BTreeMap<Kind, ListedKind>,
}

enum ListedKind {
    /// No version of the kind is served.
    NoKind,
    Objects {
        /// The wanted objects that the list contains.
        found: BTreeMap<ObjectReference, Value>,
        /// Whether the list was read to its end: then a missing object does not exist.
        complete: bool,
    },
}

impl SharedReads {
    pub(super) async fn read_all(client: &ObjectClient, targets: &[Target]) -> Self {
        let mut shared = Self { cluster: identity(client).await.ok(), ..Self::default() };
        let mut wanted = BTreeMap::<Kind, BTreeSet<ObjectReference>>::new();
        let mut add_wanted = |object: ObjectReference| {
            let kind = (object.api_version().to_owned(), object.kind().to_owned());
            wanted.entry(kind).or_default().insert(object);
        };
        for target in targets {
            client.kinds().learn(&target.xr.xrd);
            target.xr.reference().ok().map(&mut add_wanted);
            target.provider_config.clone().map(&mut add_wanted);
            let namespace_name = namespace(target.xr.project);
            if !shared.namespaces.contains_key(namespace_name.as_str())
                && let Ok(state) = namespace_state(client, namespace_name.as_str()).await
            {
                shared.namespaces.insert(namespace_name.as_str().to_owned(), state);
            }
        }
        for (kind, wanted) in wanted.into_iter().filter(|(_, wanted)| wanted.len() > 1) {
            let listed = list(client, &kind, &wanted).await;
            shared.kinds.insert(kind, listed);
        }
        shared
    }

    pub(super) async fn cluster(&self, client: &ObjectClient) -> Inspected<ClusterId> {
        match &self.cluster {
            Some(known) => Ok(known.clone()),
            None => identity(client).await,
        }
    }

    pub(super) async fn namespace(
        &self,
        client: &ObjectClient,
        name: &str,
    ) -> Inspected<NamespaceState> {
        match self.namespaces.get(name) {
            Some(known) => Ok(*known),
            None => namespace_state(client, name).await,
        }
    }

    pub(super) async fn get(
        &self,
        client: &ObjectClient,
        name: &ObjectReference,
    ) -> Result<Lookup, Failure> {
        match self.lookup_shared(name) {
            Some(known) => Ok(known),
            None => client.get(name, Detail::Whole).await,
        }
    }

    fn lookup_shared(&self, name: &ObjectReference) -> Option<Lookup> {
        match self.kinds.get(&(name.api_version().to_owned(), name.kind().to_owned()))? {
            ListedKind::NoKind => Some(Lookup::NoKind),
            ListedKind::Objects { found, complete } => match found.get(name) {
                Some(object) => Some(Lookup::Found(object.clone())),
                None => complete.then_some(Lookup::NoObject),
            },
        }
    }
}

/// Lists a kind in all namespaces without a label selector, so that a complete list proves absence. Stops after as many
/// pages as objects are wanted: reads by name would then be cheaper.
async fn list(
    client: &ObjectClient,
    (api_version, kind): &Kind,
    wanted: &BTreeSet<ObjectReference>,
) -> ListedKind {
    let selection =
        Selection { api_version, kind, namespace: None, selector: ("labelSelector", "") };
    let (mut found, mut complete) = (BTreeMap::new(), false);
    let mut after: Option<String> = None;
    for _ in wanted {
        let page = match client.page(&selection, after.as_deref(), Detail::Whole).await {
            Ok(Some(page)) => page,
            Ok(None) => return ListedKind::NoKind,
            Err(_) => break,
        };
        let named_objects = page
            .items
            .into_iter()
            .filter_map(|object| Some((listed_reference(&selection, &object).ok()?, object)));
        found.extend(named_objects.filter(|(name, _)| wanted.contains(name)));
        complete = page.next.is_none();
        after = page.next;
        if complete || found.len() == wanted.len() {
            break;
        }
    }
    ListedKind::Objects { found, complete }
}
