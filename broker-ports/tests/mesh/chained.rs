//! What the chain adds to its seams: it names the one that failed, and looks again when a Peer appears.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use async_trait::async_trait;
use broker_domain::BootstrapTokenId;
use broker_ports::memory::MemoryMesh;
use broker_ports::testing::faults::{Fault, FaultPlan, Faults};
use broker_ports::testing::node_deregistrar::MeshAgents;
use broker_ports::{
    ChainedNodeDeregistrar, FailureClass, NodeDeregistrar, NodeId, PeerCommander, PeerId,
    PeerResolver, PortError, PortName, TokenReader,
};

use super::worlds::MeshWorld;

#[tokio::test]
async fn an_error_names_the_seam() {
    let rows = [
        ("consumers", Fault::BeforeEffect, "the token reader failed", FailureClass::Transient),
        ("live_peer", Fault::BeforeEffect, "the peer resolver failed", FailureClass::Transient),
        ("retire", Fault::BeforeEffect, "the peer commander failed", FailureClass::Transient),
        ("retire", Fault::AfterEffect, "the peer commander failed", FailureClass::Unknown),
    ];
    for (method, fault, message, class) in rows {
        let world = MeshWorld::fresh();
        let token = world.enrolled_token().await.unwrap();
        let plan = FaultPlan::none().on(PortName::NodeDeregistrar, method, 1, fault);
        let faults = Faults::new(plan);
        let seams = Arc::new(world.mesh.clone());
        let deregistrar = ChainedNodeDeregistrar::new(
            faults.around::<dyn TokenReader>(seams.clone()),
            faults.around::<dyn PeerResolver>(seams.clone()),
            faults.around::<dyn PeerCommander>(seams),
        );
        let error = deregistrar.deregister(token).await.unwrap_err();
        assert_eq!((error.to_string().as_str(), error.class()), (message, class), "{method}");
        assert!(error.source().unwrap().to_string().contains(method), "the cause is kept");
        // The whole chain again is safe, whatever happened the first time.
        deregistrar.deregister(token).await.unwrap();
        assert!(!deregistrar.node_registered(token).await.unwrap(), "{method}");
    }
}

/// Nobody can tell about one token.
struct Patchy {
    mesh: ChainedNodeDeregistrar,
    unknown: BootstrapTokenId,
}

#[async_trait]
impl NodeDeregistrar for Patchy {
    async fn deregister(&self, token: BootstrapTokenId) -> Result<(), PortError> {
        self.mesh.deregister(token).await
    }

    async fn node_registered(&self, token: BootstrapTokenId) -> Result<bool, PortError> {
        if token == self.unknown {
            return Err(PortError::transient("its shard does not answer"));
        }
        self.mesh.node_registered(token).await
    }
}

#[tokio::test]
async fn what_is_unknown_of_one_token_is_its_own_error() {
    let world = MeshWorld::fresh();
    let mut tokens = Vec::new();
    for _ in 0..3 {
        tokens.push(world.enrolled_token().await.unwrap());
    }
    tokens.push(world.issued_token().await.unwrap());
    let patchy = Patchy { mesh: world.mesh.deregistrar(), unknown: tokens[1] };
    let answers = patchy.nodes_registered(&tokens).await.unwrap();
    let answers: Vec<_> = answers.into_iter().map(Result::ok).collect();
    assert_eq!(answers, [Some(true), None, Some(true), Some(false)]);
}

/// The Node joins right after somebody looked for its Peer: so many times.
struct Joining {
    mesh: MemoryMesh,
    times: AtomicU32,
}

#[async_trait]
impl PeerResolver for Joining {
    async fn live_peer(&self, node: NodeId) -> Result<Option<PeerId>, PortError> {
        let seen = self.mesh.peer(node);
        if self.times.try_update(Relaxed, Relaxed, |times| times.checked_sub(1)).is_ok() {
            self.mesh.leave(node);
            self.mesh.join(node).unwrap();
        }
        Ok(seen)
    }
}

#[tokio::test]
async fn a_peer_that_appears_is_drained_by_a_second_look() {
    for (times, drained) in [(0, true), (1, true), (2, true), (99, false)] {
        let world = MeshWorld::fresh();
        let token = world.enrolled_token().await.unwrap();
        let mesh = Arc::new(world.mesh.clone());
        let joining = Joining { mesh: world.mesh.clone(), times: times.into() };
        let deregistrar =
            ChainedNodeDeregistrar::new(mesh.clone(), Arc::new(joining), mesh.clone());
        let answer = deregistrar.deregister(token).await;
        assert_eq!(answer.is_ok(), drained, "{times}");
        if let Err(error) = answer {
            assert_eq!(error.class(), FailureClass::Transient);
            assert!(deregistrar.node_registered(token).await.unwrap(), "it did not leave");
        } else {
            assert!(!world.has_peer(token).await.unwrap(), "{times}");
            assert!(!world.join(token).await.unwrap(), "{times}");
        }
    }
}
