//! The agents: each finds a token on its machine and enrols after the machine has booted.
//!
//! Agents know nothing of the broker: they read only what the Composition passed to the machine.

use std::collections::BTreeMap;

use broker_domain::ProvisionedResourceId;
use broker_memory::{EnrolError, JoinError, MemoryCluster, MemoryMesh};
use secrecy::ExposeSecret;

#[derive(Debug, Default)]
pub(super) struct Agents {
    /// For how many rounds each machine has run.
    running: BTreeMap<ProvisionedResourceId, u32>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum AgentError {
    #[error("its agent could not enrol")]
    Enrol(#[from] EnrolError),
    #[error("its Node could not join the mesh")]
    Join(#[from] JoinError),
}

impl Agents {
    /// Runs one round of every machine. `boots_for` returns the boot time in rounds.
    pub(super) fn work(
        &mut self,
        cluster: &MemoryCluster,
        mesh: &MemoryMesh,
        boots_for: impl Fn(ProvisionedResourceId) -> u32,
    ) -> Result<(), (ProvisionedResourceId, AgentError)> {
        for machine in cluster.agent_documents().into_iter().filter(|machine| machine.booted) {
            let running = self.running.entry(machine.resource).or_default();
            *running += 1;
            if *running == boots_for(machine.resource) {
                let refused = |error| (machine.resource, error);
                let token = machine.token.secret().expose_secret();
                let node = mesh.enrol(token).map_err(|error| refused(error.into()))?;
                mesh.join(node).map_err(|error| refused(error.into()))?;
            }
        }
        Ok(())
    }
}
