//! Token issuer and mesh: workers whose epochs are over, agents that enrol with whatever they find, Nodes that are told
//! to leave, and time.

mod side;

use std::sync::Arc;
use std::time::Duration;

use broker_domain::{BootstrapTokenId, ProvisionedResourceId, TokenOrdinal};
use broker_ports::{Issue, IssueRequest, LeaseEpoch, NodeId, PortError};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use secrecy::ExposeSecret;

use super::{compare, histories};
use crate::servers::pg::fresh_database;
use crate::servers::pg::neighbours::world::World;
use side::{Memory, Side};

/// How many calls a history has.
const STEPS: usize = 50;
/// How many resources it is about.
const RESOURCES: usize = 2;
/// How long a token lives, and how far time moves: what is over is over by far, whatever a server takes to answer.
const TTL: Duration = Duration::from_hours(1);
const A_WHILE: Duration = Duration::from_mins(40);

#[tokio::test]
async fn a_mesh_in_memory_answers_as_postgres_does() {
    let database = Arc::new(fresh_database().await);
    let real = World::over(&database);
    let seeds = histories(25, 1_000);
    let mut calls = 0;
    for seed in seeds.clone() {
        // The same ids in both, which the database has never heard of.
        let resources = [(); RESOURCES].map(|()| World::new_resource());
        let memory = Player::new(&Memory::new(), resources, seed).play().await;
        let real = Player::new(&real, resources, seed).play().await;
        compare(seed, &memory, &real);
        calls += memory.len();
    }
    println!("proof: {} histories of a mesh, {calls} answers", seeds.end);
}

/// Somebody who plays a history on one mesh.
struct Player<'s> {
    side: &'s dyn Side,
    resources: [ProvisionedResourceId; RESOURCES],
    random: StdRng,
    /// Every token that was issued, with its plaintext, and every Node that enrolled, each by number.
    tokens: Vec<(BootstrapTokenId, String)>,
    nodes: Vec<NodeId>,
    step: usize,
    told: Vec<String>,
}

impl<'s> Player<'s> {
    fn new(side: &'s dyn Side, resources: [ProvisionedResourceId; RESOURCES], seed: u64) -> Self {
        let random = StdRng::seed_from_u64(seed);
        let (tokens, nodes, told) = (Vec::new(), Vec::new(), Vec::new());
        Self { side, resources, random, tokens, nodes, step: 0, told }
    }

    async fn play(mut self) -> Vec<String> {
        for step in 0..STEPS {
            self.step = step;
            self.call().await;
        }
        for number in 0..self.tokens.len() {
            self.state(number).await;
            self.registered(number).await;
        }
        self.told
    }

    /// One call, as the dice say.
    async fn call(&mut self) {
        match self.random.random_range(0..32) {
            0..9 => self.issue().await,
            9..16 => self.enrol().await,
            16..19 => self.come_or_go().await,
            19..22 => {
                let Some(number) = self.any_token() else { return };
                let left = self.side.nodes().deregister(self.tokens[number].0).await;
                self.tell(
                    &format!("token {number}: its node leaves"),
                    &words(left, |()| String::new()),
                );
            }
            22..25 => {
                let Some(number) = self.any_token() else { return };
                self.state(number).await;
            }
            25..28 => {
                let Some(number) = self.any_token() else { return };
                self.registered(number).await;
            }
            28 => self.registered_all().await,
            29 => {
                let which = self.random.random_range(0..RESOURCES);
                let closed = self.side.issuer().close(self.resources[which]).await;
                self.tell(&format!("close {which}"), &words(closed, |()| String::new()));
            }
            _ => {
                self.side.advance(A_WHILE).await;
                self.tell("time passes", "");
            }
        }
    }

    fn any_token(&mut self) -> Option<usize> {
        (!self.tokens.is_empty()).then(|| self.random.random_range(0..self.tokens.len()))
    }

    fn tell(&mut self, what: &str, answer: &str) {
        let step = self.step;
        self.told.push(format!("{step}: {what}: {answer}"));
    }

    /// By a worker whose epoch may be over, under an ordinal that may have been used.
    async fn issue(&mut self) {
        let which = self.random.random_range(0..RESOURCES);
        let ordinal = self.random.random_range(1..4);
        let epoch = self.random.random_range(1..5);
        let request = IssueRequest::new(
            self.resources[which],
            TokenOrdinal::new(ordinal).unwrap(),
            LeaseEpoch::new(epoch),
            TTL,
        );
        let issued = self.side.issuer().issue(&request).await;
        let answer = words(issued, |issued| match issued {
            Issue::Issued(token) => {
                let plaintext = token.plaintext.secret().expose_secret().to_owned();
                self.tokens.push((token.id, plaintext));
                format!("token {}", self.tokens.len() - 1)
            }
            Issue::Consumed { id } => {
                let number = self.tokens.iter().position(|(known, _)| *known == id);
                format!("consumed, token {number:?}")
            }
        });
        self.tell(&format!("issue {ordinal} of {which} in {epoch}"), &answer);
    }

    /// With a token that was issued at some time, or with a guess.
    async fn enrol(&mut self) {
        let guess = (usize::MAX, "a guess".to_owned());
        let (number, plaintext) = match self.any_token() {
            Some(number) if self.random.random_range(0..10) > 0 => {
                (number, self.tokens[number].1.clone())
            }
            Some(_) | None => guess,
        };
        let answer = match self.side.enrol(&plaintext).await {
            Ok(node) => {
                self.nodes.push(node);
                format!("node {}", self.nodes.len() - 1)
            }
            Err(refused) => refused,
        };
        self.tell(&format!("enrol with {number}"), &answer);
    }

    async fn come_or_go(&mut self) {
        if self.nodes.is_empty() {
            return;
        }
        let number = self.random.random_range(0..self.nodes.len());
        let node = self.nodes[number];
        if self.random.random() {
            let answer = self.side.join(node).await.err().unwrap_or_default();
            self.tell(&format!("node {number} joins"), &answer);
        } else {
            self.side.leave(node).await;
            self.tell(&format!("node {number} leaves"), "");
        }
    }

    async fn state(&mut self, number: usize) {
        let state = self.side.issuer().state(self.tokens[number].0).await;
        let answer = words(state, |state| {
            // The moment is the adapter's own.
            let state = state.map(|state| format!("{state:?}"));
            state.and_then(|state| state.split(' ').next().map(str::to_owned)).unwrap_or_default()
        });
        self.tell(&format!("token {number}"), &answer);
    }

    async fn registered(&mut self, number: usize) {
        let registered = self.side.nodes().node_registered(self.tokens[number].0).await;
        self.tell(&format!("the node of {number}"), &words(registered, |yes| yes.to_string()));
    }

    async fn registered_all(&mut self) {
        let tokens: Vec<_> = self.tokens.iter().map(|(token, _)| *token).collect();
        let all = self.side.nodes().nodes_registered(&tokens).await;
        let answer = words(all, |all| {
            let each = all.into_iter().map(|one| words(one, |yes| yes.to_string()));
            each.collect::<Vec<_>>().join(", ")
        });
        self.tell("every node", &answer);
    }
}

fn words<T>(answer: Result<T, PortError>, say: impl FnOnce(T) -> String) -> String {
    match answer {
        Ok(answer) => say(answer),
        Err(error) => error.class().to_string(),
    }
}
