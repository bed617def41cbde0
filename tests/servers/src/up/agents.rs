//! Simulated agents of the machines that Crossplane composes. The machines are not real, so the keeper runs the agents
//! and the control plane's part of an enrolment. An agent reads its token only from the composed object.
//!
//! Every failure is retried: the database starts after the keeper, and servers may be stopped manually.

use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;

use anyhow::Result;
use broker_app::render::read_document;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::platform::DATABASE;
use crate::servers::{Api, Description, run_sql};
use crate::tools::{Tools, hex};

/// The machine kinds in the sample Compositions.
const MACHINES: [&str; 2] = [
    "/apis/nop.crossplane.io/v1alpha1/nopresources",
    "/apis/nop.crossplane.io/v1alpha1/clusternopresources",
];

/// The polling interval of the agents.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The path of the token on a machine.
const TOKEN_PATH: &str = "/etc/plexd/bootstrap-token";

/// Runs the agents for the lifetime of this process.
pub(super) fn boot(tools: Tools, servers: Description) {
    thread::spawn(move || {
        let mut used = BTreeSet::new();
        loop {
            // An error has no reader here; `explain` reports a machine that does not enrol.
            let _ = enrol_new_tokens(&tools, &servers, &mut used);
            thread::sleep(POLL_INTERVAL);
        }
    });
}

/// Enrols every machine that runs and has a new token.
fn enrol_new_tokens(
    tools: &Tools,
    servers: &Description,
    used: &mut BTreeSet<String>,
) -> Result<()> {
    let api = Api::connect(&servers.control_plane)?;
    for kind in MACHINES {
        let machines = api.get(kind)?;
        let machines = machines["items"].as_array().into_iter().flatten();
        for token in machines.filter(|machine| is_running(machine)).filter_map(token) {
            let digest = hex(&Sha256::digest(token.as_bytes()));
            if !used.contains(&digest) {
                run_sql(tools, &servers.postgres, DATABASE, &enrolment_sql(&digest))?;
                used.insert(digest);
            }
        }
    }
    Ok(())
}

fn is_running(machine: &Value) -> bool {
    let conditions = machine.pointer("/status/conditions").and_then(Value::as_array);
    let is_ready =
        |condition: &Value| condition["type"] == "Ready" && condition["status"] == "True";
    machine.pointer("/metadata/deletionTimestamp").is_none()
        && conditions.into_iter().flatten().any(is_ready)
}

/// The token, from any of the three places that the sample Compositions use.
fn token(machine: &Value) -> Option<String> {
    let fields = machine.pointer("/spec/forProvider/fields")?;
    let text = |path: &str| fields.pointer(path)?.as_str().filter(|text| !text.is_empty());
    if let Some(token) = text("/values/bootstrapToken").or_else(|| text("/bootstrapToken")) {
        return Some(token.to_owned());
    }
    let document = read_document("userData", text("/userData")?.as_bytes()).ok()?;
    let files = document.get("write_files")?.as_array()?;
    let file = files.iter().find(|file| file["path"] == TOKEN_PATH)?;
    Some(file["content"].as_str()?.to_owned())
}

/// A live token yields a Node with a Peer and makes its resource due; another token has no effect. Locks the ledger
/// first, as issue and close do. No statement contains the plaintext token.
fn enrolment_sql(digest: &str) -> String {
    format!(
        "WITH ledger AS (
            SELECT provisioned_resource_id FROM plexsphere.bootstrap_token_ledgers
            JOIN plexsphere.bootstrap_tokens AS token USING (provisioned_resource_id)
            WHERE token.sha256 = '\\x{digest}'
            FOR UPDATE OF bootstrap_token_ledgers
        ), consumed AS (
            UPDATE plexsphere.bootstrap_tokens AS token
            SET consumed_at = clock_timestamp(), consumed_by_node_id = gen_random_uuid()
            FROM ledger
            WHERE token.provisioned_resource_id = ledger.provisioned_resource_id
                AND token.sha256 = '\\x{digest}' AND token.consumed_at IS NULL
                AND token.invalidated_at IS NULL AND token.expires_at > clock_timestamp()
            RETURNING token.consumed_by_node_id, token.provisioned_resource_id
        ), due AS (
            UPDATE plexsphere.provisioned_resource_schedule AS s
            SET due_at = least(s.due_at, clock_timestamp()), wished = true
            FROM consumed
            WHERE s.provisioned_resource_id = consumed.provisioned_resource_id
            RETURNING pg_notify('plexsphere_provisioning_broker', s.provisioned_resource_id::text)
        ), node AS (
            INSERT INTO plexsphere.nodes (id) SELECT consumed_by_node_id FROM consumed RETURNING id
        )
        INSERT INTO plexsphere.peers (node_id) SELECT id FROM node"
    )
}
