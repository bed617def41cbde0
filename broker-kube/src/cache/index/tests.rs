//! What an index shows after lists and events, in whatever order they come.

use broker_ports::CachedXr;
use serde_json::json;

use super::*;

const PROJECT: &str = "5e0c4a36-7d0e-4c39-9c1c-3f3d6f1f2a10";

fn id(number: u32) -> String {
    format!("0198a8e2-5d9f-7c31-8a4e-{number:012x}")
}

fn resource(number: u32) -> ProvisionedResourceId {
    id(number).parse().unwrap()
}

fn key(number: u32) -> Key {
    Key::new(resource(number), PROJECT.parse().unwrap(), Scope::Namespaced)
}

fn object(number: u32, version: u64) -> Value {
    json!({"metadata": {
        "name": format!("pr-{}", id(number)),
        "namespace": format!("plexsphere-project-{PROJECT}"),
        "uid": id(number),
        "resourceVersion": version.to_string(),
    }})
}

fn index_of(objects: &[Value], version: u64) -> Index {
    let mut index = Index::new(Keep::Entries(Scope::Namespaced));
    relist(&mut index, objects, version);
    index
}

fn relist(index: &mut Index, objects: &[Value], version: u64) -> Vec<ProvisionedResourceId> {
    let mut listing = Listing::default();
    for object in objects {
        listing.add(object, index.keep);
    }
    let mut changed = index.take(listing, version.to_string());
    changed.sort();
    changed
}

fn version_of(index: &Index, number: u32) -> Option<String> {
    match index.get(&key(number)) {
        CachedXr::Seen { version, .. } => Some(version.resource_version),
        CachedXr::Absent => None,
    }
}

#[test]
fn events_follow_the_list() {
    let mut index = index_of(&[object(1, 3)], 5);
    assert_eq!(version_of(&index, 1).as_deref(), Some("3"));
    assert_eq!(index.apply(Event::Applied(&object(2, 6))), Some(resource(2)));
    assert_eq!(index.apply(Event::Applied(&object(1, 7))), Some(resource(1)));
    assert_eq!(index.apply(Event::Deleted(&object(2, 8))), Some(resource(2)));
    assert_eq!(version_of(&index, 1).as_deref(), Some("7"));
    assert_eq!((index.len(), index.version()), (1, Some("8")));
}

#[test]
fn invariant_what_the_index_shows_never_goes_back() {
    let mut index = index_of(&[object(1, 3)], 5);
    index.apply(Event::Deleted(&object(1, 6)));
    index.apply(Event::Applied(&object(2, 9)));
    let rows = [
        ("doubled", Event::Applied(&object(2, 9))),
        ("late, of what is gone", Event::Applied(&object(1, 4))),
        ("late, of what is newer", Event::Deleted(&object(2, 8))),
    ];
    for (why, event) in rows {
        assert_eq!(index.apply(event), None, "{why}");
        assert_eq!(version_of(&index, 1), None, "{why}");
        assert_eq!(version_of(&index, 2).as_deref(), Some("9"), "{why}");
        assert_eq!(index.version(), Some("9"), "{why}");
    }
}

#[test]
fn a_bookmark_moves_only_the_version() {
    let mut index = index_of(&[object(1, 3)], 5);
    let bookmark = json!({"metadata": {"resourceVersion": "40"}});
    assert_eq!(index.apply(Event::Bookmark(&bookmark)), None);
    assert_eq!((index.len(), index.version()), (1, Some("40")));
}

#[test]
fn a_list_after_a_gap_tells_what_changed_meanwhile() {
    let mut index = index_of(&[object(1, 3), object(2, 3), object(3, 3)], 5);
    index.expire();
    assert_eq!(index.version(), None);
    assert_eq!(version_of(&index, 1).as_deref(), Some("3"), "it is kept to compare with");
    let changed = relist(&mut index, &[object(1, 3), object(2, 8), object(4, 9)], 10);
    assert_eq!(changed, [resource(2), resource(3), resource(4)]);
    assert_eq!((index.len(), index.version()), (3, Some("10")));
}

#[test]
fn the_first_list_gives_no_hints() {
    let mut index = Index::new(Keep::Entries(Scope::Namespaced));
    assert_eq!(relist(&mut index, &[object(1, 3)], 5), []);
    assert_eq!(relist(&mut index, &[], 6), [resource(1)]);
}

#[test]
fn strangers_are_not_kept_and_not_hinted_at() {
    let mut index = index_of(&[], 5);
    let stranger =
        json!({"metadata": {"name": "web", "namespace": "a", "uid": "u", "resourceVersion": "6"}});
    assert_eq!(index.apply(Event::Applied(&stranger)), None);
    assert_eq!((index.len(), index.version()), (0, Some("6")));
}

#[test]
fn of_a_provider_config_only_the_hint_is_kept() {
    let mut index = Index::new(Keep::Nothing);
    assert_eq!(relist(&mut index, &[object(1, 3)], 5), []);
    assert_eq!(index.apply(Event::Applied(&object(1, 6))), Some(resource(1)));
    assert_eq!(index.apply(Event::Deleted(&object(1, 7))), Some(resource(1)));
    assert_eq!(index.len(), 0);
}

#[test]
fn versions_that_are_no_numbers_are_believed_in_their_order() {
    let mut index = index_of(&[], 5);
    let mut odd = object(1, 1);
    odd["metadata"]["resourceVersion"] = json!("later");
    assert_eq!(index.apply(Event::Applied(&odd)), Some(resource(1)));
    assert_eq!(index.version(), Some("later"));
    assert_eq!(index.apply(Event::Applied(&object(1, 4))), Some(resource(1)));
    assert_eq!(version_of(&index, 1).as_deref(), Some("4"));
}
