//! The contracts of [`NodeDeregistrar`], and of the three seams that the shipped one chains.

mod cases;
mod outage;
mod seams;

use async_trait::async_trait;
use broker_domain::BootstrapTokenId;
use uuid::Uuid;

use super::cases::suite_of;
use crate::{Suite, Violation};
use broker_ports::PortError;
use broker_ports::{NodeDeregistrar, PeerCommander, PeerResolver, TokenReader};

/// What happens out there, without the broker's doing. Any error ends the case as a violation.
#[async_trait]
pub trait MeshAgents: Send + Sync {
    /// A token was issued that nobody consumes, another one each time.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn issued_token(&self) -> Result<BootstrapTokenId, PortError>;

    /// A token was issued and an agent consumed it; its Node has no Peer yet. Another one each time.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn enrolled_token(&self) -> Result<BootstrapTokenId, PortError>;

    /// The Node of the token tries to bring up a Peer: whether it was let.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn join(&self, token: BootstrapTokenId) -> Result<bool, PortError>;

    /// The Node's Peer goes away by itself, as on a reboot.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn leave(&self, token: BootstrapTokenId) -> Result<(), PortError>;

    /// Whether the Node of the token has a live Peer, by the mesh's own books.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn has_peer(&self, token: BootstrapTokenId) -> Result<bool, PortError>;

    /// Cuts deregistrar and seams off for the rest of the case from whatever they talk to: closes their pool,
    /// stops their server.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn cut_off(&self) -> Result<(), PortError>;
}

/// A deregistrar and its mesh.
pub trait NodeDeregistrarUnderTest: MeshAgents {
    /// The deregistrar.
    fn deregistrar(&self) -> &dyn NodeDeregistrar;
}

/// The three seams and their mesh.
pub trait SeamsUnderTest: MeshAgents {
    /// From a token to the Node that consumed it.
    fn tokens(&self) -> &dyn TokenReader;

    /// From a Node to its live Peer.
    fn peers(&self) -> &dyn PeerResolver;

    /// What makes a Node leave.
    fn commander(&self) -> &dyn PeerCommander;
}

/// Every promise of [`NodeDeregistrar`].
pub fn suite<W: NodeDeregistrarUnderTest + 'static>() -> Suite<W> {
    let mut cases = suite_of!(cases {
        a_consumed_token_is_registered,
        a_peer_does_not_change_that,
        an_unconsumed_token_is_not_registered,
        an_unknown_token_is_not_registered,
        deregister_drains_the_peer,
        deregister_without_a_peer_is_success,
        deregister_of_an_unconsumed_token_is_success,
        deregister_of_an_unknown_token_is_success,
        deregister_twice_is_once,
        deregister_that_was_dropped_is_finished_by_the_next,
        a_deregistered_node_gets_no_peer,
        join_against_deregister_leaves_no_peer,
        nodes_do_not_disturb_each_other,
        a_batch_equals_its_questions_in_order,
        an_empty_batch_is_empty,
    });
    cases.extend(suite_of!(outage {
        a_deregistrar_that_is_cut_off_never_answers_with_absence,
        a_deregistrar_that_is_cut_off_deregisters_nothing,
    }));
    Suite::new(cases)
}

/// Every promise of [`TokenReader`], [`PeerResolver`] and [`PeerCommander`].
pub fn seams_suite<W: SeamsUnderTest + 'static>() -> Suite<W> {
    let mut cases = suite_of!(seams {
        consumers_answer_in_order,
        a_live_peer_is_found,
        retire_drains_the_named_peer_and_marks,
        retire_without_a_peer_marks,
        retire_with_a_peer_that_is_gone_marks,
        retire_twice_is_once,
        retire_that_was_dropped_is_finished_by_the_next,
        join_against_retire_has_one_winner,
        retire_leaves_a_node_whose_peer_was_not_named,
        retire_leaves_a_node_whose_peer_is_another,
        a_marked_node_gets_no_peer,
    });
    cases.extend(suite_of!(outage {
        seams_that_are_cut_off_never_answer_with_absence,
        a_commander_that_is_cut_off_retires_nothing,
    }));
    Suite::new(cases)
}

/// A token that nobody ever issued.
fn unknown_token() -> Result<BootstrapTokenId, Violation> {
    Ok(BootstrapTokenId::new(Uuid::from_u128(0x00dd))?)
}
