//! What many inspections have in common, asked for once: which cluster it is, their namespaces, and the objects of
//! the kinds that several of them are of, by the page.
//!
//! Nothing is concluded from a failure: what is not known here, each asks for itself, and is told why not.

use std::collections::{BTreeMap, BTreeSet};

use broker_domain::{ClusterId, ObjectReference};
use broker_ports::{Inspected, NamespaceState, Target};
use broker_render::namespace;
use serde_json::Value;

use crate::call::Extent;
use crate::error::Failure;
use crate::objects::{Lookup, Objects, Selection};
use crate::read::{identity, named, namespace_state};

/// A kind, by the version that is asked for and its name.
type Kind = (String, String);

/// What is known before the first of them is looked at; for one alone, nothing.
#[derive(Default)]
pub(super) struct Common {
    cluster: Option<ClusterId>,
    namespaces: BTreeMap<String, NamespaceState>,
    kinds: BTreeMap<Kind, Listed>,
}

/// What a list showed of a kind.
enum Listed {
    /// No version of it is served.
    NoKind,
    Objects {
        /// Those that were looked for.
        found: BTreeMap<ObjectReference, Value>,
        /// The list was read to its end: what is not among them does not exist.
        to_the_end: bool,
    },
}

impl Common {
    pub(super) async fn of(objects: &Objects, targets: &[Target]) -> Self {
        let mut common = Self { cluster: identity(objects).await.ok(), ..Self::default() };
        let mut wanted = BTreeMap::<Kind, BTreeSet<ObjectReference>>::new();
        let mut want = |it: ObjectReference| {
            let kind = (it.api_version().to_owned(), it.kind().to_owned());
            wanted.entry(kind).or_default().insert(it);
        };
        for target in targets {
            objects.kinds().learn(&target.xr.xrd);
            target.xr.reference().ok().map(&mut want);
            target.provider_config.clone().map(&mut want);
            let home = namespace(target.xr.project);
            if !common.namespaces.contains_key(home.as_str())
                && let Ok(state) = namespace_state(objects, home.as_str()).await
            {
                common.namespaces.insert(home.as_str().to_owned(), state);
            }
        }
        for (kind, wanted) in wanted.into_iter().filter(|(_, wanted)| wanted.len() > 1) {
            let listed = list(objects, &kind, &wanted).await;
            common.kinds.insert(kind, listed);
        }
        common
    }

    /// Which cluster it is.
    pub(super) async fn cluster(&self, objects: &Objects) -> Inspected<ClusterId> {
        match &self.cluster {
            Some(known) => Ok(known.clone()),
            None => identity(objects).await,
        }
    }

    /// How a namespace stands.
    pub(super) async fn namespace(
        &self,
        objects: &Objects,
        name: &str,
    ) -> Inspected<NamespaceState> {
        match self.namespaces.get(name) {
            Some(known) => Ok(*known),
            None => namespace_state(objects, name).await,
        }
    }

    /// An object by its name.
    pub(super) async fn get(
        &self,
        objects: &Objects,
        name: &ObjectReference,
    ) -> Result<Lookup, Failure> {
        match self.seen(name) {
            Some(known) => Ok(known),
            None => objects.get(name, Extent::Whole).await,
        }
    }

    fn seen(&self, name: &ObjectReference) -> Option<Lookup> {
        match self.kinds.get(&(name.api_version().to_owned(), name.kind().to_owned()))? {
            Listed::NoKind => Some(Lookup::NoKind),
            Listed::Objects { found, to_the_end } => match found.get(name) {
                Some(object) => Some(Lookup::Found(object.clone())),
                None => to_the_end.then_some(Lookup::NoObject),
            },
        }
    }
}

/// Reads a kind in all namespaces, whoever's objects they are, so that its end proves what is absent; but no more pages
/// than there are objects to look for, which would be cheaper to have one by one.
async fn list(
    objects: &Objects,
    (api_version, kind): &Kind,
    wanted: &BTreeSet<ObjectReference>,
) -> Listed {
    let selection =
        Selection { api_version, kind, namespace: None, selector: ("labelSelector", "") };
    let (mut found, mut to_the_end) = (BTreeMap::new(), false);
    let mut after: Option<String> = None;
    for _ in wanted {
        let page = match objects.page(&selection, after.as_deref(), Extent::Whole).await {
            Ok(Some(page)) => page,
            Ok(None) => return Listed::NoKind,
            Err(_) => break,
        };
        let names =
            page.items.into_iter().filter_map(|it| Some((named(&selection, &it).ok()?, it)));
        found.extend(names.filter(|(name, _)| wanted.contains(name)));
        to_the_end = page.next.is_none();
        after = page.next;
        if to_the_end || found.len() == wanted.len() {
            break;
        }
    }
    Listed::Objects { found, to_the_end }
}
