//! The cluster: applies, deletions and reads by several workers, and changes and deletions by other
//! parties.
//!
//! Neither side has Crossplane, so that only the history's steps change anything. Both have a
//! garbage collector; a history waits for it where its effect is defined.

mod side;

use broker_domain::ObjectReference;
use broker_ports::{
    Applied, ApplyRequest, DeleteRequest, DryRun, LiveObject, ObjectVersion, OwnedKinds,
    OwnedQuery, XrReading,
};
use broker_render::Precondition;
use serde_json::{Value, json};

use super::{Transcript, compare, histories};
use crate::servers::kube::fixture::{Fixture, Subject, part_kind};
use side::{Memory, Side};

const STEPS: u32 = 40;

#[tokio::test]
async fn memory_cluster_answers_like_an_api_server() {
    let fixture = Fixture::new().await;
    let seeds = histories(6, 300);
    let mut calls = 0;
    for seed in seeds.clone() {
        // The same names on both sides.
        let subject = fixture.machine();
        let memory = Player::new(&Memory::new(&subject), &subject, seed).play().await;
        let real = Player::new(&fixture, &subject, seed).play().await;
        compare(seed, &memory, &real);
        calls += memory.len();
    }
    println!("proof: {} histories of a cluster, {calls} answers", seeds.end);
}

struct Player<'s> {
    side: &'s dyn Side,
    subject: &'s Subject,
    transcript: Transcript,
    /// Composite resource and ProviderConfig, with their remembered versions, oldest first.
    targets: [ObjectReference; 2],
    known: [Vec<ObjectVersion>; 2],
    /// Every uid and version seen, to report them by number.
    seen: Vec<String>,
    part: Option<ObjectReference>,
}

const XR: usize = 0;
const CONFIG: usize = 1;

impl<'s> Player<'s> {
    fn new(side: &'s dyn Side, subject: &'s Subject, seed: u64) -> Self {
        let targets = [subject.reference(), subject.provider_config().reference().clone()];
        let (transcript, known) = (Transcript::of(seed), [Vec::new(), Vec::new()]);
        Self { side, subject, transcript, targets, known, seen: Vec::new(), part: None }
    }

    async fn play(mut self) -> Vec<String> {
        for step in 0..STEPS {
            self.transcript.step = step;
            match self.dice(20) {
                0..3 => {
                    let shell = self.subject.xr().shell(1 + u64::from(self.dice(3)));
                    self.apply("shell", XR, |project, on| ApplyRequest::open(project, shell, on))
                        .await;
                }
                3..6 => {
                    let armed = self.subject.sealed();
                    self.apply("arm", XR, |project, on| ApplyRequest::sealed(project, armed, on))
                        .await;
                }
                6 | 7 => {
                    let config = self.subject.provider_config();
                    self.apply("config", CONFIG, |project, on| {
                        ApplyRequest::open(project, config, on)
                    })
                    .await;
                }
                8 => self.rehearse().await,
                9 => self.delete(XR).await,
                10 => self.delete(CONFIG).await,
                11 => self.delete_by_hand().await,
                12 | 13 => self.change_by_hand().await,
                14 | 15 => self.compose_or_let_go().await,
                16 => self.list().await,
                _ => self.read().await,
            }
        }
        self.read().await;
        self.list().await;
        self.transcript.told
    }

    fn dice(&mut self, sides: u32) -> u32 {
        self.transcript.dice(sides)
    }

    /// Object and version, numbered in the order in which they were first seen.
    fn number(&mut self, version: &ObjectVersion) -> [usize; 2] {
        let both = format!("{}@{}", version.uid, version.resource_version);
        [version.uid.clone(), both].map(|it| {
            self.seen.iter().position(|other| *other == it).unwrap_or_else(|| {
                self.seen.push(it);
                self.seen.len() - 1
            })
        })
    }

    async fn target(&self, which: usize) -> Option<Value> {
        self.side.object(&self.targets[which]).await
    }

    /// A remembered version, mostly the newest.
    fn remembered(&mut self, which: usize) -> Option<ObjectVersion> {
        let older = if self.dice(5) == 0 { self.dice(8) as usize } else { 0 };
        let known = &self.known[which];
        known.iter().rev().cycle().nth(older).cloned()
    }

    /// None, the newest remembered version, or an older one.
    fn precondition(&mut self, which: usize) -> Precondition {
        let remembered = self.remembered(which).filter(|_| self.transcript.dice(6) > 0);
        remembered.map_or(Precondition::Absent, |version| version.unchanged())
    }

    async fn apply(
        &mut self,
        what: &str,
        which: usize,
        request: impl FnOnce(broker_domain::ProjectId, Precondition) -> ApplyRequest,
    ) {
        let on = self.precondition(which);
        let on_nothing = matches!(on, Precondition::Absent);
        let applied = self.side.port().apply(&request(self.subject.identity.project, on)).await;
        let applied = applied.map(|applied| match applied {
            Applied::Done(version) => {
                self.known[which].push(version.clone());
                format!("done, {:?}", self.number(&version))
            }
            lost @ (Applied::Conflict | Applied::NameTaken) => format!("{lost:?}"),
        });
        self.transcript.tell(&format!("{what}, on nothing: {on_nothing}"), applied);
    }

    async fn rehearse(&mut self) {
        let on = self.precondition(XR);
        let shell = self.subject.xr().shell(9);
        let request = ApplyRequest::open(self.subject.identity.project, shell, on);
        let rehearsed = self.side.port().dry_run(&request).await;
        let rehearsed = rehearsed.map(|rehearsed| match rehearsed {
            DryRun::Accepted(object) => content(&object),
            DryRun::Conflict => "conflict".to_owned(),
        });
        self.transcript.tell("rehearse", rehearsed);
    }

    async fn delete(&mut self, which: usize) {
        let target = self.targets[which].clone();
        let uid = self.remembered(which).map(|version| version.uid);
        let uid = uid.unwrap_or_else(|| "00000000-0000-0000-0000-000000000001".to_owned());
        let stood = self.target(which).await;
        let request = DeleteRequest::new(self.subject.identity.project, &target, &uid);
        let deleted = self.side.port().delete(&request).await;
        if deleted.is_ok() && stood.is_some_and(|object| object["metadata"]["uid"] == json!(uid)) {
            // The composed object holds this owner, and not a later one of the same name.
            let part = match &self.part {
                Some(part) if which == XR => self.side.object(part).await,
                _ => None,
            };
            let held = part
                .is_some_and(|part| part["metadata"]["ownerReferences"][0]["uid"] == json!(uid));
            self.side.settle(&target, held).await;
            if held {
                self.settle_part().await;
            }
        }
        self.transcript.tell(&format!("delete {}", target.kind()), deleted);
    }

    /// Waits until the garbage collector has handled the composed object; its finalizer holds it.
    async fn settle_part(&self) {
        if let Some(part) = &self.part {
            self.side.settle(part, true).await;
        }
    }

    async fn delete_by_hand(&mut self) {
        if self.target(XR).await.is_some() {
            self.side.delete_by_hand(&self.targets[XR]).await;
            self.side.settle(&self.targets[XR], false).await;
            self.settle_part().await;
        }
    }

    async fn change_by_hand(&mut self) {
        let step = self.transcript.step.to_string();
        let patch = match self.dice(4) {
            0 => json!({"metadata": {"labels": {"team": step}}}),
            1 => json!({"spec": {"parameters": {"note": step}}}),
            2 => json!({"spec": {"parameters": {"size": "large"}}}),
            _ => json!({"spec": {"crossplane": {"resourceRefs": [
                {"apiVersion": part_kind().api_version, "kind": part_kind().kind, "name": "named"},
            ]}}}),
        };
        if self.target(XR).await.is_some() {
            self.side.patch(&self.targets[XR], patch).await;
        }
    }

    async fn compose_or_let_go(&mut self) {
        let is_leaving = |it: &Value| it.pointer("/metadata/deletionTimestamp").is_some();
        let owner = self.target(XR).await;
        let Some(part) = self.part.clone() else {
            if let Some(owner) = owner.filter(|owner| !is_leaving(owner)) {
                let uid = owner["metadata"]["uid"].as_str().unwrap();
                self.part = Some(self.side.compose(self.subject, uid).await);
            }
            return;
        };
        // Unless its owner is being deleted, nothing removes it.
        if self.side.object(&part).await.is_none_or(|part| is_leaving(&part)) {
            self.part = None;
            self.side.patch(&part, json!({"metadata": {"finalizers": []}})).await;
            self.side.settle(&part, false).await;
            if self.target(XR).await.is_some_and(|xr| is_leaving(&xr)) {
                self.side.settle(&self.targets[XR], false).await;
            }
        }
    }

    async fn read(&mut self) {
        let reading = self.side.port().read(&self.subject.target()).await.map(|reading| {
            let xr = match &reading.xr {
                XrReading::Present(live) => {
                    let told = (&live.status, live.armed, &live.references);
                    format!("{told:?} {}", self.learn(XR, &live.object))
                }
                absent @ (XrReading::Absent
                | XrReading::NamespaceAbsent
                | XrReading::KindAbsent) => format!("{absent:?}"),
            };
            let config = reading
                .provider_config
                .as_ref()
                .map(|live| format!("{} {}", live.is_being_deleted(), self.learn(CONFIG, live)));
            (xr, config, reading.labelled)
        });
        self.transcript.tell("read", reading);
    }

    /// Remembers the version of an object and reports its content.
    fn learn(&mut self, which: usize, live: &LiveObject) -> String {
        self.known[which].push(live.version().clone());
        format!("{:?} {}", self.number(live.version()), content(live))
    }

    async fn list(&mut self) {
        let config = &self.targets[CONFIG];
        let configs = vec![(config.api_version().to_owned(), config.kind().to_owned())];
        let kinds = OwnedKinds::new(vec![self.subject.xr_target().xrd], configs);
        let mut query = OwnedQuery::new(kinds.clone());
        let mut found = Vec::new();
        loop {
            let page = self.side.port().list_owned(&query).await.unwrap();
            // The real server is shared with other tests.
            let own = page.objects.iter().filter(|it| it.reference.name() == config.name());
            found.extend(own.map(|it| format!("{:?} {}", it.role, it.deleting)));
            let Some(next) = page.next else { break };
            query = OwnedQuery::new(kinds.clone()).after(next);
        }
        found.sort();
        self.transcript.tell("list", Ok(found));
    }
}

/// The content that clients wrote: spec, labels and annotations.
fn content(object: &LiveObject) -> String {
    let object = object.expose();
    let (spec, metadata) = (&object["spec"], &object["metadata"]);
    format!("{spec} {} {}", metadata["labels"], metadata["annotations"])
}
