//! Tests of every creation invariant: break one field of a valid row at a time.

use time::OffsetDateTime;
use uuid::Uuid;

use crate::testing::{composed, declaration, id, resource, second, stamp};
use crate::{
    ClusterId, MeshRole, OnFailure, Parameters, Phase, ProvisionedResource, ReferencesDigest,
    Snapshot, Stamp, Substrate, Version,
};

type Corruption = fn(&mut Snapshot);

#[track_caller]
fn assert_rejected(valid: &ProvisionedResource, corrupt: Corruption, message: &str) {
    let mut row = valid.snapshot();
    let before = ProvisionedResource::hydrate(row.clone());
    assert_eq!(&before.unwrap(), valid, "{message}: the row is valid before");
    corrupt(&mut row);
    let error = ProvisionedResource::hydrate(row).expect_err(message);
    assert_eq!((error.reason(), error.to_string().as_str()), ("invalid_input", message));
}

const PENDING_ROWS: &[(Corruption, &str)] = &[
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
        |row| row.substrate = Substrate::default().with_labelled([composed("a")]),
        "cluster_id: is missing although objects are on record; name their cluster",
    ),
];

const READY_ROWS: &[(Corruption, &str)] = &[
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

const FAILED_ROWS: &[(Corruption, &str)] = &[
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
    (|row| row.failure_reason = None, "failure_reason: is missing although failure_step is set"),
    (|row| row.failure_step = None, "failure_step: is missing although failure_reason is set"),
    (
        |row| row.failure_step = Some("Deleted".into()),
        "failure_step: is Deleted; a resource fails in Pending, Provisioning, Enrolling or Ready",
    ),
    (|row| row.failure_reason = Some(" ".into()), "failure_reason: is blank"),
];

const DELETED_ROWS: &[(Corruption, &str)] = &[
    (|row| row.event_sequence = 2, "event_sequence: is 2 in Deleted at version 8; use 3 to 8"),
    (
        |row| row.token_closed = false,
        "token_closed: is not set; tokens are closed before a resource is Deleted",
    ),
    (
        |row| row.substrate = recorded_substrate(),
        "substrate: names composed objects in Deleted; prove each absent first, or abandon the resource",
    ),
];

#[test]
fn corrupt_row_is_rejected_with_field_name() {
    let valid: [(ProvisionedResource, &[(Corruption, &str)]); 9] = [
        (resource().pending(), PENDING_ROWS),
        (resource().ready(), READY_ROWS),
        (resource().failed(), FAILED_ROWS),
        (resource().deleted(), DELETED_ROWS),
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
    for (valid, rows) in valid {
        for (corrupt, message) in rows {
            assert_rejected(&valid, *corrupt, message);
        }
    }
}

#[test]
fn phase_specific_fields_are_rejected_in_other_phases() {
    for phase in Phase::ALL {
        let teardown = phase.is_teardown();
        let corrupt: [(&str, bool, Corruption); 5] = [
            ("deletion_requested_at", teardown, |row| row.deletion_requested_at = None),
            ("deletion_requested_at", !teardown, |row| row.deletion_requested_at = Some(second(0))),
            ("failure", phase.is_converging(), |row| {
                row.failure_step = Some("Pending".into());
                row.failure_reason = Some("x".into());
            }),
            ("token_closed", !teardown, |row| row.token_closed = true),
            ("abandoned", phase != Phase::Deleted, |row| row.abandoned = true),
        ];
        for (field, rejected, corrupt) in corrupt {
            let mut row = resource().in_phase(phase).snapshot();
            corrupt(&mut row);
            match ProvisionedResource::hydrate(row) {
                Ok(_) => assert!(!rejected, "{field} in {phase}"),
                Err(error) => {
                    assert!(rejected, "{field} in {phase}: {error}");
                    assert!(
                        error.to_string().starts_with(&format!("{field}: ")),
                        "{phase}: {error}"
                    );
                }
            }
        }
    }
}

fn recorded_substrate() -> Substrate {
    let cluster = ClusterId::new("here").unwrap();
    Substrate::default()
        .about_to_apply(cluster, composed("config"))
        .observed([composed("a"), composed("b")], ReferencesDigest::new([7; 32]))
}

#[test]
fn declaration_at_time_zero_is_rejected() {
    let at_zero = Stamp::new(id(7), OffsetDateTime::UNIX_EPOCH);
    let (role, parameters) = (MeshRole::Node, Parameters::default());
    let rejected = ProvisionedResource::new(id(5), &declaration(), role, parameters, at_zero);
    assert_eq!(rejected.unwrap_err().to_string(), "created_at: is not after 1970");
}

#[test]
fn new_resource_equals_its_declaration() {
    let parameters = Parameters::from_canonical_json(r#"{"size":"small"}"#).unwrap();
    let declaration = declaration().on_failure(OnFailure::Rollback);
    let created =
        ProvisionedResource::new(id(5), &declaration, MeshRole::Node, parameters.clone(), stamp(0))
            .unwrap();
    assert_eq!(created.expected_version(), Version::UNSTORED);
    assert_eq!(created.previous_phase(), None);

    let new = created.resource();
    assert_eq!((new.phase(), new.mesh_role()), (Phase::Pending, MeshRole::Node));
    assert_eq!((new.on_failure(), new.parameters()), (OnFailure::Rollback, &parameters));
    assert_eq!((new.created_at(), new.updated_at()), (second(0), second(0)));
    assert_eq!((new.bootstrap_token_id(), new.token_closed()), (None, false));
    assert_eq!((new.failure(), new.deletion_requested_at()), (None, None));
    assert!(new.substrate().is_clear());
    assert_eq!((new.version(), new.event_sequence()), (Version::FIRST, 1));
}
