//! Agents of the machines that Crossplane composes. The machines are not real, so the keeper runs the agents of
//! [`crate::agent`] and their control plane. An agent reads only the composed object.
//!
//! Every failure is retried: the database starts after the keeper, and servers may be stopped manually.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::Duration;

use anyhow::Result;
use broker_app::domain::{ProjectId, ResourceHandle};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::platform::{DATABASE, HANDLE, PROJECT};
use crate::agent::machine::write_files;
use crate::agent::register::{ControlPlane, Refusal, Registration};
use crate::agent::{AgentError, CAPABILITIES, ROOT, Started, start};
use crate::servers::{Api, Description, query_sql};
use crate::tools::{Tools, hex};

/// The machine kinds in the sample Compositions.
const MACHINES: [&str; 2] = [
    "/apis/nop.crossplane.io/v1alpha1/nopresources",
    "/apis/nop.crossplane.io/v1alpha1/clusternopresources",
];

/// The polling interval of the agents.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Runs the agents and their control plane for the lifetime of this process. Returns the control plane's URL.
pub(super) fn boot(tools: &Tools, servers: Description) -> Result<String> {
    let platform = (tools.clone(), servers.clone());
    let enrol = move |request: &Registration| enrol(&platform.0, &platform.1, request);
    let control_plane = ControlPlane::start(enrol, |_| {})?;
    let url = control_plane.url();
    thread::spawn(move || {
        let mut ended = BTreeSet::new();
        loop {
            // An error has no reader here; `explain` reports a machine that does not enrol.
            let _ = start_new_agents(&servers, &control_plane.url(), &mut ended);
            thread::sleep(POLL_INTERVAL);
        }
    });
    Ok(url)
}

/// Starts the agent of every machine that runs, until it has enrolled or was refused for good.
fn start_new_agents(servers: &Description, url: &str, ended: &mut BTreeSet<String>) -> Result<()> {
    let api = Api::connect(&servers.control_plane)?;
    for kind in MACHINES {
        let machines = api.get(kind)?;
        let machines = machines["items"].as_array().into_iter().flatten();
        for machine in machines.filter(|machine| is_running(machine)) {
            let uid = machine.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or_default();
            let fields = machine.pointer("/spec/forProvider/fields");
            let Some(fields) = fields.filter(|_| !ended.contains(uid)) else { continue };
            match run_agent(fields, url)? {
                Some(Err(AgentError::Unreachable)) | None => {}
                Some(_) => drop(ended.insert(uid.to_owned())),
            }
        }
    }
    Ok(())
}

/// Runs an agent with what one of the sample Compositions passed on; `None` without a token.
fn run_agent(fields: &Value, url: &str) -> Result<Option<Result<Started, AgentError>>> {
    let root = tempfile::tempdir()?;
    let text = |path: &str| fields.pointer(path)?.as_str().filter(|text| !text.is_empty());
    let mut environment = BTreeMap::from([
        (ROOT.to_owned(), root.path().display().to_string()),
        (CAPABILITIES.to_owned(), "CAP_NET_ADMIN CAP_NET_RAW".to_owned()),
    ]);
    let mut arguments = vec!["up".to_owned()];
    if let Some(document) = text("/userData") {
        write_files(document, root.path())?;
        arguments.extend(["--config", "/etc/plexd/config.yaml"].map(str::to_owned));
    } else if let Some(token) = text("/values/bootstrapToken").or_else(|| text("/bootstrapToken")) {
        // The sample provider of the bare token knows the rest itself.
        for (variable, value) in [
            ("PLEXD_API", text("/values/apiUrl").unwrap_or(url)),
            ("PLEXD_PROJECT_ID", text("/values/projectId").unwrap_or(PROJECT)),
            ("PLEXD_RESOURCE_HANDLE", text("/values/resourceHandle").unwrap_or(HANDLE)),
            ("PLEXD_BOOTSTRAP_TOKEN", token),
        ] {
            environment.insert(variable.to_owned(), value.to_owned());
        }
    } else {
        return Ok(None);
    }
    Ok(Some(start(&arguments, &environment)))
}

fn is_running(machine: &Value) -> bool {
    let conditions = machine.pointer("/status/conditions").and_then(Value::as_array);
    let is_ready =
        |condition: &Value| condition["type"] == "Ready" && condition["status"] == "True";
    machine.pointer("/metadata/deletionTimestamp").is_none()
        && conditions.into_iter().flatten().any(is_ready)
}

/// The decision of the control plane. No statement contains the plaintext token, or text that was not parsed.
fn enrol(tools: &Tools, servers: &Description, request: &Registration) -> Result<String, Refusal> {
    let invalid = || Refusal::of("invalid_request");
    let project: ProjectId = request.project_id.parse().map_err(|_| invalid())?;
    let handle = ResourceHandle::new(request.resource_handle.as_str()).map_err(|_| invalid())?;
    let digest = hex(&Sha256::digest(request.bootstrap_token.as_bytes()));
    let query = |script: &str| {
        query_sql(tools, &servers.postgres, DATABASE, script).map_err(|_| Refusal::unavailable())
    };
    let reason = query(&refusal_sql(&digest, project, &handle))?;
    match Refusal::ALL.into_iter().find(|(_, known)| *known == reason) {
        Some((_, reason)) => Err(Refusal::of(reason)),
        None if reason == "none" => match query(&enrolment_sql(&digest))?.as_str() {
            "" => Err(Refusal::of("conflict")),
            node => Ok(node.to_owned()),
        },
        None => Err(Refusal::of("unauthorized")),
    }
}

/// The reason to refuse, `none`, or nothing for an unknown token.
fn refusal_sql(digest: &str, project: ProjectId, handle: &ResourceHandle) -> String {
    format!(
        "SELECT CASE
            WHEN resource.project_id <> '{project}' THEN 'project_mismatch'
            WHEN resource.handle <> '{handle}' THEN 'resource_not_found'
            WHEN token.consumed_at IS NOT NULL THEN 'token_consumed'
            WHEN token.invalidated_at IS NOT NULL THEN 'token_revoked'
            WHEN token.expires_at <= clock_timestamp() THEN 'token_expired'
            ELSE 'none' END
        FROM plexsphere.bootstrap_tokens AS token
        JOIN plexsphere.provisioned_resources AS declared ON declared.id = token.provisioned_resource_id
        JOIN plexsphere.resources AS resource ON resource.id = declared.resource_id
        WHERE token.sha256 = '\\x{digest}'"
    )
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
        INSERT INTO plexsphere.peers (node_id) SELECT id FROM node RETURNING node_id"
    )
}
