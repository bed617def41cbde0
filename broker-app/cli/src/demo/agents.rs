//! The agents: each finds a token on its machine and enrols after the machine has booted.
//!
//! Agents read only what the Composition passed to the machine.

use std::collections::BTreeMap;

use broker_domain::ProvisionedResourceId;
use broker_memory::{EnrolError, JoinError, MemoryCluster, MemoryMesh};
use secrecy::ExposeSecret;

#[derive(Debug, Default)]
pub(super) struct Agents {
    /// The number of rounds that each machine has run.
    rounds: BTreeMap<ProvisionedResourceId, u32>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum AgentError {
    #[error("its agent could not enrol")]
    Enrol(#[from] EnrolError),
    #[error("its Node could not join the mesh")]
    Join(#[from] JoinError),
}

impl Agents {
    /// Runs one round of every machine. `boot_rounds` returns the boot time in rounds.
    pub(super) fn run_round(
        &mut self,
        cluster: &MemoryCluster,
        mesh: &MemoryMesh,
        boot_rounds: impl Fn(ProvisionedResourceId) -> u32,
    ) -> Result<(), (ProvisionedResourceId, AgentError)> {
        for machine in cluster.agent_documents().into_iter().filter(|machine| machine.booted) {
            let rounds = self.rounds.entry(machine.resource).or_default();
            *rounds += 1;
            if *rounds == boot_rounds(machine.resource) {
                let agent_error = |error| (machine.resource, error);
                let token = machine.token.secret().expose_secret();
                let node = mesh.enrol(token).map_err(|error| agent_error(error.into()))?;
                mesh.join(node).map_err(|error| agent_error(error.into()))?;
            }
        }
        Ok(())
    }
}
