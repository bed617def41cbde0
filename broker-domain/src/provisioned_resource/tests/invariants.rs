//! Every creation invariant, broken one at a time, in a row that was sound before.

use std::collections::BTreeSet;

use time::OffsetDateTime;
use uuid::Uuid;

use crate::testing::{declaration, id, resource, second, stamp};
use crate::{
    EventId, MeshRole, Parameters, Phase, ProvisionedResource, Snapshot, Stamp, Substrate,
};

/// What was broken, the sound resource, how it is broken, the message.
type Case = (&'static str, ProvisionedResource, fn(&mut Snapshot), &'static str);

fn ids_and_names() -> Vec<Case> {
    let sound = || resource().pending();
    vec![
        (
            "nil id",
            sound(),
            |row| row.id = Uuid::nil(),
            "id: the nil UUID names nothing; give the id of an existing provisioned resource",
        ),
        (
            "nil resource",
            sound(),
            |row| row.resource_id = Uuid::nil(),
            "resource_id: the nil UUID names nothing; give the id of an existing resource",
        ),
        (
            "nil project",
            sound(),
            |row| row.project_id = Uuid::nil(),
            "project_id: the nil UUID names nothing; give the id of an existing project",
        ),
        (
            "nil blueprint",
            sound(),
            |row| row.blueprint_version_id = Uuid::nil(),
            "blueprint_version_id: the nil UUID names nothing; give the id of an existing blueprint version",
        ),
        (
            "nil credential",
            sound(),
            |row| row.cloud_credential_id = Uuid::nil(),
            "cloud_credential_id: the nil UUID names nothing; give the id of an existing cloud credential",
        ),
        (
            "nil token: a missing one is none",
            sound(),
            |row| row.bootstrap_token_id = Some(Uuid::nil()),
            "bootstrap_token_id: the nil UUID names nothing; give the id of an existing bootstrap token",
        ),
        (
            "empty name",
            sound(),
            |row| row.xr_name = "  ".into(),
            "xr_name: is empty; it is pr-00000000-0000-0000-0000-000000000005",
        ),
        (
            "name of a neighbour",
            sound(),
            |row| row.xr_name = "pr-00000000-0000-0000-0000-000000000006".into(),
            "xr_name: \"pr-00000000-0000-0000-0000-000000000006\" belongs to another resource; it is pr-00000000-0000-0000-0000-000000000005",
        ),
        (
            "unknown phase",
            sound(),
            |row| row.phase = "Paused".into(),
            "phase: \"Paused\" is not a phase; use one of Pending, Provisioning, Enrolling, Ready, Failed, Deregistering, Deprovisioning, Deleted",
        ),
        (
            "unknown role",
            sound(),
            |row| row.mesh_role = "router".into(),
            "mesh_role: \"router\" is not a mesh role; use node or standalone",
        ),
        (
            "unknown policy",
            sound(),
            |row| row.on_failure = "ignore".into(),
            "on_failure: \"ignore\" is not a failure policy; use retain or rollback",
        ),
        (
            "parameters that are no object",
            sound(),
            |row| row.parameters = "[]".into(),
            "parameters: is not the text of a JSON object",
        ),
        (
            "version of nothing",
            sound(),
            |row| row.version = 0,
            "version: is 0; use 1 to 9223372036854775807",
        ),
        (
            "ordinal of nothing",
            sound(),
            |row| row.token_ordinal = 0,
            "token_ordinal: is 0; use 1 to 2147483647",
        ),
        (
            "no event told of it",
            sound(),
            |row| row.event_sequence = 0,
            "event_sequence: is 0; a stored resource has told of its declaration at least",
        ),
    ]
}

fn times() -> Vec<Case> {
    vec![
        (
            "zero creation",
            resource().pending(),
            |row| row.created_at = OffsetDateTime::UNIX_EPOCH,
            "created_at: is zero; use a time after 1970",
        ),
        (
            "changed before it was created",
            resource().pending(),
            |row| row.updated_at = second(-1),
            "updated_at: is before created_at",
        ),
        (
            "entered its phase before it was created",
            resource().pending(),
            |row| row.phase_entered_at = second(-1),
            "phase_entered_at: is before created_at",
        ),
        (
            "ready before it was created",
            resource().ready(),
            |row| row.first_ready_at = Some(second(-1)),
            "first_ready_at: is before created_at",
        ),
        (
            "deleted before it was created",
            resource().deregistering(),
            |row| row.deletion_requested_at = Some(second(-1)),
            "deletion_requested_at: is before created_at",
        ),
        (
            "Ready without a time of it",
            resource().ready(),
            |row| row.first_ready_at = None,
            "first_ready_at: is missing in Ready",
        ),
    ]
}

fn mixes() -> Vec<Case> {
    vec![
        (
            "token on a standalone",
            resource().standalone().pending(),
            |row| row.bootstrap_token_id = Some(Uuid::from_u128(6)),
            "bootstrap_token_id: is set on a standalone resource; only a node has a token",
        ),
        (
            "node in Ready without a token",
            resource().ready(),
            |row| row.bootstrap_token_id = None,
            "bootstrap_token_id: is missing on a node in Ready; a Node enrols with a token",
        ),
        (
            "standalone in Enrolling",
            resource().standalone().provisioning(),
            |row| row.phase = "Enrolling".into(),
            "phase: is Enrolling on a standalone resource; no Node enrols from it",
        ),
        (
            "Failed without a failure",
            resource().failed(),
            |row| {
                row.failure_step = None;
                row.failure_reason = None;
            },
            "failure: is missing in Failed; it says what went wrong",
        ),
        (
            "failure on the way up",
            resource().failed(),
            |row| row.phase = "Provisioning".into(),
            "failure: is set in Provisioning; it belongs to Failed and to the teardown after it",
        ),
        (
            "half a failure: no reason",
            resource().failed(),
            |row| row.failure_reason = None,
            "failure_reason: is missing beside a failure_step",
        ),
        (
            "half a failure: no step",
            resource().failed(),
            |row| row.failure_step = None,
            "failure_step: is missing beside a failure_reason",
        ),
        (
            "failure in a phase where nothing fails",
            resource().failed(),
            |row| row.failure_step = Some("Deleted".into()),
            "failure_step: is Deleted; a resource fails in Pending, Provisioning, Enrolling or Ready",
        ),
        (
            "silent failure",
            resource().failed(),
            |row| row.failure_reason = Some(" ".into()),
            "failure_reason: is 1 bytes long; use 1 to 1024 with a visible one",
        ),
        (
            "teardown that nobody asked for",
            resource().deregistering(),
            |row| row.deletion_requested_at = None,
            "deletion_requested_at: is missing in Deregistering",
        ),
        (
            "end that nobody asked for",
            resource().deleted(),
            |row| row.deletion_requested_at = None,
            "deletion_requested_at: is missing in Deleted",
        ),
        (
            "deletion accepted but not begun",
            resource().ready(),
            |row| row.deletion_requested_at = Some(second(9)),
            "deletion_requested_at: is set in Ready; a deletion request leads into teardown at once",
        ),
        (
            "deletion accepted in Failed but not begun",
            resource().failed(),
            |row| row.deletion_requested_at = Some(second(9)),
            "deletion_requested_at: is set in Failed; a deletion request leads into teardown at once",
        ),
        (
            "tokens closed on the way up",
            resource().enrolling(),
            |row| row.token_closed = true,
            "token_closed: is set in Enrolling; tokens are closed by teardown",
        ),
        (
            "given up but not gone",
            resource().deprovisioning(),
            |row| row.abandoned = true,
            "abandoned: is set in Deprovisioning; what was given up is Deleted",
        ),
    ]
}

#[test]
fn a_row_that_drifted_is_refused_with_the_name_of_the_field() {
    for (why, sound, breaks, message) in [ids_and_names(), times(), mixes()].concat() {
        let mut row = sound.snapshot();
        assert_eq!(
            ProvisionedResource::hydrate(row.clone()).unwrap(),
            sound,
            "{why}: sound before"
        );
        breaks(&mut row);
        let error = ProvisionedResource::hydrate(row).expect_err(why);
        assert_eq!(
            (error.reason(), error.to_string().as_str()),
            ("invalid_input", message),
            "{why}"
        );
    }
}

#[test]
fn a_resource_survives_its_row_in_every_phase() {
    for phase in Phase::ALL {
        let stored = resource().in_phase(phase);
        assert_eq!(ProvisionedResource::hydrate(stored.snapshot()).unwrap(), stored, "{phase}");
    }
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
    assert_eq!(error.to_string(), "created_at: is zero; use a time after 1970");
}

#[test]
fn a_new_resource_is_pending_and_has_nothing_yet() {
    let new = resource().pending();
    assert_eq!(new.phase(), Phase::Pending);
    assert_eq!(new.bootstrap_token_id(), None);
    assert_eq!(new.substrate(), &Substrate::hydrate(None, None, BTreeSet::new(), None).unwrap());
    assert_eq!((new.version().get(), new.event_sequence()), (1, 1));
    assert_eq!(new.xr_name().as_str(), "pr-00000000-0000-0000-0000-000000000005");
}
