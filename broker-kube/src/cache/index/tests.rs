//! Lists and events change the index.

use broker_ports::{CachedXr, OwnedRole};
use broker_render::XrdScope;
use serde_json::json;

use super::*;
use crate::testing::{PROJECT, id, object, resource_id};

fn key(number: usize) -> Key {
    Key::new(resource_id(number), PROJECT.parse().unwrap(), XrdScope::Namespaced)
}

fn index_of(objects: &[Value], version: u64) -> Index {
    let mut index = Index::new(StoreMode::Xrs(XrdScope::Namespaced));
    relist(&mut index, objects, version);
    index
}

fn relist(index: &mut Index, objects: &[Value], version: u64) -> Vec<ProvisionedResourceId> {
    let mut listing = Listing::default();
    for object in objects {
        listing.add(object, index.mode);
    }
    let mut changed = index.replace(listing, version.to_string());
    changed.sort();
    changed
}

fn cached_version(index: &Index, number: usize) -> Option<String> {
    match index.get(&key(number)) {
        CachedXr::Present { version, .. } => Some(version.resource_version),
        CachedXr::Absent => None,
    }
}

#[test]
fn events_after_a_list_update_the_index() {
    let mut index = index_of(&[object(1, 3)], 5);
    assert_eq!(cached_version(&index, 1).as_deref(), Some("3"));
    assert_eq!(index.apply(Event::Applied(&object(2, 6))), Ok(Some(resource_id(2))));
    assert_eq!(index.apply(Event::Applied(&object(1, 7))), Ok(Some(resource_id(1))));
    assert_eq!(index.apply(Event::Deleted(&object(2, 8))), Ok(Some(resource_id(2))));
    assert_eq!(cached_version(&index, 1).as_deref(), Some("7"));
    assert_eq!((index.len(), index.version()), (1, Some("8")));
    let bookmark = json!({"metadata": {"resourceVersion": "40"}});
    assert_eq!(index.apply(Event::Bookmark(&bookmark)), Ok(None));
    assert_eq!((index.len(), index.version()), (1, Some("40")));
}

#[test]
fn older_event_is_refused_and_changes_nothing() {
    let mut index = index_of(&[object(1, 3)], 5);
    index.apply(Event::Deleted(&object(1, 6))).unwrap();
    index.apply(Event::Applied(&object(2, 9))).unwrap();
    let bookmark = json!({"metadata": {"resourceVersion": "7"}});
    let rows = [
        ("a duplicate", Event::Applied(&object(2, 9)), Ok(None)),
        ("older than the deletion", Event::Applied(&object(1, 4)), Err(VersionWentBack)),
        ("an older deletion", Event::Deleted(&object(2, 8)), Err(VersionWentBack)),
        ("an older bookmark", Event::Bookmark(&bookmark), Err(VersionWentBack)),
    ];
    for (why, event, expected) in rows {
        assert_eq!(index.apply(event), expected, "{why}");
        assert_eq!(cached_version(&index, 1), None, "{why}");
        assert_eq!(cached_version(&index, 2).as_deref(), Some("9"), "{why}");
        assert_eq!(index.version(), Some("9"), "{why}");
    }
}

#[test]
fn relist_after_a_gap_reports_the_changes() {
    let mut index = index_of(&[object(1, 3), object(2, 3), object(3, 3)], 5);
    index.expire();
    assert_eq!(index.version(), None);
    assert_eq!(cached_version(&index, 1).as_deref(), Some("3"), "the object stays for comparison");
    let changed = relist(&mut index, &[object(1, 3), object(2, 8), object(4, 9)], 10);
    assert_eq!(changed, [resource_id(2), resource_id(3), resource_id(4)]);
    assert_eq!((index.len(), index.version()), (3, Some("10")));
}

fn foreign_object(version: u64) -> Value {
    let metadata = json!({
        "name": "web", "namespace": "a", "uid": "u", "resourceVersion": version.to_string(),
    });
    json!({"metadata": metadata})
}

/// Name, namespace, uid and deletion flag of every object in an index.
fn owned_rows(index: &Index) -> Vec<(String, String, String, bool)> {
    let objects = index
        .owned(("example.org/v1", "Thing"), &ResourceIds::default())
        .into_iter()
        .map(|object| {
            let reference = object.reference;
            assert_eq!((reference.api_version(), reference.kind()), ("example.org/v1", "Thing"));
            let namespace = reference.namespace().unwrap_or_default().to_owned();
            (reference.name().to_owned(), namespace, object.uid, object.deleting)
        });
    let mut objects: Vec<_> = objects.collect();
    objects.sort();
    objects
}

fn owned_row(number: usize, deleting: bool) -> (String, String, String, bool) {
    let namespace = format!("plexsphere-project-{PROJECT}");
    (format!("pr-{}", id(number)), namespace, id(number), deleting)
}

#[test]
fn foreign_objects_are_owned_but_report_no_change() {
    let mut index = index_of(&[], 5);
    assert_eq!(index.apply(Event::Applied(&foreign_object(6))), Ok(None));
    assert_eq!(index.version(), Some("6"));
    let web = ("web".to_owned(), "a".to_owned(), "u".to_owned(), false);
    assert_eq!(owned_rows(&index), std::slice::from_ref(&web));
    assert_eq!(relist(&mut index, &[foreign_object(7), object(1, 7)], 8), [resource_id(1)]);
    assert_eq!(owned_rows(&index), [owned_row(1, false), web]);
    assert_eq!(index.apply(Event::Deleted(&foreign_object(9))), Ok(None));
    assert_eq!(owned_rows(&index), [owned_row(1, false)]);
}

#[test]
fn owned_returns_every_stored_object() {
    for (mode, role) in [
        (StoreMode::Xrs(XrdScope::Namespaced), OwnedRole::Xr),
        (StoreMode::Identities, OwnedRole::ProviderConfig),
    ] {
        let mut index = Index::new(mode);
        relist(&mut index, &[object(1, 3), object(2, 4)], 5);
        let mut deleting = object(2, 6);
        deleting["metadata"]["deletionTimestamp"] = json!("2026-01-02T03:04:05Z");
        index.apply(Event::Applied(&deleting)).unwrap();
        assert_eq!(owned_rows(&index), [owned_row(1, false), owned_row(2, true)]);
        let objects = index.owned(("example.org/v1", "Thing"), &ResourceIds::default());
        assert!(objects.iter().all(|object| object.role == role && object.resource.is_some()));
        index.apply(Event::Deleted(&object(1, 7))).unwrap();
        assert_eq!(owned_rows(&index), [owned_row(2, true)]);
    }
}

#[test]
fn cluster_scoped_object_is_listed_without_a_namespace() {
    let mut cluster_scoped = object(1, 3);
    cluster_scoped["metadata"].as_object_mut().unwrap().remove("namespace");
    let mut index = Index::new(StoreMode::Xrs(XrdScope::Cluster));
    relist(&mut index, &[cluster_scoped], 5);
    assert_eq!(owned_rows(&index), [(format!("pr-{}", id(1)), String::new(), id(1), false)]);
}

#[test]
fn provider_config_changes_are_reported() {
    let mut index = Index::new(StoreMode::Identities);
    assert_eq!(relist(&mut index, &[object(1, 3), object(2, 3)], 5), []);
    assert_eq!(index.apply(Event::Applied(&object(1, 6))), Ok(Some(resource_id(1))));
    index.expire();
    assert_eq!(relist(&mut index, &[object(1, 6), object(2, 7)], 8), [resource_id(2)], "changed");
    assert_eq!(index.apply(Event::Deleted(&object(1, 9))), Ok(Some(resource_id(1))));
    assert_eq!(index.len(), 1);
}

#[test]
fn non_numeric_versions_apply_in_arrival_order() {
    let mut index = index_of(&[], 5);
    let mut non_numeric = object(1, 1);
    non_numeric["metadata"]["resourceVersion"] = json!("later");
    assert_eq!(index.apply(Event::Applied(&non_numeric)), Ok(Some(resource_id(1))));
    assert_eq!(index.version(), Some("later"));
    assert_eq!(index.apply(Event::Applied(&object(1, 4))), Ok(Some(resource_id(1))));
    assert_eq!(cached_version(&index, 1).as_deref(), Some("4"));
}
