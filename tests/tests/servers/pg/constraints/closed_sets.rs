//! The closed sets: a CHECK, of a table or of a column's type, and the Rust type behind it have the
//! same values.

use std::collections::{BTreeMap, BTreeSet};

use broker_domain::{EventType, MeshRole, OnFailure, Phase};
use broker_ports::{ApprovalState, AuditAction, BlueprintState, CredentialState, NamespacePhase};
use broker_render::InjectionStrategy;
use sqlx::PgPool;

use crate::servers::pg::fresh_database;

type Set = BTreeSet<String>;

/// Every CHECK of the schema that lists texts, including the platform's, with those texts.
async fn listed(pool: &PgPool) -> BTreeMap<String, Set> {
    let select = "SELECT conname::text, literal[1]
        FROM pg_constraint, regexp_matches(pg_get_constraintdef(oid), '''([^'']*)''::text', 'g') AS literal
        WHERE contype = 'c' AND connamespace = 'plexsphere'::regnamespace
            AND pg_get_constraintdef(oid) LIKE '%= ANY (ARRAY[%'";
    let rows: Vec<(String, String)> = sqlx::query_as(select).fetch_all(pool).await.unwrap();
    let mut sets = BTreeMap::<String, Set>::new();
    for (constraint, value) in rows {
        sets.entry(constraint).or_default().insert(value);
    }
    sets
}

fn set<'a>(values: impl IntoIterator<Item = &'a str>) -> Set {
    values.into_iter().map(str::to_owned).collect()
}

#[tokio::test]
async fn check_sets_equal_the_rust_sets() {
    let phases = || set(Phase::ALL.map(Phase::as_str));
    let event_types = || set(EventType::ALL.map(EventType::as_str));
    let mesh_roles = || set(MeshRole::ALL.map(MeshRole::as_str));
    let steps = Phase::ALL.into_iter().filter(|phase| phase.can_become(Phase::Failed));
    let expected = [
        ("provisioned_resources_status_check", phases()),
        ("provisioning_phase_check", phases()),
        ("provisioning_mesh_role_check", mesh_roles()),
        ("provisioning_on_failure_check", set(OnFailure::ALL.map(OnFailure::as_str))),
        (
            "provisioning_failure_step_check",
            set(steps.filter(|phase| *phase != Phase::Failed).map(Phase::as_str)),
        ),
        ("provisioned_resource_outbox_token_event_type_check", event_types()),
        ("provisioning_event_type_check", event_types()),
        ("provisioning_lane_name_check", set(["converge", "teardown"])),
        (
            "provisioning_audit_action_check",
            set(AuditAction::ALL.iter().map(|action| action.as_str())),
        ),
        ("blueprint_versions_mesh_role_check", mesh_roles()),
        (
            "blueprint_versions_injection_strategy_check",
            set(InjectionStrategy::ALL.map(InjectionStrategy::as_str)),
        ),
        // The platform owns these values.
        (
            "namespace_assignments_namespace_phase_check",
            set(NamespacePhase::ALL.iter().map(|it| it.as_str())),
        ),
        ("cloud_credentials_state_check", set(CredentialState::ALL.iter().map(|it| it.as_str()))),
        (
            "cloud_credential_assignments_state_check",
            set(ApprovalState::ALL.iter().map(|it| it.as_str())),
        ),
        ("blueprint_versions_state_check", set(BlueprintState::ALL.iter().map(|it| it.as_str()))),
    ];
    let expected: BTreeMap<String, Set> =
        expected.into_iter().map(|(constraint, set)| (constraint.to_owned(), set)).collect();
    let database = fresh_database().await;
    assert_eq!(listed(database.pool()).await, expected);
}
