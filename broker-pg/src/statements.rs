//! All statements in one place, for review and for the test that compares them with the schema.

use crate::assignments::READ_ASSIGNMENT;
use crate::audit::{READ_AUDIT_TRAIL, READ_HISTORY, RECORD_AUDIT, SCRUB_AUDIT};
use crate::catalog::{LOCK_CATALOG, PUBLISH_BLUEPRINT, READ_PUBLISHED};
use crate::mesh::{
    ENROL_NODE, FIND_LIVE_PEER, JOIN_MESH, LEAVE_MESH, LOCK_NODE, NODE_EXISTS, READ_CONSUMERS,
    RETIRE_NODE, TOKEN_STATE_BY_DIGEST,
};
use crate::outbox::statements::{
    ACKNOWLEDGE_EVENT, CLAIM_EVENTS, DEAD_LETTER_EVENT, DEAD_LETTERS_OF_ALL, DEAD_LETTERS_OF_ONE,
    DEAD_LETTERS_OF_PROJECT, DELAY_EVENT, PURGE_EVENTS, READ_BACKLOG, REDRIVE_EVENTS,
};
use crate::repository::create::CREATE_RESOURCE;
use crate::repository::list::{LIST_OF_CREDENTIAL, LIST_STATEMENTS, READ_WATERMARK};
use crate::repository::purge::PURGE_RESOURCES;
use crate::repository::read::{GET_BY_ID, GET_BY_REQUEST, GET_BY_TOKEN, GET_IN_PROJECT};
use crate::repository::shared_config::{
    CLEAR_SHARED_CONFIG, LOCK_SHARED_CONFIG, MARK_SHARED_CONFIG, READ_SHARED_CONFIG,
    READ_SHARED_CONFIGS, REGISTER_CONFIG, USE_CONFIG,
};
use crate::repository::sweep::{READ_NOW, SWEEP_PAGE, SWEEP_PAGE_OF_PROJECT};
use crate::repository::write::WRITE_RESOURCE;
use crate::resolvers::{
    READ_BLUEPRINT_STATE, RESOLVE_BLUEPRINT, RESOLVE_CLOUD, RESOLVE_CREDENTIAL,
};
use crate::resources::{READ_RESOURCE, READ_RESOURCES};
use crate::schedule::brake::{READ_BRAKES, RELEASE_BRAKE, SET_BRAKE};
use crate::schedule::claim::{CLAIM_DUE, CLAIM_ONE};
use crate::schedule::permit::{ACCEPTED_LOSSES, LOCK_BUDGET, TAKE_PERMIT};
use crate::schedule::release::RELEASE_LEASE;
use crate::schedule::{READ_ENTRY, SET_DUE, SET_PAUSED};
use crate::sql::{Statement, StatementDescription};
use crate::token_issuer::{
    ADMIT_EPOCH, CLOSE_LEDGER, INVALIDATE_TOKENS, ISSUE_FIRST, ISSUE_TOKEN, TOKEN_STATE,
};

/// Every statement that the adapters of this crate send, with the types of its parameters and columns.
///
/// ```
/// let names: Vec<_> = broker_pg::statements().iter().map(|statement| statement.name).collect();
/// assert!(names.contains(&"repository.write"));
/// ```
pub fn statements() -> Vec<StatementDescription> {
    let mut all = vec![
        CREATE_RESOURCE.describe(),
        GET_BY_ID.describe(),
        GET_IN_PROJECT.describe(),
        GET_BY_REQUEST.describe(),
        GET_BY_TOKEN.describe(),
        READ_WATERMARK.describe(),
        SWEEP_PAGE.describe(),
        SWEEP_PAGE_OF_PROJECT.describe(),
        READ_NOW.describe(),
        WRITE_RESOURCE.describe(),
        REGISTER_CONFIG.describe(),
        USE_CONFIG.describe(),
        READ_SHARED_CONFIG.describe(),
        READ_SHARED_CONFIGS.describe(),
        LOCK_SHARED_CONFIG.describe(),
        MARK_SHARED_CONFIG.describe(),
        CLEAR_SHARED_CONFIG.describe(),
        READ_HISTORY.describe(),
        SCRUB_AUDIT.describe(),
        PURGE_RESOURCES.describe(),
        CLAIM_DUE.describe(),
        CLAIM_ONE.describe(),
        RELEASE_LEASE.describe(),
        SET_DUE.describe(),
        READ_ENTRY.describe(),
        SET_PAUSED.describe(),
        READ_BRAKES.describe(),
        SET_BRAKE.describe(),
        RELEASE_BRAKE.describe(),
        LOCK_BUDGET.describe(),
        TAKE_PERMIT.describe(),
        ACCEPTED_LOSSES.describe(),
        CLAIM_EVENTS.describe(),
        ACKNOWLEDGE_EVENT.describe(),
        DELAY_EVENT.describe(),
        DEAD_LETTER_EVENT.describe(),
        REDRIVE_EVENTS.describe(),
        PURGE_EVENTS.describe(),
        READ_BACKLOG.describe(),
        DEAD_LETTERS_OF_ONE.describe(),
        DEAD_LETTERS_OF_PROJECT.describe(),
        DEAD_LETTERS_OF_ALL.describe(),
        RECORD_AUDIT.describe(),
        READ_AUDIT_TRAIL.describe(),
    ];
    all.extend(platform_statements());
    all.extend(LIST_STATEMENTS.iter().flatten().flatten().map(Statement::describe));
    all.push(LIST_OF_CREDENTIAL.describe());
    all
}

fn platform_statements() -> [StatementDescription; 25] {
    [
        RESOLVE_BLUEPRINT.describe(),
        READ_BLUEPRINT_STATE.describe(),
        RESOLVE_CLOUD.describe(),
        RESOLVE_CREDENTIAL.describe(),
        READ_ASSIGNMENT.describe(),
        READ_RESOURCE.describe(),
        READ_RESOURCES.describe(),
        ISSUE_FIRST.describe(),
        ADMIT_EPOCH.describe(),
        ISSUE_TOKEN.describe(),
        CLOSE_LEDGER.describe(),
        INVALIDATE_TOKENS.describe(),
        TOKEN_STATE.describe(),
        READ_CONSUMERS.describe(),
        FIND_LIVE_PEER.describe(),
        LOCK_NODE.describe(),
        RETIRE_NODE.describe(),
        ENROL_NODE.describe(),
        TOKEN_STATE_BY_DIGEST.describe(),
        JOIN_MESH.describe(),
        NODE_EXISTS.describe(),
        LEAVE_MESH.describe(),
        PUBLISH_BLUEPRINT.describe(),
        LOCK_CATALOG.describe(),
        READ_PUBLISHED.describe(),
    ]
}
