//! The adapter itself: one handle on one API server.

use kube::Client;

use crate::call::{KubeOptions, Server};
use crate::objects::Objects;

/// A management cluster behind its API server.
pub struct KubeCluster {
    objects: Objects,
}

impl KubeCluster {
    /// The cluster of a client, which has to send each request once: see
    /// [`client_config`](crate::client_config).
    pub fn new(client: Client, options: KubeOptions) -> Self {
        Self { objects: Objects::new(Server::new(client, options)) }
    }
}
