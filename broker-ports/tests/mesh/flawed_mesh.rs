//! A mesh that is right but for one flaw.
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a flaw changes one thing, and all others leave that as it should be"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use broker_domain::BootstrapTokenId;
use broker_ports::memory::SequentialIds;
use broker_ports::testing::node_deregistrar::{
    MeshAgents, NodeDeregistrarUnderTest, SeamsUnderTest,
};
use broker_ports::{
    ChainedNodeDeregistrar, Consumer, FailureClass, NodeDeregistrar, NodeId, PeerCommander, PeerId,
    PeerResolver, PortError, Retired, TokenReader,
};

use super::half_way::half_way;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flaw {
    None,
    RegistersWhatWasIssued,
    RefusesEmptyBatches,
    RetiresEverybody,
    StaysUnderWayWhenDropped,
    DeregistersConsumedTokensOnly,
    RegisteredNeedsAPeer,
    BatchIsSorted,
    BatchAnswersATokenOnce,
    UnknownTokensAreErrors,
    ForgetsDeregisteredNodes,
    RetireMarksWhileAPeerLives,
    RetireDrainsWhateverLives,
    RetireForgetsTheMark,
    RetireNeedsAPeer,
    RetireWorksOnce,
    MarkedNodesJoin,
    MarksLongAfterItDrained,
    RetiresHalfWhenDropped,
    FindsPeersThatWentAway,
    GuessesUnregisteredInAnOutage,
    NoAnswerIsNoPeer,
    RetiresInAnOutage,
    DeregisterSwallowsAnOutage,
}

/// Seams and agents; the deregistrar is the shipped chain over it, but for one flaw of its own.
pub(super) struct FlawedMesh {
    seams: Arc<Seams>,
    deregistrar: FlawedChain,
}

struct FlawedChain {
    flaw: Flaw,
    chain: ChainedNodeDeregistrar,
    under_way: AtomicBool,
}

struct Seams {
    flaw: Flaw,
    ids: SequentialIds,
    books: Mutex<Books>,
}

#[derive(Default)]
struct Books {
    cut_off: bool,
    consumers: BTreeMap<BootstrapTokenId, Option<NodeId>>,
    nodes: BTreeMap<NodeId, Node>,
}

#[derive(Default)]
struct Node {
    marked: bool,
    peer: Option<PeerId>,
    last_peer: Option<PeerId>,
}

impl FlawedMesh {
    pub(super) fn with(flaw: Flaw) -> Self {
        let seams =
            Arc::new(Seams { flaw, ids: SequentialIds::seeded(5), books: Mutex::default() });
        let chain = ChainedNodeDeregistrar::new(seams.clone(), seams.clone(), seams.clone());
        let under_way = AtomicBool::default();
        Self { seams, deregistrar: FlawedChain { flaw, chain, under_way } }
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.seams.books()
    }

    fn issue(&self, consumer: Option<NodeId>) -> BootstrapTokenId {
        let token = BootstrapTokenId::new(self.seams.ids.uuid()).unwrap();
        self.books().consumers.insert(token, consumer);
        token
    }
}

impl Seams {
    fn has(&self, flaw: Flaw) -> bool {
        self.flaw == flaw
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap()
    }

    /// The books, unless nobody can reach them.
    fn reach(&self) -> Result<MutexGuard<'_, Books>, PortError> {
        let books = self.books();
        if books.cut_off { Err(PortError::transient("nobody answers")) } else { Ok(books) }
    }
}

impl Seams {
    /// Between the Peer that goes and the mark another one may come.
    async fn retire_in_two_steps(
        &self,
        node: NodeId,
        peer: Option<PeerId>,
    ) -> Result<Retired, PortError> {
        {
            let mut books = self.reach()?;
            let node = books.nodes.get_mut(&node).unwrap();
            if node.peer.is_some() && node.peer != peer {
                return Ok(Retired::PeerAppeared);
            }
            node.peer = None;
        }
        tokio::task::yield_now().await;
        self.reach()?.nodes.get_mut(&node).unwrap().marked = true;
        Ok(Retired::Done)
    }
}

impl Books {
    fn node(&mut self, token: BootstrapTokenId) -> &mut Node {
        let id = self.consumers[&token].unwrap();
        self.nodes.entry(id).or_default()
    }
}

#[async_trait]
impl TokenReader for Seams {
    async fn consumers(
        &self,
        tokens: &[BootstrapTokenId],
    ) -> Result<Vec<Option<Consumer>>, PortError> {
        if self.has(Flaw::RefusesEmptyBatches) && tokens.is_empty() {
            return Err(PortError::rejected("nothing was asked"));
        }
        let mut tokens = tokens.to_vec();
        if self.has(Flaw::BatchIsSorted) {
            tokens.sort_unstable();
        }
        let books = match self.reach() {
            Err(_) if self.has(Flaw::GuessesUnregisteredInAnOutage) => {
                return Ok(vec![None; tokens.len()]);
            }
            books => books?,
        };
        let mut asked = BTreeSet::new();
        let mut answers = Vec::new();
        for token in tokens {
            if self.has(Flaw::UnknownTokensAreErrors) && !books.consumers.contains_key(&token) {
                return Err(PortError::rejected("no such token"));
            }
            if self.has(Flaw::RegistersWhatWasIssued)
                && books.consumers.get(&token).is_some_and(Option::is_none)
            {
                answers.push(Some(Consumer::registered(NodeId::new(token.as_uuid())?)));
                continue;
            }
            let node = books.consumers.get(&token).copied().flatten();
            let consumer =
                node.map(|id| (id, &books.nodes[&id])).filter(|(_, node)| match self.flaw {
                    Flaw::RegisteredNeedsAPeer => node.peer.is_some(),
                    Flaw::ForgetsDeregisteredNodes => !node.marked,
                    Flaw::BatchAnswersATokenOnce => asked.insert(token),
                    _ => true,
                });
            answers.push(consumer.map(|(id, node)| {
                if node.marked { Consumer::deregistered(id) } else { Consumer::registered(id) }
            }));
        }
        Ok(answers)
    }
}

#[async_trait]
impl PeerResolver for Seams {
    async fn live_peer(&self, node: NodeId) -> Result<Option<PeerId>, PortError> {
        let books = match self.reach() {
            Err(_) if self.has(Flaw::NoAnswerIsNoPeer) => return Ok(None),
            books => books?,
        };
        let node = &books.nodes[&node];
        Ok(if self.has(Flaw::FindsPeersThatWentAway) { node.last_peer } else { node.peer })
    }
}

#[async_trait]
impl PeerCommander for Seams {
    async fn retire(&self, node: NodeId, peer: Option<PeerId>) -> Result<Retired, PortError> {
        if self.has(Flaw::RetiresHalfWhenDropped) {
            if self.reach()?.nodes[&node].marked {
                return Ok(Retired::Done);
            }
            half_way(|| self.books().nodes.get_mut(&node).unwrap().marked = true).await;
        }
        if self.has(Flaw::MarksLongAfterItDrained) {
            return self.retire_in_two_steps(node, peer).await;
        }
        let mut books = match self.reach() {
            Err(_) if self.has(Flaw::RetiresInAnOutage) => return Ok(Retired::Done),
            books => books?,
        };
        if self.has(Flaw::RetiresEverybody) {
            books.nodes.values_mut().for_each(|node| node.peer = None);
        }
        let node = books.nodes.get_mut(&node).unwrap();
        if self.has(Flaw::RetireWorksOnce) && node.marked {
            return Err(PortError::rejected("it left before"));
        }
        if self.has(Flaw::RetireNeedsAPeer) && node.peer.is_none() {
            return Err(PortError::rejected("it has no peer"));
        }
        if node.peer.is_some() && node.peer != peer {
            match self.flaw {
                Flaw::RetireMarksWhileAPeerLives => {
                    node.marked = true;
                    return Ok(Retired::Done);
                }
                Flaw::RetireDrainsWhateverLives => {}
                _ => return Ok(Retired::PeerAppeared),
            }
        }
        node.peer = None;
        node.marked = !self.has(Flaw::RetireForgetsTheMark);
        Ok(Retired::Done)
    }
}

#[async_trait]
impl NodeDeregistrar for FlawedChain {
    async fn deregister(&self, token: BootstrapTokenId) -> Result<(), PortError> {
        if self.flaw == Flaw::StaysUnderWayWhenDropped {
            if self.under_way.load(Ordering::Relaxed) {
                return Err(PortError::transient("somebody else is at it"));
            }
            half_way(|| self.under_way.store(true, Ordering::Relaxed)).await;
        }
        if self.flaw == Flaw::DeregistersConsumedTokensOnly
            && !self.chain.node_registered(token).await?
        {
            return Err(PortError::rejected("nobody consumed it"));
        }
        match (self.flaw, self.chain.deregister(token).await) {
            (Flaw::DeregisterSwallowsAnOutage, Err(error))
                if error.class() == FailureClass::Transient =>
            {
                Ok(())
            }
            (_, answer) => answer,
        }
    }

    async fn node_registered(&self, token: BootstrapTokenId) -> Result<bool, PortError> {
        self.chain.node_registered(token).await
    }

    async fn nodes_registered(
        &self,
        tokens: &[BootstrapTokenId],
    ) -> Result<Vec<Result<bool, PortError>>, PortError> {
        self.chain.nodes_registered(tokens).await
    }
}

#[async_trait]
impl MeshAgents for FlawedMesh {
    async fn issued_token(&self) -> Result<BootstrapTokenId, PortError> {
        Ok(self.issue(None))
    }

    async fn enrolled_token(&self) -> Result<BootstrapTokenId, PortError> {
        let node = NodeId::new(self.seams.ids.uuid()).unwrap();
        self.books().nodes.insert(node, Node::default());
        Ok(self.issue(Some(node)))
    }

    async fn join(&self, token: BootstrapTokenId) -> Result<bool, PortError> {
        let fresh = PeerId::new(self.seams.ids.uuid()).unwrap();
        let mut books = self.books();
        let node = books.node(token);
        let allowed = !node.marked || self.seams.has(Flaw::MarkedNodesJoin);
        if allowed {
            node.peer = node.peer.or(Some(fresh));
            node.last_peer = node.peer;
        }
        Ok(allowed)
    }

    async fn leave(&self, token: BootstrapTokenId) -> Result<(), PortError> {
        self.books().node(token).peer = None;
        Ok(())
    }

    async fn has_peer(&self, token: BootstrapTokenId) -> Result<bool, PortError> {
        Ok(self.books().node(token).peer.is_some())
    }

    async fn cut_off(&self) -> Result<(), PortError> {
        self.books().cut_off = true;
        Ok(())
    }
}

impl NodeDeregistrarUnderTest for FlawedMesh {
    fn deregistrar(&self) -> &dyn NodeDeregistrar {
        &self.deregistrar
    }
}

impl SeamsUnderTest for FlawedMesh {
    fn tokens(&self) -> &dyn TokenReader {
        &*self.seams
    }

    fn peers(&self) -> &dyn PeerResolver {
        &*self.seams
    }

    fn commander(&self) -> &dyn PeerCommander {
        &*self.seams
    }
}
