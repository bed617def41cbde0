//! Agents: each reads the cloud-init document of its composed machine, and nothing else, and enrols with
//! the token in it.

use std::collections::BTreeSet;
use std::time::Duration;

use broker_pg::{EnrolError, PgMesh};
use broker_render::token_in;
use kube::api::{DynamicObject, ListParams};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use tokio::task::JoinSet;

use super::blueprint::{Objects, condition};

/// The interval at which the agents look for running machines.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Boots every machine among these objects until the returned value is dropped.
pub(super) fn boot_agents(machines: Vec<Objects>, mesh: PgMesh) -> JoinSet<()> {
    let mut agents = JoinSet::new();
    agents.spawn(async move {
        let mut used_tokens = BTreeSet::new();
        loop {
            for objects in &machines {
                // The API server may be restarting: retry.
                let Ok(found) = objects.list(&ListParams::default()).await else { continue };
                for machine in found.items.iter().filter(|machine| is_running(machine)) {
                    if let Some(token) = token(machine) {
                        enrol(&mesh, &token, &mut used_tokens).await;
                    }
                }
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    });
    agents
}

async fn enrol(mesh: &PgMesh, token: &SecretString, used_tokens: &mut BTreeSet<String>) {
    if used_tokens.contains(token.expose_secret()) {
        return;
    }
    match mesh.enrol(token).await {
        // The mesh refuses a Node that was deregistered meanwhile.
        Ok(node) => drop(mesh.join(node).await),
        Err(EnrolError::Store(_)) => return,
        // The machine of another installation, or an invalidated token.
        Err(_) => {}
    }
    used_tokens.insert(token.expose_secret().to_owned());
}

fn is_running(machine: &DynamicObject) -> bool {
    machine.metadata.deletion_timestamp.is_none()
        && condition(machine, "Ready").is_some_and(|ready| ready["status"] == "True")
}

/// The token, at any of the three places where the sample Compositions put it.
fn token(machine: &DynamicObject) -> Option<SecretString> {
    let fields = machine.data.pointer("/spec/forProvider/fields")?;
    let text = |path: &str| fields.pointer(path).and_then(Value::as_str);
    let token = text("/values/bootstrapToken").or_else(|| text("/bootstrapToken"));
    let token = token.filter(|token| !token.is_empty()).map(SecretString::from);
    token.or_else(|| token_in(text("/userData")?))
}
