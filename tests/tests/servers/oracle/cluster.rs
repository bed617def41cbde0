//! The cluster: applies, deletions and reads by several workers, and people who change and delete by hand.
//!
//! There is no Crossplane on either side, so that nothing happens which the history does not say. Both have a garbage
//! collector, which a history waits for where it knows what has to come of it.

mod meddling;
mod side;
mod writing;

use broker_domain::ObjectReference;
use broker_ports::{LiveObject, ObjectVersion, OwnedKinds, OwnedQuery, PortError, XrReading};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::{compare, histories};
use crate::servers::kube::fixture::{Fixture, Subject};
use side::{Memory, Side};

/// How many calls a history has.
const STEPS: usize = 40;

#[tokio::test]
async fn a_cluster_in_memory_answers_as_an_api_server_does() {
    let fixture = Fixture::new().await;
    let seeds = histories(6, 300);
    let mut calls = 0;
    for seed in seeds.clone() {
        // The same names in both.
        let subject = fixture.machine();
        let memory = Memory::new(&subject);
        let memory = Player::new(&memory, &subject, seed).play().await;
        let real = Player::new(&fixture, &subject, seed).play().await;
        compare(seed, &memory, &real);
        calls += memory.len();
    }
    println!("proof: {} histories of a cluster, {calls} answers", seeds.end);
}

/// Somebody who plays a history on one cluster.
struct Player<'s> {
    side: &'s dyn Side,
    subject: &'s Subject,
    random: StdRng,
    /// Versions of the composite resource and of the ProviderConfig that somebody remembers, oldest first.
    known: [Vec<ObjectVersion>; 2],
    /// Every uid and version that was seen, so that they can be told by number.
    uids: Vec<String>,
    versions: Vec<String>,
    part: Option<ObjectReference>,
    step: u64,
    told: Vec<String>,
}

const XR: usize = 0;
const CONFIG: usize = 1;

impl<'s> Player<'s> {
    fn new(side: &'s dyn Side, subject: &'s Subject, seed: u64) -> Self {
        Self {
            side,
            subject,
            random: StdRng::seed_from_u64(seed),
            known: [Vec::new(), Vec::new()],
            uids: Vec::new(),
            versions: Vec::new(),
            part: None,
            step: 0,
            told: Vec::new(),
        }
    }

    async fn play(mut self) -> Vec<String> {
        for step in 0..STEPS {
            self.step = step as u64;
            self.call().await;
        }
        self.read().await;
        self.list().await;
        self.told
    }

    async fn call(&mut self) {
        match self.random.random_range(0..20) {
            0..3 => self.apply_shell().await,
            3..6 => self.arm().await,
            6..8 => self.apply_config().await,
            8 => self.rehearse().await,
            9 => self.delete(XR).await,
            10 => self.delete(CONFIG).await,
            11 => self.delete_by_hand().await,
            12 => self.change_by_hand().await,
            13 => self.say_ready().await,
            14 | 15 => self.compose_or_let_go().await,
            16 => self.list().await,
            _ => self.read().await,
        }
    }

    fn tell(&mut self, what: &str, answer: Result<String, PortError>) {
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => format!("{} {:?}", error.class(), error.refusal()),
        };
        let step = self.step;
        self.told.push(format!("{step}: {what}: {answer}"));
    }

    /// Which object and which version, by the order in which they were first seen.
    fn number(&mut self, version: &ObjectVersion) -> String {
        let place = |seen: &mut Vec<String>, it: String| {
            seen.iter().position(|other| *other == it).unwrap_or_else(|| {
                seen.push(it);
                seen.len() - 1
            })
        };
        let uid = place(&mut self.uids, version.uid.clone());
        let both = format!("{}@{}", version.uid, version.resource_version);
        let version = place(&mut self.versions, both);
        format!("object {uid} at {version}")
    }

    fn reference(&self, which: usize) -> ObjectReference {
        if which == XR {
            self.subject.reference()
        } else {
            self.subject.provider_config().reference().clone()
        }
    }

    async fn read(&mut self) {
        let reading = self.side.port().read(&self.subject.target()).await;
        let words = match reading {
            Err(error) => return self.tell("read", Err(error)),
            Ok(reading) => {
                let xr = match &reading.xr {
                    XrReading::Present(live) => {
                        self.known[XR].push(live.object.version().clone());
                        let number = self.number(live.object.version());
                        let (status, armed) = (&live.status, live.armed);
                        let references = &live.references;
                        let content = content(&live.object);
                        format!("{number} {status:?} {armed:?} {references:?} {content}")
                    }
                    absent @ (XrReading::Absent
                    | XrReading::NamespaceAbsent
                    | XrReading::KindAbsent) => format!("{absent:?}"),
                };
                let config = reading.provider_config.as_ref().map(|live| {
                    self.known[CONFIG].push(live.version().clone());
                    let number = self.number(live.version());
                    format!("{number} {} {}", live.is_being_deleted(), content(live))
                });
                format!("{xr}\n  {config:?}\n  {:?}", reading.labelled)
            }
        };
        self.tell("read", Ok(words));
    }

    async fn list(&mut self) {
        let config = self.reference(CONFIG);
        let configs = vec![(config.api_version().to_owned(), config.kind().to_owned())];
        let kinds = OwnedKinds::new(vec![self.subject.xr_target().xrd], configs);
        let mut query = OwnedQuery::new(kinds.clone());
        let mut found = Vec::new();
        loop {
            let page = match self.side.port().list_owned(&query).await {
                Ok(page) => page,
                Err(error) => return self.tell("list", Err(error)),
            };
            // The real server is everybody's.
            let own = page.objects.iter().filter(|it| it.reference.name() == config.name());
            found.extend(own.map(|it| format!("{:?} {}", it.role, it.deleting)));
            match page.next {
                Some(next) => query = OwnedQuery::new(kinds.clone()).after(next),
                None => break,
            }
        }
        found.sort();
        self.tell("list", Ok(found.join(", ")));
    }
}

/// What somebody wrote: spec, labels and annotations.
fn content(object: &LiveObject) -> String {
    let object = object.expose();
    let (spec, metadata) = (&object["spec"], &object["metadata"]);
    format!("{spec} {} {}", metadata["labels"], metadata["annotations"])
}
