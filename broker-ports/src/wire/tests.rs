//! Pins the wire format: one event of each type, byte for byte.

use broker_domain::{
    Change, Declaration, EventId, FailureReason, MeshRole, Parameters, Phase, ProvisionedResource,
    Stamp,
};
use time::{Duration, OffsetDateTime, UtcOffset};
use uuid::Uuid;

use super::{encode, rfc3339};

fn stamp(number: u32) -> Stamp {
    let at = OffsetDateTime::from_unix_timestamp(1_790_000_000).unwrap();
    let id = EventId::new(Uuid::from_u128(0xe000 + u128::from(number))).unwrap();
    Stamp::new(id, at + Duration::seconds(number.into()))
}

fn declared() -> Change {
    let id = |number| Uuid::from_u128(number);
    let declaration = Declaration::new(
        id(0x1).try_into().unwrap(),
        id(0x2).try_into().unwrap(),
        id(0x3).try_into().unwrap(),
        id(0x4).try_into().unwrap(),
    );
    ProvisionedResource::new(
        id(0x5).try_into().unwrap(),
        &declaration,
        MeshRole::Standalone,
        Parameters::default(),
        stamp(0),
    )
    .unwrap()
}

fn text(change: &Change) -> String {
    String::from_utf8(encode(change.event().unwrap())).unwrap()
}

#[test]
fn every_event_equals_its_released_encoding() {
    let requested = declared();
    let resource = requested.resource();
    let ready = resource.advance(Phase::Ready, stamp(1)).unwrap().unwrap();
    let failed =
        resource.fail(FailureReason::from_message("no \"quota\""), stamp(2)).unwrap().unwrap();
    let deleting = ready.resource().request_deletion(stamp(3)).unwrap();
    let closed = deleting.resource().record_closed(stamp(4).at).unwrap().unwrap();
    let deleted = closed.resource().advance(Phase::Deleted, stamp(5)).unwrap().unwrap();
    let abandoned = closed.resource().abandon(stamp(6)).unwrap();

    let ids = r#""project_id":"00000000-0000-0000-0000-000000000001","provisioned_resource_id":"00000000-0000-0000-0000-000000000005""#;
    let name = r#""xr_name":"pr-00000000-0000-0000-0000-000000000005"}"#;
    assert_eq!(
        text(&requested),
        format!(
            r#"{{"blueprint_version_id":"00000000-0000-0000-0000-000000000003","cloud_credential_id":"00000000-0000-0000-0000-000000000004","event_id":"00000000-0000-0000-0000-00000000e000","event_type":"broker.ProvisionedResourceRequested","occurred_at":"2026-09-21T14:13:20Z",{ids},"resource_id":"00000000-0000-0000-0000-000000000002","sequence":1,{name}"#
        )
    );
    assert_eq!(
        text(&ready),
        format!(
            r#"{{"event_id":"00000000-0000-0000-0000-00000000e001","event_type":"broker.ProvisionedResourceReady","occurred_at":"2026-09-21T14:13:21Z",{ids},"sequence":2,{name}"#
        )
    );
    assert_eq!(
        text(&failed),
        format!(
            r#"{{"event_id":"00000000-0000-0000-0000-00000000e002","event_type":"broker.ProvisionedResourceFailed","occurred_at":"2026-09-21T14:13:22Z",{ids},"reason":"no \"quota\"","sequence":2,"step":"Pending",{name}"#
        )
    );
    assert_eq!(
        text(&deleting),
        format!(
            r#"{{"event_id":"00000000-0000-0000-0000-00000000e003","event_type":"broker.ProvisionedResourceDeleting","occurred_at":"2026-09-21T14:13:23Z",{ids},"sequence":3,{name}"#
        )
    );
    assert_eq!(
        text(&deleted),
        format!(
            r#"{{"abandoned":false,"event_id":"00000000-0000-0000-0000-00000000e005","event_type":"broker.ProvisionedResourceDeleted","left_to_garbage_collection":false,"occurred_at":"2026-09-21T14:13:25Z",{ids},"sequence":4,{name}"#
        )
    );
    assert!(text(&abandoned).starts_with(r#"{"abandoned":true,"#));
}

#[test]
fn times_are_encoded_in_utc() {
    let time = OffsetDateTime::from_unix_timestamp(1_790_000_000).unwrap();
    let in_another_zone = time.to_offset(UtcOffset::from_hms(2, 0, 0).unwrap());
    assert_eq!(rfc3339(in_another_zone), "2026-09-21T14:13:20Z");
}
