//! Every creation invariant, broken one at a time, in a row that was sound before.

use time::OffsetDateTime;
use uuid::Uuid;

use crate::testing::{composed, declaration, id, resource, second, stamp};
use crate::{
    ClusterId, EventDetail, EventId, MeshRole, OnFailure, Parameters, Phase, ProvisionedResource,
    ReferencesDigest, Snapshot, Stamp, Substrate, Version,
};

type Break = fn(&mut Snapshot);

/// A row that was sound before is refused for one thing alone.
#[track_caller]
fn assert_refused(sound: &ProvisionedResource, breaks: Break, message: &str) {
    let mut row = sound.snapshot();
    let before = ProvisionedResource::hydrate(row.clone());
    assert_eq!(&before.unwrap(), sound, "{message}: sound before");
    breaks(&mut row);
    let error = ProvisionedResource::hydrate(row).expect_err(message);
    assert_eq!((error.reason(), error.to_string().as_str()), ("invalid_input", message));
}

#[test]
fn nil_id_is_refused_with_the_name_of_the_field() {
    let fields: [(&str, &str, Break); 6] = [
        ("id", "provisioned resource", |row| row.id = Uuid::nil()),
        ("resource_id", "resource", |row| row.resource_id = Uuid::nil()),
        ("project_id", "project", |row| row.project_id = Uuid::nil()),
        ("blueprint_version_id", "blueprint version", |row| row.blueprint_version_id = Uuid::nil()),
        ("cloud_credential_id", "cloud credential", |row| row.cloud_credential_id = Uuid::nil()),
        ("bootstrap_token_id", "bootstrap token", |row| row.bootstrap_token_id = Some(Uuid::nil())),
    ];
    for (field, what, breaks) in fields {
        let message = format!("{field}: the nil UUID names nothing; give the id of a {what}");
        assert_refused(&resource().pending(), breaks, &message);
    }
}

/// What breaks a row that was just declared, and the message.
const DECLARED: &[(Break, &str)] = &[
    (
        |row| row.xr_name = "  ".into(),
        "xr_name: is empty; it is pr-00000000-0000-0000-0000-000000000005",
    ),
    (
        |row| row.xr_name = "pr-00000000-0000-0000-0000-000000000006".into(),
        "xr_name: \"pr-00000000-0000-0000-0000-000000000006\" belongs to another resource; it is pr-00000000-0000-0000-0000-000000000005",
    ),
    (
        |row| row.phase = "Paused".into(),
        "phase: \"Paused\" is not a phase; use one of Pending, Provisioning, Enrolling, Ready, Failed, Deregistering, Deprovisioning, Deleted",
    ),
    (
        |row| row.mesh_role = "router".into(),
        "mesh_role: \"router\" is not a mesh role; use node or standalone",
    ),
    (
        |row| row.on_failure = "ignore".into(),
        "on_failure: \"ignore\" is not a failure policy; use retain or rollback",
    ),
    (|row| row.version = 0, "version: is 0; use 1 to 4611686018427387903"),
    (|row| row.token_ordinal = 0, "token_ordinal: is 0; use 1 to 1073741823"),
    (|row| row.event_sequence = 0, "event_sequence: is 0 in Pending at version 1; use 1 to 1"),
    (|row| row.created_at = OffsetDateTime::UNIX_EPOCH, "created_at: is not after 1970"),
    (|row| row.updated_at = second(-1), "updated_at: is before created_at"),
    (|row| row.phase_entered_at = second(-1), "phase_entered_at: is before created_at"),
    (|row| row.event_sequence = 50, "event_sequence: is 50 in Pending at version 1; use 1 to 1"),
    (
        |row| row.substrate = Substrate::default().found([composed("a")]),
        "cluster_id: is missing although objects are on record; they stand on some cluster",
    ),
];

const READY: &[(Break, &str)] = &[
    (|row| row.first_ready_at = Some(second(-1)), "first_ready_at: is before created_at"),
    (|row| row.first_ready_at = None, "first_ready_at: is missing in Ready although it was Ready"),
    (
        |row| row.first_ready_at = Some(second(5)),
        "first_ready_at: is after phase_entered_at in Ready",
    ),
    (|row| row.event_sequence = 1, "event_sequence: is 1 in Ready at version 4; use 2 to 4"),
    (
        |row| row.bootstrap_token_id = None,
        "bootstrap_token_id: is missing on a node in Ready; a Node enrols with a token",
    ),
];

const FAILED: &[(Break, &str)] = &[
    (
        |row| row.failure_step = Some("Ready".into()),
        "first_ready_at: is missing in Failed although it was Ready",
    ),
    (
        |row| {
            row.failure_step = None;
            row.failure_reason = None;
        },
        "failure: is missing in Failed; it says what went wrong",
    ),
    (|row| row.failure_reason = None, "failure_reason: is missing beside a failure_step"),
    (|row| row.failure_step = None, "failure_step: is missing beside a failure_reason"),
    (
        |row| row.failure_step = Some("Deleted".into()),
        "failure_step: is Deleted; a resource fails in Pending, Provisioning, Enrolling or Ready",
    ),
    (|row| row.failure_reason = Some(" ".into()), "failure_reason: holds nothing to read"),
];

const DELETED: &[(Break, &str)] = &[
    (|row| row.event_sequence = 2, "event_sequence: is 2 in Deleted at version 8; use 3 to 8"),
    (
        |row| row.token_closed = false,
        "token_closed: is not set; tokens are closed before a resource is Deleted",
    ),
    (
        |row| row.substrate = something_standing(),
        "substrate: names composed objects in Deleted; they are proven gone before, or the resource is abandoned",
    ),
];

#[test]
fn a_row_that_drifted_is_refused_with_the_name_of_the_field() {
    let sound: [(ProvisionedResource, &[(Break, &str)]); 9] = [
        (resource().pending(), DECLARED),
        (resource().ready(), READY),
        (resource().failed(), FAILED),
        (resource().deleted(), DELETED),
        (
            resource().deregistering(),
            &[(
                |row| row.deletion_requested_at = Some(second(-1)),
                "deletion_requested_at: is before created_at",
            )],
        ),
        (
            resource().deprovisioning(),
            &[(
                |row| row.phase_entered_at = second(4),
                "phase_entered_at: is before deletion_requested_at",
            )],
        ),
        (
            resource().standalone().failed(),
            &[(
                |row| row.failure_step = Some("Enrolling".into()),
                "failure_step: is Enrolling on a standalone resource; no Node enrols from it",
            )],
        ),
        (
            resource().standalone().pending(),
            &[
                (
                    |row| row.token_ordinal = 2,
                    "token_ordinal: is 2 on a standalone resource; use 1",
                ),
                (
                    |row| row.bootstrap_token_id = Some(Uuid::from_u128(6)),
                    "bootstrap_token_id: is set on a standalone resource; only a node has a token",
                ),
            ],
        ),
        (
            resource().standalone().provisioning(),
            &[(
                |row| row.phase = "Enrolling".into(),
                "phase: is Enrolling on a standalone resource; no Node enrols from it",
            )],
        ),
    ];
    for (sound, rows) in sound {
        for (breaks, message) in rows {
            assert_refused(&sound, *breaks, message);
        }
    }
}

/// What a phase needs and what it forbids, in every phase.
#[test]
fn fields_that_belong_to_some_phases_are_refused_in_the_others() {
    for phase in Phase::ALL {
        let teardown = phase.is_teardown();
        let breaks: [(&str, bool, Break); 5] = [
            ("deletion_requested_at", teardown, |row| row.deletion_requested_at = None),
            ("deletion_requested_at", !teardown, |row| row.deletion_requested_at = Some(second(0))),
            ("failure", phase.is_converging(), |row| {
                row.failure_step = Some("Pending".into());
                row.failure_reason = Some("x".into());
            }),
            ("token_closed", !teardown, |row| row.token_closed = true),
            ("abandoned", phase != Phase::Deleted, |row| row.abandoned = true),
        ];
        for (field, refused, breaks) in breaks {
            let mut row = resource().in_phase(phase).snapshot();
            breaks(&mut row);
            match ProvisionedResource::hydrate(row) {
                Ok(_) => assert!(!refused, "{field} in {phase}"),
                Err(error) => {
                    assert!(refused, "{field} in {phase}: {error}");
                    assert!(
                        error.to_string().starts_with(&format!("{field}: ")),
                        "{phase}: {error}"
                    );
                }
            }
        }
    }
}

fn something_standing() -> Substrate {
    let cluster = ClusterId::new("here").unwrap();
    Substrate::default()
        .about_to_apply(cluster, composed("config"))
        .observed([composed("a"), composed("b")], ReferencesDigest::new([7; 32]))
}

#[test]
fn a_resource_survives_its_row_in_every_phase() {
    for phase in Phase::ALL {
        let stored = resource().in_phase(phase);
        assert_eq!(ProvisionedResource::hydrate(stored.snapshot()).unwrap(), stored, "{phase}");
    }
    let parameters = Parameters::from_canonical_json(r#"{"size":"small"}"#).unwrap();
    let row = Snapshot {
        parameters: parameters.clone(),
        token_ordinal: 2,
        substrate: something_standing(),
        ..resource().ready().snapshot()
    };
    let stored = ProvisionedResource::hydrate(row.clone()).unwrap();
    assert_eq!(stored.snapshot(), row);
    assert_eq!(stored.parameters(), &parameters);
    assert_eq!(stored.token_ordinal().get(), 2);
    assert_eq!(stored.substrate(), &something_standing());
    assert!(!format!("{row:?}{stored:?}").contains("small"), "values are not printed");
    let rolled_back = resource().rolling_back().failed().request_deletion(stamp(9)).unwrap();
    let stored = rolled_back.resource();
    assert_eq!(&ProvisionedResource::hydrate(stored.snapshot()).unwrap(), stored);
}

#[test]
fn a_declaration_at_time_zero_is_refused() {
    let at_zero = Stamp::new(id::<EventId>(7), OffsetDateTime::UNIX_EPOCH);
    let error = ProvisionedResource::new(
        id(5),
        &declaration(),
        MeshRole::Node,
        Parameters::default(),
        at_zero,
    )
    .unwrap_err();
    assert_eq!(error.to_string(), "created_at: is not after 1970");
}

#[test]
fn a_new_resource_is_what_was_declared_and_nothing_more() {
    let parameters = Parameters::from_canonical_json(r#"{"size":"small"}"#).unwrap();
    let declaration = declaration().on_failure(OnFailure::Rollback);
    let created =
        ProvisionedResource::new(id(5), &declaration, MeshRole::Node, parameters.clone(), stamp(0))
            .unwrap();
    assert_eq!(created.expected_version(), Version::UNSTORED);
    assert_eq!(created.previous_phase(), None);

    let new = created.resource();
    assert_eq!((new.project_id(), new.resource_id()), (id(1), id(2)));
    assert_eq!((new.blueprint_version_id(), new.cloud_credential_id()), (id(3), id(4)));
    assert_eq!((new.phase(), new.mesh_role()), (Phase::Pending, MeshRole::Node));
    assert_eq!((new.on_failure(), new.parameters()), (OnFailure::Rollback, &parameters));
    assert_eq!((new.created_at(), new.updated_at()), (second(0), second(0)));
    assert_eq!((new.bootstrap_token_id(), new.token_closed()), (None, false));
    assert_eq!((new.failure(), new.deletion_requested_at()), (None, None));
    assert!(new.substrate().is_clear());
    assert_eq!((new.version(), new.event_sequence()), (Version::FIRST, 1));
    assert_eq!(new.xr_name().as_str(), "pr-00000000-0000-0000-0000-000000000005");

    let event = created.event().unwrap();
    assert_eq!((event.id(), event.sequence()), (stamp(0).event_id, 1));
    assert_eq!((event.provisioned_resource_id(), event.project_id()), (id(5), id(1)));
    let detail = EventDetail::Requested {
        resource_id: id(2),
        blueprint_version_id: id(3),
        cloud_credential_id: id(4),
    };
    assert_eq!(event.detail(), &detail);
}
