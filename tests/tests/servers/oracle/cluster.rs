//! The cluster: applies, deletions and reads by several workers, and people who change and delete by hand.
//!
//! There is no Crossplane on either side, so that nothing happens which the history does not say. Both have a garbage
//! collector, which a history waits for where it knows what has to come of it.

use std::sync::Arc;

use async_trait::async_trait;
use broker_domain::{ClusterId, ObjectReference};
use broker_ports::memory::{KindScope, ManualClock, MemoryCluster, Part};
use broker_ports::testing::builders::second;
use broker_ports::{
    Applied, ApplyRequest, Cluster, DeleteRequest, DryRun, LiveObject, ObjectVersion, OwnedKinds,
    OwnedQuery, PortError, XrReading,
};
use broker_render::{Precondition, Xrd, namespace};
use broker_tests::until;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

use super::{compare, histories};
use crate::servers::kube::fixture::{Fixture, MACHINE, Subject, document, part_kind, spec};

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

/// A cluster, and what others do there.
#[async_trait]
trait Side: Sync {
    fn port(&self) -> &dyn Cluster;
    async fn object(&self, target: &ObjectReference) -> Option<Value>;
    async fn patch(&self, target: &ObjectReference, patch: Value);
    async fn delete_by_hand(&self, target: &ObjectReference);
    async fn compose(&self, subject: &Subject, owner_uid: &str) -> ObjectReference;
    /// Waits until an object is gone, or, where something holds it, until its deletion was accepted.
    async fn settle(&self, target: &ObjectReference, held: bool);
}

#[async_trait]
impl Side for Fixture {
    fn port(&self) -> &dyn Cluster {
        &self.port
    }

    async fn object(&self, target: &ObjectReference) -> Option<Value> {
        Fixture::object(self, target).await
    }

    async fn patch(&self, target: &ObjectReference, patch: Value) {
        Fixture::patch(self, "somebody", target, patch).await;
    }

    async fn delete_by_hand(&self, target: &ObjectReference) {
        self.delete_in_background(target).await;
    }

    async fn compose(&self, subject: &Subject, owner_uid: &str) -> ObjectReference {
        Fixture::compose(self, subject, owner_uid).await
    }

    async fn settle(&self, target: &ObjectReference, held: bool) {
        until(format!("{target} to go"), || async {
            is_settled(Fixture::object(self, target).await.as_ref(), held).then_some(())
        })
        .await;
    }
}

/// The simulated cluster without Crossplane.
struct Memory(MemoryCluster);

impl Memory {
    fn new(subject: &Subject) -> Self {
        let clock = Arc::new(ManualClock::at(second(10_000)));
        let cluster = MemoryCluster::new(clock, ClusterId::new("kube-system-uid").unwrap());
        let installed = document(MACHINE, &[("v1", true)], &spec(&json!({"type": "string"})));
        let installed = Xrd::parse(installed.to_string().as_bytes()).unwrap();
        cluster.install_xrd(&Arc::new(installed));
        let config = subject.provider_config().reference().clone();
        for (api_version, kind) in [
            (part_kind().api_version, part_kind().kind),
            (config.api_version().to_owned(), config.kind().to_owned()),
        ] {
            cluster.install_kind(&api_version, &kind, KindScope::Namespaced);
        }
        cluster.create_namespace(namespace(subject.identity.project).as_str());
        cluster.stop(Part::Crossplane);
        Self(cluster)
    }
}

#[async_trait]
impl Side for Memory {
    fn port(&self) -> &dyn Cluster {
        &self.0
    }

    async fn object(&self, target: &ObjectReference) -> Option<Value> {
        self.0.object(target)
    }

    async fn patch(&self, target: &ObjectReference, patch: Value) {
        self.0.patch_as("somebody", target, &patch);
    }

    async fn delete_by_hand(&self, target: &ObjectReference) {
        self.0.delete_in_background(target);
    }

    async fn compose(&self, subject: &Subject, owner_uid: &str) -> ObjectReference {
        let (part, object) = subject.composed(owner_uid);
        self.0.create_as("crossplane", &part, &object);
        part
    }

    async fn settle(&self, target: &ObjectReference, held: bool) {
        for _ in 0..10 {
            self.0.tick();
        }
        assert!(is_settled(self.0.object(target).as_ref(), held), "{target} in memory");
    }
}

/// Gone, or, where something holds it, on its way out.
fn is_settled(object: Option<&Value>, held: bool) -> bool {
    match object {
        None => true,
        Some(object) => held && object.pointer("/metadata/deletionTimestamp").is_some(),
    }
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

    /// On nothing, on the newest version that somebody remembers, or on an older one.
    fn precondition(&mut self, which: usize) -> Precondition {
        let known = &self.known[which];
        let Some(newest) = known.last() else { return Precondition::Absent };
        match self.random.random_range(0..6) {
            0 => Precondition::Absent,
            1 => known[self.random.random_range(0..known.len())].unchanged(),
            _ => newest.unchanged(),
        }
    }

    fn words(precondition: &Precondition) -> &'static str {
        match precondition {
            Precondition::Absent => "onto a free name",
            Precondition::Unchanged { .. } => "onto what was seen",
        }
    }

    async fn apply(&mut self, what: &str, which: usize, request: ApplyRequest) {
        let what = format!("{what} {}", Self::words(request.precondition()));
        let applied = self.side.port().apply(&request).await;
        let applied = applied.map(|applied| match applied {
            Applied::Done(version) => {
                self.known[which].push(version.clone());
                format!("done, {}", self.number(&version))
            }
            Applied::Conflict => "conflict".to_owned(),
            Applied::NameTaken => "name taken".to_owned(),
        });
        self.tell(&what, applied);
    }

    async fn apply_shell(&mut self) {
        let precondition = self.precondition(XR);
        let epoch = self.random.random_range(1..4);
        let shell = self.subject.xr().shell(epoch);
        let request = ApplyRequest::open(self.subject.identity.project, shell, precondition);
        self.apply(&format!("shell of epoch {epoch}"), XR, request).await;
    }

    async fn arm(&mut self) {
        let precondition = self.precondition(XR);
        let armed = self.subject.sealed();
        let request = ApplyRequest::sealed(self.subject.identity.project, armed, precondition);
        self.apply("arm", XR, request).await;
    }

    async fn apply_config(&mut self) {
        let precondition = self.precondition(CONFIG);
        let config = self.subject.provider_config();
        let request = ApplyRequest::open(self.subject.identity.project, config, precondition);
        self.apply("ProviderConfig", CONFIG, request).await;
    }

    async fn rehearse(&mut self) {
        let precondition = self.precondition(XR);
        let shell = self.subject.xr().shell(9);
        let what = format!("rehearse {}", Self::words(&precondition));
        let request = ApplyRequest::open(self.subject.identity.project, shell, precondition);
        let rehearsed = self.side.port().dry_run(&request).await;
        self.tell(
            &what,
            rehearsed.map(|rehearsed| match rehearsed {
                DryRun::Accepted(object) => format!("accepted, {}", content(&object)),
                DryRun::Conflict => "conflict".to_owned(),
            }),
        );
    }

    fn reference(&self, which: usize) -> ObjectReference {
        if which == XR {
            self.subject.reference()
        } else {
            self.subject.provider_config().reference().clone()
        }
    }

    async fn delete(&mut self, which: usize) {
        let target = self.reference(which);
        let known = &self.known[which];
        let uid = match known.last() {
            Some(newest) if self.random.random_range(0..4) > 0 => newest.uid.clone(),
            Some(_) => known[self.random.random_range(0..known.len())].uid.clone(),
            None => "00000000-0000-0000-0000-000000000001".to_owned(),
        };
        let stood = self.side.object(&target).await;
        let request = DeleteRequest::new(self.subject.identity.project, &target, &uid);
        let deleted = self.side.port().delete(&request).await;
        let hit = stood.is_some_and(|object| object.pointer("/metadata/uid") == Some(&json!(uid)));
        if hit && deleted.is_ok() {
            let held = which == XR && self.part.is_some();
            self.side.settle(&target, held).await;
            if held {
                self.settle_part().await;
            }
        }
        self.tell(&format!("delete {}", target.kind()), deleted.map(|it| format!("{it:?}")));
    }

    async fn delete_by_hand(&mut self) {
        let target = self.reference(XR);
        if self.side.object(&target).await.is_some() {
            self.side.delete_by_hand(&target).await;
            self.side.settle(&target, false).await;
            if self.part.is_some() {
                self.settle_part().await;
            }
            self.tell("somebody deletes it", Ok(String::new()));
        }
    }

    /// The garbage collector has been at what was composed; its finalizer holds it.
    async fn settle_part(&self) {
        if let Some(part) = &self.part {
            self.side.settle(part, true).await;
        }
    }

    async fn change_by_hand(&mut self) {
        let target = self.reference(XR);
        if self.side.object(&target).await.is_none() {
            return;
        }
        let step = self.step.to_string();
        let (what, patch) = match self.random.random_range(0..3) {
            0 => ("a label", json!({"metadata": {"labels": {"team": step}}})),
            1 => ("a field of its own", json!({"spec": {"parameters": {"note": step}}})),
            _ => ("a field of ours", json!({"spec": {"parameters": {"size": "large"}}})),
        };
        self.side.patch(&target, patch).await;
        self.tell(&format!("somebody writes {what}"), Ok(String::new()));
    }

    async fn say_ready(&mut self) {
        let target = self.reference(XR);
        if self.side.object(&target).await.is_none() {
            return;
        }
        let references = json!({"spec": {"crossplane": {"resourceRefs": [
            {"apiVersion": part_kind().api_version, "kind": part_kind().kind, "name": "named"},
        ]}}});
        self.side.patch(&target, references).await;
        self.tell("somebody names what it refers to", Ok(String::new()));
    }

    async fn compose_or_let_go(&mut self) {
        let owner = self.side.object(&self.reference(XR)).await;
        match (self.part.take(), owner) {
            (None, Some(owner)) if owner.pointer("/metadata/deletionTimestamp").is_none() => {
                let uid = owner["metadata"]["uid"].as_str().unwrap().to_owned();
                self.part = Some(self.side.compose(self.subject, &uid).await);
                self.tell("a part is composed", Ok(String::new()));
            }
            (None, _) => {}
            (Some(part), _) => {
                // Unless its owner leaves, it stands where it is; then nothing would ever remove it.
                let leaving = self
                    .side
                    .object(&part)
                    .await
                    .is_none_or(|part| part.pointer("/metadata/deletionTimestamp").is_some());
                if !leaving {
                    self.part = Some(part);
                    return;
                }
                self.side.patch(&part, json!({"metadata": {"finalizers": []}})).await;
                self.side.settle(&part, false).await;
                let xr = self.reference(XR);
                let goes = self.side.object(&xr).await;
                let goes =
                    goes.is_some_and(|xr| xr.pointer("/metadata/deletionTimestamp").is_some());
                if goes {
                    self.side.settle(&xr, false).await;
                }
                self.tell("a part is let go", Ok(String::new()));
            }
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
